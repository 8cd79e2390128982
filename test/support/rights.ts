import { randomBytes } from 'node:crypto';
import { query } from './postgres.ts';
import { kinds, newPlace, type Place, runCli } from './service.ts';

/**
 * A vault that its owner makes with a client, and that a role with only the service's rights
 * serves. Without a server, the embedded database, which has one user.
 */
export async function leastPrivilegePlace(serverUrl?: string): Promise<Place> {
  if (!kinds().includes('server')) return newPlace('embedded');
  const place = await newPlace('server', serverUrl);
  return { ...place, service: await makeService(place) };
}

async function makeService(place: Place): Promise<NonNullable<Place['service']>> {
  const role = await makeRole(place);
  const made = await runCli(['client', 'create', '--name', 'first', '--json'], place);
  const granted = await runCli(['migrate', '--grant-to', role.name], place);
  if (made.code !== 0 || granted.code !== 0) throw new Error(made.stderr + granted.stderr);
  const { client_id: clientId, api_key: apiKey } = JSON.parse(made.stdout);
  return { env: { DATABASE_URL: role.url }, client_id: clientId, api_key: apiKey };
}

/** Makes a role that may only log in. Returns the role, and its URL of the vault. */
export async function makeRole(place: Place): Promise<{ name: string; url: string }> {
  const name = `standin_app_${randomBytes(6).toString('hex')}`;
  const password = randomBytes(12).toString('hex');
  await query(place.env.DATABASE_URL!, `create role ${name} login password '${password}'`);
  const url = new URL(place.env.DATABASE_URL!);
  url.username = name;
  url.password = password;
  return { name, url: url.href };
}
