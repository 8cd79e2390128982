import { connect } from 'node:net';
import pg from 'pg';
import { describe, expect, onTestFinished, test } from 'vitest';
import { newCluster, newProxy, newVault } from '../support/fault.ts';
import { freePort, postgresBin } from '../support/postgres.ts';
import { isRunning } from '../support/processes.ts';
import { type Place, spawnCli, until } from '../support/service.ts';

interface Starting {
  readonly pid: number;
  output(): string;
  readonly exit: Promise<number | string>;
  kill(signal: NodeJS.Signals): void;
}

/** A service that may never come to listen. */
function startService(place: Place, env: Record<string, string>): Starting {
  const settings = { PORT: '0', OPS_PORT: '0', LOG_FORMAT: 'json', LOG_LEVEL: 'debug' };
  const child = spawnCli(['serve'], place, { ...settings, ...env });
  let output = '';
  for (const stream of [child.stdout!, child.stderr!])
    stream.on('data', (chunk) => {
      output += chunk;
    });
  const exit = new Promise<number | string>((resolve) =>
    child.once('exit', (code, signal) => resolve(code ?? signal!)),
  );
  onTestFinished(() => void child.kill('SIGKILL'));
  return { pid: child.pid!, output: () => output, exit, kill: (signal) => child.kill(signal) };
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

/** A lock that another session holds until the test ends. */
async function held(place: Place, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: place.env.DATABASE_URL });
  await client.connect();
  onTestFinished(() => client.end());
  await client.query('begin');
  await client.query(statement);
}

describe.skipIf(postgresBin === undefined)('signals during the start', () => {
  test.each(['SIGTERM', 'SIGINT'] as const)('before the vault is open: %s', async (signal) => {
    const cluster = await newCluster();
    const proxy = await newProxy(cluster);
    const place = await newVault(cluster);
    proxy.silence();
    const DATABASE_URL = proxy.through(place.env.DATABASE_URL!);
    const service = startService(place, { DATABASE_URL });
    await says(service, 'starting');
    await expectOrderlyEnd(service, signal);
  });

  test('while it opens its listener: SIGTERM', async () => {
    const place = await newVault(await newCluster());
    const first = startService(place, {});
    await says(first, 'listening');
    first.kill('SIGTERM');
    expect(await first.exit).toBe(0);
    const service = startService(place, {});
    await says(service, 'starting');
    await held(place, 'lock table standin.api_keys');
    await says(service, 'vault opened');
    await expectOrderlyEnd(service, 'SIGTERM');
  });

  test('when it listens, and makes the first client: a request on its way is answered', async () => {
    const place = await newVault(await newCluster());
    await held(place, 'select pg_advisory_xact_lock(7382161)');
    const PORT = String(await freePort());
    const service = startService(place, { PORT });
    const ended = service.exit.then((code) =>
      Promise.reject(new Error(`${code}: ${service.output()}`)),
    );
    await Promise.race([until(async () => (await statusOf(PORT)) === 200, 'an answer'), ended]);
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

async function statusOf(port: string): Promise<number> {
  return fetch(`http://127.0.0.1:${port}/health/live`).then(
    ({ status }) => status,
    () => 0,
  );
}
