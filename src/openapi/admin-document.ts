import { adminExample, errorExample } from './admin-examples.ts';
import { ADMIN_OPERATIONS, type AdminOperationText } from './admin-operations.ts';
import { adminSchemas } from './admin-schemas.ts';
import type { OpenApiDocument } from './document.ts';
import type { Examples } from './errors.ts';
import { HEADERS } from './responses.ts';
import { ref, type Schema } from './schemas.ts';

/** What the admin document says about a service. */
interface AdminFacts {
  /** Where the ops listener listens. */
  readonly url: string;
  /** The errors, by code. */
  readonly errors: Readonly<Record<string, { readonly status: number; readonly when: string }>>;
}

const DESCRIPTION = `What the commands \`standin client\`, \`api-key\`, \`policy\`, \`forget\` and \`keyring\` do, for programs.

Send \`Authorization: Bearer\` with a token of ADMIN_TOKEN. Bodies are JSON objects of up to 1 MiB without other fields than those here.
Repeat a request as you like: only a second \`issueApiKey\`, and a \`rotateKey\` without \`If-Match\`, do something more.`;

const ETAG = {
  description: 'Of this state, for If-Match.',
  schema: { type: 'string', pattern: '^"[\\w-]+"$' },
  required: true,
  example: '"3"',
} as const;

const PARAMETERS: Readonly<Record<string, Schema>> = {
  client: parameter('path', 'client', 'Id or name of a client.', 'billing'),
  api_key_id: parameter('path', 'api_key_id', 'Id of an API key.', 'key_e925c2c4d683'),
  version: parameter('path', 'version', 'Version of the policy.', '3'),
};
const CONDITIONS = [
  parameter('header', 'If-Match', 'The ETag that you saw. Otherwise 412.', '"3"'),
  parameter('header', 'If-None-Match', '`*`: only if it does not exist. Otherwise 412.', '*'),
];

/** Errors that every operation can have. */
const EVERY = [
  'invalid_type',
  'unauthorized',
  'not_allowed',
  'not_found',
  'method_not_allowed',
  'misdirected',
  'payload_too_large',
  'unsupported_media_type',
  'too_many',
  'internal_error',
  'overloaded',
];

export type AdminDocument = Omit<OpenApiDocument, 'paths' | 'components'> & {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Schema>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> } & Schema;
};

/** The OpenAPI document of the admin API: JSON as plain data. */
export function adminDocument({ url, errors }: AdminFacts): AdminDocument {
  return {
    openapi: '3.1.0',
    info: {
      title: 'Standin admin API',
      version: '1',
      summary: 'Clients, API keys, policy, erasure and keys of a Standin service',
      description: DESCRIPTION,
      license: { name: 'Apache License 2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url, description: 'The ops listener.' }],
    tags: [
      { name: 'Clients', description: 'The applications that may call.' },
      { name: 'API keys', description: 'A client can have several.' },
      { name: 'Policy', description: 'Fields, kinds and rights.' },
      { name: 'Values', description: 'By value or token.' },
      { name: 'Keys', description: 'That seal the records.' },
    ],
    paths: Object.fromEntries(
      Object.entries(ADMIN_OPERATIONS).map(([path, methods]) => [
        `/admin/v1${path}`,
        Object.fromEntries(
          Object.entries(methods).map(([method, text]) => [
            method,
            operationOf(path, text, errors),
          ]),
        ),
      ]),
    ),
    components: {
      securitySchemes: {
        adminToken: { type: 'http', scheme: 'bearer', description: 'A token of ADMIN_TOKEN.' },
      },
      headers: { 'X-Request-Id': HEADERS['X-Request-Id'], ETag: ETAG },
      responses: errorResponses(errors),
      schemas: adminSchemas(Object.keys(errors)),
    },
  };
}

function parameter(place: 'path' | 'header', name: string, description: string, example: string) {
  const required = place === 'path' ? { required: true } : {};
  return { name, in: place, description, ...required, schema: { type: 'string' }, example };
}

function operationOf(path: string, text: AdminOperationText, errors: AdminFacts['errors']): Schema {
  const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => PARAMETERS[name!]!);
  const parameters = [...named, ...(text.isConditional ? CONDITIONS : [])];
  const headers = text.hasEtag ? ['ETag'] : [];
  const { description, summary, id: operationId, tag } = text;
  return {
    ...{ operationId, tags: [tag], summary, description, security: [{ adminToken: [] }] },
    ...(parameters.length > 0 && { parameters }),
    ...(text.body !== undefined && {
      requestBody: {
        description: text.isBodyOptional ? 'May be left out.' : 'A JSON object.',
        required: !text.isBodyOptional,
        content: json(text.body, adminExample(text.body)),
      },
    }),
    responses: {
      ...Object.fromEntries(
        Object.entries(text.answers).map(([status, schema]) => [
          status,
          response(status === '201' ? 'It was made.' : 'Done.', schema, undefined, headers),
        ]),
      ),
      ...responsesOf([...EVERY, ...text.errors], errors),
    },
  };
}

/** One response for each status, with all its codes. */
function errorResponses(errors: AdminFacts['errors']): Schema {
  const responses: Record<string, Schema> = {};
  for (const { status } of Object.values(errors)) {
    const same = Object.entries(errors).filter(([, error]) => error.status === status);
    const description = same.map(([, { when }]) => when).join('; or ');
    const examples = same.map(([code, { when }]) => errorExample(code, when));
    responses[`Error${status}`] = response(description, 'Refusal', Object.assign({}, ...examples));
  }
  return responses;
}

/** By status. */
function responsesOf(codes: readonly string[], errors: AdminFacts['errors']): Schema {
  const statuses = codes.map((code) => errors[code]!.status);
  return Object.fromEntries(
    statuses.map((status) => [String(status), { $ref: `#/components/responses/Error${status}` }]),
  );
}

function response(
  description: string,
  schema: string,
  examples: Examples = adminExample(schema),
  headers: readonly string[] = [],
): Schema {
  return {
    description,
    headers: Object.fromEntries(
      ['X-Request-Id', ...headers].map((name) => [name, { $ref: `#/components/headers/${name}` }]),
    ),
    content: json(schema, examples),
  };
}

function json(schema: string, examples: Examples): Schema {
  return { 'application/json': { schema: ref(schema), examples } };
}
