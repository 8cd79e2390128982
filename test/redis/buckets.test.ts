import fc from 'fast-check';
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  onTestFinished,
  test,
} from 'vitest';
import { MemoryBuckets, NO_OUTCOME } from '../../src/limits/buckets.ts';
import { RedisBuckets } from '../../src/limits/redis-buckets.ts';
import { budgetBucket, requestBucket, unknownTokens } from '../support/buckets.ts';
import { blocks } from '../support/docs.ts';
import { freePort } from '../support/postgres.ts';
import { RedisServer, redisServer } from '../support/redis.ts';
import { until } from '../support/service.ts';

const opened: RedisBuckets[] = [];
afterEach(() => {
  for (const buckets of opened.splice(0)) buckets.close();
});

async function open(url: string): Promise<RedisBuckets> {
  const buckets = await RedisBuckets.open(url);
  opened.push(buckets);
  return buckets;
}

let names = 0;
const newClient = () => `client ${names++}`;
const newBucket = (rate: number) => requestBucket(newClient(), rate);
const START_US = 1_700_000_000_000_000;
const HOUR_US = 3_600_000_000;

describe.skipIf(redisServer === undefined)('buckets in Redis', () => {
  let redis: RedisServer;
  let buckets: RedisBuckets;
  beforeAll(async () => {
    redis = await RedisServer.start();
  });
  afterAll(() => redis?.stop());
  beforeEach(async () => {
    buckets = await open(redis.url);
  });

  test('agree with those in memory, whatever is taken, reserved, earned and owed, when and at which rates', async () => {
    const rate = fc.oneof(
      fc.integer({ min: 1, max: 2_000 }),
      fc.constantFrom(0.001, 0.3, 0.5, 1.5, 2.7, 50, 1_000_000),
    );
    const some = fc.oneof({ arbitrary: fc.constant(0), weight: 3 }, fc.nat(70), fc.nat(2_000));
    const step = fc.record({
      pauseUs: fc.oneof(fc.constant(0), fc.nat(3_000_000), fc.nat(2_000_000_000)),
      count: fc.oneof(fc.nat(3), fc.nat(70), fc.nat(1_500)),
      outcome: fc.record({ ended: fc.nat(70), known: some, unknown: some, guessed: some }),
      newRate: fc.option(rate, { nil: undefined, freq: 8 }),
    });
    const seen = { refused: 0, granted: 0 };
    const steps = fc.array(step, { maxLength: 30 });
    const property = fc.asyncProperty(fc.boolean(), rate, steps, async (isBudget, first, steps) => {
      const name = newClient();
      let [nowUs, rate] = [START_US, first];
      const memory = new MemoryBuckets(() => (nowUs - START_US) / 1_000);
      for (const { pauseUs, count, outcome, newRate } of steps) {
        nowUs += pauseUs;
        rate = newRate ?? rate;
        const bucket = (isBudget ? budgetBucket : requestBucket)(name, rate);
        const charged = isBudget ? outcome : NO_OUTCOME;
        const grant = await buckets.charge(bucket, count, charged, nowUs);
        expect(grant).toEqual(memory.charge(bucket, count, charged));
        seen[grant.granted < count ? 'refused' : 'granted']++;
      }
    });
    await fc.assert(property, { numRuns: 300 });
    expect(Math.min(seen.refused, seen.granted)).toBeGreaterThan(200);
  });

  test('lock nobody out and change nothing when the clock is set back', async () => {
    const full = newBucket(10);
    expect((await buckets.charge(full, 10, NO_OUTCOME, 2 * HOUR_US)).granted).toBe(10);
    const refused = { granted: 0, left: 0, retryAfterS: 1 };
    expect(await buckets.charge(full, 1, NO_OUTCOME, HOUR_US)).toEqual(refused);
    expect((await buckets.charge(full, 10, NO_OUTCOME, HOUR_US + 500_000)).granted).toBe(5);
    const other = newBucket(10);
    expect((await buckets.charge(other, 4, NO_OUTCOME, 2 * HOUR_US)).granted).toBe(4);
    expect((await buckets.charge(other, 10, NO_OUTCOME, HOUR_US)).granted).toBe(6);
  });

  test('have keys with a name of ours, which go by themselves', async () => {
    await redis.command('FLUSHALL');
    await buckets.charge(requestBucket('fast', 1_000), 5);
    await buckets.charge(requestBucket('slow', 0.001), 1);
    await buckets.charge(budgetBucket('owing', 0.01), 0, unknownTokens(1_000));
    expect(await redis.command('DBSIZE')).toBe(':3');
    // `owing`: two whole budgets of one token each.
    for (const [name, over, most] of [
      ['fast', 0, 61],
      ['slow', 1_000, 1_061],
      ['owing', 200, Infinity],
    ] as const) {
      const ttlS = Number((await redis.command(`TTL standin:limit:${name}`)).replace(':', ''));
      expect(ttlS).toBeGreaterThan(over);
      expect(ttlS).toBeLessThanOrEqual(most);
    }
  });

  test('fail the call with a code for a key that another program wrote, and mend themselves', async () => {
    const take = (count: number) => buckets.charge(requestBucket('strange', 5), count);
    await redis.command('SET standin:limit:strange something');
    expect((await take(6)).granted).toBe(5);
    await redis.command('DEL standin:limit:strange');
    await redis.command('LPUSH standin:limit:strange something');
    await expect(take(1)).rejects.toThrow();
    expect(buckets.failure).toBe('WRONGTYPE');
    await redis.command('DEL standin:limit:strange');
    expect((await take(1)).granted).toBe(1);
    expect(buckets.failure).toBeUndefined();
  });

  test('fail also a probe in a Redis that takes no writes', async () => {
    await redis.command(`REPLICAOF 127.0.0.1 ${await freePort()}`);
    await expect(buckets.charge(newBucket(5), 0)).rejects.toThrow();
    expect(buckets.failure).toBe('READONLY');
    await redis.command('REPLICAOF NO ONE');
    expect((await buckets.charge(newBucket(5), 1)).granted).toBe(1);
  });

  test('are in the database that the URL names', async () => {
    await redis.command('FLUSHALL');
    const third = await open(`${redis.url}/3`);
    await third.charge(newBucket(5), 1);
    expect(await redis.command('DBSIZE')).toBe(':0');
  });

  test('need no more rights than operating.md gives their user', async () => {
    const [given] = blocks('docs/operating.md', 'text').filter((text) => text.startsWith('ACL'));
    const [command, user] = /ACL SETUSER (\w+) .*/.exec(given!)!;
    expect(await redis.command(command.replace('PASSWORD', 'secret'))).toBe('+OK');
    const limited = await open(redis.url.replace('//', `//${user}:secret@`));
    await redis.command('SCRIPT FLUSH');
    expect((await limited.charge(newBucket(2), 3)).granted).toBe(2);
    await redis.command(`ACL SETUSER ${user} -set`);
    await expect(limited.charge(newBucket(2), 0)).rejects.toThrow();
  });
});

