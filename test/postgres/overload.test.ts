import pg from 'pg';
import { afterAll, beforeAll, expect, inject, onTestFinished, test } from 'vitest';
import { CALLER_ERRORS } from '../../src/errors.ts';
import { MIN_CALLS } from '../../src/tokens/threads/queue-delay.ts';
import { parseAnswers, rawExchange, retryAfter, send } from '../support/http.ts';
import { freePort } from '../support/processes.ts';
import { call, newPlace, type Service, scrape, startService, until } from '../support/service.ts';
import { sql } from '../support/vault.ts';

const isServer = inject('serverUrl') !== '';
let service: Service;
beforeAll(async () => {
  if (!isServer) return;
  service = await startService(await newPlace('server'), { OPS_PORT: String(await freePort()) });
});
afterAll(async () => {
  await service?.stop();
  service?.place.remove();
});

/** Nobody reads or writes records until the lock is taken back, at the end of the test at the latest. */
async function lockRecords(): Promise<() => Promise<void>> {
  const locker = new pg.Client({ connectionString: service.place.env.DATABASE_URL });
  await locker.connect();
  await locker.query('begin; lock table standin.records in access exclusive mode');
  const unlock = () => locker.end();
  onTestFinished(unlock);
  return unlock;
}

const GOOD = '{"data":{"a":"Ann Lee"}}';

/** A request whose body is not sent, as nobody who sheds waits for a body. */
function headOf(length: number, path: string, ...more: string[]) {
  return (apiKey: string) =>
    [
      ...[`POST ${path} HTTP/1.1`, 'Host: a', 'Content-Type: application/json'],
      ...[`Authorization: Bearer ${apiKey}`, `Content-Length: ${length}`, ...more, '', ''],
    ].join('\r\n');
}

/** The first has the largest body that is thrown away, not cut off. */
const OTHERS = {
  absolute: headOf(65_536, 'http://a/api/v1/detokenize'),
  large: headOf(65_537, '/api/v1/tokenize'),
  expect: headOf(5, '/api/v1/tokenize', 'Expect: 100-continue'),
};

/** What is taken is answered within 4 s, or 500: the lock must be gone by then. */
const MAX_LOCKED_MS = 3_000;

interface Round {
  /** The first of the requests behind that was refused. */
  readonly refusal: Awaited<ReturnType<typeof send>> | undefined;
  /** Of what is never refused for others, while they wait. */
  readonly unaffected: number[];
  /** Of those that came first. */
  readonly statuses: number[];
}

/** Locks the table, and sends more than may wait for it. */
async function overload(): Promise<Round> {
  const unlock = await lockRecords();
  const unlockedMs = performance.now() + MAX_LOCKED_MS;
  const sent = Array.from({ length: 500 }, (_, i) => call(service, 'tokenize', { a: `Ann ${i}` }));
  const late: Promise<void>[] = [];
  let refusal: Round['refusal'];
  while (refusal === undefined && performance.now() < unlockedMs) {
    // Taken or refused: not waited for here.
    const one = send(service, '/api/v1/tokenize', GOOD).then((answer) => {
      if (answer.status === 503) refusal ??= answer;
    });
    late.push(one);
    await Promise.race([one, new Promise((resolve) => setTimeout(resolve, 50))]);
  }
  const unaffected = await Promise.all(
    ['/health/live', '/health', '/api/v1/tokenize'].map((path) =>
      send(service, path, undefined, {}, 'GET'),
    ),
  );
  await unlock();
  await Promise.all(late);
  const statuses = (await Promise.all(sent)).map(({ status }) => status);
  return { refusal, unaffected: unaffected.map(({ status }) => status), statuses };
}

test.skipIf(!isServer)(
  'L06: what would wait too long is refused at once, what was taken is answered, and /health too',
  async () => {
    let round!: Round;
    // On a slow machine, too few may have come before the lock had to go, or they waited too long.
    await until(async () => {
      round = await overload();
      return round.refusal !== undefined && !round.statuses.includes(500);
    }, 'a round with a refusal, and without an answer that came too late');
    expect(JSON.parse(round.refusal!.text)).toEqual({
      error: 'overloaded',
      message: CALLER_ERRORS.overloaded.message,
      retry_after: 1,
    });
    expect(round.refusal!.headers.get('retry-after')).toBe('1');
    expect(round.unaffected).toEqual([200, 200, 405]);
    // On a slow machine the last of them came when the first had waited long.
    expect(round.statuses.filter((status) => status !== 200 && status !== 503)).toEqual([]);
    const taken = round.statuses.filter((status) => status === 200);
    expect(taken.length).toBeGreaterThanOrEqual(MIN_CALLS);
    expect((await call(service, 'tokenize', { a: 'Ann Lee' })).status).toBe(200);
    await until(() => service.output().includes('overloaded: requests refused'), 'a log line');
    const metrics = await (await fetch(`${service.opsUrl}/metrics`)).text();
    const sum = (series: RegExp) =>
      [...metrics.matchAll(series)].reduce((all, [, count]) => all + Number(count), 0);
    const shed = sum(/^standin_requests_shed_total (\d+)$/gm);
    expect(shed).toBeGreaterThan(0);
    const refused = /^standin_requests_total\{route="\/api\/v1\/tokenize",status="503"\} (\d+)$/gm;
    expect(sum(refused)).toBeGreaterThanOrEqual(shed);
  },
);

