import * as schemas from '../../openapi/schemas.ts';
import { applyPolicy, findPolicy, planningFacts } from '../../policy/policies.ts';
import { offThread, TooMuchWork } from '../../policy/policy-work.ts';
import { invalid } from '../../public/body/data.ts';
import { commandDeadline, IN_FORCE_S } from '../../timeouts.ts';
import type { Vault } from '../../vault/vault.ts';
import { refusal } from '../errors.ts';
import {
  type AdminCall,
  type AdminDone,
  type AdminPart,
  type AdminResponse,
  changing,
  checkMatch,
  field,
  isText,
  isTexts,
  reading,
} from './operation.ts';

/** In `confirmed`: all consequences, whatever they are. */
const ALL = '*';
const MAX_VERSION_DIGITS = 9;

const FIELDS = {
  document: field(
    schemas.text('YAML or JSON, as text.', 'version: 1\nfields:\n  customer.email: email\n'),
    'a policy in YAML or JSON, as text',
    isText,
  ),
  confirmed: field(
    schemas.list(
      'The `consequences` that you have seen: others, which came meanwhile, are refused. `*`: all, whatever they are.',
      { type: 'string' },
    ),
    'a list of the consequences that you have seen, or ["*"]',
    isTexts,
  ),
};
const BODY = {
  ...{ name: 'PolicyDocument', description: 'A policy.', fields: FIELDS },
  required: ['document'] as const,
};
type PolicyCall = AdminCall<typeof FIELDS>;

const VERSION = {
  version: { type: 'integer', minimum: 1, description: '1, 2, 3 and so on.' },
  applied_at: schemas.time('When it was applied.'),
  applied_by: schemas.text('The role of the database.', 'standin_admin'),
};
const CHANGES = schemas.ref('PolicyChange');
const CONSEQUENCES = schemas.list(
  'What will be in clear or refused, who will see less or more, and which rights are of no client. A sentence each.',
  { type: 'string' },
);
const WARNINGS = schemas.list('What is allowed, but perhaps not meant.', 'PolicyMistake');

export const POLICY: AdminPart = {
  ...{ tag: 'Policy', description: 'Fields, kinds and rights.' },
  schemas: {
    PolicyVersion: schemas.object('A version of the policy.', VERSION),
    PolicyVersions: schemas.object('The versions, newest first.', {
      versions: schemas.list('Without their documents.', 'PolicyVersion'),
    }),
    Policy: schemas.object('A version with its document.', {
      ...VERSION,
      document: schemas.text('As it was applied, byte for byte.'),
    }),
    AppliedPolicy: schemas.object('The version in force.', {
      version: VERSION.version,
      is_new: schemas.flag('false: the newest version is this document already.'),
      changes: schemas.list('What it changes.', CHANGES),
      consequences: CONSEQUENCES,
      warnings: WARNINGS,
      in_force_within_s: schemas.whole('Seconds until all nodes use it.'),
    }),
    PolicyChange: schemas.object('A line of the policy that changes.', {
      what: schemas.text('Such as `field customer.email`.', 'field customer.email'),
      before: schemas.orNull(schemas.text('In words; null: it is new.')),
      after: schemas.orNull(schemas.text('In words; null: it is gone.', 'email')),
    }),
    PolicyMistake: schemas.object('A place in the document.', {
      line: schemas.whole('From 1.'),
      column: schemas.whole('From 1.'),
      text: schemas.text('What is wrong, and the remedy.'),
    }),
    CheckedPolicy: schemas.object('What the document would do. Nothing was changed.', {
      is_valid: schemas.flag('It can be applied.'),
      mistakes: schemas.list('All mistakes.', 'PolicyMistake'),
      warnings: WARNINGS,
      changes: schemas.list('What it would change.', CHANGES),
      consequences: CONSEQUENCES,
      kinds: schemas.list('Each kind with a value that we made up.', 'KindExample'),
      clients: schemas.list('What each client would see.', 'ClientView'),
    }),
    KindExample: {
      ...{ type: 'object', description: 'A kind, and what it does to a value.' },
      required: ['kind', 'value'],
      properties: {
        kind: schemas.text('Its name.', 'email'),
        value: schemas.text('A value of nobody.', 'ann.lee@example.com'),
        token: schemas.text('A token that it could get.', 'urb.kdw@waovwde.dhq_tok'),
        mask: schemas.text('What a masked response shows.', 'a***@example.com'),
        refusal: schemas.text('Why the kind refuses the value.'),
      },
    },
    ClientView: schemas.object('What a client sees.', {
      client_id: schemas.text('Its id.'),
      name: schemas.text('Its name.'),
      sees: {
        ...{ type: 'object', description: '`full`, `masked` or `none` by kind.' },
        additionalProperties: { type: 'string' },
      },
    }),
  },
  operations: [
    reading('get', '/policy', {
      ...{ hasEtag: true, act: 'policy.get', id: 'getPolicy', summary: 'The policy in force' },
      ...{ description: 'The newest version.', response: 'Policy' },
      async run({ vault: { policies } }) {
        const found = await findPolicy(policies, undefined);
        return { body: found, etag: `"${found.version}"` };
      },
    }),
    changing('put', '/policy', {
      ...{ hasEtag: true, act: 'policy.apply', id: 'applyPolicy', summary: 'Apply a policy' },
      description:
        'Makes the document the next version. The newest version once more changes nothing. The ETag is the version in quotes. A policy with consequences is applied only when `confirmed` names them: see `checkPolicy`.',
      body: BODY,
      ...{ response: 'AppliedPolicy', isConditional: true },
      errors: ['unconfirmed'],
      run: ({ vault, tokenSuffix }, call) => apply(vault, tokenSuffix, call),
    }),
    reading('get', '/policy/versions', {
      ...{ act: 'policy.list', id: 'listPolicyVersions', summary: 'All versions' },
      ...{ description: 'The newest first.', response: 'PolicyVersions' },
      run: async ({ vault: { policies } }) => ({
        body: { versions: await policies.list(commandDeadline()) },
      }),
    }),
    reading('get', '/policy/versions/{version}', {
      ...{ act: 'policy.get', id: 'getPolicyVersion', summary: 'A version' },
      ...{ description: 'With its document.', response: 'Policy' },
      async run({ vault: { policies } }, { named }) {
        const found = await findPolicy(policies, numberOf(named));
        return { body: found, target: String(found.version) };
      },
    }),
    reading('post', '/policy/check', {
      ...{ act: 'policy.check', id: 'checkPolicy', summary: 'Check a policy' },
      description:
        'All mistakes, what it would change, with its consequences in words, and what each client would see.',
      body: BODY,
      response: 'CheckedPolicy',
      run: ({ vault, tokenSuffix }, call) => check(vault, tokenSuffix, call),
    }),
  ],
};

