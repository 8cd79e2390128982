import { CLIENT_SETTINGS, schemaOf } from '../client-settings.ts';
import { ref, type Schema } from './schemas.ts';

/** An object of an answer. Its fields are all required. */
const answer = (description: string, properties: Readonly<Record<string, Schema>>): Schema => ({
  type: 'object',
  description,
  required: Object.keys(properties),
  properties,
});

/** An object of a request. It has no other fields. */
const body = (
  description: string,
  properties: Readonly<Record<string, Schema>>,
  required: readonly string[] = [],
): Schema => ({
  type: 'object',
  description,
  additionalProperties: false,
  ...(required.length > 0 && { required }),
  properties,
});

const text = (description: string): Schema => ({ type: 'string', description });
const flag = (description: string): Schema => ({ type: 'boolean', description });
const count = (description: string): Schema => ({ type: 'integer', minimum: 0, description });
const list = (description: string, items: Schema): Schema => ({
  type: 'array',
  description,
  items,
});
const time = (description: string): Schema => ({ ...text(description), format: 'date-time' });
const timeOrNull = (description: string): Schema => ({
  ...time(description),
  type: ['string', 'null'],
});
const readOnly = (schema: Schema): Schema => ({ ...schema, readOnly: true });

const SETTINGS: Readonly<Record<string, Schema>> = {
  ...Object.fromEntries(
    Object.entries(CLIENT_SETTINGS).map(([name, one]) => [name, schemaOf(one)]),
  ),
  disabled: flag('Its API keys are refused.'),
};

/** Of answers. A body may have them, and they change nothing. */
const FACTS: Readonly<Record<string, Schema>> = {
  client_id: readOnly(text('Names the client for good.')),
  created_at: readOnly(time('When it was made.')),
  disabled_at: readOnly(timeOrNull('When it was disabled; null: it is not.')),
  last_used_at: readOnly(
    timeOrNull('The last use of its API keys, to the minute; null: none is known.'),
  ),
};

const API_KEY: Readonly<Record<string, Schema>> = {
  api_key_id: text('Names the API key. It gives no access.'),
  client_id: text('The client that it belongs to.'),
  created_at: time('When it was issued.'),
  expires_at: timeOrNull('When it ends; null: never.'),
  revoked_at: timeOrNull('When it was revoked; null: it was not.'),
  last_used_at: timeOrNull('The last use, to the minute; null: none is known.'),
};

const VERSION: Readonly<Record<string, Schema>> = {
  version: { type: 'integer', minimum: 1, description: '1, 2, 3 and so on.' },
  applied_at: time('When it was applied.'),
  applied_by: text('The role of the database.'),
};

const IN_FORCE = count('Seconds until all nodes use it.');

const WHERE: Readonly<Record<string, Schema>> = {
  values: {
    ...list('Values, as they were tokenized.', { type: 'string', maxLength: 65_536 }),
    maxItems: 100,
  },
  kind: { ...text('Look under this kind only. Missing: every kind.'), minLength: 1 },
  space: {
    ...CLIENT_SETTINGS.space.schema,
    description: 'The space of the tokens. Missing: the default space.',
  },
};

const CONSEQUENCES = list(
  'What will be in clear or refused, who will see less or more, and which rights are of no client. A sentence each.',
  { type: 'string' },
);

const POLICY_SCHEMAS: Readonly<Record<string, Schema>> = {
  PolicyVersion: answer('A version of the policy.', VERSION),
  PolicyVersions: answer('The versions, newest first.', {
    versions: list('Without their documents.', ref('PolicyVersion')),
  }),
  Policy: answer('A version with its document.', {
    ...VERSION,
    document: text('As it was applied, byte for byte.'),
  }),
  PolicyDocument: body(
    'A policy.',
    {
      document: text('YAML or JSON, as text.'),
      confirmed: list(
        'The `consequences` that you have seen: others, which came meanwhile, are refused. `*`: all, whatever they are.',
        { type: 'string' },
      ),
    },
    ['document'],
  ),
  AppliedPolicy: answer('The version in force.', {
    version: VERSION.version!,
    is_new: flag('false: the newest version is this document already.'),
    changes: list('What it changes.', ref('PolicyChange')),
    consequences: CONSEQUENCES,
    warnings: list('What is allowed, but perhaps not meant.', ref('PolicyMistake')),
    in_force_within_s: IN_FORCE,
  }),
  PolicyChange: answer('A line of the policy that changes.', {
    what: text('Such as `field customer.email`.'),
    before: { ...text('In words; null: it is new.'), type: ['string', 'null'] },
    after: { ...text('In words; null: it is gone.'), type: ['string', 'null'] },
  }),
  PolicyMistake: answer('A place in the document.', {
    line: count('From 1.'),
    column: count('From 1.'),
    text: text('What is wrong, and the remedy.'),
  }),
  CheckedPolicy: answer('What the document would do. Nothing was changed.', {
    is_valid: flag('It can be applied.'),
    mistakes: list('All mistakes.', ref('PolicyMistake')),
    warnings: list('What is allowed, but perhaps not meant.', ref('PolicyMistake')),
    changes: list('What it would change.', ref('PolicyChange')),
    consequences: CONSEQUENCES,
    kinds: list('Each kind with a value that we made up.', ref('KindExample')),
    clients: list('What each client would see.', ref('ClientView')),
  }),
  KindExample: {
    type: 'object',
    description: 'A kind, and what it does to a value.',
    required: ['kind', 'value'],
    properties: {
      kind: text('Its name.'),
      value: text('A value of nobody.'),
      token: text('A token that it could get.'),
      mask: text('What a masked answer shows.'),
      refusal: text('Why the kind refuses the value.'),
    },
  },
  ClientView: answer('What a client sees.', {
    client_id: text('Its id.'),
    name: text('Its name.'),
    sees: {
      type: 'object',
      description: '`full`, `masked` or `none` by kind.',
      additionalProperties: { type: 'string' },
    },
  }),
};

