import { expect, test, vi } from 'vitest';
import { Callers, LOAD_SECONDS, startLeast } from '../support/callers.ts';
import { Random } from '../support/random.ts';
import { runJson } from '../support/service.ts';
import { tokenizeAll } from '../support/vault.ts';

/** The loads of the catalogue take minutes; short ones have a tenth of the budget or of the vault. */
const IS_WHOLE = LOAD_SECONDS >= 60;
const RATE = 20;
const VALUES = Array.from({ length: RATE * LOAD_SECONDS }, (_, i) => `value ${i}`);
vi.setConfig({ testTimeout: (LOAD_SECONDS + 600) * 1_000 });

async function start(unknownTokenLimit: number): Promise<Callers> {
  const UNKNOWN_TOKEN_LIMIT = String(unknownTokenLimit);
  const limits = { RATE_LIMIT: '0', DETOKENIZE_LIMIT: '1000', UNKNOWN_TOKEN_LIMIT };
  return new Callers(await startLeast(limits), 500);
}

/** One request for each, 20 a second whatever the answers are. */
async function atPace(callers: Callers, count: number, dataOf: (i: number) => unknown) {
  const asked: Promise<unknown>[] = [];
  await new Promise<void>((resolve) => {
    const pace = setInterval(() => {
      asked.push(callers.call('detokenize', dataOf(asked.length)));
      if (asked.length < count) return;
      clearInterval(pace);
      resolve();
    }, 1_000 / RATE);
  });
  await Promise.all(asked);
}

test('L22: 20 requests a second, one token in ten forgotten: none is refused', async () => {
  const callers = await start(IS_WHOLE ? 1 : 0.1);
  const tokens = await tokenizeAll(callers.service, VALUES);
  const forgotten = tokens.filter((_, i) => i % 10 === 9);
  for (let from = 0; from < forgotten.length; from += 100)
    await runJson(callers.service.place, 'forget', '--yes', ...forgotten.slice(from, from + 100));
  await atPace(callers, tokens.length, (i) => ({ token: tokens[i] }));
  expect(Object.fromEntries(callers.counts)).toEqual({
    200: VALUES.length - forgotten.length,
    400: forgotten.length,
  });
});

test('L22: 20 whole records a second with one token each: none is refused', async () => {
  const callers = await start(IS_WHOLE ? 1 : 0.1);
  const tokens = await tokenizeAll(callers.service, VALUES);
  const plain = { name: 'Ann Lee', city: 'Ulm', street: 'Long 1', zip: '89073', a: '1', b: '2' };
  await atPace(callers, tokens.length, (i) => ({ token: tokens[i], ...plain }));
  expect(Object.fromEntries(callers.counts)).toEqual({ 400: VALUES.length });
});

test('L23: 500 six-digit guesses at once, many values stored: no more than the budget', async () => {
  const callers = await start(1);
  const stored = IS_WHOLE ? 200_000 : 20_000;
  const sixDigits = (number: number) => String(number).padStart(6, '0');
  const values = Array.from({ length: stored }, (_, i) => sixDigits(i * 5));
  await tokenizeAll(callers.service, values);
  const random = new Random();
  const guess = async () => {
    const token = `${sixDigits(random.below(1e6))}_tok`;
    // A busy machine sheds some: a guesser sends them again.
    while ((await callers.call('detokenize', { token }))?.status === 503);
  };
  const startedMs = performance.now();
  await Promise.all(Array.from({ length: 500 }, guess));
  const refilled = Math.ceil((performance.now() - startedMs) / 1_000);
  const lookedUp = callers.count(200) + callers.count(400);
  expect(lookedUp).toBeGreaterThanOrEqual(60);
  expect(lookedUp).toBeLessThanOrEqual(60 + refilled);
  expect(callers.count(429)).toBe(500 - lookedUp);
});
