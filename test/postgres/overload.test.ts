import { describe, expect, inject, onTestFinished, test } from 'vitest';
import { CALLER_ERRORS } from '../../src/errors.ts';
import { MIN_CALLS } from '../../src/tokens/threads/queue-delay.ts';
import { parseAnswers, rawExchange, retryAfter, send } from '../support/http.ts';
import { loop } from '../support/loop.ts';
import { startWithOps } from '../support/ops.ts';
import { held } from '../support/own.ts';
import { served } from '../support/served.ts';
import { call, newPlace, scrape, until } from '../support/service.ts';
import { sql } from '../support/vault.ts';

describe.skipIf(inject('serverUrl') === '')('while the records are locked', () => {
  const service = served(async () => startWithOps(await newPlace('server')));

  /** Nobody reads or writes records until the lock is given back, at the end of the test at the latest. */
  const lockRecords = () =>
    held(service.place, 'lock table standin.records in access exclusive mode');
  const get = async (path: string) => (await send(service, path, undefined, {}, 'GET')).status;
  const tokenize = async (value: string) => (await call(service, 'tokenize', { value })).status;

  /** The requests with this status, by the metrics. */
  async function counted(route: string, status: number): Promise<number> {
    const series = await scrape(service.opsUrl, 'standin_requests_total');
    return series[`route="/api/v1/${route}",status="${status}"`] ?? 0;
  }

  /** `loop`, to the end of the test at the latest. */
  function repeating(...how: Parameters<typeof loop>): () => Promise<void> {
    const { stop } = loop(...how);
    onTestFinished(stop);
    return stop;
  }

  const GOOD = '{"data":{"a":"Ann Lee"}}';
  /** What is taken is answered within 4 s, or 500: the lock must be gone by then. */
  const MAX_LOCKED_MS = 3_000;

  /**
   * Locks the table, and sends more than may wait for it. Returns the first refusal of the requests
   * behind, statuses of what is never refused for others, and those of what came first.
   */
  async function overload() {
    const unlock = await lockRecords();
    const unlockedMs = performance.now() + MAX_LOCKED_MS;
    const sent = Array.from({ length: 500 }, (_, i) => tokenize(`Ann ${i}`));
    const late: Promise<void>[] = [];
    let refusal: Awaited<ReturnType<typeof send>> | undefined;
    while (refusal === undefined && performance.now() < unlockedMs) {
      // Taken or refused: not waited for here.
      const one = send(service, '/api/v1/tokenize', GOOD).then((answer) => {
        if (answer.status === 503) refusal ??= answer;
      });
      late.push(one);
      await Promise.race([one, new Promise((resolve) => setTimeout(resolve, 50))]);
    }
    const paths = ['/health/live', '/health', '/api/v1/tokenize'];
    const unaffected = await Promise.all(paths.map(get));
    await unlock();
    await Promise.all(late);
    return { refusal, unaffected, statuses: await Promise.all(sent) };
  }

  test('L06: what would wait too long is refused at once, what was taken is answered, and /health too', async () => {
    let round!: Awaited<ReturnType<typeof overload>>;
    // On a slow machine, too few may have come before the lock had to go, or they waited too long.
    await until(async () => {
      round = await overload();
      return round.refusal !== undefined && !round.statuses.includes(500);
    }, 'a round with a refusal, and without an answer that came too late');
    const { refusal, unaffected, statuses } = round;
    const { message } = CALLER_ERRORS.overloaded;
    expect(JSON.parse(refusal!.text)).toEqual({ error: 'overloaded', message, retry_after: 1 });
    expect(refusal!.headers.get('retry-after')).toBe('1');
    expect(unaffected).toEqual([200, 200, 405]);
    // On a slow machine the last of them came when the first had waited long.
    expect(statuses.filter((status) => status !== 200 && status !== 503)).toEqual([]);
    const taken = statuses.filter((status) => status === 200);
    expect(taken.length).toBeGreaterThanOrEqual(MIN_CALLS);
    expect(await tokenize('Ann Lee')).toBe(200);
    await until(() => service.output().includes('overloaded: requests refused'), 'a log line');
    const { '': shed } = await scrape(service.opsUrl, 'standin_requests_shed_total');
    expect(shed).toBeGreaterThan(0);
    expect(await counted('tokenize', 503)).toBeGreaterThanOrEqual(shed!);
  });

  test('large calls that wait while the database is away fail with the first', async () => {
    const values = Array.from({ length: 10_000 }, (_, i) => `Ann ${i}`);
    const { body } = await call(service, 'tokenize', { values });
    await lockRecords();
    let open = 9;
    const restored = () => call(service, 'detokenize', body.data).finally(() => open--);
    await Promise.race(Array.from({ length: open }, restored));
    // Each takes as long as a statement may.
    for (let i = 0; i < 2; i++)
      expect((await call(service, 'detokenize', { a: body.data.values[0] })).status).toBe(500);
    expect(open).toBe(0);
  });

  /** A request whose body is not sent, as nobody who sheds waits for a body. */
  function headOf(length: number, path: string, ...more: string[]): string {
    return [
      ...[`POST ${path} HTTP/1.1`, 'Host: a', 'Content-Type: application/json'],
      ...[`Authorization: Bearer ${service.api_key}`, `Content-Length: ${length}`, ...more, '', ''],
    ].join('\r\n');
  }

  test('L06: requests with Expect, a large body or an absolute form are refused as all others', async () => {
    // The first has the largest body that is thrown away, not cut off.
    const heads = {
      absolute: headOf(65_536, 'http://a/api/v1/detokenize'),
      large: headOf(65_537, '/api/v1/tokenize'),
      expect: headOf(5, '/api/v1/tokenize', 'Expect: 100-continue'),
    };
    const unlock = await lockRecords();
    // Each waits until it is refused or given up, so that there are always too many.
    const stop = repeating(async (_, caller) => {
      if ((await tokenize(`Ann ${caller}`)) === 503) await retryAfter(1);
    }, 2 * MIN_CALLS);
    const connections: Record<string, string | null> = {};
    for (const [name, head] of Object.entries(heads)) {
      // A slow machine takes its time for the refusal; a request that is taken is not answered at all.
      let quietMs = 100;
      await until(async () => {
        quietMs = Math.min(2 * quietMs, 5_000);
        const [answer] = parseAnswers(await rawExchange(service, head, 60_000, quietMs));
        if (answer?.status !== 503) return false;
        connections[name] = answer.headers.get('connection');
        return true;
      }, `a refusal of ${name}`);
    }
    const stopped = stop();
    await unlock();
    await stopped;
    expect(connections).toEqual({ absolute: 'keep-alive', large: 'close', expect: 'close' });
    const isCounted = async () => (await counted('detokenize', 503)) > 0;
    await until(isCounted, 'the absolute form is counted as its path');
  });

  test('L06: housekeeping that waits for a locked table, with scrapes and an open console, never makes /health 503', async () => {
    const unlock = await lockRecords();
    const text = `select pid from pg_stat_activity
      where application_name = 'standin' and wait_event_type = 'Lock'`;
    const waiting = async () => (await sql(service.place, text)).map(({ pid }) => pid as number);
    const stop = repeating(async (_, reader) => {
      if (reader === 0) await scrape(service.opsUrl, 'standin_vault_rows');
      else await fetch(`${service.opsUrl}/console/state`);
      await retryAfter(0.05);
    }, 2);
    const statuses = new Set<number>();
    const healthUntil = (condition: () => Promise<boolean>, what: string) =>
      until(async () => {
        statuses.add(await get('/health'));
        return condition();
      }, what);
    let first: number[] = [];
    await healthUntil(async () => {
      first = await waiting();
      return first.length >= 2;
    }, 'all that housekeeping has to wait');
    // As long as they may: until they are cancelled.
    await healthUntil(async () => {
      const now = await waiting();
      return first.every((pid) => !now.includes(pid));
    }, 'the end of the first to wait');
    const stopped = stop();
    await unlock();
    await stopped;
    expect([...statuses]).toEqual([200]);
  });
});
