import { describe, expect, test } from 'vitest';
import { EventReader } from '../src/event-stream.ts';
import { ago, bytes, duration, ms, percent, si } from '../src/format.ts';
import { checksOf, databaseAdvice, worstOf } from '../src/health.ts';
import { arrange, type ORDERS } from '../src/lists.ts';
import type { ClientState, ConsoleState, Sample } from '../src/protocol.ts';
import { columnsOf, figuresOf, windowOf, withSample } from '../src/samples.ts';

test.each<[(value: any) => string, unknown[], string]>([
  [si, [0, 0.004, 0.5, 12.345, 99.96], '0, < 0.01, 0.5, 12.3, 100'],
  [si, [999.4, 999.6, 12_345, 2.5e9, null, Number.NaN], '999, 1 k, 12.3 k, 2.5 G, –, –'],
  [bytes, [0, 1_500_000, null], '0 B, 1.5 MB, –'],
  [ms, [0.123, 1_500, undefined], '0.12 ms, 1.5 s, –'],
  [duration, [12_000, 240_000, 12_000_000, 180_000_000], '12 s, 4 min, 3 h 20 min, 2 d 2 h'],
  [ago, [59_999, 60_000], 'less than a minute ago, 1 min ago'],
  // 100 % is all of it, and nothing less.
  [percent, [0, 0.5, 0.12345, 0.99999, 1], '0 %, 50 %, 12.3 %, 99.9 %, 100 %'],
])('numbers are short: %o of %j is %s', (format, values, texts) => {
  expect(values.map(format).join(', ')).toBe(texts);
});

test('events are read whole, wherever the pieces end', () => {
  const text = ': hi\n\nretry: 2000\n\nevent: sample\ndata: {"a":1}\n\nevent: state\ndata: {}\n\n';
  for (const size of [1, 2, 3, 4, 5, 6, 7, 8, text.length]) {
    const reader = new EventReader();
    const pieces = text.match(new RegExp(`[^]{1,${size}}`, 'g'))!;
    const events = pieces.flatMap((piece) => reader.read(piece)).map((one) => one.join(' '));
    expect(events).toEqual(['sample {"a":1}', 'state {}']);
  }
});

describe('samples', () => {
  const sample = (atMs: number, succeeded = 1) => ({ atMs, tokenize: { succeeded } }) as Sample;
  const requests = (one: Sample) => one.tokenize.succeeded;

  test('of 15 minutes are kept, however long the page is open, and never go back in time', () => {
    let samples: readonly Sample[] = [];
    for (let n = 1; n <= 2_000; n++) samples = withSample(samples, sample(n * 2_000));
    for (const atMs of [4_000_000, 3_999_000]) samples = withSample(samples, sample(atMs, 9));
    expect([samples.length, requests(samples.at(-1)!)]).toEqual([451, 1]);
    expect(windowOf(samples, 60_000)).toHaveLength(31);
  });

  test('have nothing between them where none came', () => {
    const columns = columnsOf([sample(2_000), sample(4_000), sample(60_000)], [requests]);
    expect(columns).toEqual([
      [2, 4, 6, 60],
      [1, 1, null, 1],
    ]);
  });

  test('add up to what was sent', () => {
    const samples = [sample(2_000, 5), sample(4_100, 10), sample(6_000, 0)];
    expect(figuresOf(samples, requests)).toEqual({ now: 0, mean: 5, highest: 10, total: 31 });
    // A rate says nothing of the minutes in which no sample came.
    const gap = [sample(2_000, 5), sample(120_000, 10)];
    expect(figuresOf(gap, requests)).toMatchObject({ now: 10, total: 70 });
    const none = { now: null, mean: null, highest: null, total: 0 };
    expect([figuresOf([], requests), figuresOf(samples, () => null)]).toEqual([none, none]);
  });
});

describe('clients', () => {
  const client = (name: string, requestsPerS: number | null) =>
    ({ client_id: `id_${name}`, name, requestsPerS }) as ClientState;
  const all = [client('b one', 1), client('a one', null), client('c', 3)];

  test.each<[string, keyof typeof ORDERS, string]>([
    ['', 'Name', 'a one,b one,c'],
    [' ONE  id_b', 'Name', 'b one'],
    ['', 'Rate', 'c,b one,a one'],
    ['', 'Last use', 'b one,a one,c'],
  ])('with the words "%s" of name and id, by %s', (filter, order, names) => {
    expect(
      arrange(all, filter, order)
        .map(({ name }) => name)
        .join(),
    ).toBe(names);
  });
});

describe('the worst of the checks', () => {
  const NOW = '2026-11-21T12:00:00Z';
  const database = { kind: 'postgres', isUp: true, isSafe: true } as const;
  const away = { database: { ...database, isUp: false } };
  const healthy = {
    ...{ database, license: { daysLeft: 200.5 }, areLimitsShared: true },
    certificate: { expires_at: '2027-11-21T12:00:00Z' },
    keys: { versions: [], age_s: 2, resealed: 1 },
    policy: { version: 0, tag: null, problem: null },
  } as unknown as ConsoleState;
  const unused = { license: null, certificate: null, areLimitsShared: null };
  const checks = (changes: Partial<ConsoleState>) =>
    checksOf({ ...healthy, ...changes }, Date.parse(NOW));
  const keys = { versions: [], age_s: 31, resealed: 1 };

  test.each<[Partial<ConsoleState>, string, string]>([
    [{}, 'good', 'Healthy'],
    [unused, 'good', 'Healthy'],
    [{ license: { daysLeft: 29.9 } }, 'warning', 'License: 29 days left'],
    [{ license: { daysLeft: 0 } }, 'bad', 'License: expired'],
    [{ certificate: { expires_at: '2026-11-22T12:00:00Z' } }, 'warning', 'Certificate: until'],
    [{ certificate: { expires_at: NOW } }, 'bad', 'Certificate: expired'],
    [{ areLimitsShared: false }, 'warning', 'Rate limits: not shared'],
    [{ policy: { version: 3, tag: null, problem: 'x' } }, 'bad', 'Policy: not known'],
    [{ keys }, 'warning', 'Encryption keys: read 31 s ago'],
    [{ database: { ...database, isSafe: false } }, 'bad', 'Database: can lose tokens'],
    [{ areLimitsShared: false, keys: null, ...away }, 'bad', 'Database: does not answer'],
  ])('is what the header says of %j', (changes, level, words) => {
    const worst = worstOf(checks(changes));
    expect(worst).toEqual({ level, text: expect.stringContaining(words) });
  });

  test('what is not in use is no fault, and without a policy there is no check of it', () => {
    const levels = checks(unused).map(([name, , level]) => `${name} ${level}`);
    for (const name of ['License', 'Certificate', 'Rate limits'])
      expect(levels).toContain(`${name} neutral`);
    expect(levels.join()).not.toContain('Policy');
  });

  test('advice is for a database that is away', () => {
    expect(databaseAdvice(healthy)).toBeUndefined();
    expect(databaseAdvice({ ...healthy, ...away })).toContain('DATABASE_URL');
  });
});
