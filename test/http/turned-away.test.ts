import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { newApiKey } from '../../src/crypto/api-key.ts';
import { send } from '../support/http.ts';
import { PostgresCluster, postgresBin } from '../support/postgres.ts';
import { served } from '../support/served.ts';
import { createClient, insist, leastPrivilegePlace, startService } from '../support/service.ts';

const T = '/api/v1/tokenize';
const REQUESTS = 300;
const CALLERS = 100;
/** The copy of the API keys is renewed so often, with two statements and those of a new connection. */
const REFRESH_INTERVAL_MS = 2_000;
/** At most so often it is renewed for API keys that are not in it. */
const MISS_INTERVAL_MS = 250;

/** Who may not come in costs the database nothing, however often they knock. */
describe.skipIf(postgresBin === undefined)('on a server that logs every statement', () => {
  let cluster: PostgresCluster;
  afterAll(() => cluster.stop());
  const service = served(async () => {
    cluster = await PostgresCluster.start({ log_statement: 'all' });
    return startService(await leastPrivilegePlace(cluster.url('postgres')));
  });
  let slow: string;
  let malformed: string;
  beforeAll(async () => {
    slow = (await createClient(service.place, '--rate-limit', '0.001')).api_key;
    const last = service.api_key.at(-1);
    malformed = service.api_key.slice(0, -1) + (last === 'a' ? 'b' : 'a');
    expect(await statusOf(slow, '{"data":{}}')).toBe(200);
  });

  async function statusOf(apiKey: string | null, body: string): Promise<number> {
    const authorization = apiKey === null ? null : `Bearer ${apiKey}`;
    const ask = () =>
      send(service, T, body, { authorization }).catch((error: Error) => {
        // The service may refuse and close while the megabyte is still on its way.
        if (error.message !== 'fetch failed') throw error;
        return { status: 503 };
      });
    return (await insist(ask)).status;
  }

  /** The statements in its log that begin so, or the others. */
  function statements(): Record<'renewals' | 'others', string[]> {
    const log = readFileSync(cluster.logFile, 'utf8');
    const found = log.matchAll(/LOG: {2}(?:statement|execute \S+): (.*)/g);
    const all = [...found].map(([, text]) => text!);
    const begins = (start: string) => (text: string) => text.startsWith(start);
    // A look at all of the API keys, or for some.
    const isRenewal = begins('select api_key_id, expires_at, digest');
    // What begins every connection.
    const isOpening = begins('select case when pg_is_in');
    const others = all.filter((text) => !isRenewal(text) && !isOpening(text));
    return { renewals: all.filter(isRenewal), others };
  }

  /**
   * Sends the requests, and returns how many renewals came of them, and the time. The service looks
   * after the vault by itself, as often as before: a few other statements a second.
   */
  async function knock(ask: () => Promise<number>, status: number) {
    const before = statements();
    const startedMs = performance.now();
    const each = async () => {
      for (let i = 0; i < REQUESTS / CALLERS; i++) expect(await ask()).toBe(status);
    };
    await Promise.all(Array.from({ length: CALLERS }, each));
    const tookMs = performance.now() - startedMs;
    const after = statements();
    const others = after.others.slice(before.others.length);
    expect(others.filter((text) => text.includes('api_keys'))).toEqual([]);
    expect(others.length).toBeLessThan(REQUESTS / 10 + tookMs / 100);
    return { renewals: after.renewals.length - before.renewals.length, tookMs };
  }

  test.each([
    ['C21, L13: API keys with a wrong check digit', () => malformed, '{"data":{"a":"b"}}', 401],
    ['A35: no API key, and a megabyte that is no JSON', () => null, '{'.repeat(1_000_000), 401],
    ['L13: a client over its limit', () => slow, '{"data":{"a":"b"}}', 429],
  ])('%s: no statement of their own', async (_name, apiKey, body, status) => {
    const { renewals, tookMs } = await knock(() => statusOf(apiKey(), body), status);
    expect(renewals).toBeLessThanOrEqual(tookMs / REFRESH_INTERVAL_MS + 1);
  });

  test('L13: API keys that could be: they share a look, four times a second at most', async () => {
    const stranger = () => statusOf(newApiKey(), '{"data":{"a":"b"}}');
    const { renewals, tookMs } = await knock(stranger, 401);
    expect(renewals).toBeGreaterThan(0);
    const atMost = tookMs / REFRESH_INTERVAL_MS + tookMs / MISS_INTERVAL_MS + 2;
    expect(renewals).toBeLessThanOrEqual(atMost);
    expect(renewals).toBeLessThan(REQUESTS / 10);
  });

  test('C21: without a database an API key with a wrong check digit is a 401, one that could be is not', async () => {
    await cluster.crash();
    expect(await statusOf(newApiKey(), '{"data":{}}')).toBe(500);
    expect(await statusOf(malformed, '{"data":{}}')).toBe(401);
    cluster.startAgain();
  });
});
