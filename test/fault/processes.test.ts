import { readdirSync } from 'node:fs';
import { connect } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { healthOf, newScene, newVault, start } from '../support/fault.ts';
import { held } from '../support/own.ts';
import { freePort, postgresBin } from '../support/postgres.ts';
import { childrenOf, isRunning } from '../support/processes.ts';
import {
  beginService,
  call,
  type Place,
  runCli,
  runJson,
  type Starting,
  until,
} from '../support/service.ts';

test('the embedded database ends when its parent is killed', async () => {
  const service = await start(await newVault());
  const children = childrenOf(service.pid);
  expect(children).toHaveLength(1);
  service.kill('SIGKILL');
  await until(() => !children.some(isRunning), 'the end of the database process');
});

test('commands started at once on a stale socket all succeed, on one database', async () => {
  const place = await newVault();
  const service = await start(place);
  service.kill('SIGKILL');
  for (const pid of childrenOf(service.pid)) process.kill(pid, 'SIGKILL');
  await service.exit;
  const names = Array.from({ length: 6 }, (_, i) => `c${i}`);
  const ended = await Promise.all(
    names.map((name) => runCli(['client', 'create', '--name', name, '--json'], place)),
  );
  expect(ended.map(({ code, stderr }) => `${code}${stderr}`)).toEqual(names.map(() => '0'));
  await start(place);
  const listed = (await runJson(place, 'client', 'list')).map(({ name }: any) => name);
  expect(listed.toSorted()).toEqual([...names, 'first']);
  const sockets = readdirSync(place.env.DATA_DIR!).filter((name) => name.startsWith('.s.PGSQL.'));
  expect(sockets).toHaveLength(1);
});

test('SIGTERM: first /health says 503 while requests are answered, then it ends with 0', async () => {
  const service = await start(await newVault(), { DRAIN_DELAY_MS: '1500' });
  service.kill('SIGTERM');
  await until(async () => (await healthOf(service)) === 503, '/health to say 503');
  const answer = await call(service, 'tokenize', { a: 'Ann Lee' });
  expect(answer.status).toBe(200);
  expect(answer.headers.get('connection')).toBe('close');
  expect(await service.exit).toBe(0);
});

test('what is in flight at SIGINT is answered', async () => {
  const service = await start(await newVault());
  const values = Array.from({ length: 5_000 }, (_, i) => `in flight ${i}`);
  const answers = [call(service, 'tokenize', { values }), call(service, 'tokenize', { values })];
  const first = await Promise.race(answers);
  service.kill('SIGINT');
  expect(first.status).toBe(200);
  expect([200, 503]).toContain((await answers[1]!).status);
  expect(await service.exit).toBe(0);
});

/** A service that may never come to listen. */
function begin(place: Place, env: Record<string, string> = {}): Starting {
  const service = beginService(place, env);
  onTestFinished(() => service.kill('SIGKILL'));
  return service;
}

const says = (service: Starting, message: string) =>
  until(() => service.output().includes(`"msg":"${message}"`), message);

/** SIGHUP does nothing to a start, and SIGTERM or SIGINT is an end in order. */
async function expectOrderlyEnd(service: Starting, signal: NodeJS.Signals): Promise<void> {
  for (let i = 0; i < 5; i++) service.kill('SIGHUP');
  expect(isRunning(service.pid)).toBe(true);
  service.kill(signal);
  expect(await service.exit).toBe(0);
  expect(service.output()).not.toContain('standin: ');
}

describe.skipIf(postgresBin === undefined)('signals during the start', () => {
  test.each(['SIGTERM', 'SIGINT'] as const)('before the vault is open: %s', async (signal) => {
    const { place, proxy } = await newScene({ nodes: 0, isProxied: true });
    proxy.silence();
    const service = begin(place);
    await says(service, 'starting');
    await expectOrderlyEnd(service, signal);
  });

  test('while it opens its listener: SIGTERM', async () => {
    const { place } = await newScene({ nodes: 0 });
    const first = begin(place);
    await says(first, 'listening');
    first.kill('SIGTERM');
    expect(await first.exit).toBe(0);
    const service = begin(place);
    await says(service, 'starting');
    await held(place, 'lock table standin.api_keys');
    await says(service, 'vault opened');
    await expectOrderlyEnd(service, 'SIGTERM');
  });

  test('when it listens, and makes the first client: a request on its way is answered', async () => {
    const { place } = await newScene({ nodes: 0 });
    await held(place, 'select pg_advisory_xact_lock(7382161)');
    const PORT = String(await freePort());
    const service = begin(place, { PORT });
    const isUp = () =>
      fetch(`http://127.0.0.1:${PORT}/health/live`).then(
        ({ status }) => status === 200,
        () => false,
      );
    await Promise.race([until(isUp, 'an answer'), service.listening]);
    for (let i = 0; i < 5; i++) service.kill('SIGHUP');
    const socket = connect(Number(PORT), '127.0.0.1');
    let answer = '';
    socket.on('data', (chunk) => {
      answer += chunk;
    });
    socket.write('POST /api/v1/tokenize HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer x\r\n');
    socket.write(
      'Content-Length: 2\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n\r\n',
    );
    await until(() => answer !== '', 'the request to be under way');
    service.kill('SIGTERM');
    await says(service, 'draining');
    socket.write('{}');
    await until(() => /HTTP\/1\.1 401/.test(answer), 'its answer');
    expect(await service.exit).toBe(0);
    expect(service.output()).not.toContain('standin: ');
  });
});
