import { documentOf, type OpenApiDocument } from '../../openapi/document.ts';
import type { PathOperation } from '../../openapi/operations.ts';
import { HEADERS_OF_ALL, parameter, type Response, response } from '../../openapi/responses.ts';
import * as schemas from '../../openapi/schemas.ts';
import { ADMIN_ERRORS, type AdminErrorCode } from '../errors.ts';
import { API_KEY_OPERATIONS, API_KEY_SCHEMAS } from './api-keys.ts';
import { CLIENT_OPERATIONS, CLIENT_SCHEMAS } from './clients.ts';
import { KEY_OPERATIONS, KEY_SCHEMAS } from './keyring.ts';
import type { AdminOperation } from './operation.ts';
import { POLICY_OPERATIONS, POLICY_SCHEMAS } from './policies.ts';
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
  ...{ required: true as const, example: '"3"' },
};
const PARAMETERS: Readonly<Record<string, schemas.Schema>> = {
  client: parameter('client', 'Id or name of a client.', 'billing', 'path'),
  api_key_id: parameter('api_key_id', 'Id of an API key.', 'key_e925c2c4d683', 'path'),
  version: parameter('version', 'Version of the policy.', '3', 'path'),
};
const CONDITIONS = [
  parameter('If-Match', 'The ETag that you saw. Otherwise 412.', '"3"'),
  parameter('If-None-Match', '`*`: only if it does not exist. Otherwise 412.', '*'),
];
const CODES = Object.keys(ADMIN_ERRORS) as AdminErrorCode[];
/** Errors that only some operations have. */
const OF_SOME: readonly AdminErrorCode[] = [
  ...(['bad_request', 'cross_origin', 'conflict', 'unconfirmed', 'precondition_failed'] as const),
];
const OF_ALL = CODES.filter((code) => !OF_SOME.includes(code));

/** Where the ops listener listens. */
interface OpsAddress {
  readonly OPS_HOST: string;
  readonly OPS_PORT: number;
  readonly OPS_TLS: boolean;
}

/** The OpenAPI document of the admin API. */
export function adminDocumentOf({ OPS_HOST, OPS_PORT, OPS_TLS }: OpsAddress): OpenApiDocument {
  const host = OPS_HOST.includes(':') ? `[${OPS_HOST}]` : OPS_HOST;
  const url = `${OPS_TLS ? 'https' : 'http'}://${host}:${OPS_PORT}`;
  const paths: Record<string, Record<string, PathOperation>> = {};
  for (const operation of ADMIN_OPERATIONS) {
    const path = ADMIN_PATH + operation.path;
    paths[path] = { ...paths[path], [operation.method]: inDocument(operation) };
  }
  return documentOf({
    title: 'Standin admin API',
    version: '1',
    summary: 'Clients, API keys, policy, erasure and keys of a Standin service',
    description: DESCRIPTION,
    server: { url, description: 'The ops listener.' },
    tags: {
      Clients: 'The applications that may call.',
      'API keys': 'A client can have several.',
      Policy: 'Fields, kinds and rights.',
      Values: 'By value or token.',
      Keys: 'That seal the records.',
    },
    paths,
    bearers: { adminToken: 'A token of ADMIN_TOKEN.' },
    components: {
      headers: { ...HEADERS_OF_ALL, ETag: ETAG },
      responses: errorResponses(),
      schemas: allSchemas(),
    },
  });
}

/** The document as text, as it is printed and kept in docs/admin-openapi.json. */
export function adminDocumentText(address: OpsAddress): string {
  return `${JSON.stringify(adminDocumentOf(address), null, 2)}\n`;
}

function inDocument(operation: AdminOperation): PathOperation {
  const { path, id, tag, summary, description, body, statuses = [200], errors = [] } = operation;
  const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => PARAMETERS[name!]!);
  const parameters = [...named, ...(operation.isConditional ? CONDITIONS : [])];
  const conditional = operation.isConditional ? (['precondition_failed'] as const) : [];
  const own = [...OF_ALL, ...errors, ...conditional].map((code) => ADMIN_ERRORS[code].status);
  const words = (status: number) => (status === 201 ? 'It was made.' : 'Done.');
  const headers = operation.hasEtag ? (['ETag'] as const) : [];
  return {
    ...{ operationId: id, tags: [tag], summary, description, security: [{ adminToken: [] }] },
    ...(parameters.length > 0 && { parameters }),
    ...(body !== undefined && {
      requestBody: {
        description: body.isOptional ? 'May be left out.' : 'A JSON object.',
        required: !body.isOptional,
        content: { 'application/json': { schema: schemas.ref(body.name) } },
      },
    }),
    responses: Object.fromEntries([
      ...statuses.map((status) => [
        ...[status, response(words(status), operation.response, undefined, headers)],
      ]),
      ...own.map((status) => [status, { $ref: `#/components/responses/Error${status}` }]),
    ]),
  };
}

/** One response for each status, with all its codes. */
function errorResponses(): Record<string, Response> {
  const errors = Object.values(ADMIN_ERRORS);
  return Object.fromEntries(
    errors.map(({ status }) => {
      const same = errors.filter((error) => error.status === status);
      return [`Error${status}`, response(same.map(({ when }) => when).join('; or '), 'Refusal')];
    }),
  );
}

function allSchemas(): Record<string, schemas.Schema> {
  const bodies = ADMIN_OPERATIONS.flatMap(({ body }) => (body ? [[body.name, ofBody(body)]] : []));
  return {
    ...{ ...CLIENT_SCHEMAS, ...API_KEY_SCHEMAS, ...POLICY_SCHEMAS, ...VALUE_SCHEMAS },
    ...{ ...KEY_SCHEMAS, ...Object.fromEntries(bodies) },
    Refusal: schemas.object('Why a request failed.', {
      error: schemas.text('The code to decide on.', { enum: CODES }),
      message: schemas.text('What to do, for people. It can change, and names no value.'),
    }),
  };
}

function ofBody({
  description,
  fields,
  required = [],
  ignored,
}: NonNullable<AdminOperation['body']>): schemas.Schema {
  const own = Object.entries(fields).map(([name, { schema }]) => [name, schema] as const);
  return {
    ...{ type: 'object', description, additionalProperties: false },
    ...(required.length > 0 && { required }),
    properties: { ...Object.fromEntries(own), ...ignored },
  };
}
