import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { loop } from '../support/loop.ts';
import { startWithOps } from '../support/ops.ts';
import { freePort } from '../support/postgres.ts';
import { RedisServer, redisServer } from '../support/redis.ts';
import { findText } from '../support/secrecy.ts';
import { logged } from '../support/served.ts';
import {
  call,
  createClient,
  kinds,
  makeVault,
  type Place,
  runCli,
  type Service,
  scrape,
  until,
  usualPlace,
} from '../support/service.ts';
import { Authority, hasOpenssl } from '../support/tls.ts';

const PASSWORD = 'hunter2-of-redis';
const ALONE = 'Redis does not answer: this process limits on its own';
const SHARED = 'Redis answers again: rate limits are shared';

let place: Place;
const services: Service[] = [];

async function start(env: Record<string, string>): Promise<Service> {
  const service = await startWithOps(place, env);
  services.push(service);
  return service;
}

/** The gauge, or undefined when it is not there. */
async function isShared({ opsUrl }: Service): Promise<number | undefined> {
  return (await scrape(opsUrl!, 'standin_rate_limit_shared'))[''];
}

const becomes = (service: Service, shared: 0 | 1) =>
  until(async () => (await isShared(service)) === shared, `the gauge says ${shared}`);

/** What the log tells of Redis. */
const changes = (service: Service) => logged(service, '"msg":"Redis ');

/** Calls without a pause, four at a time, until stopped; counts the responses by status. */
function load(service: Service, apiKey = service.api_key) {
  const statuses: Record<number, number> = {};
  let answered = 0;
  const calls = loop(async () => {
    const { status } = await call(service, 'tokenize', { a: 'Ann' }, apiKey);
    statuses[status] = (statuses[status] ?? 0) + 1;
    answered++;
  }, 4);
  const more = () => {
    const goal = answered + 50;
    return until(() => answered >= goal, '50 more responses');
  };
  const stop = async () => {
    await calls.stop();
    return statuses;
  };
  return { statuses, more, stop };
}

/**
 * Counts what nodes let through while they share. On a machine so busy that Redis does not answer
 * within 100 ms they rightly limit alone for a while: what was counted then says nothing.
 */
async function whileShared(
  all: readonly Service[],
  attempt: () => Promise<() => void>,
): Promise<void> {
  const told = () => all.flatMap(changes).length;
  for (;;) {
    for (const service of all) await becomes(service, 1);
    const before = told();
    const check = await attempt();
    // The gauge is read after the lines: a change that is not told yet shows there.
    const states = await Promise.all(all.map(isShared));
    if (told() === before && states.every((state) => state === 1)) return check();
  }
}