test.skipIf(!isServer)('what failed no longer counts as waiting', async () => {
  const { body } = await call(service, 'tokenize', { a: 'Ann Lee' });
  const restored = async () => (await call(service, 'detokenize', body.data)).status;
  const unlock = await lockRecords();
  let failed = 0;
  while (failed < MIN_CALLS) {
    const statuses = await Promise.all(Array.from({ length: 300 }, restored));
    failed += statuses.filter((status) => status === 500).length;
  }
  await unlock();
  // Over several windows of the measured rate, which is low now.
  const untilMs = performance.now() + 500;
  while (performance.now() < untilMs) expect(await restored()).toBe(200);
});

test.skipIf(!isServer)(
  'large calls that wait while the database is away fail with the first',
  async () => {
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
  },
);

test.skipIf(!isServer)(
  'L06: requests with Expect, a large body or an absolute form are refused as all others',
  async () => {
    const unlock = await lockRecords();
    let isOver = false;
    onTestFinished(() => {
      isOver = true;
    });
    // Each waits until it is refused or given up, so that there are always too many.
    const callers = Array.from({ length: 2 * MIN_CALLS }, async (_, i) => {
      while (!isOver) {
        const { status } = await call(service, 'tokenize', { a: `Ann ${i}` });
        if (status === 503) await retryAfter(1);
      }
    });
    const connections: Record<string, string | null> = {};
    for (const [name, bytes] of Object.entries(OTHERS)) {
      // A slow machine takes its time for the refusal; a request that is taken is not answered at all.
      let quietMs = 100;
      await until(async () => {
        quietMs = Math.min(2 * quietMs, 5_000);
        const received = await rawExchange(service, bytes(service.api_key), 60_000, quietMs);
        const [answer] = parseAnswers(received);
        if (answer?.status !== 503) return false;
        connections[name] = answer.headers.get('connection');
        return true;
      }, `a refusal of ${name}`);
    }
    isOver = true;
    await unlock();
    await Promise.all(callers);
    expect(connections).toEqual({ absolute: 'keep-alive', large: 'close', expect: 'close' });
    const shed = async () =>
      (await (await fetch(`${service.opsUrl}/metrics`)).text()).includes(
        'standin_requests_total{route="/api/v1/detokenize",status="503"}',
      );
    await until(shed, 'the absolute form is counted as its path');
  },
);

test.skipIf(!isServer)(
  'L06: housekeeping that waits for a locked table, with scrapes and an open console, never makes /health 503',
  async () => {
    const unlock = await lockRecords();
    const waiting =
      "select pid from pg_stat_activity where application_name = 'standin' and wait_event_type = 'Lock'";
    const waitingPids = async (): Promise<number[]> =>
      (await sql(service.place, waiting)).map(({ pid }) => pid);
    let isOver = false;
    onTestFinished(() => {
      isOver = true;
    });
    const repeated = async (work: () => Promise<unknown>) => {
      while (!isOver) await work();
    };
    const held = [
      repeated(() => scrape(service.opsUrl!, 'standin_vault_rows')),
      repeated(() => fetch(`${service.opsUrl}/console/state`)),
    ];
    const statuses = new Set<number>();
    const healthUntil = (condition: () => Promise<boolean>, what: string) =>
      until(async () => {
        statuses.add((await send(service, '/health', undefined, {}, 'GET')).status);
        return condition();
      }, what);
    let first: number[] = [];
    await healthUntil(async () => {
      first = await waitingPids();
      return first.length >= 2;
    }, 'all that housekeeping has to wait');
    // As long as they may: until they are cancelled.
    await healthUntil(async () => {
      const now = await waitingPids();
      return first.every((pid) => !now.includes(pid));
    }, 'the end of the first to wait');
    isOver = true;
    await unlock();
    await Promise.all(held);
    expect([...statuses]).toEqual([200]);
  },
);
