import { beforeAll, describe, expect, test } from 'vitest';
import { Expiry } from '../../src/records/removal.ts';
import { drawToken } from '../../src/shape/kind.ts';
import { Pool } from '../../src/store/pool.ts';
import { hexOf } from '../../src/store/record-walk.ts';
import { RecordStore } from '../../src/store/records.ts';
import { forgetTokens, removeExpired } from '../../src/store/removal.ts';
import { Detokenizer } from '../../src/tokens/detokenizer.ts';
import { Tokenizer } from '../../src/tokens/tokenizer.ts';
import type { FreshRecord, SealedRecord, Token, Value } from '../../src/types.ts';
import { type CitusCluster, citusIsInstalled, startCitus } from '../support/citus.ts';
import { testKeyring, testLeasedKeyring } from '../support/keys.ts';
import { loop } from '../support/loop.ts';
import { blockVault, lockWaits } from '../support/own.ts';
import { freePort } from '../support/processes.ts';
import { Random } from '../support/random.ts';
import { kinds, until } from '../support/service.ts';
import { leased, randomRecord, soon } from '../support/vault.ts';

const ALL = 1_000_000;
const TERMS = { token_mode: 'deterministic', time_to_live_s: null } as const;
const KINDS = [...kinds(), ...(citusIsInstalled ? (['citus'] as const) : [])];
const tokensOf = (records: readonly SealedRecord[]) => records.map((one) => one.token_fingerprint);

interface Promised {
  readonly askedAtMs: number;
  readonly untilMs: number;
}

/** Calls that forget a token, or tokenize a value. `lastEndMs`: the end of the last answered call. */
const NO_CALLS = { active: 0, lastEndMs: -Infinity, lastStartMs: -Infinity };
const VALUES = 30;
const TIMES_TO_LIVE_S = [1, 1, 1, 2, 60, null];

/**
 * What workers at once do in random order: tokenize, forget, detokenize, and remove what expired.
 * `known` and `unknown`: how many answers had to be a value, and how many had to be none.
 */
function randomOrder(random: Random, newStore: () => RecordStore, pool: Pool) {
  const found = { problems: [] as string[], known: 0, unknown: 0 };
  const keys = testLeasedKeyring();
  const onDamaged = () => found.problems.push('a damaged record');
  const tokenizers = [0, 1].map(() => new Tokenizer(newStore(), keys, 'tok', onDamaged));
  const detokenizer = new Detokenizer(newStore(), keys, onDamaged);
  const values = new Map<Token, Value>();
  const promises = new Map<Token, Promised[]>();
  /** By token those that forget it, and by value those that tokenize it. */
  const calls = new Map<string, typeof NO_CALLS>();
  const callsOf = (of: Token | Value) => {
    calls.set(of, calls.get(of) ?? { ...NO_CALLS });
    return calls.get(of)!;
  };

  async function tokenize(): Promise<void> {
    const drawn = Array.from({ length: 5 }, () => `some value ${random.below(VALUES)}`);
    const asked = [...new Set(drawn)] as Value[];
    const timeToLiveS = random.pick(TIMES_TO_LIVE_S);
    const mode = random.below(8) === 0 ? 'random' : 'deterministic';
    for (const value of asked) callsOf(value).active++;
    const askedAtMs = performance.now();
    const terms = { token_mode: mode, time_to_live_s: timeToLiveS } as const;
    const tokens = await random.pick(tokenizers).tokenize(asked, terms);
    const untilMs = askedAtMs + (timeToLiveS ?? Infinity) * 1000;
    tokens.forEach((token, i) => {
      const value = asked[i]!;
      if ((values.get(token) ?? value) !== value) found.problems.push('one token, two values');
      values.set(token, value);
      promises.set(token, [...(promises.get(token) ?? []), { askedAtMs, untilMs }]);
      const uses = callsOf(value);
      uses.active--;
      uses.lastEndMs = performance.now();
    });
  }

  async function forget(token: Token): Promise<void> {
    const forgets = callsOf(token);
    const startedAtMs = performance.now();
    forgets.active++;
    await forgetTokens(pool, [keys.keyring.tokenFingerprint(token)], soon());
    forgets.active--;
    forgets.lastEndMs = performance.now();
    forgets.lastStartMs = Math.max(forgets.lastStartMs, startedAtMs);
    await detokenize(token);
  }

  async function detokenize(token: Token): Promise<void> {
    const value = values.get(token)!;
    const [promised, forgets] = [promises.get(token)!, callsOf(token)];
    const forgottenAtMs = forgets.lastStartMs;
    const [restored] = await detokenizer.detokenize([token]);
    const nowMs = performance.now();
    const mustBeKnown =
      forgets.active === 0 &&
      promised.some((one) => one.askedAtMs > forgets.lastEndMs && one.untilMs > nowMs);
    const uses = callsOf(value);
    const mustBeUnknown = uses.active === 0 && uses.lastEndMs < forgottenAtMs;
    if (mustBeKnown) found.known++;
    if (mustBeUnknown) found.unknown++;
    if (restored === undefined) found.problems.push('as if it had never been');
    if (restored && restored !== value) found.problems.push('another value');
    if (mustBeKnown && restored === null) found.problems.push('lost within its time to live');
    if (mustBeUnknown && restored !== null) found.problems.push('known though forgotten');
  }

  const step = () => {
    const kind = random.below(10);
    if (kind < 2 || values.size === 0) return tokenize();
    const token = random.pick([...values.keys()]);
    return kind < 4 ? forget(token) : detokenize(token);
  };
  return { found, step };
}

