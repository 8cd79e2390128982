import {
  type FieldContent,
  type InterfaceVersion,
  LIMIT_CODES,
  LIMIT_NAMES,
  METHODS,
  STRINGS_HEADER,
  SUCCESS,
} from '../public/schema.ts';
import { schemasOf } from './bodies.ts';
import {
  documentOf,
  type Examples,
  HEADERS_OF_ALL,
  header,
  headerAtTimes,
  OF_LIMITS,
  type OpenApiDocument,
  operationOf,
  type PathOperation,
  parameter,
  references,
  response,
  textOf,
} from './elements.ts';
import { type DocumentSettings, errorKinds } from './errors.ts';
import { introduction } from './introduction.ts';
import { only, type Schema } from './schemas.ts';

export type { OpenApiDocument };

/** Pattern of a structured field (RFC 9651), as in draft-ietf-httpapi-ratelimit-headers. */
const limitList = (count: string, seconds: string): string => {
  const item = `(${Object.values(LIMIT_NAMES).join('|')});${count}=\\d+;${seconds}=\\d+`;
  return `^${item}(, ${item})*$`;
};

const HEADERS = {
  ...HEADERS_OF_ALL,
  'Retry-After': header('Seconds to wait.', { type: 'integer', minimum: 1 }, 1),
  'WWW-Authenticate': header(
    'RFC 6750; with `error` and what is wrong, when a credential was sent.',
    {
      type: 'string',
      pattern: '^Bearer realm="standin"(, error="invalid_token", error_description="[^"]+")?$',
    },
    'Bearer realm="standin", error="invalid_token", error_description="no Bearer before the API key"',
  ),
  Allow: header('The methods of the path.', { type: 'string' }, 'POST'),
  'RateLimit-Policy': headerAtTimes(
    'The limits of the client for this operation: `q` requests (of `unknown-tokens`: tokens) in `w` seconds. Limits that are off are not listed.',
    { type: 'string', pattern: limitList('q', 'w') },
    '"detokenize";q=500;w=1, "unknown-tokens";q=60;w=60',
  ),
  RateLimit: headerAtTimes(
    'The state of a limit: `r` are left, and no more come for `t` seconds. In a 429, it is the limit that refused the request; otherwise the limit of requests.',
    { type: 'string', pattern: limitList('r', 't') },
    '"detokenize";r=499;t=1',
  ),
  ETag: header(
    'Identifies the policy, for If-Match.',
    { type: 'string', pattern: '^"[0-9a-f]{64}"$' },
    `"${'0123456789abcdef'.repeat(4)}"`,
  ),
  'Preference-Applied': headerAtTimes(
    'RFC 7240: the answer may have places that stay as they were sent.',
    only('handling=lenient'),
    'handling=lenient',
  ),
  [STRINGS_HEADER]: headerAtTimes(
    'RFC 9651. Only under a policy with fields: how many strings of `data` were replaced, and how many passed unchanged, in clear. Blank strings do not count.',
    { type: 'string', pattern: '^replaced=\\d+, passed=\\d+$' },
    'replaced=2, passed=1',
  ),
};

/** Headers of answers with `data`. */
const OF_DATA = [...OF_LIMITS, STRINGS_HEADER];

/** Errors that any request can get, whatever its path. */
const EVERY: readonly string[] = [
  ...['bad_request', 'not_found', 'method_not_allowed', 'request_timeout'],
  ...['expectation_failed', 'headers_too_large'],
];
const VAULT: readonly string[] = [
  ...['invalid_type', 'unauthorized', 'forbidden', 'precondition_failed', 'payload_too_large'],
  ...['unsupported_media_type', 'internal_error', 'overloaded'],
];

/** An operation of the vault. Its schemas have its name. */
interface VaultOperation {
  readonly id: string;
  readonly of: keyof (typeof SUCCESS)['1.0.5'];
  readonly summary: string;
  readonly description: string;
  readonly parameters?: readonly Schema[];
  /** Descriptions of the request and of its response. */
  readonly words: readonly [request: string, answer: string];
  readonly data: Readonly<Record<string, { summary: string; sent: unknown; received: unknown }>>;
  readonly headers: readonly string[];
  readonly isLenient?: boolean;
}

const IF_MATCH = parameter(
  'If-Match',
  'RFC 9110. The `ETag` of `/api/v1/policy`: if another policy is in force, the answer is a 412.',
);
const PREFER = parameter(
  'Prefer',
  'RFC 7240. `handling=lenient`: unknown tokens, and values that the client may not see, stay as they were sent, and `unapplied` lists them.',
  'handling=lenient',
);

