import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createDatabase, freePort } from '../test/support/postgres.ts';
import { type Contestant, end, healthy } from './contestants.ts';
import { familyCpuSeconds, processCpuSeconds } from './cpu.ts';
import type { DatabaseServer } from './database.ts';
import type { Leftovers } from './leftovers.ts';
import { PEER_TITLES, type PeerName } from './peers.ts';

/** The program of another product, which the user supplies. */
export interface Peer {
  readonly name: PeerName;
  readonly file: string;
}

/** The products' own version texts, by name. */
export function versionsOf(peers: readonly Peer[]): [string, string][] {
  return peers.map(({ name, file }) => {
    const args = [name === 'openbao' ? 'version' : '-version'];
    const { stdout, stderr } = spawnSync(file, args, { encoding: 'utf8' });
    const version = /\bv?(\d+\.\d+\.\d+\S*)/.exec(`${stdout}${stderr}`)?.[1];
    return [PEER_TITLES[name], version ?? 'version not told'];
  });
}

/** Connections to PostgreSQL besides the connections of an unbounded service. */
const SPARE_CONNECTIONS = 200;

/** Most connections to PostgreSQL in a run. Databunker opens one for each running request. */
export function peerConnections(
  contestants: readonly string[],
  connections: readonly number[],
): number {
  return contestants.includes('databunker') ? Math.max(...connections) + SPARE_CONNECTIONS : 0;
}

/** The real program with its default settings, in a temporary folder. Its log is discarded. */
export function startPeer(
  { name, file }: Peer,
  server: DatabaseServer | undefined,
  leftovers: Leftovers,
): Promise<Contestant> {
  const folder = mkdtempSync(join(tmpdir(), `standin-bench-${name}-`));
  leftovers.add(async () => rmSync(folder, { recursive: true, force: true }));
  return name === 'databunker'
    ? startDatabunker(file, folder, server!, leftovers)
    : startOpenBao(file, folder, leftovers);
}

const INIT_TIMEOUT_MS = 60_000;

/** Databunker, with its own database, master key and root token, as its documents describe. */
async function startDatabunker(
  file: string,
  folder: string,
  server: DatabaseServer,
  leftovers: Leftovers,
): Promise<Contestant> {
  const databaseUrl = await createDatabase(server.url);
  leftovers.add(() => server.drop(databaseUrl));
  const port = await freePort();
  const configFile = join(folder, 'databunker.yaml');
  // JSON is valid YAML.
  writeFileSync(configFile, JSON.stringify({ server: { host: '127.0.0.1', port: `${port}` } }));
  const { hostname, port: databasePort, username, password, pathname } = new URL(databaseUrl);
  const rootToken = randomUUID();
  const env = {
    ...bareEnvironment(),
    DATABUNKER_MASTERKEY: randomBytes(24).toString('hex'),
    DATABUNKER_ROOTTOKEN: rootToken,
    PGSQL_HOST: hostname,
    PGSQL_PORT: databasePort,
    PGSQL_USER_NAME: decodeURIComponent(username),
    PGSQL_USER_PASS: decodeURIComponent(password),
    // By default the driver refuses a server without TLS.
    PGSSLMODE: new URL(databaseUrl).searchParams.get('sslmode') ?? 'disable',
  };
  const args = ['-db', pathname.slice(1), '-conf', configFile];
  execFileSync(file, ['-init', ...args], {
    cwd: folder,
    env,
    stdio: 'ignore',
    timeout: INIT_TIMEOUT_MS,
  });
  const pid = await startProcess(file, ['-start', ...args], folder, env, leftovers, {
    name: 'databunker',
    healthUrl: `http://127.0.0.1:${port}/status`,
  });
  return {
    name: 'databunker',
    url: `http://127.0.0.1:${port}`,
    api_key: rootToken,
    serviceCpuSeconds: () => processCpuSeconds(pid),
    databaseCpuSeconds: () => server.pid && familyCpuSeconds(server.pid),
  };
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
  const pid = await startProcess(file, args, folder, bareEnvironment(), leftovers, {
    name: 'openbao',
    healthUrl: `${url}/v1/sys/seal-status`,
  });
  const made = await ask(url, '', 'sys/init', { secret_shares: 1, secret_threshold: 1 });
  await ask(url, '', 'sys/unseal', { key: made.keys_base64[0] });
  const root = made.root_token;
  await ask(url, root, 'sys/mounts/transit', { type: 'transit' });
  await ask(url, root, 'transit/keys/bench', { type: 'aes256-gcm96' });
  const policy = 'path "transit/+/bench" { capabilities = ["update"] }';
  await ask(url, root, 'sys/policies/acl/bench', { policy });
  const { auth } = await ask(url, root, 'auth/token/create', { policies: ['bench'] });
  return {
    name: 'openbao',
    url,
    api_key: auth.client_token,
    serviceCpuSeconds: () => processCpuSeconds(pid),
    databaseCpuSeconds: () => undefined,
  };
}

async function ask(url: string, secret: string, path: string, body: object): Promise<any> {
  const response = await fetch(`${url}/v1/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-vault-token': secret },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`openbao: ${path} answered ${response.status}: ${text}`);
  return text === '' ? {} : JSON.parse(text);
}

async function startProcess(
  file: string,
  args: readonly string[],
  folder: string,
  env: NodeJS.ProcessEnv,
  leftovers: Leftovers,
  { name, healthUrl }: { name: PeerName; healthUrl: string },
): Promise<number> {
  const child = spawn(file, args, { cwd: folder, env, stdio: 'ignore' });
  // Fails with the reason why the file cannot run.
  await once(child, 'spawn');
  leftovers.add(() => end(child, 'SIGTERM'));
  await healthy(name, healthUrl, child);
  return child.pid!;
}

/** Settings of the user's own installation must not reach the program under test. */
function bareEnvironment(): NodeJS.ProcessEnv {
  const { PATH, HOME, TMPDIR } = process.env;
  return { PATH, HOME, ...(TMPDIR === undefined ? {} : { TMPDIR }) };
}
