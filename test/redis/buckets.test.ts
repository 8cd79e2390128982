import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { MemoryBuckets } from '../../src/limits/buckets.ts';
import { RedisBuckets } from '../../src/limits/redis-buckets.ts';
import { budgetBucket, refusalOf, requestBucket, unknownTokens } from '../support/buckets.ts';
import { blocks } from '../support/docs.ts';
import { freePort } from '../support/postgres.ts';
import { RedisServer, redisServer } from '../support/redis.ts';
import { until } from '../support/service.ts';

let opened: RedisBuckets[] = [];
afterEach(() => {
  for (const buckets of opened) buckets.close();
  opened = [];
});

async function open(url: string): Promise<RedisBuckets> {
  const buckets = await RedisBuckets.open(url);
  opened.push(buckets);
  return buckets;
}

let names = 0;
const newClient = () => `client ${names++}`;

/** What a MemoryBuckets gives for several requests at one time, in the words of a Grant. */
function takeInMemory(
  limiter: MemoryBuckets,
  clientId: string,
  rate: number,
  requests: number,
): [number, number | undefined] {
  let granted = 0;
  let retryAfterS: number | undefined;
  for (let i = 0; i < requests; i++) {
    const refused = refusalOf(limiter.take(requestBucket(clientId, rate)));
    if (refused === undefined) granted++;
    else retryAfterS ??= refused;
  }
  return [granted, retryAfterS];
}

