import type { OpenApiDocument } from '../../openapi/document.ts';
import { HEADERS } from '../../openapi/responses.ts';
import { ref, type Schema } from '../../openapi/schemas.ts';
import { ADMIN_ERRORS, type AdminErrorCode } from '../errors.ts';
import { API_KEY_OPERATIONS, API_KEY_SCHEMAS } from './api-keys.ts';
import { CLIENT_OPERATIONS, CLIENT_SCHEMAS } from './clients.ts';
import { KEY_OPERATIONS, KEY_SCHEMAS } from './keyring.ts';
import type { AdminOperation } from './operation.ts';
import { POLICY_OPERATIONS, POLICY_SCHEMAS } from './policies.ts';
import * as schemas from './schemas.ts';
import { VALUE_OPERATIONS, VALUE_SCHEMAS } from './values.ts';

export const ADMIN_PATH = '/admin/v1';

export const ADMIN_OPERATIONS: readonly AdminOperation[] = [
  ...CLIENT_OPERATIONS,
  ...API_KEY_OPERATIONS,
  ...POLICY_OPERATIONS,
  ...VALUE_OPERATIONS,
  ...KEY_OPERATIONS,
];

const DESCRIPTION = `What the commands \`standin client\`, \`api-key\`, \`policy\`, \`forget\` and \`keyring\` do, for programs.

Send \`Authorization: Bearer\` with a token of ADMIN_TOKEN. Bodies are JSON objects of up to 1 MiB without other fields than those here.
Repeat a request as you like: only a second \`issueApiKey\`, and a \`rotateKey\` without \`If-Match\`, do something more.`;

const ETAG = {
  description: 'Of this state, for If-Match.',
  schema: { type: 'string', pattern: '^"[\\w-]+"$' },
  ...{ required: true, example: '"3"' },
};
const PARAMETERS: Readonly<Record<string, Schema>> = {
  client: parameter('path', 'client', 'Id or name of a client.', 'billing'),
  api_key_id: parameter('path', 'api_key_id', 'Id of an API key.', 'key_e925c2c4d683'),
  version: parameter('path', 'version', 'Version of the policy.', '3'),
};
const CONDITIONS = [
  parameter('header', 'If-Match', 'The ETag that you saw. Otherwise 412.', '"3"'),
  parameter('header', 'If-None-Match', '`*`: only if it does not exist. Otherwise 412.', '*'),
];
/** Errors that only some operations have. */
const OF_SOME: readonly AdminErrorCode[] = [
  ...(['bad_request', 'cross_origin', 'conflict', 'unconfirmed', 'precondition_failed'] as const),
];

export type AdminDocument = Omit<OpenApiDocument, 'paths' | 'components'> & {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Schema>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> } & Schema;
};

/** Where the ops listener listens. */
interface OpsAddress {
  readonly OPS_HOST: string;
  readonly OPS_PORT: number;
  readonly OPS_TLS: boolean;
}

/** The OpenAPI document of the admin API: JSON as plain data. */
export function adminDocumentOf({ OPS_HOST, OPS_PORT, OPS_TLS }: OpsAddress): AdminDocument {
  const host = OPS_HOST.includes(':') ? `[${OPS_HOST}]` : OPS_HOST;
  const url = `${OPS_TLS ? 'https' : 'http'}://${host}:${OPS_PORT}`;
  const paths: Record<string, Record<string, Schema>> = {};
  for (const operation of ADMIN_OPERATIONS) {
    paths[ADMIN_PATH + operation.path] ??= {};
    paths[ADMIN_PATH + operation.path]![operation.method] = inDocument(operation);
  }
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
    paths,
    components: {
      securitySchemes: {
        adminToken: { type: 'http', scheme: 'bearer', description: 'A token of ADMIN_TOKEN.' },
      },
      headers: { 'X-Request-Id': HEADERS['X-Request-Id'], ETag: ETAG },
      responses: errorResponses(),
      schemas: allSchemas(),
    },
  };
}

/** The document as text, as it is printed and kept in docs/admin-openapi.json. */
export function adminDocumentText(address: OpsAddress): string {
  return `${JSON.stringify(adminDocumentOf(address), null, 2)}\n`;
}

function parameter(place: 'path' | 'header', name: string, description: string, example: string) {
  const required = place === 'path' ? { required: true } : {};
  return { name, in: place, description, ...required, schema: { type: 'string' }, example };
}

function inDocument(operation: AdminOperation): Schema {
  const { path, id, tag, summary, description, body, statuses = [200], errors = [] } = operation;
  const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => PARAMETERS[name!]!);
  const parameters = [...named, ...(operation.isConditional ? CONDITIONS : [])];
  const every = codes().filter((code) => !OF_SOME.includes(code));
  const conditional = operation.isConditional ? (['precondition_failed'] as const) : [];
  const own = [...every, ...errors, ...conditional].map((code) => ADMIN_ERRORS[code].status);
  const headers = operation.hasEtag ? ['ETag'] : [];
  return {
    ...{ operationId: id, tags: [tag], summary, description, security: [{ adminToken: [] }] },
    ...(parameters.length > 0 && { parameters }),
    ...(body !== undefined && {
      requestBody: {
        description: body.isOptional ? 'May be left out.' : 'A JSON object.',
        required: !body.isOptional,
        content: json(body.name),
      },
    }),
    responses: Object.fromEntries([
      ...statuses.map((status) => [
        status,
        response(status === 201 ? 'It was made.' : 'Done.', operation.response, headers),
      ]),
      ...own.map((status) => [status, { $ref: `#/components/responses/Error${status}` }]),
    ]),
  };
}

function codes(): AdminErrorCode[] {
  return Object.keys(ADMIN_ERRORS) as AdminErrorCode[];
}

/** One response for each status, with all its codes. */
function errorResponses(): Schema {
  const errors = Object.values(ADMIN_ERRORS);
  return Object.fromEntries(
    errors.map(({ status }) => {
      const same = errors.filter((error) => error.status === status);
      return [`Error${status}`, response(same.map(({ when }) => when).join('; or '), 'Refusal')];
    }),
  );
}

function response(description: string, schema: string, headers: readonly string[] = []): Schema {
  return {
    description,
    headers: Object.fromEntries(
      ['X-Request-Id', ...headers].map((name) => [name, { $ref: `#/components/headers/${name}` }]),
    ),
    content: json(schema),
  };
}

function json(schema: string): Schema {
  return { 'application/json': { schema: ref(schema) } };
}

function allSchemas(): Record<string, Schema> {
  const bodies = ADMIN_OPERATIONS.flatMap(({ body }) => (body ? [[body.name, ofBody(body)]] : []));
  return {
    ...{ ...CLIENT_SCHEMAS, ...API_KEY_SCHEMAS, ...POLICY_SCHEMAS, ...VALUE_SCHEMAS },
    ...{ ...KEY_SCHEMAS, ...Object.fromEntries(bodies) },
    Refusal: schemas.response('Why a request failed.', {
      error: { ...schemas.text('The code to decide on.'), enum: codes() },
      message: schemas.text('What to do, for people. It can change, and names no value.'),
    }),
  };
}

function ofBody({
  description,
  fields,
  required = [],
  ignored,
}: NonNullable<AdminOperation['body']>): Schema {
  const own = Object.entries(fields).map(([name, { schema }]) => [name, schema] as const);
  return {
    ...{ type: 'object', description, additionalProperties: false },
    ...(required.length > 0 && { required }),
    properties: { ...Object.fromEntries(own), ...ignored },
  };
}
