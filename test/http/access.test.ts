import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { expectErrorForm, send } from '../support/http.ts';
import { freePort } from '../support/processes.ts';
import {
  call,
  createClient,
  newPlace,
  type Place,
  runJson,
  type Service,
  scrape,
  startService,
  until,
  usualKinds,
} from '../support/service.ts';

/** The body of a 403. */
const forbidden = (operation: string) =>
  `${JSON.stringify({
    error: 'forbidden',
    message: `this client may not ${operation}; an operator can allow it: standin client update CLIENT --can tokenize,detokenize`,
  })}\n`;
const LIMITED = { error: 'user_limit', retry_after: expect.any(Number) };

describe.each(usualKinds())('on the %s database', (kind) => {
  let place: Place;
  let service: Service;
  beforeAll(async () => {
    place = await newPlace(kind);
    service = await startService(place, {
      OPS_PORT: String(await freePort()),
      RATE_LIMIT: '1000',
      DETOKENIZE_LIMIT: '500',
      UNKNOWN_TOKEN_LIMIT: '0.001',
    });
  });
  afterAll(async () => {
    await service.stop();
    place.remove();
  });

  const path = (operation: string) => `/api/v1/${operation}`;
  const statusOf = async (operation: 'tokenize' | 'detokenize', apiKey: string, data = {}) =>
    (await call(service, operation, data, apiKey)).status;

  /** A token that is known. */
  async function tokenOf(value: string): Promise<string> {
    return (await call(service, 'tokenize', { value })).body.data.value;
  }

  describe('what a client may do', () => {
    test.each([
      ['tokenize', 'detokenize'],
      ['detokenize', 'tokenize'],
    ] as const)('a client that can %s cannot %s', async (can, cannot) => {
      const { api_key: apiKey } = await createClient(place, '--can', can);
      expect(await statusOf(can, apiKey)).toBe(200);
      const authorization = `Bearer ${apiKey}`;
      const answer = await send(service, path(cannot), '{"data":{}}', { authorization });
      expect([answer.status, answer.text]).toEqual([403, forbidden(cannot)]);
      expectErrorForm(answer);
    });

    test('it is refused before its limit, its content type and its body are looked at', async () => {
      const { api_key: apiKey } = await createClient(
        place,
        '--can=tokenize',
        '--detokenize-limit=0.001',
      );
      for (let i = 0; i < 3; i++) {
        const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'text/plain' };
        const { status, text } = await send(service, path('detokenize'), '{', headers);
        expect([status, text]).toEqual([403, forbidden('detokenize')]);
      }
    });

    test('a change is in force on a running service', async () => {
      const { client_id: clientId, api_key: apiKey } = await createClient(place);
      expect(await statusOf('detokenize', apiKey)).toBe(200);
      await runJson(place, 'client', 'update', clientId, '--can', 'tokenize');
      await until(
        async () => (await statusOf('detokenize', apiKey)) === 403,
        'detokenize is forbidden',
        5_000,
      );
      expect(await statusOf('tokenize', apiKey)).toBe(200);
      await runJson(place, 'client', 'update', clientId, '--can', 'tokenize,detokenize');
      await until(
        async () => (await statusOf('detokenize', apiKey)) === 200,
        'detokenize is allowed',
        5_000,
      );
    });
  });

  describe('the limit of detokenize', () => {
    test('is apart from that of tokenize', async () => {
      const { api_key: apiKey } = await createClient(
        place,
        '--rate-limit=0.001',
        '--detokenize-limit=0.01',
      );
      expect(await statusOf('tokenize', apiKey)).toBe(200);
      expect((await call(service, 'tokenize', {}, apiKey)).body).toEqual({
        error: 'user_limit',
        retry_after: 1_000,
      });
      expect(await statusOf('detokenize', apiKey)).toBe(200);
      expect((await call(service, 'detokenize', {}, apiKey)).body).toEqual({
        error: 'user_limit',
        retry_after: 100,
      });
    });

    test("is none where the client has 0, and the deployment's where it has none", async () => {
      const free = await createClient(place, '--detokenize-limit', '0');
      const statuses = await Promise.all(
        Array.from({ length: 600 }, () => statusOf('detokenize', free.api_key)),
      );
      expect(new Set(statuses)).toEqual(new Set([200]));
    });
  });

  describe('the budget of unknown tokens', () => {
    const guesses = (count: number) => ({
      all: Array.from({ length: count }, (_, i) => `guess${i}_tok`),
    });

    test('is spent by guesses; then the client is refused before anything is looked up', async () => {
      const token = await tokenOf('Ann');
      const { api_key: apiKey } = await createClient(place, '--unknown-token-limit', '0.05');
      const before = await scrape(service.opsUrl!, 'standin_batch_records_count');
      expect((await call(service, 'detokenize', guesses(2), apiKey)).status).toBe(400);
      expect((await call(service, 'detokenize', { a: 'x_tok' }, apiKey)).body).toEqual({
        error: 'invalid_type',
        message: 'data.a: is not a known token',
      });
      const asked = await scrape(service.opsUrl!, 'standin_batch_records_count');
      expect(asked['statement="find"']).toBeGreaterThan(before['statement="find"'] ?? 0);
      for (const data of [{ a: 'y_tok' }, { a: token }, {}]) {
        const refused = await call(service, 'detokenize', data, apiKey);
        expect([refused.status, refused.body]).toEqual([429, LIMITED]);
        expect(refused.headers.get('retry-after')).toBe(String(refused.body.retry_after));
      }
      expect(await scrape(service.opsUrl!, 'standin_batch_records_count')).toEqual(asked);
      expect(await statusOf('tokenize', apiKey)).toBe(200);
      expect(await statusOf('detokenize', service.api_key, { a: token })).toBe(200);
    });

    test('a request of 10,000 guesses costs a whole one, and is not a lock for hours', async () => {
      const { api_key: apiKey } = await createClient(place, '--unknown-token-limit', '0.1');
      expect((await call(service, 'detokenize', guesses(10_000), apiKey)).status).toBe(400);
      const refused = await call(service, 'detokenize', {}, apiKey);
      expect([refused.status, refused.body]).toEqual([429, LIMITED]);
      expect(refused.body.retry_after).toBeLessThanOrEqual(10);
    });

    test('comes back: after retry_after the client goes on', async () => {
      const { api_key: apiKey } = await createClient(place, '--unknown-token-limit', '0.2');
      await call(service, 'detokenize', guesses(12), apiKey);
      expect(await statusOf('detokenize', apiKey)).toBe(429);
      await until(async () => (await statusOf('detokenize', apiKey)) === 200, 'its next one');
    });

    test('counts a token once, however often a request has it, and known ones not at all', async () => {
      const token = await tokenOf('Bob');
      const { api_key: apiKey } = await createClient(place, '--unknown-token-limit', '0.1');
      const before = await scrape(service.opsUrl!, 'standin_unknown_tokens_total');
      for (let i = 0; i < 3; i++) {
        const data = [...Array(100).fill('stale_tok'), ...Array(100).fill(token)];
        expect((await call(service, 'detokenize', { data }, apiKey)).status).toBe(400);
      }
      const after = await scrape(service.opsUrl!, 'standin_unknown_tokens_total');
      expect(after['']! - before['']!).toBe(3);
      for (let i = 0; i < 30; i++) {
        const data = Array(100).fill(token);
        expect((await call(service, 'detokenize', { data }, apiKey)).status).toBe(200);
      }
      // Three are left, and 33 times a known token has earned three.
      expect((await call(service, 'detokenize', guesses(6), apiKey)).status).toBe(400);
      // What a busy machine took ten seconds for has come back; the next request owes it.
      await call(service, 'detokenize', guesses(6), apiKey);
      expect(await statusOf('detokenize', apiKey, { token })).toBe(429);
    });
  });

  test('metrics tell which limit refused', async () => {
    const rejections = () => scrape(service.opsUrl!, 'standin_rate_limit_rejections_total');
    const before = await rejections();
    const slow = ['--rate-limit=0.001', '--detokenize-limit=0.001', '--unknown-token-limit=0.001'];
    const { api_key: apiKey } = await createClient(place, ...slow);
    expect(await statusOf('tokenize', apiKey)).toBe(200);
    expect(await statusOf('tokenize', apiKey)).toBe(429);
    expect(await statusOf('detokenize', apiKey, { a: 'z_tok' })).toBe(400);
    expect(await statusOf('detokenize', apiKey)).toBe(429);
    const guesser = await createClient(place, '--unknown-token-limit=0.001');
    expect(await statusOf('detokenize', guesser.api_key, { a: 'z_tok' })).toBe(400);
    expect(await statusOf('detokenize', guesser.api_key)).toBe(429);
    const after = await rejections();
    for (const limit of ['requests', 'detokenize', 'unknown_tokens']) {
      const label = `limit="${limit}"`;
      expect([limit, after[label]! - before[label]!]).toEqual([limit, 1]);
    }
  });
});