const CLIENT_SCHEMAS: Readonly<Record<string, Schema>> = {
  // Not `Client`, and no name that is that of its field in small letters: clients made for Python
  // and Go have such names themselves.
  ClientDetails: answer('A client: an application that may call.', {
    client_id: FACTS.client_id!,
    ...SETTINGS,
    created_at: FACTS.created_at!,
    disabled_at: FACTS.disabled_at!,
    last_used_at: FACTS.last_used_at!,
  }),
  ClientList: answer('All clients.', { clients: list('The oldest first.', ref('ClientDetails')) }),
  ClientSettings: body('Settings of a client. An answer is one, too.', { ...SETTINGS, ...FACTS }),
  ApiKey: answer('An API key, without its text.', API_KEY),
  ApiKeyList: answer('API keys.', { api_keys: list('The oldest first.', ref('ApiKey')) }),
  ApiKeyLife: body('How long it lives.', {
    expires_at: timeOrNull('A time in the future; null or missing: never.'),
  }),
  IssuedApiKey: answer('An API key with its text, which no other answer has.', {
    ...API_KEY,
    api_key: { ...text('The API key.'), pattern: '^stk_[0-9A-Za-z]{34}$' },
  }),
};

const VALUE_SCHEMAS: Readonly<Record<string, Schema>> = {
  LookupRequest: body('Values to find.', WHERE, ['values']),
  LookupAnswer: answer('Tokens of the values.', {
    tokens: list('For each value its tokens.', {
      type: 'array',
      items: ref('FoundToken'),
    }),
  }),
  FoundToken: answer('A token of a value.', {
    kind: text('The kind under which the value has it.'),
    token: text('The token.'),
  }),
  ForgetRequest: body('What to forget: `tokens`, `values` or both.', {
    tokens: {
      ...list('Tokens.', { type: 'string', maxLength: 65_536 }),
      maxItems: 10_000,
    },
    ...WHERE,
    dry_run: flag('Count, and change nothing.'),
  }),
  ForgetAnswer: answer('Numbers of different tokens.', {
    is_dry_run: flag('Nothing was changed.'),
    known: count('That had values before.'),
    forgotten: count('Whose values are gone now.'),
    already_forgotten: count('Whose values were gone before.'),
    unknown: list('Places of tokens and values that the vault never had.', {
      type: 'string',
    }),
    not_searched: list('Where tokens of the values may be left, in words, and how to find them.', {
      type: 'string',
    }),
  }),
};

const KEY_SCHEMAS: Readonly<Record<string, Schema>> = {
  Key: answer('A key of the vault.', {
    purpose: text('What it does; `dek` seals records.'),
    version: count('Of this purpose.'),
    kek_id: text('The KEK that wraps it.'),
    created_at: time('When it was made.'),
    is_primary: flag('It seals new records.'),
    records: {
      ...count('Records that need it; null: not a DEK.'),
      type: ['integer', 'null'],
    },
    is_estimate: flag('`records` is an estimate.'),
    closed_at: timeOrNull('Since when no record is sealed with it; null: it is open.'),
  }),
  Keyring: answer('The keys.', { keys: list('By purpose and version.', ref('Key')) }),
  RotateRequest: body('Nothing.', {}),
  RotatedKey: answer('The new primary.', {
    version: count('Of the DEK.'),
    in_force_within_s: IN_FORCE,
  }),
};

/** All schemas of the admin document, by name. */
export function adminSchemas(codes: readonly string[]): Record<string, Schema> {
  return {
    ...CLIENT_SCHEMAS,
    ...POLICY_SCHEMAS,
    ...VALUE_SCHEMAS,
    ...KEY_SCHEMAS,
    Refusal: answer('Why a request failed.', {
      error: { ...text('The code to decide on.'), enum: codes },
      message: text('What to do, for people. It can change, and names no value.'),
    }),
  };
}
