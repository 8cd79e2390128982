import { execFile } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { chmodSync, cpSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, inject } from 'vitest';
import { runCommand } from './in-process.ts';
import { postgresBin, query } from './postgres.ts';
import { CLI, type Kind, makePlace, NO_LIMITS, type Place, runCli, spawnCli } from './program.ts';
import { expectNoSecretIn, noteSecrets, watchOutput } from './secrecy.ts';

export * from './program.ts';

/** The kinds of database in this run: embedded, and a server if there is one. */
export function kinds(): Kind[] {
  return inject('serverUrl') === '' ? ['embedded'] : ['embedded', 'server'];
}

/**
 * The kinds for tests whose subject is not the database: the kind for production use, or all kinds
 * with TEST_KINDS=all.
 */
export function usualKinds(): Kind[] {
  return process.env.TEST_KINDS === 'all' ? kinds() : kinds().slice(-1);
}

/** The embedded database already exists, without a vault. See newBlankPlace. */
export async function newPlace(kind: Kind, serverUrl = inject('serverUrl')): Promise<Place> {
  const place = await makePlace(kind, serverUrl);
  if (kind === 'embedded') {
    const folder = join(place.env.DATA_DIR!, 'postgres');
    cpSync(inject('embeddedTemplate'), folder, { recursive: true });
    chmodSync(place.env.DATA_DIR!, 0o700);
  }
  return place;
}

/** A place for tests whose subject is not the database. */
export function usualPlace(): Promise<Place> {
  return newPlace(kinds().at(-1)!);
}

/** A place without a data folder. */
export function newBlankPlace(): Promise<Place> {
  return makePlace('embedded', '');
}

/** Starts the real program. Resolves when it listens. Rejects with its output if it ends. */
export function startService(
  place: Place,
  env: Record<string, string> = {},
  node?: string,
): Promise<Service> {
  return beginService(place, env, node).listening;
}

/** Begins a start of the real program, which may end before it listens. */
export function beginService(place: Place, env: Record<string, string> = {}, node?: string) {
  const settings = {
    PORT: '0',
    OPS_PORT: '0',
    ...NO_LIMITS,
    LOG_FORMAT: 'json',
    LOG_LEVEL: 'trace',
    ...place.service?.env,
    ...env,
  };
  const child = spawnCli(['serve'], place, settings, ['ignore', 'pipe', 'pipe'], node);
  let output = '';
  watchOutput(() => output);
  const exit = new Promise<number | string>((resolve) =>
    child.once('exit', (code, signal) => resolve(code ?? signal!)),
  );
  const closed = new Promise((resolve) => child.once('close', resolve));
  const line = new Promise<{ url: string; ops_url?: string }>((resolve, reject) => {
    let listens = false;
    const read = (chunk: Buffer) => {
      output += chunk;
      if (listens) return;
      const found = /^.*"msg":"listening".*\}$/m.exec(output);
      if (found === null) return;
      listens = true;
      resolve(JSON.parse(found[0]));
    };
    child.stdout!.on('data', read);
    child.stderr!.on('data', read);
    void exit.then((code) => reject(new Error(`serve ended with ${code}:\n${output}`)));
  });
  const starting = {
    place,
    pid: child.pid!,
    /** All output so far, from both streams. */
    output: () => output,
    /** Resolves to the exit code, or the name of the signal. */
    exit,
    kill: (signal: NodeJS.Signals = 'SIGKILL') => void child.kill(signal),
    /** Closes the service's standard output. Its later writes fail. */
    closeOutput: () => void child.stdout!.destroy(),
    /** Sends SIGINT and waits for the end. */
    stop: async () => {
      child.kill('SIGINT');
      await exit;
      // A process that it left behind may keep its output open.
      await Promise.race([closed, new Promise((resolve) => setTimeout(resolve, 1_000))]);
      // However the requests of the tests ended, they gave their bytes back.
      const [, held = 0] = /"held_bytes":(\d+),"msg":"stopped"/.exec(output) ?? [];
      expect(Number(held), 'bytes of requests, held at the end').toBe(0);
    },
  };
  const listening = line.then(({ url, ops_url: opsUrl }) => {
    const { client_id, api_key } = place.service ?? firstClient(output);
    // The API key is from the first start on a new place, or from the place; otherwise empty.
    return { ...starting, url, opsUrl, client_id, api_key };
  });
  // Only who waits for it has to know that it never listened.
  listening.catch(() => {});
  /** `listening` resolves when it listens, and rejects with its output if it ends. */
  return { ...starting, listening };
}
/** A service that may never come to listen. */
export type Starting = ReturnType<typeof beginService>;
export type Service = Readonly<Awaited<Starting['listening']>>;

/** The client that a first start made, from the log; empty strings without a new client. */
export function firstClient(output: string): { client_id: string; api_key: string } {
  // Match a part of the line, because standard error may have written before it.
  const found = /"client_id":("[^"]+"),"api_key_file":("[^"]+")/.exec(output);
  if (found === null) return { client_id: '', api_key: '' };
  const [clientId, file] = found.slice(1).map((text) => JSON.parse(text));
  return { client_id: clientId, api_key: readFileSync(file, 'utf8').trim() };
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: any;
}

