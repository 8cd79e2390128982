import { describe, expect, test } from 'vitest';
import { RecordStore } from '../../src/store/records.ts';
import { migrate } from '../../src/store/schema.ts';
import { Detokenizer } from '../../src/tokens/detokenizer.ts';
import { Tokenizer } from '../../src/tokens/tokenizer.ts';
import type { Value } from '../../src/types.ts';
import { testLeasedKeyring } from '../support/keys.ts';
import {
  held,
  lockWaits,
  ownCluster,
  ownPlace,
  ownPool,
  ownVault,
  vaultAt,
} from '../support/own.ts';
import { postgresBin, query } from '../support/postgres.ts';
import { call, kinds, type Place, until } from '../support/service.ts';
import { Authority, hasOpenssl, serveTls } from '../support/tls.ts';
import { addKeyVersions, soon } from '../support/vault.ts';

const TERMS = { token_mode: 'deterministic', time_to_live_s: null } as const;
const UNAVAILABLE = 'database unavailable';

/** Resolves when so many connections of this name wait for a lock. */
const waits = (place: Place, name: string, isEnough: (count: number) => boolean) =>
  lockWaits(place, `application_name = '${name}'`, isEnough);

const lock = (place: Place, mode: string, name?: string) =>
  held(place, `lock table standin.records in ${mode} mode`, name);

describe.skipIf(!kinds().includes('server'))('on a server', () => {
  test('no statement of a request goes on beyond its deadline, whatever its own time would be', async () => {
    const place = await ownPlace('server');
    const pool = ownPool(place, 8);
    await migrate(pool, soon());
    await addKeyVersions(pool, 1, 2, 3);
    const store = () => new RecordStore(pool, { timeoutMs: 3_600_000 });
    const tokenizer = new Tokenizer(store(), testLeasedKeyring(), 'tok', () => {});
    const detokenizer = new Detokenizer(store(), testLeasedKeyring(), () => {});
    const tokenize = (value: string, deadlineMs = performance.now() + 600) =>
      tokenizer.tokenize([value as Value], TERMS, deadlineMs);
    const tokens = await tokenize('known', soon());

    const unlockWrites = await lock(place, 'share');
    // Its look-up goes through, and its insert does not.
    expect(await tokenize('known')).toEqual(tokens);
    await expect(tokenize('new')).rejects.toThrow(UNAVAILABLE);
    await unlockWrites();

    const unlock = await lock(place, 'access exclusive');
    const deadlineMs = performance.now() + 600;
    const looking = [
      tokenize('known'),
      detokenizer.detokenize(tokens, 0, deadlineMs),
      detokenizer.sizes(tokens, deadlineMs),
    ];
    await Promise.all(looking.map((one) => expect(one).rejects.toThrow(UNAVAILABLE)));
    await unlock();

    // The token stands for another value: with time left another one is drawn.
    const other = 'update standin.records set value_fingerprint = gen_random_uuid()';
    await pool.query(other, [], soon());
    await expect(tokenize('known', performance.now())).rejects.toThrow(UNAVAILABLE);
    expect(await tokenize('known', soon())).not.toEqual(tokens);
  });

  test('the second statement of a request has the time that the first one left, so that who asked first is answered first', async () => {
    const { place, service, json, tokenized } = await ownVault({ kind: 'server' });
    const one = (count: number) => count === 1;
    const { a: token } = await tokenized({ a: 'first' });
    // The note that it was stored stays: it is looked up, and then has to be written.
    await json(`forget --yes ${token}`);

    const unlock = await lock(place, 'access exclusive');
    const first = call(service, 'tokenize', { a: 'first' });
    await waits(place, 'standin', one);
    // Lets look-ups through, and no writes.
    const next = lock(place, 'share', 'next');
    await waits(place, 'next', one);
    const second = call(service, 'tokenize', { a: 'second' });
    await waits(place, 'standin', (count) => count === 2);
    await unlock();
    const unlockNext = await next;
    const order: string[] = [];
    void first.then(() => order.push('first'));
    void second.then(() => order.push('second'));
    for (const { status, body } of await Promise.all([first, second]))
      expect([status, body.message]).toEqual([500, UNAVAILABLE]);
    expect(order).toEqual(['first', 'second']);
    await unlockNext();
    expect(await tokenized({ a: 'first' })).toEqual({ a: token });
  });
});

const isBounced = process.env.TEST_PGBOUNCER === '1';

test
  .skipIf(postgresBin === undefined)
  .each(hasOpenssl && !isBounced ? ['in clear', 'over TLS'] : ['in clear'])(
  'a statement that ran out of time, %s, is stopped on the server; every request is answered; then all works again',
  async (kind) => {
    const cluster = await ownCluster();
    const place = await ownPlace('server', cluster.url('postgres'));
    const name = new URL(place.env.DATABASE_URL!).pathname.slice(1);
    const direct = cluster.directUrl(name);
    const env: Record<string, string> = {};
    if (kind === 'over TLS') {
      const authority = new Authority(place.folder, 'authority');
      serveTls(cluster, authority);
      const tls = `sslmode=verify-full&sslrootcert=${authority.ca}`;
      env.DATABASE_URL = `postgres://postgres@localhost:${cluster.port}/${name}?${tls}`;
    }
    const { service } = await vaultAt(place, 1, env);
    const atDirect = { ...place, env: { DATABASE_URL: direct } };
    const unlock = await lock(atDirect, 'access exclusive');
    // Far more pieces than are under way at once.
    const calls = ['a', 'b', 'c', 'd'].map((mark) => {
      const list = Array.from({ length: 10_000 }, (_, i) => `${mark} ${i}`);
      return call(service, 'tokenize', { list });
    });
    await waits(atDirect, 'standin', (count) => count > 0);
    let answered = 0;
    for (const one of calls) void one.then(() => answered++);
    await until(() => answered === calls.length, 'all answers', 12_000);
    for (const { status, body } of await Promise.all(calls))
      expect([status, body.message]).toEqual([500, UNAVAILABLE]);
    await waits(atDirect, 'standin', (count) => count === 0);
    const locks = `select 1 from pg_locks where mode = 'AccessExclusiveLock' and granted
      and relation = 'standin.records'::regclass`;
    expect(await query(direct, locks)).toHaveLength(1);
    await unlock();
    const works = async () => (await call(service, 'tokenize', { a: 'Ann Lee' })).status === 200;
    await until(works, 'a token');
  },
);
