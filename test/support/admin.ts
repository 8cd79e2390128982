import { randomBytes } from 'node:crypto';
import { expect } from 'vitest';
import type { OpenApiDocument } from '../../src/openapi/document.ts';
import { DocumentSchemas } from './docs.ts';
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
export class AdminAgreement {
  readonly #document: OpenApiDocument;
  readonly #schemas: DocumentSchemas;
  readonly #seen = new Set<string>();

  constructor(document: OpenApiDocument) {
    this.#document = document;
    this.#schemas = new DocumentSchemas(document);
  }

  check(method: string, path: string, body: unknown, answer: AdminAnswer): void {
    const { status, headers } = answer;
    const at = this.#find(`/admin/v1${path}`, method.toLowerCase());
    if (at === undefined) {
      expect([404, 405]).toContain(status);
      return;
    }
    const { requestBody, responses } = at.operation;
    const schemaAt = (...place: string[]) =>
      this.#schemas.at(...place, 'content', 'application/json', 'schema');
    const isFit =
      body === undefined || (requestBody && schemaAt(...at.place, 'requestBody')(body) === true);
    // Some requests are refused for more than the schema says.
    if (status < 300) expect([method, path, body, isFit]).toEqual([method, path, body, true]);
    if (!isFit) expect(status).toBe(400);
    const response = responses[status];
    expect(response, `${method} ${path} ${status}`).toBeDefined();
    const place = response.$ref?.split('/').slice(1) ?? [...at.place, 'responses', String(status)];
    const schema = schemaAt(...place);
    expect(schema(answer.body), `${method} ${path}: ${JSON.stringify(schema.errors)}`).toBe(true);
    if (response.headers?.ETag) expect(headers.etag).toMatch(/^"[\w-]+"$/);
    else expect(headers.etag).toBeUndefined();
    this.#seen.add(`${at.place.slice(1).join(' ')} ${status}`);
  }

  /** Operations and statuses that no checked answer had. */
  unseen(): string[] {
    const all = Object.entries(this.#document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).flatMap(([method, operation]: [string, any]) =>
        Object.keys(operation.responses).map((status) => `${path} ${method} ${status}`),
      ),
    );
    return all.filter((one) => !this.#seen.has(one));
  }

  #find(path: string, method: string) {
    for (const [template, methods] of Object.entries(this.#document.paths)) {
      const pattern = new RegExp(`^${template.replaceAll(/\{\w+\}/g, '[^/]+')}$`);
      const operation = methods[method] as any;
      if (pattern.test(path) && operation) return { operation, place: ['paths', template, method] };
    }
    return undefined;
  }
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
