import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { Standin, type StandinOptions } from '#client';
import { Front } from '../support/balancer.ts';
import {
  createClient,
  leastPrivilegePlace,
  type Place,
  type Service,
  startService,
} from '../support/service.ts';

const MANY = 50_000;
let place: Place;
let service: Service;
let front: Front;
beforeAll(async () => {
  place = await leastPrivilegePlace();
  service = await startService(place);
  front = await Front.start(service.url, '/standin');
});
afterAll(async () => {
  front?.stop();
  await service?.stop();
  place.remove();
});

/** Counts its requests: they go through a proxy, at an address with a path. */
function standin(options: Partial<StandinOptions> = {}): Standin {
  front.bodies.length = 0;
  front.mostOpen = 0;
  return new Standin({ url: `${front.url}/standin/`, apiKey: service.api_key, ...options });
}

test('a small input is one list of its values', async () => {
  const tokens = await standin().tokenize({ name: 'Ann Lee', more: ['Bo Ray', { a: 'Ann Lee' }] });
  expect(front.bodies).toEqual(['{"data":{"values":["Ann Lee","Bo Ray"]}}']);
  expect(tokens.more[1]).toEqual({ a: tokens.name });
});

test(`${MANY} values come back in their order, with at most four requests at once`, async () => {
  const values = Array.from({ length: MANY }, (_, i) => `Value no ${i}`);
  const client = standin();
  const tokens = await client.tokenizeValues(values);
  expect(front.bodies).toHaveLength(MANY / 2_000);
  expect(front.mostOpen).toBeLessThanOrEqual(4);
  expect(new Set(tokens).size).toBe(MANY);
  expect(await client.detokenizeValues(tokens)).toEqual(values);
});

test('many of the longest values fit the bodies that the service takes', async () => {
  const values = Array.from({ length: 40 }, (_, i) => `🙂 no ${i}`.padEnd(65_534, '"'));
  const client = standin();
  expect(await client.detokenizeValues(await client.tokenizeValues(values))).toEqual(values);
});

test('random mode: a value has one token in a call, and another in the next', async () => {
  const { api_key: apiKey } = await createClient(place, '--token-mode', 'random');
  const client = standin({ apiKey, maxValues: 2 });
  const values = ['Ann Lee', 'Bo Ray', 'Cy Day', 'Ann Lee'];
  const first = await client.tokenizeValues(values);
  const second = await client.tokenizeValues(values);
  expect(first[0]).toBe(first[3]);
  expect(first[0]).not.toBe(second[0]);
  expect(await client.detokenizeValues([...first, ...second])).toEqual([...values, ...values]);
});

test('the older interface: its answers are understood', async () => {
  const { url, stop } = await startService(place, { INTERFACE_VERSION: '1.0.4' });
  onTestFinished(stop);
  const client = new Standin({ url, apiKey: service.api_key });
  expect((await client.health()).version).toBe('1.0.4');
  expect(await client.detokenize(await client.tokenize({ a: 'Ann Lee' }))).toEqual({
    a: 'Ann Lee',
  });
});
