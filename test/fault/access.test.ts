import { afterEach, beforeEach, expect, test } from 'vitest';
import { createClient } from '../support/commands.ts';
import {
  call,
  type Place,
  type Service,
  startService,
  until,
  usualPlace,
} from '../support/service.ts';

let place: Place;
let service: Service;
beforeEach(async () => {
  place = await usualPlace();
});
afterEach(async () => {
  await service.stop();
  place.remove();
});

const UNSHARED = 'The primary does not answer: this process limits on its own';
const SHARED = 'The primary answers again: rate limits are shared';

const said = (message: string) => service.output().split(`"msg":"${message}"`).length - 1;

/** Answers of many requests at once, which go to all workers. */
function many(count: number, data: object, api_key: string): Promise<number[]> {
  return Promise.all(
    Array.from({ length: count }, async () => {
      return (await call(service, 'detokenize', data, api_key)).status;
    }),
  );
}

/** The workers that logged a request of a client. */
function workersOf(client_id: string): Set<string> {
  const line = new RegExp(`"worker":(\\d),"request_id":"[^"]*","client_id":"${client_id}"`, 'g');
  return new Set([...service.output().matchAll(line)].map(([, worker]) => worker!));
}

/** Until no worker had to count by itself meanwhile, as on a machine too busy to answer in 100 ms. */
async function whileShared(attempt: () => Promise<() => void>): Promise<void> {
  for (let tries = 0; ; tries++) {
    await until(() => said(UNSHARED) === said(SHARED), 'shared limits');
    const unshared = said(UNSHARED);
    const check = await attempt();
    if (said(UNSHARED) > unshared && tries < 5) continue;
    return check();
  }
}

test('the limit of detokenize, and what the client may do, hold for all workers together', async () => {
  service = await startService(place, { WORKERS: '3', DETOKENIZE_LIMIT: '0.02' });
  await whileShared(async () => {
    const { api_key, client_id } = await createClient(place);
    const statuses = await many(60, {}, api_key);
    await until(() => workersOf(client_id).size === 3, 'lines of all workers');
    return () => {
      expect(statuses.filter((status) => status === 200)).toHaveLength(1);
      expect(statuses.filter((status) => status === 429)).toHaveLength(59);
    };
  });
  const { api_key } = await createClient(place, '--can', 'tokenize');
  expect(new Set(await many(30, {}, api_key))).toEqual(new Set([403]));
});

test('the budget of unknown tokens holds for all workers together', async () => {
  service = await startService(place, { WORKERS: '3', UNKNOWN_TOKEN_LIMIT: '0.1' });
  await whileShared(async () => {
    const { api_key, client_id } = await createClient(place);
    const guesses = { all: Array.from({ length: 100 }, (_, i) => `guess${i}_tok`) };
    const [first] = await many(1, guesses, api_key);
    const statuses = await many(60, { a: 'one more_tok' }, api_key);
    await until(() => workersOf(client_id).size === 3, 'lines of all workers');
    return () => {
      expect(first).toBe(400);
      expect(new Set(statuses)).toEqual(new Set([429]));
    };
  });
});
