import { describe, expect, test } from 'vitest';
import { arrange, type SortColumn } from '../src/client-order.ts';
import { EventReader } from '../src/event-stream.ts';
import { ago, bytes, duration, ms, percent, si } from '../src/format.ts';
import { checksOf, databaseAdvice, worstOf } from '../src/health.ts';
import { lineOf, pathIn, placeOf } from '../src/json-place.ts';
import { failureOf } from '../src/playground-errors.ts';
import { inputOf, leavesOf } from '../src/playground-input.ts';
import type * as state from '../src/protocol.ts';
import { columnsOf, figuresOf, SampleHistory } from '../src/samples.ts';

describe('numbers at a glance', () => {
  test.each([
    [0, '0'],
    [0.004, '< 0.01'],
    [0.5, '0.5'],
    [12.345, '12.3'],
    [99.96, '100'],
    [999.4, '999'],
    [999.6, '1 k'],
    [12_345, '12.3 k'],
    [2.5e9, '2.5 G'],
    [null, '–'],
    [Number.NaN, '–'],
  ])('%s is %s', (value, text) => expect(si(value)).toBe(text));

  test('with units', () => {
    expect([bytes(0), bytes(1_500_000), bytes(null)]).toEqual(['0 B', '1.5 MB', '–']);
    expect([ms(0.123), ms(1_500), ms(undefined)]).toEqual(['0.12 ms', '1.5 s', '–']);
    expect([12_000, 240_000, 12_000_000, 180_000_000].map(duration)).toEqual([
      '12 s',
      '4 min',
      '3 h 20 min',
      '2 d 2 h',
    ]);
    expect([ago(59_999), ago(60_000)]).toEqual(['less than a minute ago', '1 min ago']);
  });

  test('100 % is all of it, and nothing less', () => {
    expect([0, 0.5, 0.12345, 0.99999, 1].map(percent)).toEqual([
      '0 %',
      '50 %',
      '12.3 %',
      '99.9 %',
      '100 %',
    ]);
  });
});

test('events are read whole, wherever the pieces end', () => {
  const text =
    ': hello\n\nretry: 2000\n\nevent: sample\ndata: {"a":1}\n\nevent: state\ndata: {}\n\n';
  const whole = [
    ['sample', '{"a":1}'],
    ['state', '{}'],
  ];
  expect(new EventReader().read(text)).toEqual(whole);
  for (let size = 1; size < 9; size++) {
    const reader = new EventReader();
    const pieces = text.match(new RegExp(`[^]{1,${size}}`, 'g'))!;
    expect(pieces.flatMap((piece) => reader.read(piece))).toEqual(whole);
  }
});