describe.each(KINDS)('records that end, on %s', (kind) => {
  const keyring = testKeyring();
  let cluster: CitusCluster | undefined;
  beforeAll(async () => {
    if (kind === 'citus') cluster = await startCitus();
    return () => cluster?.stop();
  });
  const at =
    kind === 'citus'
      ? blockVault('server', [1, 2], { serverUrl: () => cluster!.serverUrl })
      : blockVault(kind, [1, 2]);
  const newStore = () => new RecordStore(at.pool);
  const insert = (records: FreshRecord[], timeToLiveS?: number | null, store = newStore()) =>
    store.insert(leased(timeToLiveS, ...records));
  const find = (...records: SealedRecord[]) => newStore().find(tokensOf(records));
  const forget = (...records: SealedRecord[]) => forgetTokens(at.pool, tokensOf(records), soon());
  const removeAll = () => removeExpired(at.pool, ALL, soon());
  const query = async (text: string, values: unknown[] = []) =>
    (await at.pool.query(text, values, soon())).rows;

  /** The row of a record in the table. */
  async function rowOf({ token_fingerprint: token }: SealedRecord): Promise<Record<string, any>> {
    const [row] = await query(
      `select ctid, encode(sealed, 'hex') as sealed, expires_at, key_version,
         encode(uuid_send(value_fingerprint), 'hex') as value_fingerprint,
         extract(epoch from expires_at - now()) as left_s
       from standin.records where token_fingerprint = $1::uuid`,
      [hexOf(token)],
    );
    return { ...row!, left_s: row!.left_s == null ? null : Number(row!.left_s) };
  }

  async function isFound(record: SealedRecord): Promise<boolean> {
    const [found] = await find(record);
    // null means that the record has ended; undefined would mean that it never existed.
    expect(found).not.toBeUndefined();
    return found !== null;
  }

  /** Moves the expiry of a record, so that only this much time is left. */
  async function leave(leftS: number, record: SealedRecord): Promise<void> {
    const text = `update standin.records set expires_at = now() + $2::float8 * interval '1 s'
      where token_fingerprint = $1::uuid`;
    await query(text, [hexOf(record.token_fingerprint), leftS]);
  }

  /** A record that expired a second ago, and is not removed. */
  async function expired() {
    const record = randomRecord();
    await insert([record], 100);
    await leave(-1, record);
    return record;
  }

  test('a record is found during its time to live, and not a moment longer, before it is removed and after', async () => {
    const made = [randomRecord(), randomRecord()];
    const startedAtMs = performance.now();
    expect(await insert(made, 2)).toEqual(['stored', 'stored']);
    expect(await find(...made)).toEqual(made);
    await until(async () => !(await isFound(made[0]!)), 'it is unknown');
    expect(performance.now() - startedAtMs).toBeGreaterThan(2_000);
    // The row still contains the value, but no caller gets the value.
    expect((await rowOf(made[0]!)).sealed).toHaveLength(80);
    await until(async () => !(await isFound(made[1]!)), 'the other is unknown');
    expect(await removeAll()).toEqual({ found: 2, removed: 2 });
    for (const record of made) {
      const hex = Buffer.from(record.value_fingerprint, 'latin1').toString('hex');
      const row = { sealed: '', expires_at: null, value_fingerprint: hex };
      expect(await rowOf(record)).toMatchObject(row);
      expect(await isFound(record)).toBe(false);
    }
    expect(await removeAll()).toEqual({ found: 0, removed: 0 });
  });

  test('an expired record that is stored again before it was removed is extended', async () => {
    const record = await expired();
    expect(await isFound(record)).toBe(false);
    expect(await insert([record], 100)).toEqual(['stored']);
    expect(await isFound(record)).toBe(true);
    expect(await removeAll()).toEqual({ found: 0, removed: 0 });
  });

  test.each([
    [100, 100, 100],
    [100, 50, 100],
    [100, 1_000, 1_000],
    [100, null, null],
    [null, 100, null],
    [null, null, null],
  ])('of times to live of %s and %s s the longer counts', async (first, second, longest) => {
    const record = randomRecord();
    for (const timeToLiveS of [first, second])
      expect(await insert([record], timeToLiveS)).toEqual(['stored']);
    const { left_s: leftS } = await rowOf(record);
    if (longest === null) expect(leftS).toBeNull();
    else {
      expect(leftS).toBeGreaterThan(longest);
      expect(leftS).toBeLessThan(longest * 1.07);
    }
    const [stored] = await newStore().findDurable(tokensOf([record]));
    expect(stored!.record).toEqual(record);
    expect(stored!.leftS === null).toBe(longest === null);
  });

  test('storing again writes nothing while the time to live is left, and extends when it is not', async () => {
    const record = randomRecord();
    const insertAgain = () => insert([record], 1_600);
    await insertAgain();
    const before = await rowOf(record);
    await insertAgain();
    expect((await rowOf(record)).ctid).toBe(before.ctid);
    await leave(1_620, record);
    const later = await rowOf(record);
    await insertAgain();
    expect((await rowOf(record)).ctid).toBe(later.ctid);
    await leave(1_590, record);
    await insertAgain();
    expect((await rowOf(record)).left_s).toBeGreaterThan(1_690);
  });

  test('calls with and without a time to live share a batch, and each gets what it asked for', async () => {
    const shared = randomRecord();
    const rival = randomRecord({ token_fingerprint: shared.token_fingerprint });
    const [short, long, lasting] = [randomRecord(), randomRecord(), randomRecord()];
    const records = newStore();
    const outcomes = await Promise.all([
      insert([short, shared], 10, records),
      insert([lasting, rival], null, records),
      insert([shared, long], 1_000, records),
      insert([shared], null, records),
    ]);
    const twice = ['stored', 'stored'];
    expect(outcomes).toEqual([twice, ['stored', 'collision'], twice, ['stored']]);
    expect((await rowOf(shared)).left_s).toBeNull();
    expect((await rowOf(lasting)).left_s).toBeNull();
    expect((await rowOf(short)).left_s).toBeLessThan(11);
    expect((await rowOf(long)).left_s).toBeGreaterThan(1_000);
  });

  test('a forgotten record is not found, comes back with the same value, and is a collision for any other', async () => {
    const [record, nobody, kept] = [randomRecord(), randomRecord(), randomRecord()];
    await insert([record, kept]);
    const asked = [record, nobody, kept];
    const states = () => forgetTokens(at.pool, tokensOf(asked), soon(), true);
    expect(await states()).toEqual(['known', 'unknown', 'known']);
    expect(await forget(record, nobody)).toEqual(['known', 'unknown']);
    expect(await states()).toEqual(['forgotten', 'unknown', 'known']);
    expect(await find(...asked)).toEqual([null, undefined, kept]);
    expect((await rowOf(record)).sealed).toBe('');
    expect(await forget(record)).toEqual(['forgotten']);

    const rival = randomRecord({ token_fingerprint: record.token_fingerprint });
    expect(await insert([rival])).toEqual(['collision']);
    expect(await insert([rival], 100)).toEqual(['collision']);
    const again = randomRecord({ ...record, sealed: randomRecord().sealed, key_version: 2 });
    expect(await insert([rival, again])).toEqual(['collision', 'stored']);
    expect(await find(record)).toEqual([again]);
    expect((await rowOf(record)).left_s).toBeNull();
  });

  test('a forgotten record comes back with a time to live, and one that has expired is forgotten all the same', async () => {
    const record = randomRecord();
    await insert([record], 100);
    await forget(record);
    expect(await insert([record], 100)).toEqual(['stored']);
    expect((await rowOf(record)).left_s).toBeGreaterThan(100);
    expect(await isFound(record)).toBe(true);
    await leave(-900, record);
    // The record has expired but is not yet removed. Its value must go too.
    expect(await forget(record)).toEqual(['known']);
    expect(await rowOf(record)).toMatchObject({ sealed: '', expires_at: null });
  });

  test('the first come back in the order of nodes that bring them in opposite orders: no deadlock', async () => {
    const made = Array.from({ length: 300 }, () => randomRecord());
    await insert(made);
    const nodes = [newStore(), newStore()];
    for (let round = 0; round < 5; round++) {
      await Promise.all([
        forget(...made.toReversed()),
        insert(made, 100, nodes[0]),
        nodes[1]!.insert(made.toReversed()),
        forget(...made),
      ]);
    }
    const deadlocks = 'select deadlocks from pg_stat_database where datname = current_database()';
    if (kind === 'server') expect(await query(deadlocks)).toEqual([{ deadlocks: '0' }]);
    expect(await insert(made)).toEqual(Array(300).fill('stored'));
    expect(await find(...made)).not.toContain(undefined);
  });

  test('several services remove what has expired, each record once, and end when they are stopped', async () => {
    await insert(
      Array.from({ length: 1_200 }, () => randomRecord()),
      100,
    );
    await query('update standin.records set expires_at = now() where expires_at is not null');
    const left = async () =>
      (await query('select 1 from standin.records where expires_at is not null')).length;
    // Includes records of other tests.
    const before = await left();
    expect(before).toBeGreaterThanOrEqual(1_200);
    const failures: unknown[] = [];
    const onFailure = (error: unknown) => failures.push(error);
    const expiries = [0, 1].map(() => new Expiry({ pool: at.pool, onFailure, idlePauseMs: 20 }));
    const removed = () => expiries.reduce((sum, expiry) => sum + expiry.removed, 0);
    await until(() => removed() >= before, 'all are removed');
    await Promise.all(expiries.map((expiry) => expiry.stop()));
    expect({ removed: removed(), failures }).toEqual({ removed: before, failures: [] });
    expect(await left()).toBe(0);
  });

  test('a database that is away does not end the removal: it says so, and can be stopped', async () => {
    const url = `postgres://postgres@127.0.0.1:${await freePort()}/nothing`;
    const pool = new Pool({ connections: 1, locate: async () => ({ url }) });
    const failures: unknown[] = [];
    const expiry = new Expiry({ pool, onFailure: (error) => failures.push(error) });
    await until(() => failures.length > 0, 'it says so');
    await expiry.stop();
    expect(failures.map((error) => (error as Error).message)).toEqual(['database unavailable']);
    await pool.end();
  });

  /**
   * Begins the work while a transaction has locked the row. The work reads the row, and waits before
   * it writes. At that moment, the transaction changes the row.
   */
  async function during<T>(change: string, record: SealedRecord, work: () => Promise<T>) {
    const row = `standin.records where token_fingerprint = '${hexOf(record.token_fingerprint)}'`;
    let begun: Promise<T> | undefined;
    await at.pool.transaction(soon(), async (ask) => {
      await ask(`select 1 from ${row} for update`);
      begun = work();
      await lockWaits(at.place);
      await ask(`update ${row.replace(' where', ` set ${change} where`)}`);
    });
    return begun!;
  }

  // The embedded database has one session. A Citus coordinator does not show waits on its nodes.
  describe.skipIf(kind !== 'server')('while another holds the row', () => {
    test('a removal spares a record that was extended meanwhile', async () => {
      const record = await expired();
      const removed = await during("expires_at = now() + interval '100 s'", record, removeAll);
      expect(removed).toEqual({ found: 1, removed: 0 });
      expect(await isFound(record)).toBe(true);
    });

    test.each([
      ['was removed', "sealed = '', expires_at = null", 99],
      ['got more time', "expires_at = now() + interval '1000 s'", 990],
      ['got no end', 'expires_at = null', Infinity],
    ])('a record that %s meanwhile is there, and not shortened', async (_, change, atLeastS) => {
      const record = await expired();
      const outcomes = await during(change, record, () => insert([record], 100));
      expect(outcomes).toEqual(['stored']);
      expect(await isFound(record)).toBe(true);
      const [stored] = await newStore().findDurable(tokensOf([record]));
      expect(stored!.leftS ?? Infinity).toBeGreaterThanOrEqual(atLeastS);
    });
  });

  /** Two short values with the same first draw. */
  function rivals(): [Value, Value] {
    const byToken = new Map<Token, Value>();
    for (let i = 0; ; i++) {
      const value = i.toString(36) as Value;
      const { token } = drawToken(value, 'tok', keyring.deterministicDraws(value).draws, 0)!;
      const other = byToken.get(token);
      if (other !== undefined) return [other, value];
      byToken.set(token, value);
    }
  }

  test('a value whose first draw stands for another keeps its token when the other is forgotten', async () => {
    const tokenizer = new Tokenizer(newStore(), testLeasedKeyring(), 'tok', () => {});
    const detokenizer = new Detokenizer(newStore(), testLeasedKeyring(), () => {});
    const tokenOf = async (value: Value) => (await tokenizer.tokenize([value], TERMS))[0]!;
    const [first, second] = rivals();
    const tokens = [await tokenOf(first), await tokenOf(second)];
    expect(tokens[0]).not.toBe(tokens[1]);
    const fingerprint = keyring.tokenFingerprint(tokens[0]!);
    await forgetTokens(at.pool, [fingerprint], soon());
    expect(await detokenizer.detokenize(tokens)).toEqual([null, second]);
    expect(await tokenOf(second)).toBe(tokens[1]);
    expect(await detokenizer.detokenize(tokens)).toEqual([null, second]);
    const found = () => tokenizer.lookup([first, second], TERMS, soon());
    expect(await found()).toEqual([null, tokens[1]]);
    expect(await tokenOf(first)).toBe(tokens[0]);
    expect(await found()).toEqual(tokens);
    // Nor is a token found that has expired and is not removed yet.
    await leave(-1, { token_fingerprint: fingerprint } as SealedRecord);
    expect(await found()).toEqual([null, tokens[1]]);
    expect(await tokenOf(first)).toBe(tokens[0]);
    expect(await detokenizer.detokenize(tokens)).toEqual([first, second]);
  });

  test('random order: what was promised is known, what was forgotten is not, and no token changes its value', async () => {
    const random = new Random();
    const { found, step } = randomOrder(random, newStore, at.pool);
    const removing = loop(() => removeExpired(at.pool, 50, soon()), 2);
    const working = Array.from({ length: 8 }, async () => {
      for (let n = kind === 'server' ? 800 : 250; n > 0; n--) await step();
    });
    await Promise.all(working).finally(removing.stop);
    expect(found.problems, `SEED=${random.seed}`).toEqual([]);
    expect(found.known).toBeGreaterThan(20);
    expect(found.unknown).toBeGreaterThan(20);
  });
});