function numberOf(text: string): number {
  const isNumber = /^\d+$/.test(text) && text.length <= MAX_VERSION_DIGITS;
  if (!isNumber) throw invalid('path: the version must be a whole number');
  return Number(text);
}

/** Documents in turn: each may take a processor, and much memory. */
let checking: Promise<unknown> = Promise.resolve();

async function checked(vault: Vault, document: string, suffix: string) {
  const check = async () => offThread('check', document, suffix, ...(await planningFacts(vault)));
  const result = checking.then(check, check);
  checking = result;
  try {
    return await result;
  } catch (error) {
    throw error instanceof TooMuchWork ? invalid(`document: ${error.message}`) : error;
  }
}

async function apply(vault: Vault, suffix: string, call: PolicyCall): Promise<AdminDone> {
  const { document, confirmed = [] } = call.body;
  const { mistakes, warnings, plan } = await checked(vault, document!, suffix);
  if (plan === undefined) {
    const { line, column, text } = mistakes[0]!;
    const others = mistakes.length - 1;
    throw invalid(
      `document: line ${line}, column ${column}: ${text}${others > 0 ? `; and ${others} more, which /admin/v1/policy/check lists` : ''}`,
    );
  }
  const { consequences } = plan;
  checkMatch(call.headers, plan.version === 0 ? undefined : `"${plan.version}"`);
  const unseen = consequences.filter((one) => !confirmed.includes(one));
  if (unseen.length > 0 && !plan.is_same && !confirmed.includes(ALL))
    throw refusal('unconfirmed', unconfirmed(unseen));
  const applied = await applyPolicy(vault.policies, document!, plan.version);
  const { version, is_new: isNew } = applied;
  const body = {
    ...applied,
    changes: isNew ? plan.changes : [],
    consequences,
    warnings,
    in_force_within_s: IN_FORCE_S,
  };
  return { body, etag: `"${version}"`, target: String(version) };
}

function unconfirmed(unseen: readonly string[]): string {
  return `Nothing was changed: the policy has consequences that you have not confirmed. To apply it, send "confirmed": ${JSON.stringify(unseen)}`;
}

async function check(vault: Vault, suffix: string, { body }: PolicyCall): Promise<AdminResponse> {
  const { plan, ...result } = await checked(vault, body.document!, suffix);
  const { changes = [], consequences = [] } = plan ?? {};
  return { body: { is_valid: plan !== undefined, ...result, changes, consequences } };
}