describe.skipIf(redisServer === undefined)('buckets in Redis', () => {
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await RedisServer.start();
  });
  afterAll(() => redis?.stop());

  test('agree with those in memory, whatever is taken when and at which rates', async () => {
    const buckets = await open(redis.url);
    const rate = fc.oneof(
      fc.integer({ min: 1, max: 2_000 }),
      fc.constantFrom(0.001, 0.3, 0.5, 1.5, 2.7, 1_000_000),
    );
    const step = fc.record({
      pauseUs: fc.oneof(fc.constant(0), fc.nat(3_000_000), fc.nat(2_000_000_000)),
      requests: fc.oneof(fc.integer({ min: 0, max: 3 }), fc.integer({ min: 0, max: 1_500 })),
      rate: fc.option(rate, { nil: undefined, freq: 8 }),
    });
    let refused = 0;
    await fc.assert(
      fc.asyncProperty(rate, fc.array(step, { maxLength: 30 }), async (firstRate, steps) => {
        const clientId = newClient();
        let nowUs = 1_700_000_000_000_000;
        const limiter = new MemoryBuckets(() => (nowUs - 1_700_000_000_000_000) / 1_000);
        let rate = firstRate;
        for (const { pauseUs, requests, rate: newRate } of steps) {
          nowUs += pauseUs;
          rate = requests > 0 ? (newRate ?? rate) : rate;
          const grant = await buckets.take(requestBucket(clientId, rate), requests, nowUs);
          const retryAfterS = grant.granted < requests ? grant.retryAfterS : undefined;
          expect([grant.granted, retryAfterS]).toEqual(
            takeInMemory(limiter, clientId, rate, requests),
          );
          if (retryAfterS !== undefined) refused++;
        }
      }),
      { numRuns: 200 },
    );
    expect(refused).toBeGreaterThan(100);
  });

  test('of unknown tokens agree with those in memory, reserved, earned and owed', async () => {
    const buckets = await open(redis.url);
    const rate = fc.constantFrom(0.001, 0.3, 1, 1, 2.7, 50);
    const some = fc.oneof({ arbitrary: fc.constant(0), weight: 3 }, fc.nat(70), fc.nat(2_000));
    const step = fc.record({
      pauseUs: fc.oneof(fc.constant(0), fc.nat(3_000_000), fc.nat(700_000_000)),
      count: fc.oneof(fc.constant(0), fc.nat(70)),
      outcome: fc.record({ ended: fc.nat(70), known: some, unknown: some, guessed: some }),
      rate: fc.option(rate, { nil: undefined, freq: 8 }),
    });
    const seen = { refused: 0, granted: 0 };
    await fc.assert(
      fc.asyncProperty(rate, fc.array(step, { maxLength: 30 }), async (firstRate, steps) => {
        const name = newClient();
        let nowUs = 1_700_000_000_000_000;
        const limiter = new MemoryBuckets(() => (nowUs - 1_700_000_000_000_000) / 1_000);
        let rate = firstRate;
        for (const { pauseUs, count, outcome, rate: newRate } of steps) {
          nowUs += pauseUs;
          rate = newRate ?? rate;
          const bucket = budgetBucket(name, rate);
          const grant = await buckets.settle(bucket, count, outcome, nowUs);
          expect(grant).toEqual(limiter.settle(bucket, count, outcome));
          if (grant.granted < count) seen.refused++;
          else seen.granted++;
        }
      }),
      { numRuns: 200 },
    );
    expect(Math.min(seen.refused, seen.granted)).toBeGreaterThan(100);
  });

  test('go by the clock of Redis: in any time no more than the rate and one burst', async () => {
    const [one, other] = [await open(redis.url), await open(redis.url)];
    const clientId = newClient();
    const startUs = await redis.nowUs();
    let granted = 0;
    let rounds = 0;
    while (granted < 250) {
      const grants = await Promise.all([
        one.take(requestBucket(clientId, 100), 7),
        other.take(requestBucket(clientId, 100), 7),
      ]);
      for (const grant of grants) granted += grant.granted;
      rounds++;
    }
    const passedS = ((await redis.nowUs()) - startUs) / 1e6;
    expect(granted).toBeLessThanOrEqual(100 + 100 * passedS);
    expect(rounds).toBeGreaterThan(20);
  });

  test('a clock that is set back locks nobody out', async () => {
    const buckets = await open(redis.url);
    const clientId = newClient();
    const hourUs = 3_600_000_000;
    expect((await buckets.take(requestBucket(clientId, 10), 10, 2 * hourUs)).granted).toBe(10);
    expect(await buckets.take(requestBucket(clientId, 10), 1, hourUs)).toEqual({
      granted: 0,
      left: 0,
      retryAfterS: 1,
    });
    expect((await buckets.take(requestBucket(clientId, 10), 10, hourUs + 500_000)).granted).toBe(5);
  });

  test('a clock that is set back changes no bucket', async () => {
    const buckets = await open(redis.url);
    const clientId = newClient();
    const hourUs = 3_600_000_000;
    expect((await buckets.take(requestBucket(clientId, 10), 4, 2 * hourUs)).granted).toBe(4);
    expect((await buckets.take(requestBucket(clientId, 10), 10, hourUs)).granted).toBe(6);
  });

  test('a probe of no requests takes nothing', async () => {
    const buckets = await open(redis.url);
    const clientId = newClient();
    for (let i = 0; i < 3; i++)
      expect(await buckets.take(requestBucket(clientId, 1), 0)).toEqual({
        granted: 0,
        left: 1,
        retryAfterS: 0,
      });
    expect((await buckets.take(requestBucket(clientId, 1), 1)).granted).toBe(1);
  });

  test('every key has a name of ours and goes by itself', async () => {
    await redis.command('FLUSHALL');
    const buckets = await open(redis.url);
    await buckets.take(requestBucket('fast', 1_000), 5);
    await buckets.take(requestBucket('slow', 0.001), 1);
    await buckets.settle(budgetBucket('owing', 0.01), 0, unknownTokens(1_000));
    const ttlS = async (key: string) =>
      Number((await redis.command(`TTL ${key}`)).replace(':', ''));
    expect(await redis.command('DBSIZE')).toBe(':3');
    expect(await ttlS('standin:limit:fast')).toBeGreaterThan(0);
    expect(await ttlS('standin:limit:fast')).toBeLessThanOrEqual(61);
    expect(await ttlS('standin:limit:slow')).toBeGreaterThan(1_000);
    expect(await ttlS('standin:limit:slow')).toBeLessThanOrEqual(1_061);
    // Two whole budgets of one token each.
    expect(await ttlS('standin:limit:owing')).toBeGreaterThan(200);
  });

  test('a Redis that has forgotten the script is given it again', async () => {
    const buckets = await open(redis.url);
    const clientId = newClient();
    await buckets.take(requestBucket(clientId, 2), 1);
    await redis.command('SCRIPT FLUSH');
    expect((await buckets.take(requestBucket(clientId, 2), 2)).granted).toBe(1);
  });

  test('a key that another program wrote fails the call with a code, and mends itself', async () => {
    const buckets = await open(redis.url);
    await redis.command('SET standin:limit:strange something');
    expect((await buckets.take(requestBucket('strange', 5), 6)).granted).toBe(5);
    await redis.command('DEL standin:limit:strange');
    await redis.command('LPUSH standin:limit:strange something');
    await expect(buckets.take(requestBucket('strange', 5), 1)).rejects.toThrow();
    expect(buckets.failure).toBe('WRONGTYPE');
    await redis.command('DEL standin:limit:strange');
    expect((await buckets.take(requestBucket('strange', 5), 1)).granted).toBe(1);
    expect(buckets.failure).toBeUndefined();
  });

  test('a Redis that takes no writes fails also a probe', async () => {
    const buckets = await open(redis.url);
    await redis.command(`REPLICAOF 127.0.0.1 ${await freePort()}`);
    await expect(buckets.take(requestBucket(newClient(), 5), 0)).rejects.toThrow();
    expect(buckets.failure).toBe('READONLY');
    await redis.command('REPLICAOF NO ONE');
    expect((await buckets.take(requestBucket(newClient(), 5), 1)).granted).toBe(1);
  });

  test('the number of a database in the URL is used', async () => {
    await redis.command('FLUSHALL');
    const buckets = await open(`${redis.url}/3`);
    await buckets.take(requestBucket(newClient(), 5), 1);
    expect(await redis.command('DBSIZE')).toBe(':0');
  });

  test('need no more rights than operating.md gives their user', async () => {
    const [given] = blocks('docs/operating.md', 'text').filter((text) => text.startsWith('ACL'));
    const [command, user] = /ACL SETUSER (\w+) .*/.exec(given!)!;
    expect(await redis.command(command.replace('PASSWORD', 'secret'))).toBe('+OK');
    const buckets = await open(redis.url.replace('//', `//${user}:secret@`));
    await redis.command('SCRIPT FLUSH');
    expect((await buckets.take(requestBucket(newClient(), 2), 3)).granted).toBe(2);
    expect(await buckets.server()).toBe('Redis of unknown version');
    await redis.command(`ACL SETUSER ${user} -set`);
    await expect(buckets.take(requestBucket(newClient(), 2), 0)).rejects.toThrow();
  });

  test('say which server they are in', async () => {
    expect(await (await open(redis.url)).server()).toMatch(/^(Redis|Valkey) \d+\.\d+\.\d+$/);
  });
});

