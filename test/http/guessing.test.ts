import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { freePort } from '../support/processes.ts';
import { Random } from '../support/random.ts';
import {
  type Answer,
  call,
  createClient,
  insist,
  newPlace,
  type Place,
  runCli,
  type Service,
  startService,
  until,
  usualKinds,
} from '../support/service.ts';

/** As a deterministic draw makes them: each is a token of a six-digit value, or none. */
const random = new Random();
const guess = () => `${String(random.below(1e6)).padStart(6, '0')}_tok`;

describe.each(usualKinds())('on the %s database', (kind) => {
  let place: Place;
  let service: Service;
  beforeAll(async () => {
    place = await newPlace(kind);
    const limits = { DETOKENIZE_LIMIT: '1000', UNKNOWN_TOKEN_LIMIT: '1' };
    service = await startService(place, { OPS_PORT: String(await freePort()), ...limits });
  });
  afterAll(async () => {
    await service.stop();
    place.remove();
  });

  const ask = (data: unknown, apiKey: string) => call(service, 'detokenize', { data }, apiKey);

  async function tokensOf(values: readonly string[]): Promise<string[]> {
    return (await call(service, 'tokenize', { values })).body.data.values;
  }

  async function forget(tokens: readonly string[]): Promise<void> {
    const file = join(place.folder, 'forgotten');
    writeFileSync(file, tokens.join('\n'));
    const { code, stderr } = await runCli(['forget', '--file', file, '--yes'], place);
    expect(code, stderr).toBe(0);
  }

  /** Answers to one request for each, one after the other. */
  async function inTurn(all: readonly unknown[], apiKey: string): Promise<Answer[]> {
    const answers: Answer[] = [];
    for (const data of all) answers.push(await ask(data, apiKey));
    return answers;
  }

  const count = (answers: readonly Answer[], status: number) =>
    answers.filter((answer) => answer.status === status).length;

  describe('who is no guesser is not locked out', () => {
    test('L22: tokens that were forgotten do not count, and are answered as unknown ones', async () => {
      const { api_key: apiKey } = await createClient(place, '--unknown-token-limit', '0.1');
      const values = Array.from({ length: 20 }, (_, i) => `forgotten ${kind} ${i}`);
      const tokens = await tokensOf(values);
      await forget(tokens);
      const answers = await inTurn(tokens, apiKey);
      expect(answers.map(({ status, body }) => [status, body])).toEqual(
        tokens.map(() => [400, expect.any(Object)]),
      );
      const [unknown] = await inTurn(['never was one_tok'], apiKey);
      for (const { body, headers } of answers) {
        expect(body).toEqual(unknown!.body);
        expect(headers.get('ratelimit')).toMatch(/^"detokenize";r=\d+;t=1$/);
        expect([...headers.keys()]).toEqual([...unknown!.headers.keys()]);
      }
    });

    test('L22: what does not end like a token is no guess: a whole record with one token', async () => {
      const { api_key: apiKey } = await createClient(place, '--unknown-token-limit', '0.1');
      const [token] = await tokensOf(['of a record']);
      const record = { token, name: 'Ann Lee', city: 'Ulm', a: '1', b: '2', c: '3', d: '4' };
      const answers = await inTurn(Array(30).fill(record), apiKey);
      expect(count(answers, 400)).toBe(30);
      expect((await ask(token, apiKey)).status).toBe(200);
    });

    test('known tokens earn: one unknown token in twelve is never too many', async () => {
      const { api_key: apiKey } = await createClient(place, '--unknown-token-limit', '0.5');
      const [token] = await tokensOf(['of an honest caller']);
      const all = Array.from({ length: 480 }, (_, i) => (i % 12 === 11 ? `stale ${i}_tok` : token));
      const answers = await inTurn(all, apiKey);
      expect([count(answers, 200), count(answers, 400)]).toEqual([440, 40]);
    });

    test('a first request of 10,000 known tokens, and many at once', async () => {
      const { api_key: apiKey } = await createClient(place, '--unknown-token-limit', '0.1');
      const tokens = await tokensOf(Array.from({ length: 10_000 }, (_, i) => `bulk ${i}`));
      expect((await ask(tokens, apiKey)).status).toBe(200);
      const other = await createClient(place, '--unknown-token-limit', '0.1');
      const atOnce = tokens.slice(0, 200).map((token) => ask(token, other.api_key));
      expect(count(await Promise.all(atOnce), 200)).toBe(200);
    });
  });

  test('a lenient request of 10,000 known tokens: what a budget pays beside them, or nothing', async () => {
    const tokens = await tokensOf(Array.from({ length: 10_000 }, (_, i) => `bulk ${i}`));
    const lenient = async (apiKey: string, known: number, unknown: number) => {
      const guesses = Array.from({ length: unknown }, guess);
      const answer = await fetch(`${service.url}/api/v1/detokenize`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${apiKey}`,
          'content-type': 'application/json',
          prefer: 'handling=lenient',
        },
        body: JSON.stringify({ data: { all: [...tokens.slice(0, known), ...guesses] } }),
      });
      const { unapplied, retry_after: retryAfterS } = (await answer.json()) as any;
      return [answer.status, unapplied?.length, retryAfterS];
    };
    // docs/api.md has these figures.
    const { api_key: first } = await createClient(place);
    expect(await lenient(first, 9_970, 30)).toEqual([200, 30, undefined]);
    // Known tokens have earned 60 more. The first request has cost 30 known and 30 unknown tokens.
    expect((await lenient(first, 9_950, 50))[0]).toBe(200);
    const { api_key: second } = await createClient(place);
    expect(await lenient(second, 10_000, 0)).toEqual([200, 0, undefined]);
    expect(await lenient(second, 9_940, 60)).toEqual([200, 60, undefined]);
    const { api_key: third } = await createClient(place);
    expect(await lenient(third, 9_969, 31)).toEqual([429, undefined, 62]);
    const { api_key: fourth } = await createClient(place);
    expect((await lenient(fourth, 0, 61))[0]).toBe(429);
  });

  test('L23: of 500 guesses at once, one in five right, no more are looked up than the budget', async () => {
    const { api_key: apiKey } = await createClient(place);
    const right = await tokensOf(Array.from({ length: 100 }, (_, i) => String(i).padStart(6, '0')));
    const all = [...right, ...Array.from({ length: 400 }, guess)];
    const mixed = all.map((_, i) => all[(i * 181) % all.length]!);
    const startedMs = performance.now();
    const answers = await Promise.all(mixed.map((one) => insist(() => ask(one, apiKey))));
    const refilled = Math.ceil((performance.now() - startedMs) / 1_000);
    const [restored, missed] = [count(answers, 200), count(answers, 400)];
    expect(restored + missed).toBeGreaterThanOrEqual(60);
    expect(restored + missed).toBeLessThanOrEqual(60 + refilled);
    expect(restored).toBeGreaterThan(0);
    expect(count(answers, 429)).toBe(500 - restored - missed);
  });

  test('tokens that were forgotten earn no guesses', async () => {
    const { api_key: apiKey } = await createClient(place, '--unknown-token-limit', '0.1');
    const [forgotten] = await tokensOf(['forgotten, and sent again and again']);
    await forget([forgotten!]);
    // So many known tokens would earn a second budget of six guesses.
    expect(count(await inTurn(Array(240).fill(forgotten), apiKey), 400)).toBe(240);
    const guesses = await inTurn(Array.from({ length: 20 }, guess), apiKey);
    expect(count(guesses, 400)).toBeLessThan(10);
  });

  test('none is the limit of a client that has 0', async () => {
    const { api_key: apiKey } = await createClient(place, '--unknown-token-limit', '0');
    const answers = await Promise.all(Array.from({ length: 300 }, () => ask(guess(), apiKey)));
    expect(count(answers, 429)).toBe(0);
  });

  test('a refusal names the limit, and an answer says how much is left', async () => {
    const limits = [
      '--rate-limit',
      '50',
      '--detokenize-limit',
      '0.5',
      '--unknown-token-limit',
      '0.1',
    ];
    const { api_key: apiKey } = await createClient(place, ...limits);
    const seen = ({ status, headers }: Answer) => [
      status,
      headers.get('ratelimit-policy'),
      headers.get('ratelimit'),
      headers.get('retry-after'),
    ];
    const tokenized = await call(service, 'tokenize', {}, apiKey);
    expect(seen(tokenized)).toEqual([200, '"requests";q=50;w=1', '"requests";r=49;t=1', null]);
    const policy = '"detokenize";q=1;w=2, "unknown-tokens";q=6;w=60';
    expect(seen(await ask([], apiKey))).toEqual([200, policy, '"detokenize";r=0;t=2', null]);
    expect(seen(await ask([], apiKey))).toEqual([429, policy, '"detokenize";r=0;t=2', '2']);
    const guesser = await createClient(place, '--unknown-token-limit', '0.01');
    const [first, second] = await inTurn(['x_tok', 'y_tok'], guesser.api_key);
    const policies = '"detokenize";q=1000;w=1, "unknown-tokens";q=1;w=100';
    expect(seen(first!).slice(0, 2)).toEqual([400, policies]);
    expect(first!.headers.get('ratelimit')).toMatch(/^"detokenize";r=9\d\d;t=1$/);
    expect(seen(second!)).toEqual([429, policies, '"unknown-tokens";r=0;t=100', '100']);
    const free = ['--rate-limit=0', '--detokenize-limit=0', '--unknown-token-limit=0'];
    const unlimited = await createClient(place, ...free);
    expect(seen(await ask([], unlimited.api_key))).toEqual([200, null, null, null]);
  });

  test('the log names a client that is refused, once a minute', async () => {
    const { client_id: clientId, api_key: apiKey } = await createClient(
      place,
      '--unknown-token-limit',
      '0.01',
    );
    const answers = await inTurn(Array.from({ length: 20 }, guess), apiKey);
    expect(count(answers, 429)).toBeGreaterThan(0);
    const lines = () =>
      service
        .output()
        .split('\n')
        .filter((line) => line.includes('"level":"warn"') && line.includes(clientId));
    await until(() => lines().length > 0, 'a warning');
    expect(lines().map((line) => JSON.parse(line))).toEqual([
      {
        level: 'warn',
        time: expect.any(String),
        client_id: clientId,
        limit: 'unknown_tokens',
        refused: 1,
        msg: 'a client is over its limit',
      },
    ]);
  });
});
