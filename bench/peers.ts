import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createDatabase, freePort } from '../test/support/postgres.ts';
import { type Contestant, ofProcess } from './contestants.ts';
import type { DatabaseServer } from './database.ts';
import { ADAPTERS, type PeerName } from './interfaces.ts';
import type { Leftovers } from './leftovers.ts';
import { end, healthy } from './processes.ts';

/** The program of another product, which the user supplies. */
export interface Peer {
  readonly name: PeerName;
  readonly file: string;
}

/** The product's own version text. */
export function versionOf({ name, file }: Peer): string {
  const { stdout, stderr } = spawnSync(file, ['--version'], { encoding: 'utf8' });
  const version = /\bv?(\d+\.\d+\.\d+\S*)/.exec(`${stdout}${stderr}`)?.[1];
  return `${ADAPTERS[name].title}: ${version ?? 'version not told'}`;
}

/** The real program with its default settings, in a temporary folder. Its log is discarded. */
export function startPeer(
  { name, file }: Peer,
  server: DatabaseServer | undefined,
  leftovers: Leftovers,
): Promise<Contestant> {
  const folder = mkdtempSync(join(tmpdir(), `standin-bench-${name}-`));
  leftovers.add(async () => rmSync(folder, { recursive: true, force: true }));
  return name === 'secrets'
    ? startSecrets(file, folder, server!, leftovers)
    : startOpenBao(file, folder, leftovers);
}

/** An unsealed single-node server on files, with a token that may only use one key. */
async function startOpenBao(
  file: string,
  folder: string,
  leftovers: Leftovers,
): Promise<Contestant> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const configFile = join(folder, 'config.json');
  const config = {
    storage: { file: { path: join(folder, 'data') } },
    listener: [{ tcp: { address: `127.0.0.1:${port}`, tls_disable: true } }],
    api_addr: url,
  };
  writeFileSync(configFile, JSON.stringify(config));
  const args = ['server', `-config=${configFile}`];
  const health = `${url}/v1/sys/seal-status`;
  const pid = await startProcess(file, args, folder, bareEnvironment(), leftovers, health);
  const ask = (path: string, secret: string, body: object) =>
    post(`${url}/v1/${path}`, { 'x-vault-token': secret }, body);
  const made = await ask('sys/init', '', { secret_shares: 1, secret_threshold: 1 });
  await ask('sys/unseal', '', { key: made.keys_base64[0] });
  const root = made.root_token;
  await ask('sys/mounts/transit', root, { type: 'transit' });
  await ask('transit/keys/bench', root, { type: 'aes256-gcm96' });
  const policy = 'path "transit/+/bench" { capabilities = ["update"] }';
  await ask('sys/policies/acl/bench', root, { policy });
  const { auth } = await ask('auth/token/create', root, { policies: ['bench'] });
  return {
    ...ofProcess('openbao', pid, undefined),
    url,
    apiKey: auth.client_token,
    vault: undefined,
  };
}

/** A server with its own database, as its documents describe, and a deterministic key. */
async function startSecrets(
  file: string,
  folder: string,
  server: DatabaseServer,
  leftovers: Leftovers,
): Promise<Contestant> {
  const databaseUrl = await createDatabase(server.url);
  // The program reads its migrations below the current folder.
  const migrations = join(dirname(file), 'migrations');
  if (!existsSync(migrations)) throw new Error(`secrets: no ${migrations}, which it needs`);
  symlinkSync(migrations, join(folder, 'migrations'));
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const kmsKey = `base64key://${randomBytes(32).toString('base64url')}=`;
  const env: NodeJS.ProcessEnv = {
    ...bareEnvironment(),
    DB_DRIVER: 'postgres',
    // By default the driver refuses a server without TLS.
    DB_CONNECTION_STRING: withoutTls(databaseUrl),
    SERVER_HOST: '127.0.0.1',
    SERVER_PORT: String(port),
    METRICS_ENABLED: 'false',
    RATE_LIMIT_ENABLED: 'false',
    KMS_PROVIDER: 'localsecrets',
    KMS_KEY_URI: kmsKey,
  };
  const command = (...args: string[]) =>
    execFileSync(file, args, { cwd: folder, env, encoding: 'utf8', stdio: 'pipe' });
  const key = command(
    ...['create-master-key', '--id', 'bench', '--kms-provider', 'localsecrets'],
    ...['--kms-key-uri', kmsKey],
  );
  env.MASTER_KEYS = /MASTER_KEYS="?([^"\s]+)/.exec(key)![1]!;
  env.ACTIVE_MASTER_KEY_ID = 'bench';
  command('migrate');
  command('create-kek', '--algorithm', 'aes-gcm');
  const capabilities = ['read', 'write', 'encrypt', 'decrypt'];
  const policies = JSON.stringify([{ path: '*', capabilities }]);
  const client = command(
    ...['create-client', '--name', 'bench', '--policies', policies, '--format', 'json'],
  );
  const pid = await startProcess(file, ['server'], folder, env, leftovers, `${url}/health`);
  // The output also has lines of the log.
  const named = (name: string) => new RegExp(`"${name}": "([^"]+)"`).exec(client)![1];
  const login = { client_id: named('client_id'), client_secret: named('secret') };
  const { token } = await post(`${url}/v1/token`, {}, login);
  const wanted = {
    name: 'bench',
    format_type: 'alphanumeric',
    is_deterministic: true,
    algorithm: 'aes-gcm',
  };
  await post(`${url}/v1/tokenization/keys`, { authorization: `Bearer ${token}` }, wanted);
  return {
    ...ofProcess('secrets', pid, server.pid),
    url,
    apiKey: token,
    vault: { databaseUrl, table: 'tokenization_tokens' },
  };
}

function withoutTls(databaseUrl: string): string {
  const url = new URL(databaseUrl);
  if (!url.searchParams.has('sslmode')) url.searchParams.set('sslmode', 'disable');
  return url.href;
}

async function post(url: string, headers: Record<string, string>, body: object): Promise<any> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${url} answered ${response.status}: ${text}`);
  return text === '' ? {} : JSON.parse(text);
}

async function startProcess(
  file: string,
  args: readonly string[],
  folder: string,
  env: NodeJS.ProcessEnv,
  leftovers: Leftovers,
  healthUrl: string,
): Promise<number> {
  const child = spawn(file, args, { cwd: folder, env, stdio: 'ignore' });
  // Fails with the reason why the file cannot run.
  await once(child, 'spawn');
  leftovers.add(() => end(child, 'SIGTERM'));
  await healthy(file, healthUrl, child);
  return child.pid!;
}

/** Settings of the user's own installation must not reach the program under test. */
function bareEnvironment(): NodeJS.ProcessEnv {
  const { PATH, HOME, TMPDIR } = process.env;
  return { PATH, HOME, ...(TMPDIR === undefined ? {} : { TMPDIR }) };
}
