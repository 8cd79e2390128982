import { execFileSync, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { freePort } from '../support/postgres.ts';
import { RedisServer, redisServer } from '../support/redis.ts';
import { findText } from '../support/secrecy.ts';
import {
  call,
  createClient,
  kinds,
  makeVault,
  newPlace,
  type Place,
  runCli,
  type Service,
  startService,
  until,
} from '../support/service.ts';

const hasOpenssl = spawnSync('openssl', ['version']).status === 0;
const PASSWORD = 'hunter2-of-redis';

/** A server where there is one: it starts faster. */
const kind = kinds().at(-1)!;
let place: Place;
const services: Service[] = [];

async function start(env: Record<string, string>): Promise<Service> {
  const service = await startService(place, { OPS_PORT: String(await freePort()), ...env });
  services.push(service);
  return service;
}

/** The gauge, or undefined when it is not there. */
async function isShared(service: Service): Promise<string | undefined> {
  const text = await (await fetch(`${service.opsUrl}/metrics`)).text();
  return /^standin_rate_limit_shared (\d)/m.exec(text)?.[1];
}

const ALONE = 'Redis does not answer: this process limits on its own';
const SHARED = 'Redis answers again: rate limits are shared';

/** What the log tells of Redis. */
function warnings(service: Service): any[] {
  return service
    .output()
    .split('\n')
    .filter((line) => line.includes(ALONE) || line.includes(SHARED))
    .map((line) => JSON.parse(line));
}

const changes = (service: Service): string[] => warnings(service).map(({ msg }) => msg);

/** Calls without a pause, four at a time, until stopped; counts the answers by status. */
function load(service: Service, apiKey = service.api_key) {
  const statuses: Record<number, number> = {};
  let isOver = false;
  const one = async () => {
    while (!isOver) {
      const { status } = await call(service, 'tokenize', { a: 'Ann' }, apiKey);
      statuses[status] = (statuses[status] ?? 0) + 1;
    }
  };
  const done = Promise.all(Array.from({ length: 4 }, one));
  const answered = () => Object.values(statuses).reduce((sum, count) => sum + count, 0);
  const stop = async () => {
    isOver = true;
    await done;
    return statuses;
  };
  return { answered, statuses, stop };
}

async function moreAnswers(requests: ReturnType<typeof load>, count = 50): Promise<void> {
  const before = requests.answered();
  await until(() => requests.answered() >= before + count, `${count} more answers`);
}

/**
 * Counts what nodes let through while they share. On a machine so busy that Redis does not answer
 * within 100 ms they rightly limit alone for a while: what was counted then says nothing.
 */
async function whileShared(
  all: readonly Service[],
  attempt: () => Promise<() => void>,
): Promise<void> {
  const told = () => all.reduce((count, service) => count + changes(service).length, 0);
  for (;;) {
    for (const service of all)
      await until(async () => (await isShared(service)) === '1', 'shared limits');
    const before = told();
    const check = await attempt();
    // The gauge is read after the lines: a change that is not told yet shows there.
    const states = await Promise.all(all.map(isShared));
    if (told() === before && states.every((state) => state === '1')) return check();
  }
}

describe.skipIf(redisServer === undefined)('the service with REDIS_URL', () => {
  let redis: RedisServer;
  beforeEach(async () => {
    redis = await RedisServer.start(PASSWORD);
  });
  afterEach(async () => {
    // What a URL has in it is nowhere, whatever happened.
    for (const service of services) {
      const output = new Map([['output', Buffer.from(service.output())]]);
      expect(findText(PASSWORD, output)).toEqual([]);
      expect(findText(`:${redis.port}`, output)).toEqual([]);
    }
    for (const service of services.splice(0)) await service.stop();
    await redis.stop();
    place.remove();
  });

  test.runIf(kinds().includes('server'))(
    'L08: two nodes on one vault let together what one may',
    async () => {
      place = await newPlace('server');
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
    },
  );

  test.runIf(kinds().includes('server'))(
    'two nodes share the limit of detokenize, and the budget of unknown tokens',
    async () => {
      place = await newPlace('server');
      const env = { REDIS_URL: redis.url, DETOKENIZE_LIMIT: '1000', UNKNOWN_TOKEN_LIMIT: '0.1' };
      const pair = [await start(env), await start(env)] as const;
      const [first, second] = pair;
      const status = async (service: Service, data: object, key: string) =>
        (await call(service, 'detokenize', data, key)).status;
      const lenient = async ({ url }: Service, data: unknown, key: string) => {
        const response = await fetch(`${url}/api/v1/detokenize`, {
          method: 'POST',
          headers: {
            authorization: `Bearer ${key}`,
            'content-type': 'application/json',
            prefer: 'handling=lenient',
          },
          body: JSON.stringify({ data: { data } }),
        });
        return response.status;
      };
      await whileShared(pair, async () => {
        const { api_key: apiKey } = await createClient(place, '--detokenize-limit', '0.001');
        const guesser = await createClient(place);
        const guesses = { all: Array.from({ length: 50 }, (_, i) => `guess${i}_tok`) };
        const lenientGuesser = await createClient(place);
        const five = Array.from({ length: 5 }, (_, i) => `guess${i}_tok`);
        const statuses = [
          await status(first, {}, apiKey),
          await status(second, {}, apiKey),
          await status(first, guesses, guesser.api_key),
          await status(second, { a: 'one more_tok' }, guesser.api_key),
          await lenient(first, five, lenientGuesser.api_key),
          await lenient(second, five, lenientGuesser.api_key),
          await status(second, {}, second.api_key || first.api_key),
        ];
        const keys = (await redis.command('KEYS *')).match(/standin:limit:\S+/g)!;
        return () => {
          expect(statuses).toEqual([200, 429, 400, 429, 200, 429, 200]);
          const name = /^standin:limit:(probe|standin_[0-9a-f]{24}(:detokenize|:unknown)?)$/;
          for (const key of keys) expect(key).toMatch(name);
          expect(keys).toContain(`standin:limit:${guesser.client_id}:unknown`);
        };
      });
    },
  );

  test('goes on when Redis is killed under load, and shares again when it is back', async () => {
    place = await newPlace(kind);
    const service = await start({ REDIS_URL: redis.url, RATE_LIMIT: '1000000' });
    const requests = load(service);
    await moreAnswers(requests);
    await until(async () => (await isShared(service)) === '1', 'shared limits');
    const before = changes(service).length;
    await redis.crash();
    await until(async () => (await isShared(service)) === '0', 'the gauge says 0');
    await moreAnswers(requests);
    await redis.startAgain();
    await until(async () => (await isShared(service)) === '1', 'the gauge says 1');
    await moreAnswers(requests);
    expect(Object.keys(await requests.stop())).toEqual(['200']);
    await until(() => changes(service).length >= before + 2, 'two warnings');
    // On a busy machine there may be more of them, in turns.
    const told = changes(service);
    expect(told).toEqual(told.map((_, i) => (i % 2 === 0 ? ALONE : SHARED)));
    expect(warnings(service)[before].code).toMatch(/^E[A-Z]+$|^Socket/);
  });

  test('answers while Redis hangs, with limits of its own', async () => {
    place = await newPlace(kind);
    const service = await start({ REDIS_URL: redis.url, RATE_LIMIT: '0.001' });
    let apiKey = '';
    const tokenize = () => call(service, 'tokenize', { a: 'Ann' }, apiKey);
    await whileShared([service], async () => {
      apiKey = (await createClient(place)).api_key;
      const statuses = [(await tokenize()).status, (await tokenize()).status];
      return () => expect(statuses).toEqual([200, 429]);
    });
    redis.freeze();
    try {
      // The bucket of this node alone is still full.
      expect((await tokenize()).status).toBe(200);
      const refused = await tokenize();
      expect(refused.status).toBe(429);
      expect(refused.body.retry_after).toBe(1_000);
      expect(await isShared(service)).toBe('0');
    } finally {
      redis.thaw();
    }
    await until(async () => (await isShared(service)) === '1', 'the gauge says 1');
    const refused = await tokenize();
    expect(refused.status).toBe(429);
    expect(refused.headers.get('retry-after')).toBe(String(refused.body.retry_after));
  });

  test('starts without Redis, says so, and shares when it comes', async () => {
    place = await newPlace(kind);
    await redis.crash();
    const service = await start({ REDIS_URL: redis.url, RATE_LIMIT: '2' });
    await until(() => warnings(service).length === 1, 'a warning');
    expect(warnings(service)[0]).toMatchObject({ code: 'ECONNREFUSED' });
    expect(await isShared(service)).toBe('0');
    const statuses = [];
    for (let i = 0; i < 3; i++)
      statuses.push((await call(service, 'tokenize', { a: 'Ann' })).status);
    expect(statuses).toContain(200);
    await redis.startAgain();
    await until(async () => (await isShared(service)) === '1', 'the gauge says 1');
    expect(await redis.command('KEYS standin:limit:*')).toContain('standin:limit:probe');
  });

  test('with a wrong password goes on alone and names the code of Redis', async () => {
    place = await newPlace(kind);
    const url = redis.url.replace(PASSWORD, `wrong-${PASSWORD}`);
    const service = await start({ REDIS_URL: url });
    await until(() => warnings(service).length === 1, 'a warning');
    expect(warnings(service)[0]).toMatchObject({ code: 'WRONGPASS' });
    expect((await call(service, 'tokenize', { a: 'Ann' })).status).toBe(200);
    expect(await isShared(service)).toBe('0');
  });

  test('ends at once when it is told to, and its connection with it', async () => {
    place = await newPlace(kind);
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

  describe('and doctor', () => {
    async function examine(url: string) {
      const { code, stdout } = await runCli(['doctor', '--json'], place, { REDIS_URL: url });
      expect(stdout).not.toContain(PASSWORD);
      const findings = JSON.parse(stdout);
      return { code, finding: findings.find(({ check }: any) => check === 'redis') };
    }

    test('names the server, and warns of one that does not answer', async () => {
      place = await newPlace(kind);
      await makeVault(place);
      expect(await examine(redis.url)).toEqual({
        code: 0,
        finding: {
          check: 'redis',
          status: 'ok',
          detail: expect.stringMatching(
            /^(Redis|Valkey) \d+\.\d+\.\d+: all nodes share the rate limits$/,
          ),
        },
      });
      const wrong = await examine(redis.url.replace(PASSWORD, 'wrong'));
      expect(wrong.code).toBe(0);
      expect(wrong.finding).toMatchObject({
        status: 'warning',
        detail: expect.stringMatching(/^Redis does not answer \(WRONGPASS\).* Check REDIS_URL/),
      });
      redis.freeze();
      const hanging = await examine(redis.url);
      redis.thaw();
      expect(hanging).toMatchObject({ code: 0, finding: { status: 'warning' } });
    });
  });
});

describe.skipIf(redisServer === undefined || !hasOpenssl)('rediss://', () => {
  test('checks the certificate, and takes an authority that Node is told of', async () => {
    place = await newPlace(kind);
    const [key, certificate] = [join(place.folder, 'key.pem'), join(place.folder, 'cert.pem')];
    const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost'];
    const made = ['-keyout', key, '-out', certificate, '-days', '1', ...subject];
    execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', ...made], {
      stdio: 'ignore',
    });
    const tlsPort = await freePort();
    const tls = ['--tls-port', String(tlsPort), '--tls-auth-clients', 'no'];
    const files = ['--tls-cert-file', certificate, '--tls-key-file', key];
    const ca = ['--tls-ca-cert-file', certificate];
    const redis = await RedisServer.start(undefined, [...tls, ...files, ...ca]);
    const doctor = async (host: string, env: Record<string, string>) => {
      const REDIS_URL = `rediss://${host}:${tlsPort}`;
      const { stdout } = await runCli(['doctor', '--json'], place, { REDIS_URL, ...env });
      const { status, detail } = JSON.parse(stdout).find(({ check }: any) => check === 'redis');
      return `${status} ${/\((\w+)\)/.exec(detail)?.[1] ?? ''}`;
    };
    const trusted = { NODE_EXTRA_CA_CERTS: certificate };
    expect(await doctor('localhost', trusted)).toBe('ok ');
    expect(await doctor('localhost', {})).toBe('warning DEPTH_ZERO_SELF_SIGNED_CERT');
    expect(await doctor('127.0.0.1', trusted)).toBe('warning ERR_TLS_CERT_ALTNAME_INVALID');
    await redis.stop();
    place.remove();
  });
});

test('without REDIS_URL there is no gauge', async () => {
  place = await newPlace(kind);
  const service = await start({});
  expect(await isShared(service)).toBeUndefined();
  await services.pop()!.stop();
  place.remove();
});