function answersAgain(buckets: RedisBuckets): Promise<void> {
  const isAnswered = () =>
    buckets.take(requestBucket('a', 5), 1).then(
      () => true,
      () => false,
    );
  return until(isAnswered, 'calls are answered again');
}

describe.skipIf(redisServer === undefined)('a connection to Redis', () => {
  test('that is lost fails calls at once, and comes back by itself', async () => {
    const redis = await RedisServer.start();
    const buckets = await open(redis.url);
    await redis.crash();
    await until(() => buckets.failure !== undefined, 'the loss is noticed');
    await expect(buckets.take(requestBucket('a', 5), 1)).rejects.toThrow();
    await redis.startAgain();
    await answersAgain(buckets);
    await redis.stop();
  });

  test('on which nothing is answered is replaced, and its calls fail', async () => {
    const redis = await RedisServer.start();
    const buckets = await open(redis.url);
    redis.freeze();
    let error: unknown;
    buckets.take(requestBucket('a', 5), 1).catch((reason) => {
      error = reason;
    });
    const others: Promise<unknown>[] = [];
    await until(() => {
      // What is asked meanwhile must not keep the connection from being given up.
      others.push(buckets.take(requestBucket('a', 5), 1).catch(() => {}));
      return error !== undefined;
    }, 'the connection is given up');
    expect((error as Error).constructor.name).toBe('SocketTimeoutError');
    await Promise.all(others);
    redis.thaw();
    await answersAgain(buckets);
    await redis.stop();
  });

  test('with a wrong password, or none, says so and is tried again', async () => {
    const redis = await RedisServer.start('right');
    const wrong = await open(redis.url.replace('right', 'wrong'));
    expect(wrong.failure).toBe('WRONGPASS');
    const none = await open(redis.url.replace(':right@', ''));
    await expect(none.take(requestBucket('a', 5), 1)).rejects.toThrow();
    expect(none.failure).toBe('NOAUTH');
    await redis.command('CONFIG SET requirepass wrong');
    await until(
      () =>
        wrong.take(requestBucket('a', 5), 1).then(
          () => true,
          () => false,
        ),
      'the password that is right now is taken',
    );
    await redis.stop();
  });
});

test('opening resolves, too, when nobody listens', async () => {
  const buckets = await open(`redis://127.0.0.1:${await freePort()}`);
  expect(buckets.failure).toBe('ECONNREFUSED');
  await expect(buckets.take(requestBucket('a', 5), 1)).rejects.toThrow();
});