describe.skipIf(redisServer === undefined)('the service with REDIS_URL', () => {
  let redis: RedisServer;
  beforeEach(async () => {
    place = await usualPlace();
    redis = await RedisServer.start(PASSWORD);
  });
  afterEach(async () => {
    // What a URL has in it is nowhere, whatever happened.
    const output = new Map(services.map((one) => [one.url, Buffer.from(one.output())]));
    for (const text of [PASSWORD, `:${redis.port}`]) expect(findText(text, output)).toEqual([]);
    for (const service of services.splice(0)) await service.stop();
    await redis.stop();
    place.remove();
  });

  const needsServer = test.runIf(kinds().includes('server'));
  needsServer('L08: two nodes on one vault let together what one may', async () => {
    const env = { REDIS_URL: redis.url, RATE_LIMIT: '10' };
    const pair = [await start(env), await start(env)];
    await whileShared(pair, async () => {
      const { api_key: apiKey } = await createClient(place);
      const startedUs = await redis.nowUs();
      const loads = pair.map((service) => load(service, apiKey));
      const allowed = () => loads.reduce((sum, { statuses }) => sum + (statuses[200] ?? 0), 0);
      await until(() => allowed() >= 50, '50 tokenized');
      const counted = allowed();
      const passedS = ((await redis.nowUs()) - startedUs) / 1e6;
      const statuses = await Promise.all(loads.map(({ stop }) => stop()));
      return () => {
        expect(counted).toBeLessThanOrEqual((10 * passedS + 10) * 1.05);
        for (const counts of statuses) {
          expect(Object.keys(counts)).toEqual(['200', '429']);
          expect(counts[429]).toBeGreaterThan(counts[200]!);
        }
      };
    });
  });

  needsServer('two nodes share the limit of detokenize, and the budget of guesses', async () => {
    const env = { REDIS_URL: redis.url, DETOKENIZE_LIMIT: '1000', UNKNOWN_TOKEN_LIMIT: '0.1' };
    const pair = [await start(env), await start(env)] as const;
    const guesses = (count: number) => Array.from({ length: count }, (_, i) => `guess${i}_tok`);
    /** The statuses of one request to the first node, then one to the second. */
    const ask = async (apiKey: string, one: string[], other: string[], more = {}) => {
      const statuses: number[] = [];
      for (const [i, data] of [one, other].entries())
        statuses.push((await call(pair[i]!, 'detokenize', { data }, apiKey, more)).status);
      return statuses;
    };
    await whileShared(pair, async () => {
      const { api_key: slow } = await createClient(place, '--detokenize-limit', '0.001');
      const guesser = await createClient(place);
      const { api_key: lenient } = await createClient(place);
      const statuses = [
        await ask(slow, [], []),
        await ask(guesser.api_key, guesses(50), guesses(1)),
        await ask(lenient, guesses(5), guesses(5), { prefer: 'handling=lenient' }),
        await ask(pair[0].api_key, [], []),
      ];
      const keys = (await redis.command('KEYS *')).match(/standin:limit:\S+/g)!;
      return () => {
        const [once, guessed] = [
          [200, 429],
          [400, 429],
        ];
        expect(statuses).toEqual([once, guessed, once, [200, 200]]);
        const name = /^standin:limit:(probe|standin_[0-9a-f]{24}(:detokenize|:unknown)?)$/;
        for (const key of keys) expect(key).toMatch(name);
        expect(keys).toContain(`standin:limit:${guesser.client_id}:unknown`);
      };
    });
  });

  test('starts without Redis and says so, shares when it comes, goes on when it is killed under load, and shares again', async () => {
    await redis.crash();
    const service = await start({ REDIS_URL: redis.url, RATE_LIMIT: '1000000' });
    await until(() => changes(service).length === 1, 'a warning');
    expect(changes(service)[0]).toMatchObject({ code: 'ECONNREFUSED' });
    expect(await isShared(service)).toBe(0);
    const requests = load(service);
    await requests.more();
    const comes = async () => {
      await redis.startAgain();
      await becomes(service, 1);
      await requests.more();
    };
    await comes();
    expect(await redis.command('KEYS standin:limit:*')).toContain('standin:limit:probe');
    await redis.crash();
    await becomes(service, 0);
    await requests.more();
    await comes();
    expect(Object.keys(await requests.stop())).toEqual(['200']);
    await until(() => changes(service).length >= 4, 'two warnings, and that it is well twice');
    // On a busy machine there may be more of them, in turns.
    const told = changes(service);
    expect(told.map(({ msg }) => msg)).toEqual(told.map((_, i) => [ALONE, SHARED][i % 2]));
    expect(told[2].code).toMatch(/^E[A-Z]+$|^Socket/);
  });

  test('answers while Redis hangs, with limits of its own', async () => {
    const service = await start({ REDIS_URL: redis.url, RATE_LIMIT: '0.001' });
    let apiKey = '';
    const tokenize = () => call(service, 'tokenize', { a: 'Ann' }, apiKey);
    await whileShared([service], async () => {
      apiKey = (await createClient(place)).api_key;
      const statuses = [(await tokenize()).status, (await tokenize()).status];
      return () => expect(statuses).toEqual([200, 429]);
    });
    redis.freeze();
    onTestFinished(() => redis.thaw());
    // The bucket of this node alone is still full.
    expect((await tokenize()).status).toBe(200);
    const alone = await tokenize();
    expect([alone.status, alone.body.retry_after]).toEqual([429, 1_000]);
    expect(await isShared(service)).toBe(0);
    redis.thaw();
    await becomes(service, 1);
    const refused = await tokenize();
    expect(refused.status).toBe(429);
    expect(refused.headers.get('retry-after')).toBe(String(refused.body.retry_after));
  });

  test('ends at once when it is told to, and its connection with it', async () => {
    const service = await start({ REDIS_URL: redis.url });
    const connections = async () =>
      (await redis.command('CLIENT LIST')).match(/cmd=evalsha|cmd=eval/g)?.length ?? 0;
    await until(async () => (await connections()) === 1, 'the connection of the service');
    service.kill('SIGINT');
    expect(await service.exit).toBe(0);
    // A connection that it closes itself is no failure; each before it was followed by its end.
    expect(changes(service).length % 2).toBe(0);
    await until(async () => (await connections()) === 0, 'no connection');
  });
});

describe.skipIf(redisServer === undefined)('doctor', () => {
  beforeEach(async () => {
    place = await usualPlace();
  });
  afterEach(() => place.remove());

  /** The exit code, and the finding about Redis. */
  async function examine(url: string, env: Record<string, string> = {}) {
    const { code, stdout } = await runCli(['doctor', '--json'], place, { REDIS_URL: url, ...env });
    expect(stdout).not.toContain(PASSWORD);
    const { status, detail } = JSON.parse(stdout).find(({ check }: any) => check === 'redis');
    return `${code} ${status} ${detail}`;
  }

  test('finds a Redis that answers, and warns of one that does not', async () => {
    await makeVault(place);
    const redis = await RedisServer.start(PASSWORD);
    onTestFinished(() => redis.stop());
    expect(await examine(redis.url)).toBe('0 ok it answers: all nodes share the rate limits');
    expect(await examine(redis.url.replace(PASSWORD, 'wrong'))).toMatch(
      /^0 warning Redis does not answer \(WRONGPASS\).* Check REDIS_URL/,
    );
    redis.freeze();
    expect(await examine(redis.url)).toMatch(/^0 warning/);
  });

  test.skipIf(!hasOpenssl)(
    'checks the certificate of rediss://, and takes an authority that Node is told of',
    async () => {
      const authority = new Authority(place.folder, 'redis');
      const { cert, key } = authority.issue('DNS:localhost');
      const tlsPort = await freePort();
      const tls = ['--tls-port', String(tlsPort), '--tls-auth-clients', 'no'];
      const files = ['--tls-cert-file', cert, '--tls-key-file', key];
      const ca = ['--tls-ca-cert-file', authority.ca];
      const redis = await RedisServer.start(undefined, [...tls, ...files, ...ca]);
      onTestFinished(() => redis.stop());
      const at = (host: string, env = {}) => examine(`rediss://${host}:${tlsPort}`, env);
      const trusted = { NODE_EXTRA_CA_CERTS: authority.ca };
      expect(await at('localhost', trusted)).toMatch(/^\d ok/);
      expect(await at('localhost')).toMatch(/^\d warning .*\(SELF_SIGNED_CERT_IN_CHAIN\)/);
      expect(await at('127.0.0.1', trusted)).toMatch(/warning .*\(ERR_TLS_CERT_ALTNAME_INVALID\)/);
    },
  );
});