/** POSTs `{"data": data}` with the service's API key. */
export async function call(
  service: Pick<Service, 'url' | 'api_key'>,
  operation: 'tokenize' | 'detokenize' | 'lookup',
  data: unknown,
  apiKey = service.api_key,
  more: Record<string, string> = {},
): Promise<Answer> {
  const response = await fetch(`${service.url}/api/v1/${operation}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json', ...more },
    body: JSON.stringify({ data }),
  });
  const { status, headers } = response;
  const text = await response.text();
  if (!response.ok) expectNoSecretIn(`${JSON.stringify([...headers])}${text}`, data);
  const body = JSON.parse(text);
  noteSecrets([data, body.data]);
  return { status, headers, body };
}

/** A busy machine sheds a request, or waits too long for its body. */
const BUSY = [503, 408];
/** Or its statements take longer than the deadline of a request. */
export const LATE = [...BUSY, 500];

/** Asks again while the machine is busy. The test's own time-out bounds it. */
export async function insist<T extends { readonly status: number }>(
  ask: () => Promise<T>,
  busy: readonly number[] = BUSY,
): Promise<T> {
  for (;;) {
    const answer = await ask();
    if (!busy.includes(answer.status)) return answer;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** Polls until the condition holds. Fails after `timeoutMs`. */
export async function until(
  condition: () => boolean | Promise<boolean>,
  what: string,
  timeoutMs = 120_000,
): Promise<void> {
  const giveUpMs = performance.now() + timeoutMs;
  while (!(await condition())) {
    if (performance.now() > giveUpMs) throw new Error(`not within ${timeoutMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

export interface NewClient {
  readonly client_id: string;
  readonly api_key: string;
}

/** Makes the vault of a place, without a client. */
export async function makeVault(place: Place): Promise<void> {
  const { code, stderr } = await runCommand(['migrate'], place);
  expect(code, stderr).toBe(0);
}

/** A client of a vault, with a name of its own and its first API key. */
export async function createClient(place: Place, ...options: string[]): Promise<NewClient> {
  const name = options.includes('--name') ? [] : ['--name', `test ${randomUUID()}`];
  const args = ['client', 'create', ...name, ...options, '--json'];
  const { code, stdout, stderr } = await runCommand(args, place);
  expect(code, stderr).toBe(0);
  return JSON.parse(stdout);
}

/** Runs a command and parses the JSON that it prints. */
export async function runJson(place: Place, ...args: string[]): Promise<any> {
  const { code, stdout, stderr } = await runCli([...args, '--json'], place);
  expect(code, stderr).toBe(0);
  return JSON.parse(stdout);
}

/** Values of the series of a metric, by labels. */
export async function scrape(opsUrl: string, name: string): Promise<Record<string, number>> {
  const text = await (await fetch(`${opsUrl}/metrics`)).text();
  const series = text.matchAll(new RegExp(`^${name}(?:\\{(.*)\\})? (\\S+)$`, 'gm'));
  return Object.fromEntries([...series].map(([, labels = '', value]) => [labels, Number(value)]));
}

/**
 * A vault that its owner makes with a client, and that a role with only the service's rights
 * serves. Without a server, the embedded database, which has one user.
 */
export async function leastPrivilegePlace(serverUrl?: string): Promise<Place> {
  if (!kinds().includes('server')) return newPlace('embedded');
  const place = await newPlace('server', serverUrl);
  const role = await makeRole(place);
  const { code, stderr } = await runCommand(['migrate', '--grant-to', role.name], place);
  if (code !== 0) throw new Error(stderr);
  const client = await createClient(place, '--name', 'first');
  return { ...place, service: { env: { DATABASE_URL: role.url }, ...client } };
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

/**
 * The output of commands of a document, typed by a person who has psql and standin.
 * @param env besides the address and the API key of the service
 * @param databaseUrl the database of psql
 */
export async function typed(
  { place, url, api_key: apiKey }: Service,
  commands: string,
  env: Record<string, string> = {},
  databaseUrl = 'postgres://',
): Promise<string> {
  const database = new URL(databaseUrl);
  const script = `standin() { "${process.execPath}" "${CLI}" "$@"; }\n${commands}`;
  const { stdout } = await promisify(execFile)('sh', ['-ec', script], {
    cwd: place.folder,
    env: {
      PATH: [postgresBin, process.env.PATH].join(':'),
      HOME: place.folder,
      PGHOST: database.hostname,
      PGPORT: database.port,
      PGUSER: database.username,
      PGPASSWORD: database.password,
      PGDATABASE: database.pathname.slice(1),
      STANDIN_URL: url,
      STANDIN_API_KEY: apiKey,
      ...env,
    },
  });
  return stdout;
}
