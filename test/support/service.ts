import { chmodSync, cpSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { inject } from 'vitest';
import { type Kind, makePlace, NO_LIMITS, type Place, spawnCli } from './program.ts';
import { expectNoSecretIn, noteSecrets, watchOutput } from './secrecy.ts';

export * from './program.ts';

/** The kinds of database that this run can test: embedded always, a server where there is one. */
export function kinds(): Kind[] {
  return inject('serverUrl') === '' ? ['embedded'] : ['embedded', 'server'];
}

/**
 * Of those the one for earnest use, for tests whose subject is not the database; all with
 * TEST_KINDS=all.
 */
export function usualKinds(): Kind[] {
  return process.env.TEST_KINDS === 'all' ? kinds() : kinds().slice(-1);
}

/** An embedded one has its database made already, but no vault in it; see newBlankPlace. */
export async function newPlace(kind: Kind, serverUrl = inject('serverUrl')): Promise<Place> {
  const place = await makePlace(kind, serverUrl);
  if (kind === 'embedded') {
    const folder = join(place.env.DATA_DIR!, 'postgres');
    cpSync(inject('embeddedTemplate'), folder, { recursive: true });
    chmodSync(place.env.DATA_DIR!, 0o700);
  }
  return place;
}

/** For tests whose subject is not the database. */
export function usualPlace(): Promise<Place> {
  return newPlace(kinds().at(-1)!);
}

/** Without so much as a data folder. */
export function newBlankPlace(): Promise<Place> {
  return makePlace('embedded', '');
}

export interface Service {
  readonly place: Place;
  readonly url: string;
  readonly opsUrl: string | undefined;
  readonly pid: number;
  /** Of the first start on a new place, or of the place; empty otherwise. */
  readonly api_key: string;
  readonly client_id: string;
  /** Everything it wrote, both streams. */
  output(): string;
  /** Resolves to the exit code, or the name of the signal. */
  readonly exit: Promise<number | string>;
  kill(signal?: NodeJS.Signals): void;
  /** Ends its standard output: what it writes there from now on fails. */
  closeOutput(): void;
  /** SIGINT and wait. */
  stop(): Promise<void>;
}

/** Starts the real program and resolves when it listens; rejects with its output when it ends instead. */
export async function startService(
  place: Place,
  env: Record<string, string> = {},
  node = process.execPath,
): Promise<Service> {
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
  const listening = await new Promise<{ url: string; ops_url?: string }>((resolve, reject) => {
    let listens = false;
    const read = (chunk: Buffer) => {
      output += chunk;
      if (listens) return;
      const line = output
        .split('\n')
        .find((one) => one.includes('"msg":"listening"') && one.endsWith('}'));
      if (line === undefined) return;
      listens = true;
      resolve(JSON.parse(line));
    };
    child.stdout!.on('data', read);
    child.stderr!.on('data', read);
    void exit.then((code) => reject(new Error(`serve ended with ${code}:\n${output}`)));
  });
  return {
    place,
    url: listening.url,
    opsUrl: listening.ops_url,
    pid: child.pid!,
    ...(place.service ?? firstClient(output)),
    output: () => output,
    exit,
    kill: (signal = 'SIGKILL') => child.kill(signal),
    closeOutput: () => child.stdout!.destroy(),
    stop: async () => {
      child.kill('SIGINT');
      await exit;
    },
  };
}

/** The client that a first start made, by its log; empty texts when it made none. */
export function firstClient(output: string): { client_id: string; api_key: string } {
  // Not the whole line: standard error may have written before it.
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
  service: Service,
  operation: 'tokenize' | 'detokenize',
  data: unknown,
  apiKey = service.api_key,
): Promise<Answer> {
  const response = await fetch(`${service.url}/api/v1/${operation}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ data }),
  });
  const { status, headers } = response;
  const text = await response.text();
  if (!response.ok) expectNoSecretIn(`${JSON.stringify([...headers])}${text}`, data);
  const body = JSON.parse(text);
  noteSecrets([data, body.data]);
  return { status, headers, body };
}

/** Polls until the condition holds; fails after `patienceMs`. Instead of sleeping. */
export async function until(
  condition: () => boolean | Promise<boolean>,
  what: string,
  patienceMs = 120_000,
): Promise<void> {
  const giveUpMs = performance.now() + patienceMs;
  while (!(await condition())) {
    if (performance.now() > giveUpMs) throw new Error(`not within ${patienceMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
