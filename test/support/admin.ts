import { randomBytes } from 'node:crypto';
import { ask } from './ops.ts';
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
  const sent = {
    authorization: `Bearer ${ADMIN_TOKEN}`,
    ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    ...headers,
  };
  const text = body === undefined ? undefined : JSON.stringify(body);
  const length = {
    ...(text === undefined ? {} : { 'content-length': `${Buffer.byteLength(text)}` }),
  };
  const answer = await ask(`${opsUrl}/admin/v1${path}`, method, { ...sent, ...length }, text);
  return { ...answer, body: answer.text === '' ? undefined : JSON.parse(answer.text) };
}

/**
 * A vault that a role of the service serves, and another role administrates. Without a server, the
 * embedded database, which has one user.
 */
export async function adminPlace(): Promise<Place> {
  const place = await newPlace(kinds().at(-1)!);
  if (place.kind === 'embedded')
    return { ...place, env: { ...place.env, ADMIN_TOKEN: ADMIN_SETTING } };
  const [service, administrator] = [await makeRole(place), await makeRole(place)];
  const granting = ['migrate', '--grant-to', service.name, '--grant-admin-to', administrator.name];
  const { code, stderr } = await runCli(granting, place);
  if (code !== 0) throw new Error(stderr);
  const first = await runJson(place, 'client', 'create', '--name', 'first');
  const env = {
    DATABASE_URL: service.url,
    ADMIN_DATABASE_URL: administrator.url,
    ADMIN_TOKEN: ADMIN_SETTING,
  };
  return { ...place, service: { env, client_id: first.client_id, api_key: first.api_key } };
}