/** Values and their tokens in the examples. */
const FLAT = {
  values: { name: 'Ann Lee', email: 'ann@example.com', iban: 'DE89 3704 0044 0532 0130 00' },
  tokens: {
    name: 'qev mwi_tok',
    email: 'urb@waovwde.dhq_tok',
    iban: 'sv25 1061 5761 7591 1392 74_tok',
  },
};
const NESTED = {
  values: { customer: { name: 'Ann Lee', emails: ['ann@example.com', 'bo@example.org'] } },
  tokens: {
    customer: { name: 'qev mwi_tok', emails: ['urb@waovwde.dhq_tok', 'wg@haqbene.wwz_tok'] },
  },
};
const examples = (sent: 'values' | 'tokens', received: 'values' | 'tokens') => ({
  flat: { summary: 'Fields', sent: FLAT[sent], received: FLAT[received] },
  nested: { summary: 'Objects and arrays', sent: NESTED[sent], received: NESTED[received] },
});

const SPAN = { start: 5, end: 12, kind: 'word' };
const TOKEN = 'hcumcvhqfc_tok';
const PLAIN = { text: 'Call Ann Lee (again).', spans: [SPAN] };
const TOKENIZED = {
  text: `Call ${TOKEN} (again).`,
  spans: [{ ...SPAN, end: SPAN.start + TOKEN.length }],
};
const textExample = (sent: unknown, received: unknown) => ({
  text: { summary: 'A text', sent, received },
});

const VAULT_OPERATIONS: Readonly<Record<string, VaultOperation>> = {
  '/api/v1/tokenize': {
    ...{ id: 'tokenize', of: 'tokenize', summary: 'Values to tokens' },
    description:
      'Replaces every string in `data` with a token; with a policy that names fields, the strings there. Equal values get equal tokens, so you can safely repeat a request. A client in random mode gets new tokens each time.',
    parameters: [IF_MATCH],
    words: ['The values.', 'Tokens in the places of the values. Their records are stored durably.'],
    ...{ data: examples('values', 'tokens'), headers: OF_DATA },
  },
  '/api/v1/detokenize': {
    ...{ id: 'detokenize', of: 'detokenize', summary: 'Tokens to values' },
    description:
      'Replaces every token in `data` with its value; with a policy that names fields, the tokens there. A mistyped token and a token that never existed get the same answer. Unknown tokens have their own limit, so that nobody can guess tokens: a client that sends too many gets a 429. Forgotten and expired tokens do not count.',
    parameters: [IF_MATCH, PREFER],
    words: [
      'The tokens, exactly as tokenize returned them.',
      'Values in the places of the tokens.',
    ],
    ...{ data: examples('tokens', 'values'), headers: [...OF_DATA, 'Preference-Applied'] },
  },
  '/api/v1/lookup': {
    ...{ id: 'lookup', of: 'lookup', summary: 'The tokens that values have' },
    description:
      'Like tokenize, but stores nothing: a value without a token gets null. The client needs the permission `lookup`, and its tokens must not be random.',
    parameters: [IF_MATCH],
    words: ['The values.', 'Tokens in the places of the values that have one, else null.'],
    ...{ data: examples('values', 'tokens'), headers: OF_DATA },
  },
  '/api/v1/text/tokenize': {
    ...{ id: 'tokenizeText', of: 'tokenize', summary: 'A text with its values as tokens' },
    description:
      'Replaces the values of a text with tokens of letters, which can be found in running text. The vault needs a policy. Without `spans`, its `detect` finds the values.',
    words: [
      'The text, and perhaps where its values are.',
      'The text with tokens, and where they are.',
    ],
    ...{ data: textExample(PLAIN, TOKENIZED), headers: OF_LIMITS },
  },
  '/api/v1/text/detokenize': {
    ...{ id: 'detokenizeText', of: 'detokenize', summary: 'A text with its tokens as values' },
    description:
      'Finds tokens without spaces in running text, and replaces those that are known with the values that the client may see. Places that end like a token and are unknown count like unknown tokens of detokenize. With `only` or `conversation`, all other tokens stay. To restore a stream, send its pieces with `more`, each after the `rest` of the one before.',
    words: ['The text with tokens.', 'The text with values.'],
    data: textExample({ text: TOKENIZED.text }, { text: PLAIN.text }),
    ...{ headers: OF_LIMITS, isLenient: true },
  },
};

type Kinds = ReturnType<typeof errorKinds>;

function vaultOperation(
  settings: DocumentSettings,
  kinds: Kinds,
  one: VaultOperation,
): PathOperation {
  const { id, words, data, headers, ...said } = one;
  const schema = id[0]!.toUpperCase() + id.slice(1);
  const shown = (value: (of: VaultOperation['data'][string]) => unknown): Examples =>
    Object.fromEntries(
      Object.entries(data).map(([name, of]) => [name, { summary: of.summary, value: value(of) }]),
    );
  const answers = shown(({ received }) => answerOf(settings, one, received));
  return operationOf({
    ...{ ...said, id, tag: id.endsWith('Text') ? 'Text' : 'Vault', bearer: 'apiKey' },
    body: {
      ...{ schema: `${schema}Request`, description: words[0] },
      examples: shown(({ sent }) => ({ data: sent })),
    },
    responses: {
      200: response(words[1], `${schema}Answer`, answers, headers),
      ...errors(kinds, [...VAULT, LIMIT_CODES[settings.INTERFACE_VERSION]]),
    },
  });
}

