import { DEFAULT_SETTINGS } from '../client-settings.ts';
import type { Example } from './errors.ts';

const AT = '2026-11-22T16:30:00.000Z';

const CLIENT = {
  ...{ client_id: 'standin_4907e74b8c583784ff4253cc', name: 'billing', ...DEFAULT_SETTINGS },
  ...{ rate_limit: 200, can_detokenize: false, disabled: false },
  ...{ created_at: AT, disabled_at: null, last_used_at: null },
};

const API_KEY = {
  api_key_id: 'key_e925c2c4d683',
  client_id: CLIENT.client_id,
  created_at: AT,
  expires_at: '2027-02-22T00:00:00.000Z',
  revoked_at: null,
  last_used_at: null,
};

const DOCUMENT = 'version: 1\nfields:\n  customer.email: email\nelsewhere: refuse\n';
const VERSION = { version: 3, applied_at: AT, applied_by: 'standin_admin' };
const CONSEQUENCE =
  'Strings that no field names will make the request fail. Today they are tokenized, as text.';
const CHANGE = { what: 'field customer.email', before: null, after: 'email' };

/** A value of each schema that a body or an answer has. */
const VALUES: Readonly<Record<string, unknown>> = {
  ClientDetails: CLIENT,
  ClientList: { clients: [CLIENT] },
  ClientSettings: { rate_limit: 200, can_detokenize: false },
  ApiKey: API_KEY,
  ApiKeyList: { api_keys: [API_KEY] },
  ApiKeyLife: { expires_at: API_KEY.expires_at },
  IssuedApiKey: { ...API_KEY, api_key: 'stk_0123456789ABCDEFGHIJKLMNOPQR1KnaxG' },
  Policy: { ...VERSION, document: DOCUMENT },
  PolicyVersions: { versions: [VERSION] },
  PolicyDocument: { document: DOCUMENT, confirmed: [CONSEQUENCE] },
  AppliedPolicy: {
    ...{ version: 3, is_new: true, changes: [CHANGE], consequences: [CONSEQUENCE] },
    ...{ warnings: [], in_force_within_s: 5 },
  },
  CheckedPolicy: {
    ...{ is_valid: true, mistakes: [], warnings: [], changes: [CHANGE] },
    consequences: [CONSEQUENCE],
    kinds: [
      {
        kind: 'email',
        value: 'ann.lee@example.com',
        token: 'urb.kdw@waovwde.dhq_tok',
        mask: 'a***@example.com',
      },
    ],
    clients: [{ client_id: CLIENT.client_id, name: 'billing', sees: { email: 'full' } }],
  },
  LookupRequest: { values: ['ann@example.com'] },
  LookupAnswer: { tokens: [[{ kind: 'email', token: 'urb@waovwde.dhq_tok' }]] },
  ForgetRequest: { values: ['ann@example.com', 'Ann Lee'], tokens: ['urb@waovwde.dhq_tok'] },
  ForgetAnswer: {
    ...{ is_dry_run: false, known: 2, forgotten: 2, already_forgotten: 0 },
    unknown: ['tokens[0]'],
    not_searched: [
      'tokens that no version of the policy draws: random ones, and imported ones that tokenize does not give: to find them, run standin forget --values FILE --scan',
    ],
  },
  Keyring: {
    keys: [
      {
        ...{ purpose: 'dek', version: 2, kek_id: '1f0c2b7a', created_at: AT, is_primary: true },
        ...{ records: 1200, is_estimate: false, closed_at: null },
      },
    ],
  },
  RotateRequest: {},
  RotatedKey: { version: 3, in_force_within_s: 5 },
};

export function adminExample(schema: string): Readonly<Record<string, Example>> {
  return { example: { summary: schema, value: VALUES[schema] } };
}

/** @param when from the table of errors */
export function errorExample(code: string, when: string): Readonly<Record<string, Example>> {
  const message = `${when[0]!.toUpperCase()}${when.slice(1).replaceAll('`', '')}.`;
  return { [code]: { summary: code, value: { error: code, message } } };
}
