import {
  documentOf,
  HEADERS_OF_ALL,
  header,
  type OpenApiDocument,
  operationOf,
  type PathOperation,
  parameter,
  references,
  response,
  textOf,
} from '../../openapi/elements.ts';
import * as schemas from '../../openapi/schemas.ts';
import { ADMIN_ERRORS, type AdminErrorCode } from '../errors.ts';
import { API_KEYS } from './api-keys.ts';
import { CLIENTS } from './clients.ts';
import { KEYS } from './keyring.ts';
import type { AdminOperation } from './operation.ts';
import { POLICY } from './policies.ts';
import { VALUES } from './values.ts';

export const ADMIN_PATH = '/admin/v1';

const PARTS = [CLIENTS, API_KEYS, POLICY, VALUES, KEYS];
export const ADMIN_OPERATIONS = PARTS.flatMap(({ operations }) => operations);

const DESCRIPTION = `What the commands \`standin client\`, \`api-key\`, \`policy\`, \`forget\` and \`keyring\` do, for programs.

Send \`Authorization: Bearer\` with a token of ADMIN_TOKEN. Bodies are JSON objects of up to 1 MiB without other fields than those here.
Repeat a request as you like: only a second \`issueApiKey\`, and a \`rotateKey\` without \`If-Match\`, do something more.`;

const ETAG = header(
  'Of this state, for If-Match.',
  { type: 'string', pattern: '^"[\\w-]+"$' },
  '"3"',
);
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
  for (const { tag, operations } of PARTS)
    for (const operation of operations) {
      const path = ADMIN_PATH + operation.path;
      paths[path] = { ...paths[path], [operation.method]: inDocument(operation, tag) };
    }
  return documentOf({
    info: {
      ...{ title: 'Standin admin API', version: '1' },
      summary: 'Clients, API keys, policy, erasure and keys of a Standin service',
      description: DESCRIPTION,
    },
    server: { url, description: 'The ops listener.' },
    tags: Object.fromEntries(PARTS.map(({ tag, description }) => [tag, description])),
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
  return textOf(adminDocumentOf(address));
}

function inDocument(operation: AdminOperation, tag: string): PathOperation {
  const { path, body, isConditional, statuses = [200], errors = [], ...said } = operation;
  const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => PARAMETERS[name!]!);
  const own = [...OF_ALL, ...errors, ...(isConditional ? (['precondition_failed'] as const) : [])];
  const headers = operation.hasEtag ? ['ETag'] : [];
  const done = statuses.map((status) => [
    ...[
      status,
      response(status === 201 ? 'It was made.' : 'Done.', said.response, undefined, headers),
    ],
  ]);
  return operationOf({
    ...{ ...said, tag, bearer: 'adminToken' },
    parameters: [...named, ...(isConditional ? CONDITIONS : [])],
    ...(body && {
      body: {
        ...{ schema: body.name, isOptional: body.isOptional },
        description: body.isOptional ? 'May be left out.' : 'A JSON object.',
      },
    }),
    responses: {
      ...Object.fromEntries(done),
      ...references(own.map((code) => responseOf(ADMIN_ERRORS[code].status))),
    },
  });
}

const responseOf = (status: number) => ({ status, name: `Error${status}` });

/** One response for each status, with all its codes. */
function errorResponses() {
  const errors = Object.values(ADMIN_ERRORS);
  return Object.fromEntries(
    errors.map(({ status }) => {
      const same = errors.filter((error) => error.status === status);
      const words = same.map(({ when }) => when).join('; or ');
      return [responseOf(status).name, response(words, 'Refusal')];
    }),
  );
}

function allSchemas(): Record<string, schemas.Schema> {
  const bodies = ADMIN_OPERATIONS.flatMap(({ body }) => (body ? [[body.name, ofBody(body)]] : []));
  return {
    ...Object.assign({}, ...PARTS.map((part) => part.schemas)),
    ...Object.fromEntries(bodies),
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