/** A successful answer with this `data`. */
function answerOf(settings: DocumentSettings, { of, isLenient }: VaultOperation, data: unknown) {
  const contents: Record<FieldContent, unknown> = {
    ...{ data, status: 'success', request_id: '63dc01d5-b356-45b6-8fc3-4853079f7d45' },
    client_id: 'standin_4907e74b8c583784ff4253cc',
  };
  const fields = Object.entries(SUCCESS[settings.INTERFACE_VERSION][of]);
  const [first, ...rest] = fields.map(([name, content]) => [name, contents[content]] as const);
  return Object.fromEntries([first!, ...(isLenient ? [['unapplied', []] as const] : []), ...rest]);
}

/** The operations that only read. */
function reads(version: InterfaceVersion, kinds: Kinds): Record<string, PathOperation> {
  const field = { path: 'customer.email', kind: 'email' };
  const policy = { version: 3, fields: [field], elsewhere: 'refuse' };
  const shown = (name: string, value: object, summary = name): Examples => ({
    [name]: { summary, value },
  });
  const health = (status: string) =>
    shown(status, { status, timestamp: '2026-11-21T05:38:19Z', postgres: status, version });
  const always = errors(kinds, []);
  return {
    '/api/v1/policy': operationOf({
      ...{ id: 'policy', tag: 'Vault', summary: 'The fields of the policy' },
      description:
        'Which strings of `data` are tokenized, and as which kind. A vault without a policy answers 404. Send the `ETag` as `If-Match` with requests that only this policy may serve.',
      bearer: 'apiKey',
      responses: {
        200: response('The policy in force.', 'Policy', shown('fields', policy, 'Fields'), [
          ...OF_LIMITS,
          'ETag',
        ]),
        ...errors(kinds, ['unauthorized', 'internal_error', LIMIT_CODES[version]]),
      },
    }),
    '/health': operationOf({
      ...{ id: 'health', tag: 'Health', summary: 'Readiness' },
      description: 'For load balancers and readiness probes. It needs no API key.',
      responses: {
        200: response('Send requests here.', 'Healthy', health('ok')),
        ...always,
        503: response(
          'Send requests elsewhere: the database does not answer, or the process is about to end.',
          'Unhealthy',
          health('error'),
        ),
      },
    }),
    '/health/live': operationOf({
      ...{ id: 'live', tag: 'Health', summary: 'Liveness' },
      description:
        'For liveness probes: 200 while the process runs, even without a database. It needs no API key.',
      responses: {
        200: response('The process answers.', 'Liveness', shown('ok', { status: 'ok' })),
        ...always,
      },
    }),
  };
}

/** References to the errors of every operation and to these. `invalid_type` is a 400, too. */
const errors = (kinds: Kinds, codes: readonly string[]) =>
  references([...EVERY, ...codes].map((code) => kinds[code]!));

/** The operations of the document, one for each path of the service. */
function pathsOf(settings: DocumentSettings, kinds: Kinds) {
  const others = reads(settings.INTERFACE_VERSION, kinds);
  return Object.fromEntries(
    Object.entries(METHODS).map(([path, methods]) => {
      const one = VAULT_OPERATIONS[path];
      const operation = one ? vaultOperation(settings, kinds, one) : others[path]!;
      return [path, { [methods.split(',')[0]!.toLowerCase()]: operation }];
    }),
  );
}

/** The document of the public listener. */
export function openApiDocument(settings: DocumentSettings, url: string): OpenApiDocument {
  const byCode = errorKinds(settings);
  const kinds = Object.values(byCode);
  return documentOf({
    info: {
      ...{ title: 'Standin', version: settings.INTERFACE_VERSION },
      summary: 'Tokens that keep the shape of the strings they stand for',
      description: introduction(settings),
    },
    server: { url, description: 'Where the service listens; a proxy may be before it.' },
    tags: {
      Vault: 'Values to tokens and back.',
      Text: 'Values in running text to tokens and back.',
      Health: 'For probes and load balancers.',
    },
    bearers: {
      apiKey:
        'An API key of a client: `stk_` and 34 letters and digits. `standin client create` and `standin api-key issue` make one, which is shown once.',
    },
    paths: pathsOf(settings, byCode),
    components: {
      headers: HEADERS,
      responses: Object.fromEntries(kinds.map(({ name, response }) => [name, response])),
      schemas: schemasOf(settings, kinds),
    },
  });
}

export const documentText = (...facts: Parameters<typeof openApiDocument>): string =>
  textOf(openApiDocument(...facts));
