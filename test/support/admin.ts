import { randomBytes } from 'node:crypto';
import { expect } from 'vitest';
import type { OpenApiDocument } from '../../src/openapi/document.ts';
import { DocumentSchemas, operationsOf, responseOf } from './docs.ts';
import { ask, bearer, JSON_TYPE } from './ops.ts';
import { noteSecrets } from './secrecy.ts';
import { kinds, makeRole, newPlace, type Place, runCli, runJson } from './service.ts';

export const ADMIN_TOKEN = randomBytes(24).toString('hex');
/** As the setting has it: two administrators. */
export const ADMIN_SETTING = `terraform:${ADMIN_TOKEN},ann:${randomBytes(24).toString('hex')}`;

export interface AdminAnswer {
  readonly status: number;
  readonly headers: NodeJS.Dict<string | string[]>;
  readonly body: any;
}

/** Calls the admin API as `terraform`, with a body that is JSON. */
export async function admin(
  opsUrl: string,
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<AdminAnswer> {
  const sent = { ...bearer(ADMIN_TOKEN), ...(body !== undefined && JSON_TYPE), ...headers };
  const text = body === undefined ? undefined : JSON.stringify(body);
  const answer = await ask(`${opsUrl}/admin/v1${path}`, method, sent, text);
  return { ...answer, body: answer.text === '' ? undefined : JSON.parse(answer.text) };
}

/** Compares requests and answers with the OpenAPI document. */
export function adminAgreement(document: OpenApiDocument) {
  const schemas = new DocumentSchemas(document);
  const all = operationsOf(document).flatMap(({ path, method, operation }) =>
    Object.keys(operation.responses).map((status) => `${method} ${path} ${status}`),
  );
  const seen = new Set<string>();
  return {
    check(
      method: string,
      path: string,
      body: unknown,
      { status, headers, body: got }: AdminAnswer,
    ) {
      const at = operationsOf(document).find(
        (one) =>
          one.method === method.toLowerCase() &&
          new RegExp(`^${one.path.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(`/admin/v1${path}`),
      );
      if (at === undefined) return void expect([404, 405]).toContain(status);
      const schemaAt = (...place: string[]) =>
        schemas.at(...place, 'content', 'application/json', 'schema');
      const sent = ['paths', at.path, at.method, 'requestBody'];
      const isFit = body === undefined || (at.operation.requestBody && schemaAt(...sent)(body));
      // Some requests are refused for more than the schema says.
      if (status < 300) expect([method, path, body, isFit]).toEqual([method, path, body, true]);
      if (isFit !== true) expect(status).toBe(400);
      const said = responseOf(document, at.path, at.method, String(status));
      const schema = schemaAt(...said.at);
      expect(schema(got), `${method} ${path}: ${JSON.stringify(schema.errors)}`).toBe(true);
      if (said.response.headers.ETag) expect(headers.etag).toMatch(/^"[\w-]+"$/);
      else expect(headers.etag).toBeUndefined();
      seen.add(`${at.method} ${at.path} ${status}`);
    },
    /** Operations and statuses that no checked answer had. */
    unseen: () => all.filter((one) => !seen.has(one)),
  };
}

/**
 * A vault that a role of the service serves, and another role administrates. Without a server, the
 * embedded database, which has one user.
 */
export async function adminPlace(): Promise<Place> {
  noteSecrets(ADMIN_SETTING.split(/\w+:|,/));
  const place = await newPlace(kinds().at(-1)!);
  if (place.kind === 'embedded')
    return { ...place, env: { ...place.env, ADMIN_TOKEN: ADMIN_SETTING } };
  const [service, administrator] = [await makeRole(place), await makeRole(place)];
  const granting = ['migrate', '--grant-to', service.name, '--grant-admin-to', administrator.name];
  const { code, stderr } = await runCli(granting, place);
  if (code !== 0) throw new Error(stderr);
  const first = await runJson(place, 'client', 'create', '--name', 'first');
  const urls = { DATABASE_URL: service.url, ADMIN_DATABASE_URL: administrator.url };
  const env = { ...urls, ADMIN_TOKEN: ADMIN_SETTING };
  return { ...place, service: { env, client_id: first.client_id, api_key: first.api_key } };
}
