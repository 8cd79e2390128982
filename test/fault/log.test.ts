import { closeSync, openSync } from 'node:fs';
import { connect } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { healthOf, isLinux, SLACK_MS } from '../support/fault.ts';
import { freePort } from '../support/postgres.ts';
import {
  createClient,
  makeVault,
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

/** With a client, so that its first line is of a request; nobody reads its standard output. */
async function startUnread(stdout: 'pipe' | number, env: Record<string, string> = {}) {
  const place = await usualPlace();
  onTestFinished(place.remove);
  await makeVault(place);
  await createClient(place);
  const [PORT, OPS_PORT] = [String(await freePort()), String(await freePort())];
  const settings = { PORT, OPS_PORT, LOG_FORMAT: 'json', ...env };
  const child = spawnCli(['serve'], place, settings, ['ignore', stdout, 'inherit']);
  onTestFinished(() => void child.kill('SIGKILL'));
  const [url, opsUrl] = [PORT, OPS_PORT].map((port) => `http://127.0.0.1:${port}`) as [
    string,
    string,
  ];
  for (const path of [`${url}/health`, `${opsUrl}/metrics`]) {
    const isUp = () =>
      fetch(path).then(
        ({ ok }) => ok,
        () => false,
      );
    await until(isUp, path);
  }
  const sum = async (name: string) =>
    Object.values(await scrape(opsUrl, name)).reduce((all, count) => all + count, 0);
  return {
    ...{ url, child },
    dropped: () => sum('standin_log_lines_dropped_total'),
    /** What the budget of bytes counts: lines that wait, too. */
    held: () => sum('standin_held_bytes'),
  };
}
type Started = Awaited<ReturnType<typeof startUnread>>;

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

async function expectEnd({ child }: Started): Promise<void> {
  child.kill('SIGTERM');
  await until(() => child.exitCode !== null, 'the end', END_MS + SLACK_MS);
  expect(child.exitCode).toBe(0);
}

test.each(['json', 'pretty'])(
  'F37: standard output that nobody reads, LOG_FORMAT=%s: holds up no request and no end; lines beyond a bound are dropped and counted',
  async (LOG_FORMAT) => {
    const service = await startUnread('pipe', { LOG_FORMAT });
    await until(async () => {
      await fillLog(service);
      return (await service.dropped()) > 0;
    }, 'dropped lines');
    expect(await healthOf(service)).toBe(200);
    await expectEnd(service);
  },
);

test('F37: when somebody reads again, a line says how many are missing, and none is cut', async () => {
  const service = await startUnread('pipe');
  await fillLog(service);
  await until(async () => (await service.dropped()) > 0, 'dropped lines');
  expect(await service.held()).toBeGreaterThan(4_000_000);
  let output = '';
  service.child.stdout!.on('data', (chunk) => {
    output += chunk;
  });
  await until(() => output.includes('they were dropped'), 'the line');
  await until(async () => (await service.held()) === 0, 'nothing held');
  const missing = await service.dropped();
  await expectEnd(service);
  const texts = output.trimEnd().split('\n');
  const lines = texts.map((line) => JSON.parse(line));
  const told = lines.filter(({ msg }) => msg?.includes('they were dropped'));
  expect(told).toMatchObject([{ level: 'warn', lines: missing }]);
  // Its callers do not wait for the last answers.
  const requests = lines.filter(({ status }) => status === 404).length + missing;
  expect(REQUESTS - requests).toBeLessThanOrEqual(PIPELINED);
  expect(lines.at(-1)).toMatchObject({ msg: 'stopped' });
});

test('F37: when the reader goes, the lines that wait for it are dropped, and their bytes are free', async () => {
  const service = await startUnread('pipe');
  await fillLog(service);
  await until(async () => (await service.held()) > 4_000_000, 'lines that wait');
  service.child.stdout!.destroy();
  await until(async () => (await service.held()) === 0, 'nothing held');
  expect(await service.dropped()).toBeGreaterThan(10_000);
  await expectEnd(service);
});

test.skipIf(!isLinux)('F37: a disk that is full holds up no request and no end', async () => {
  const full = openSync('/dev/full', 'w');
  onTestFinished(() => closeSync(full));
  const service = await startUnread(full);
  await fillLog(service);
  expect(await healthOf(service)).toBe(200);
  await expectEnd(service);
});
