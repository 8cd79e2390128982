import { closeSync, openSync } from 'node:fs';
import { connect } from 'node:net';
import type { Readable } from 'node:stream';
import { describe, expect, onTestFinished, test } from 'vitest';
import { isLinux, SLACK_MS } from '../support/fault.ts';
import { freePort } from '../support/postgres.ts';
import {
  createClient,
  makeVault,
  type Place,
  scrape,
  spawnCli,
  until,
  usualPlace,
} from '../support/service.ts';

/** What a process may take to end (docs/operating/timeouts.md). */
const END_MS = 15_000;
/** Twice of what may wait, and more than a pipe holds, in lines of 150 bytes at least. */
const REQUESTS = 60_000;
/** Not so many that the service closes the connection. */
const PIPELINED = 200;
const DROPPED = 'standin_log_lines_dropped_total';

interface Started {
  readonly url: string;
  readonly opsUrl: string;
  readonly output: NodeJS.ReadableStream | null;
  readonly exit: Promise<number | string>;
  kill(signal: NodeJS.Signals): void;
}

/** With a client, so that its first line is of a request; nobody reads its standard output. */
async function startUnread(stdout: 'pipe' | number, env: Record<string, string>): Promise<Started> {
  const place: Place = await usualPlace();
  onTestFinished(place.remove);
  await makeVault(place);
  await createClient(place);
  const [PORT, OPS_PORT] = [String(await freePort()), String(await freePort())];
  const settings = { PORT, OPS_PORT, LOG_FORMAT: 'json', ...env };
  const child = spawnCli(['serve'], place, settings, ['ignore', stdout, 'inherit']);
  onTestFinished(() => void child.kill('SIGKILL'));
  const exit = new Promise<number | string>((resolve) =>
    child.once('exit', (code, signal) => resolve(code ?? signal!)),
  );
  const url = `http://127.0.0.1:${PORT}`;
  const opsUrl = `http://127.0.0.1:${OPS_PORT}`;
  const isUp = (path: string) =>
    fetch(path).then(
      ({ status }) => status === 200,
      () => false,
    );
  await until(() => isUp(`${url}/health`), 'the service to answer');
  await until(() => isUp(`${opsUrl}/metrics`), 'the ops listener to answer');
  return { url, opsUrl, exit, output: child.stdout, kill: (signal) => child.kill(signal) };
}

/** Requests that cost the service little but their lines. */
async function fillLog({ url }: Started): Promise<void> {
  const { port } = new URL(url);
  const socket = connect(Number(port), '127.0.0.1');
  let answers = 0;
  let rest = '';
  socket.on('data', (chunk) => {
    // A status line may come in two pieces.
    const parts = `${rest}${chunk.toString('latin1')}`.split('HTTP/1.1 404');
    answers += parts.length - 1;
    rest = parts.at(-1)!.slice(-11);
  });
  socket.on('error', () => {});
  const request = 'GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n';
  for (let sent = 0; sent < REQUESTS; sent += PIPELINED) {
    socket.write(request.repeat(PIPELINED));
    await until(() => answers >= sent, 'answers');
  }
  socket.destroy();
}

async function expectEnd(service: Started): Promise<void> {
  let ended: number | string | undefined;
  void service.exit.then((code) => {
    ended = code;
  });
  service.kill('SIGTERM');
  await until(() => ended !== undefined, 'the end', END_MS + SLACK_MS);
  expect(ended).toBe(0);
}

async function dropped({ opsUrl }: Started): Promise<number> {
  const counts = Object.values(await scrape(opsUrl, DROPPED));
  return counts.reduce((sum, count) => sum + count, 0);
}

/** What the budget of bytes counts: lines that wait, too. */
async function held({ opsUrl }: Started): Promise<number> {
  return (await scrape(opsUrl, 'standin_held_bytes'))['']!;
}

describe.each([
  ['for machines', 'json'],
  ['for people', 'pretty'],
])('F37: standard output that nobody reads, %s', (_, LOG_FORMAT) => {
  test('holds up no request and no end; lines beyond a bound are dropped and counted', async () => {
    const service = await startUnread('pipe', { LOG_FORMAT });
    await until(async () => {
      await fillLog(service);
      return (await dropped(service)) > 0;
    }, 'dropped lines');
    expect((await fetch(`${service.url}/health`)).status).toBe(200);
    await expectEnd(service);
  });
});

test('F37: when somebody reads again, a line says how many are missing, and none is cut', async () => {
  const service = await startUnread('pipe', {});
  await fillLog(service);
  await until(async () => (await dropped(service)) > 0, 'dropped lines');
  expect(await held(service)).toBeGreaterThan(4_000_000);
  let output = '';
  service.output!.on('data', (chunk) => {
    output += chunk;
  });
  await until(() => output.includes('they were dropped'), 'the line');
  await until(async () => (await held(service)) === 0, 'nothing held');
  const missing = await dropped(service);
  await expectEnd(service);
  const lines = output
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  const told = lines.filter(({ msg }) => msg?.includes('they were dropped'));
  expect(told).toMatchObject([{ level: 'warn', lines: missing }]);
  // Its callers do not wait for the last answers.
  const requests = lines.filter(({ status }) => status === 404).length + missing;
  expect(REQUESTS - requests).toBeLessThanOrEqual(PIPELINED);
  expect(lines.at(-1)).toMatchObject({ msg: 'stopped' });
});

test('F37: when the reader goes, the lines that wait for it are dropped, and their bytes are free', async () => {
  const service = await startUnread('pipe', {});
  await fillLog(service);
  await until(async () => (await held(service)) > 4_000_000, 'lines that wait');
  (service.output as Readable).destroy();
  await until(async () => (await held(service)) === 0, 'nothing held');
  await expectEnd(service);
});

describe.skipIf(!isLinux)('F37: a disk that is full', () => {
  test('holds up no request and no end', async () => {
    const full = openSync('/dev/full', 'w');
    onTestFinished(() => closeSync(full));
    const service = await startUnread(full, {});
    await fillLog(service);
    expect((await fetch(`${service.url}/health`)).status).toBe(200);
    await expectEnd(service);
  });
});
