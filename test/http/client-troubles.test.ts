import { afterAll, afterEach, beforeAll, expect, onTestFinished, test } from 'vitest';
import { type Retry, Standin, type StandinOptions } from '#client';
import { Front } from '../support/balancer.ts';
import { freePort } from '../support/processes.ts';
import { usualService } from '../support/served.ts';
import { startService, until, usualPlace } from '../support/service.ts';

const values = (count: number) => Array.from({ length: count }, (_, i) => `Value no ${i}`);
/** Of a failure that is waited out: far beyond what it takes on a busy machine. */
const PATIENT = { timeoutMs: 100_000 };

const service = usualService();
let front: Front;
beforeAll(async () => {
  front = await Front.start(service.url, '/standin');
});
afterEach(() => {
  front.troubles.length = 0;
  front.bodies.length = 0;
});
afterAll(() => front?.stop());

/** Its requests go through a proxy, at an address with a path. */
const standin = (options: Partial<StandinOptions> = {}) =>
  new Standin({ url: `${front.url}/standin/`, apiKey: service.api_key, ...options });

test('onRetry is told of each pause', async () => {
  front.troubles.push('reset', { status: 503, body: '{"error":"overloaded","retry_after":1}' });
  const told: Retry[] = [];
  await standin({ onRetry: (one) => told.push(one) }).tokenize({ name: 'Ann Lee' }, PATIENT);
  expect(told.map(({ error }) => [error.code, error.attempts])).toEqual([
    ['network_error', 1],
    ['overloaded', 2],
  ]);
  expect(told[0]!.error.detail).toMatch(/^\w+$/);
  expect(told[1]!.pauseMs).toBeGreaterThanOrEqual(1_000);
});

test('after a machine that is gone, the next attempt finds another', async () => {
  front.troubles.push('silence');
  const tokens = await standin().tokenize({ name: 'Ann Lee' });
  expect(front.bodies).toHaveLength(2);
  expect(await standin().detokenize(tokens)).toEqual({ name: 'Ann Lee' });
});

test('no attempt follows one that cannot succeed: the port is one that fetch refuses', async () => {
  const client = standin({ url: 'http://127.0.0.1:6000' });
  await expect(client.tokenizeValues(['Ann Lee'])).rejects.toThrow('(bad port)');
});

test.each([
  ['killed', 'SIGKILL'],
  ['drained', 'SIGTERM'],
] as const)('a call goes on when the service is %s and started again', async (_, signal) => {
  const ownPlace = await usualPlace();
  const env = { PORT: String(await freePort()), DRAIN_DELAY_MS: '0' };
  let own = await startService(ownPlace, env);
  onTestFinished(async () => {
    own.kill('SIGINT');
    await own.exit;
    ownPlace.remove();
  });
  const client = standin({ url: own.url, apiKey: own.api_key, maxValues: 100 });
  let isOver = false;
  const pending = client.tokenizeValues(values(30_000), PATIENT).finally(() => {
    isOver = true;
  });
  await until(() => own.output().includes('"status":200'), 'a first answer');
  own.kill(signal);
  await own.exit;
  expect(isOver).toBe(false);
  own = await startService(ownPlace, env);
  expect(await client.detokenizeValues(await pending)).toEqual(values(30_000));
});