describe('samples', () => {
  const sample = (atMs: number, requests = 1): state.Sample => {
    const operation = { succeeded: requests, refused: 0, failed: 0, values: 0, latency: null };
    return {
      atMs,
      tokenize: operation,
      detokenize: operation,
      limited: 0,
      shed: 0,
      batch: { insert: null, find: null },
    };
  };
  const requests = (one: state.Sample) => one.tokenize.succeeded;

  test('of 15 minutes are kept, however long the page is open', () => {
    const samples = new SampleHistory();
    for (let n = 1; n <= 43_200; n++) samples.add(sample(n * 2_000));
    expect(samples.window(Number.POSITIVE_INFINITY)).toHaveLength(451);
    expect(samples.window(60_000)).toHaveLength(31);
  });

  test('stay when the service was restarted, and never go back in time', () => {
    const samples = new SampleHistory();
    samples.replace([sample(2_000), sample(4_000)]);
    samples.replace([]);
    samples.replace([sample(4_000, 7), sample(6_000)]);
    samples.add(sample(6_000, 9));
    samples.add(sample(5_000, 9));
    expect(samples.window(60_000).map(requests)).toEqual([1, 7, 1]);
  });

  test('have nothing between them where none came', () => {
    const samples = [sample(2_000), sample(4_000), sample(60_000)];
    expect(columnsOf(samples, [requests])).toEqual([
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
    expect(figuresOf([], requests)).toEqual(none);
    expect(figuresOf(samples, () => null)).toEqual(none);
  });
});

describe('the place of a path in a text', () => {
  test('is none where nothing is', () => {
    expect(placeOf('{"a": 1}', ['b'])).toBeUndefined();
    expect(placeOf('{"a": 1}', ['a', 'b'])).toBeUndefined();
    expect(placeOf('{"a": []}', ['a', 0])).toBeUndefined();
  });

  test('is the last one of a name that is there twice', () => {
    const text = '{"a": 1,\n "a": 2}';
    const place = placeOf(text, ['a'])!;
    expect([text.slice(...place), lineOf(text, place[0])]).toEqual(['2', 2]);
  });
});

test('messages of the service name a path; others do not', () => {
  expect(pathIn('data.a["b: c"][1]: must be a string')).toBe('data.a["b: c"][1]');
  expect(pathIn('data: has more than 10000 values')).toBe('data');
  expect(pathIn('the body is not JSON')).toBeUndefined();
});

describe('what is pasted into the playground', () => {
  test('is the data of a request, its whole body, or one value', () => {
    const sent = (text: string) => JSON.parse(inputOf(text).text);
    expect(sent('{"a": "b"}')).toEqual({ a: 'b' });
    expect(inputOf('{"a": "b"}').note).toBe('');
    expect(sent('{"data": {"a": "b"}}')).toEqual({ a: 'b' });
    expect(sent('{"data": "b"}')).toEqual({ data: 'b' });
    expect(sent('{"data": {"a": "b"}, "c": "d"}')).toEqual({ data: { a: 'b' }, c: 'd' });
    for (const text of ['ann@example.com', ' ann@example.com\n', '"ann@example.com"'])
      expect(sent(text)).toEqual({ value: 'ann@example.com' });
    expect(sent('007')).toEqual({ value: '007' });
  });

  test('is sent as it was typed, so that the service judges it', () => {
    expect(inputOf(' {"a": 1e400, "a": 2}').text).toBe('{"a": 1e400, "a": 2}');
  });

  test('is refused in words', () => {
    for (const text of ['', '  ', '{', '[]', '["a"]', '"a', '{}, "b": {}'])
      expect(() => inputOf(text), text).toThrow(/^(Type|This)/);
  });
});

test('fields have paths, whatever their names', () => {
  expect(leavesOf({ a: { b: ['c', ['d']] }, 'e f': 'g', '': 'h' })).toEqual([
    { path: 'a.b[0]', value: 'c' },
    { path: 'a.b[1][0]', value: 'd' },
    { path: '["e f"]', value: 'g' },
    { path: '[""]', value: 'h' },
  ]);
});

test('every failure is in words, and about an input or the service', () => {
  const about = (status: number, body: unknown = null) => failureOf(status, body, 'tokenize');
  expect(about(400, { message: 'data.a: x' })).toEqual(['text', 'data.a: x']);
  expect(about(429, { retry_after: 7 })[1]).toContain('in 7 s');
  expect(about(500, { message: 'database unavailable' })[1]).toBe('database unavailable');
  for (const status of [400, 401, 403, 409, 413, 429, 500, 502, 503]) {
    expect(about(status)[1]).not.toMatch(/undefined|null|^$/);
  }
});

test('clients are filtered by words of name and id, and put in order', () => {
  const client = (name: string, requestsPerS: number | null, lastUsedAt: string | null) =>
    ({
      client_id: `id_${name}`,
      name,
      requestsPerS,
      last_used_at: lastUsedAt,
    }) as state.ClientState;
  const all = [
    client('b one', 1, null),
    client('a one', null, '2026-01-02'),
    client('c', 3, '2026-01-01'),
  ];
  const names = (filter: string, column: SortColumn, isDescending: boolean) =>
    arrange(all, filter, { column, isDescending }).map(({ name }) => name);
  expect(names('', 'Client', false)).toEqual(['a one', 'b one', 'c']);
  expect(names(' ONE  id_b', 'Client', false)).toEqual(['b one']);
  expect(names('', 'Requests per second', true)).toEqual(['c', 'b one', 'a one']);
  expect(names('', 'Last use', true)).toEqual(['a one', 'c', 'b one']);
});

test('the worst of the checks is what the header says', () => {
  const nowMs = Date.parse('2026-11-21T12:00:00Z');
  const healthy: state.ConsoleState = {
    at: '2026-11-21T12:00:00Z',
    startedAt: '2026-11-21T11:00:00Z',
    serviceUrl: 'http://127.0.0.1:8080',
    version: '0.1.0',
    interfaceVersion: '1.0.5',
    database: { kind: 'postgres', isUp: true, isSafe: true },
    license: { daysLeft: 200.5 },
    certificate: { expires_at: '2027-11-21T12:00:00Z' },
    hasAdmin: false,
    areLimitsShared: true,
    vault: null,
    keys: { versions: [], age_s: 2, resealed: 1 },
    clients: null,
    policy: { version: 0, tag: null, problem: null },
  };
  const said = (changes: Partial<state.ConsoleState>) =>
    worstOf(checksOf({ ...healthy, ...changes }, nowMs));
  expect(said({})).toEqual({ level: 'good', text: 'Healthy' });
  const unused = { license: null, certificate: null, areLimitsShared: null };
  expect(said(unused).level).toBe('good');
  const inClear = checksOf({ ...healthy, ...unused }, nowMs).slice(1, 4);
  expect(inClear.map(([, , level]) => level)).toEqual(['neutral', 'neutral', 'neutral']);
  expect(said({ license: { daysLeft: 29.9 } })).toEqual({
    level: 'warning',
    text: 'License: 29 days left',
  });
  expect(said({ license: { daysLeft: 0 } }).level).toBe('bad');
  expect(said({ certificate: { expires_at: '2026-11-22T12:00:00Z' } }).level).toBe('warning');
  expect(said({ certificate: { expires_at: '2026-11-21T12:00:00Z' } }).level).toBe('bad');
  expect(said({ areLimitsShared: false }).level).toBe('warning');
  expect(said({ policy: { version: 3, tag: null, problem: 'x' } }).text).toMatch(
    /^Policy: not known/,
  );
  expect(checksOf(healthy, nowMs).some(([name]) => name === 'Policy')).toBe(false);
  expect(said({ keys: { versions: [], age_s: 31, resealed: 1 } }).level).toBe('warning');
  expect(said({ database: { kind: 'postgres', isUp: true, isSafe: false } })).toEqual({
    level: 'bad',
    text: 'Database: can lose tokens: run standin doctor',
  });
  const database = { kind: 'postgres', isUp: false, isSafe: true } as const;
  expect(databaseAdvice(healthy)).toBeUndefined();
  expect(databaseAdvice({ ...healthy, database })).toContain('DATABASE_URL');
  expect(said({ areLimitsShared: false, keys: null, database })).toEqual({
    level: 'bad',
    text: 'Database: does not answer',
  });
});