describe.skipIf(redisServer === undefined)('a connection to Redis', () => {
  const A = requestBucket('a', 5);
  const answersAgain = (buckets: RedisBuckets) => {
    const isAnswered = () => buckets.charge(A, 1).then(Boolean, () => false);
    return until(isAnswered, 'calls are answered again');
  };
  const start = async (password?: string) => {
    const redis = await RedisServer.start(password);
    onTestFinished(() => redis.stop());
    return redis;
  };

  test('on which nothing is answered is replaced, and its calls fail', async () => {
    const redis = await start();
    const buckets = await open(redis.url);
    redis.freeze();
    let error: unknown;
    buckets.charge(A, 1).catch((reason) => {
      error = reason;
    });
    const others: Promise<unknown>[] = [];
    await until(() => {
      // What is asked meanwhile must not keep the connection from being given up.
      others.push(buckets.charge(A, 1).catch(() => {}));
      return error !== undefined;
    }, 'the connection is given up');
    expect((error as Error).constructor.name).toBe('SocketTimeoutError');
    await Promise.all(others);
    redis.thaw();
    await answersAgain(buckets);
  });

  test('with a wrong password, or none, says so and is tried again', async () => {
    const redis = await start('right');
    const wrong = await open(redis.url.replace('right', 'wrong'));
    expect(wrong.failure).toBe('WRONGPASS');
    const none = await open(redis.url.replace(':right@', ''));
    await expect(none.charge(A, 1)).rejects.toThrow();
    expect(none.failure).toBe('NOAUTH');
    await redis.command('CONFIG SET requirepass wrong');
    await answersAgain(wrong);
  });
});
