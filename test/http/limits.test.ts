import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { startWithOps } from '../support/ops.ts';
import { Random } from '../support/random.ts';
import { logged, logLine, served } from '../support/served.ts';
import {
  type Answer,
  call,
  createClient,
  newPlace,
  runCli,
  scrape,
  usualKinds,
} from '../support/service.ts';

/** As a deterministic draw makes them: each is a token of a six-digit value, or none. */
const random = new Random();
const guess = () => `${String(random.below(1e6)).padStart(6, '0')}_tok`;
const guesses = (count: number) => Array.from({ length: count }, guess);
const numbered = (count: number, of: string) =>
  Array.from({ length: count }, (_, i) => `${of} ${i}`);
const count = (answers: readonly Answer[], status: number) =>
  answers.filter((answer) => answer.status === status).length;

describe.each(usualKinds())('on the %s database', (kind) => {
  const limits = { RATE_LIMIT: '1000', DETOKENIZE_LIMIT: '500', UNKNOWN_TOKEN_LIMIT: '1' };
  const service = served(async () => startWithOps(await newPlace(kind), limits));

  /** The API key of a new client. */
  const newKey = async (...options: string[]) =>
    (await createClient(service.place, ...options)).api_key;
  const ask = (data: unknown, apiKey: string, more = {}) =>
    call(service, 'detokenize', { data }, apiKey, more);
  const statusOf = async (operation: 'tokenize' | 'detokenize', apiKey: string) =>
    (await call(service, operation, {}, apiKey)).status;

  async function tokensOf(values: readonly string[]): Promise<string[]> {
    return (await call(service, 'tokenize', { values })).body.data.values;
  }

  async function forget(tokens: readonly string[]): Promise<void> {
    const file = join(service.place.folder, 'forgotten');
    writeFileSync(file, tokens.join('\n'));
    const { code, stderr } = await runCli(['forget', '--file', file, '--yes'], service.place);
    expect(code, stderr).toBe(0);
  }

  /** Answers to one request for each, one after the other. */
  async function inTurn(all: readonly unknown[], apiKey: string): Promise<Answer[]> {
    const answers: Answer[] = [];
    for (const data of all) answers.push(await ask(data, apiKey));
    return answers;
  }

  test('when the budget is spent by guesses, the client is refused before anything is looked up', async () => {
    const [token] = await tokensOf(['Ann']);
    const apiKey = await newKey('--unknown-token-limit', '0.05');
    const lookedUp = () => scrape(service.opsUrl, 'standin_batch_records_count');
    const before = await lookedUp();
    expect(count(await inTurn([guesses(2), 'x_tok'], apiKey), 400)).toBe(2);
    const asked = await lookedUp();
    expect(asked['statement="find"']).toBeGreaterThan(before['statement="find"'] ?? 0);
    for (const { status, body, headers } of await inTurn(['y_tok', token, []], apiKey)) {
      expect([status, body]).toEqual([
        429,
        { error: 'user_limit', retry_after: Number(headers.get('retry-after')) },
      ]);
    }
    expect(await lookedUp()).toEqual(asked);
    expect(await statusOf('tokenize', apiKey)).toBe(200);
    expect((await ask(token, service.api_key)).status).toBe(200);
  });

  test('a token counts once, however often a request has it, and known ones not at all', async () => {
    const [token] = await tokensOf(['Bob']);
    const apiKey = await newKey('--unknown-token-limit', '0.1');
    const unknown = async () => (await scrape(service.opsUrl, 'standin_unknown_tokens_total'))['']!;
    const before = await unknown();
    const stale = [...Array(100).fill('stale_tok'), ...Array(100).fill(token)];
    expect(count(await inTurn([stale, stale, stale], apiKey), 400)).toBe(3);
    expect((await unknown()) - before).toBe(3);
    const known = Array(30).fill(Array(100).fill(token));
    expect(count(await inTurn(known, apiKey), 200)).toBe(30);
  });

  test('metrics tell which limit refused', async () => {
    const rejections = () => scrape(service.opsUrl, 'standin_rate_limit_rejections_total');
    const before = await rejections();
    const apiKey = await newKey('--rate-limit=0.001', '--detokenize-limit=0.001');
    const guesser = await newKey('--unknown-token-limit=0.001');
    expect([await statusOf('tokenize', apiKey), await statusOf('tokenize', apiKey)]).toEqual([
      200, 429,
    ]);
    for (const key of [apiKey, guesser])
      expect((await inTurn(['z_tok', []], key)).map(({ status }) => status)).toEqual([400, 429]);
    const after = await rejections();
    for (const label of ['requests', 'detokenize', 'unknown_tokens'].map((one) => `limit="${one}"`))
      expect([label, after[label]! - before[label]!]).toEqual([label, 1]);
  });

  describe('a caller who is no guesser is not locked out', () => {
    test('L22: tokens that were forgotten do not count, and are answered as unknown ones', async () => {
      const apiKey = await newKey('--unknown-token-limit', '0.1');
      const tokens = await tokensOf(numbered(20, `forgotten ${kind}`));
      await forget(tokens);
      const answers = await inTurn(tokens, apiKey);
      const [unknown] = await inTurn(['never was one_tok'], apiKey);
      for (const { status, body, headers } of answers) {
        expect([status, body]).toEqual([400, unknown!.body]);
        expect(headers.get('ratelimit')).toMatch(/^"detokenize";r=\d+;t=1$/);
        expect([...headers.keys()]).toEqual([...unknown!.headers.keys()]);
      }
    });

    test('L22: what does not end like a token is no guess: a whole record with one token', async () => {
      const apiKey = await newKey('--unknown-token-limit', '0.1');
      const [token] = await tokensOf(['of a record']);
      const record = { token, name: 'Ann Lee', city: 'Ulm', a: '1', b: '2', c: '3', d: '4' };
      expect(count(await inTurn(Array(30).fill(record), apiKey), 400)).toBe(30);
      expect((await ask(token, apiKey)).status).toBe(200);
    });

    test('a first request of 10,000 known tokens, and many at once', async () => {
      const [apiKey, other] = [await newKey(), await newKey()];
      const tokens = await tokensOf(numbered(10_000, 'bulk'));
      expect((await ask(tokens, apiKey)).status).toBe(200);
      const atOnce = tokens.slice(0, 200).map((token) => ask(token, other));
      expect(count(await Promise.all(atOnce), 200)).toBe(200);
    });
  });

  test('a lenient request of 10,000 known tokens: what a budget pays beside them, or nothing', async () => {
    const tokens = await tokensOf(numbered(10_000, 'bulk'));
    /** The status, and the gaps or the seconds to wait. docs/api.md has these figures. */
    const lenient = async (apiKey: string, known: number, unknown: number) => {
      const data = [...tokens.slice(0, known), ...guesses(unknown)];
      const { status, body } = await ask(data, apiKey, { prefer: 'handling=lenient' });
      return [status, body.unapplied?.length ?? body.retry_after];
    };
    const [first, second, third, fourth] = [
      await newKey(),
      await newKey(),
      await newKey(),
      await newKey(),
    ];
    expect(await lenient(first, 9_970, 30)).toEqual([200, 30]);
    // Known tokens have earned 60 more. The first request has cost 30 known and 30 unknown tokens.
    expect(await lenient(first, 9_950, 50)).toEqual([200, 50]);
    expect(await lenient(second, 10_000, 0)).toEqual([200, 0]);
    expect(await lenient(second, 9_940, 60)).toEqual([200, 60]);
    expect(await lenient(third, 9_969, 31)).toEqual([429, 62]);
    expect((await lenient(fourth, 0, 61))[0]).toBe(429);
  });

  test('tokens that were forgotten earn no guesses', async () => {
    const apiKey = await newKey('--unknown-token-limit', '0.1');
    const [forgotten] = await tokensOf(['forgotten, and sent again and again']);
    await forget([forgotten!]);
    // So many known tokens would earn a second budget of six guesses.
    expect(count(await inTurn(Array(240).fill(forgotten), apiKey), 400)).toBe(240);
    expect(count(await inTurn(guesses(20), apiKey), 400)).toBeLessThan(10);
  });

  test('a refusal names the limit, and a response says how much is left', async () => {
    const limited = ['--rate-limit=50', '--detokenize-limit=0.5', '--unknown-token-limit=0.1'];
    const apiKey = await newKey(...limited);
    const NAMES = ['ratelimit-policy', 'ratelimit', 'retry-after'];
    const seen = ({ status, headers }: Answer) => [
      status,
      ...NAMES.map((name) => headers.get(name)),
    ];
    const tokenized = seen(await call(service, 'tokenize', {}, apiKey));
    expect(tokenized).toEqual([200, '"requests";q=50;w=1', '"requests";r=49;t=1', null]);
    const policy = '"detokenize";q=1;w=2, "unknown-tokens";q=6;w=60';
    expect(seen(await ask([], apiKey))).toEqual([200, policy, '"detokenize";r=0;t=2', null]);
    expect(seen(await ask([], apiKey))).toEqual([429, policy, '"detokenize";r=0;t=2', '2']);
    const guesser = await newKey('--unknown-token-limit=0.01');
    const [first, second] = (await inTurn(['x_tok', 'y_tok'], guesser)).map(seen);
    const policies = '"detokenize";q=500;w=1, "unknown-tokens";q=1;w=100';
    const left = expect.stringMatching(/^"detokenize";r=4\d\d;t=1$/);
    expect(first).toEqual([400, policies, left, null]);
    expect(second).toEqual([429, policies, '"unknown-tokens";r=0;t=100', '100']);
    const free = await newKey('--rate-limit=0', '--detokenize-limit=0', '--unknown-token-limit=0');
    expect(seen(await ask([], free))).toEqual([200, null, null, null]);
  });

  test('the log names a client that is refused, once a minute', async () => {
    const client = await createClient(service.place, '--unknown-token-limit', '0.01');
    const { client_id: clientId, api_key: apiKey } = client;
    expect(count(await inTurn(guesses(20), apiKey), 429)).toBeGreaterThan(1);
    const msg = 'a client is over its limit';
    const about = { client_id: clientId, limit: 'unknown_tokens', refused: 1 };
    const line = await logLine(service, '"level":"warn"', clientId);
    expect(line).toEqual({ level: 'warn', time: expect.any(String), ...about, msg });
    expect(logged(service, '"level":"warn"', clientId)).toHaveLength(1);
  });
});
