import { afterEach, expect, test } from 'vitest';
import { Callers, LOAD_SECONDS } from '../support/callers.ts';
import { Random } from '../support/random.ts';
import { type Place, runJson, type Service, startService, usualPlace } from '../support/service.ts';

/** The loads of the catalogue take minutes; short ones have a tenth of the budget or of the vault. */
const IS_WHOLE = LOAD_SECONDS >= 60;
const RATE = 20;
const TIMEOUT_MS = (LOAD_SECONDS + 600) * 1_000;

let place: Place;
let service: Service;
let callers: Callers;
afterEach(async () => {
  callers.close();
  await service.stop();
  place.remove();
});

async function start(unknownTokenLimit: number): Promise<void> {
  place = await usualPlace();
  const limits = { RATE_LIMIT: '0', DETOKENIZE_LIMIT: '1000' };
  const UNKNOWN_TOKEN_LIMIT = String(unknownTokenLimit);
  service = await startService(place, { ...limits, UNKNOWN_TOKEN_LIMIT });
  callers = new Callers(service, 500);
}

async function tokensOf(values: readonly string[]): Promise<string[]> {
  const tokens: string[] = [];
  for (let from = 0; from < values.length; from += 10_000) {
    const reply = await callers.call('tokenize', { all: values.slice(from, from + 10_000) });
    tokens.push(...reply!.body.data.all);
  }
  callers.counts.clear();
  return tokens;
}

/** One request for each, 20 a second whatever the answers are. */
async function atPace(all: readonly unknown[]): Promise<void> {
  const asked: Promise<unknown>[] = [];
  await new Promise<void>((resolve) => {
    const pace = setInterval(() => {
      asked.push(callers.call('detokenize', all[asked.length]));
      if (asked.length < all.length) return;
      clearInterval(pace);
      resolve();
    }, 1_000 / RATE);
  });
  await Promise.all(asked);
}

test(
  'L22: 20 requests a second, one token in ten forgotten: none is refused',
  async () => {
    await start(IS_WHOLE ? 1 : 0.1);
    const requests = RATE * LOAD_SECONDS;
    const tokens = await tokensOf(Array.from({ length: requests }, (_, i) => `value ${i}`));
    const forgotten = tokens.filter((_, i) => i % 10 === 9);
    for (let from = 0; from < forgotten.length; from += 100)
      await runJson(place, 'forget', '--yes', ...forgotten.slice(from, from + 100));
    await atPace(tokens.map((token) => ({ token })));
    expect(Object.fromEntries(callers.counts)).toEqual({
      200: requests - forgotten.length,
      400: forgotten.length,
    });
  },
  TIMEOUT_MS,
);

test(
  'L22: 20 whole records a second with one token each: none is refused',
  async () => {
    await start(IS_WHOLE ? 1 : 0.1);
    const requests = RATE * LOAD_SECONDS;
    const tokens = await tokensOf(Array.from({ length: requests }, (_, i) => `value ${i}`));
    const plain = { name: 'Ann Lee', city: 'Ulm', street: 'Long 1', zip: '89073', a: '1', b: '2' };
    await atPace(tokens.map((token) => ({ token, ...plain })));
    expect(Object.fromEntries(callers.counts)).toEqual({ 400: requests });
  },
  TIMEOUT_MS,
);

test(
  'L23: 500 six-digit guesses at once, many values stored: no more than the budget',
  async () => {
    await start(1);
    const stored = IS_WHOLE ? 200_000 : 20_000;
    const sixDigits = (number: number) => String(number).padStart(6, '0');
    await tokensOf(Array.from({ length: stored }, (_, i) => sixDigits(i * 5)));
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
  },
  TIMEOUT_MS,
);
