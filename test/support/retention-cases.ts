import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Expiry } from '../../src/records/removal.ts';
import { drawToken } from '../../src/shape/token.ts';
import { Pool } from '../../src/store/pool.ts';
import { RecordStore } from '../../src/store/records.ts';
import { forgetTokens, removeExpired } from '../../src/store/removal.ts';
import { distribute, migrate } from '../../src/store/schema.ts';
import { Detokenizer } from '../../src/tokens/detokenizer.ts';
import { Tokenizer } from '../../src/tokens/tokenizer.ts';
import type { SealedRecord, Token, Value } from '../../src/types.ts';
import { CitusCluster } from './citus.ts';
import { testKeyring, testLeasedKeyring } from './keys.ts';
import { freePort } from './processes.ts';
import type { Kind } from './program.ts';
import { Random } from './random.ts';
import { RetentionRun } from './retention-run.ts';
import { newPlace, type Place, until } from './service.ts';
import { addKeyVersions, openTestPool, randomRecord, soon } from './vault.ts';

const ALL = 1_000_000;

/** Tests of expired and forgotten records, on one kind of database. */
export function testRetention(kind: Kind | 'citus'): void {
  let cluster: CitusCluster | undefined;
  let place: Place;
  let pool: Pool;
  let records: RecordStore;
  const keyring = testKeyring();
  beforeAll(async () => {
    if (kind === 'citus') cluster = await CitusCluster.start();
    place = await newPlace(kind === 'citus' ? 'server' : kind, cluster?.serverUrl);
    pool = openTestPool(place, 8);
    await migrate(pool, soon());
    await distribute(pool, soon());
    await addKeyVersions(pool, 1, 2);
    records = newStore();
  });
  afterAll(async () => {
    await pool.end();
    place.remove();
    cluster?.stop();
  });

  function newStore(): RecordStore {
    return new RecordStore(pool);
  }

  async function query(text: string, values: unknown[] = []) {
    return (await pool.query(text, values, soon())).rows;
  }

  /** The row of a record in the table. */
  async function rowOf({ token_fingerprint: tokenFingerprint }: SealedRecord) {
    const [row] = await query(
      `select ctid, encode(sealed, 'hex') as sealed, expires_at, key_version,
         encode(uuid_send(value_fingerprint), 'hex') as value_fingerprint,
         extract(epoch from expires_at - now()) as left_s
       from standin.records where token_fingerprint = $1::uuid`,
      [Buffer.from(tokenFingerprint, 'latin1').toString('hex')],
    );
    return row!;
  }

  async function isFound(record: SealedRecord): Promise<boolean> {
    const [found] = await records.find([record.token_fingerprint]);
    // null means that the record has ended; undefined would mean that it never existed.
    expect(found).not.toBeUndefined();
    return found !== null;
  }

  /** Moves the expiry of a record, so that only this much time is left. */
  async function leave(
    leftS: number,
    { token_fingerprint: tokenFingerprint }: SealedRecord,
  ): Promise<void> {
    await query(
      "update standin.records set expires_at = now() + $2::float8 * interval '1 s' where token_fingerprint = $1::uuid",
      [Buffer.from(tokenFingerprint, 'latin1').toString('hex'), leftS],
    );
  }

  test('a record is found during its time to live, and not a moment longer, before it is removed and after', async () => {
    const made = [randomRecord(), randomRecord()];
    const startedAtMs = performance.now();
    expect(await records.insert(made, 2)).toEqual(['stored', 'stored']);
    expect(await records.find(made.map((one) => one.token_fingerprint))).toEqual(made);
    await until(async () => !(await isFound(made[0]!)), 'it is unknown');
    expect(performance.now() - startedAtMs).toBeGreaterThan(2_000);
    // The row still contains the value, but no caller gets the value.
    expect((await rowOf(made[0]!)).sealed).toHaveLength(80);
    await until(async () => !(await isFound(made[1]!)), 'the other is unknown');
    expect(await removeExpired(pool, ALL, soon())).toEqual({ found: 2, removed: 2 });
    for (const record of made) {
      const hex = Buffer.from(record.value_fingerprint, 'latin1').toString('hex');
      const row = await rowOf(record);
      expect(row).toMatchObject({ sealed: '', expires_at: null, value_fingerprint: hex });
      expect(await isFound(record)).toBe(false);
    }
    expect(await removeExpired(pool, ALL, soon())).toEqual({ found: 0, removed: 0 });
  });

  test('an expired record that is stored again before it was removed is extended', async () => {
    const record = randomRecord();
    await records.insert([record], 100);
    await leave(-900, record);
    expect(await isFound(record)).toBe(false);
    expect(await records.insert([record], 100)).toEqual(['stored']);
    expect(await isFound(record)).toBe(true);
    expect(await removeExpired(pool, ALL, soon())).toEqual({ found: 0, removed: 0 });
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
      expect(await records.insert([record], timeToLiveS)).toEqual(['stored']);
    const { left_s: leftS } = await rowOf(record);
    if (longest === null) expect(leftS).toBeNull();
    else {
      expect(Number(leftS)).toBeGreaterThan(longest);
      expect(Number(leftS)).toBeLessThan(longest * 1.07);
    }
    const [stored] = await records.findDurable([record.token_fingerprint]);
    expect(stored!.record).toEqual(record);
    expect(stored!.leftS === null).toBe(longest === null);
  });

  test('storing again writes nothing while the time to live is left, and extends when it is not', async () => {
    const record = randomRecord();
    await records.insert([record], 1_600);
    const before = await rowOf(record);
    await records.insert([record], 1_600);
    expect((await rowOf(record)).ctid).toBe(before.ctid);
    await leave(1_620, record);
    const later = await rowOf(record);
    await records.insert([record], 1_600);
    expect((await rowOf(record)).ctid).toBe(later.ctid);
    await leave(1_590, record);
    await records.insert([record], 1_600);
    expect(Number((await rowOf(record)).left_s)).toBeGreaterThan(1_690);
  });

  test('calls with and without a time to live share a batch, and each gets what it asked for', async () => {
    const shared = randomRecord();
    const rival = randomRecord({ token_fingerprint: shared.token_fingerprint });
    const [short, long, lasting] = [randomRecord(), randomRecord(), randomRecord()];
    const outcomes = await Promise.all([
      records.insert([short, shared], 10),
      records.insert([lasting, rival]),
      records.insert([shared, long], 1_000),
      records.insert([shared]),
    ]);
    expect(outcomes).toEqual([
      ['stored', 'stored'],
      ['stored', 'collision'],
      ['stored', 'stored'],
      ['stored'],
    ]);
    expect((await rowOf(shared)).expires_at).toBeNull();
    expect((await rowOf(lasting)).expires_at).toBeNull();
    expect(Number((await rowOf(short)).left_s)).toBeLessThan(11);
    expect(Number((await rowOf(long)).left_s)).toBeGreaterThan(1_000);
  });

  test('a forgotten record is not found, comes back with the same value, and is a collision for any other', async () => {
    const record = randomRecord();
    const kept = randomRecord();
    const nobody = randomRecord();
    await records.insert([record, kept]);
    const asked = [record, nobody, kept].map((one) => one.token_fingerprint);
    expect(await forgetTokens(pool, asked, soon(), true)).toEqual(['known', 'unknown', 'known']);
    expect(await forgetTokens(pool, [asked[0]!, asked[1]!], soon())).toEqual(['known', 'unknown']);
    expect(await forgetTokens(pool, asked, soon(), true)).toEqual([
      'forgotten',
      'unknown',
      'known',
    ]);
    expect(await records.find(asked)).toEqual([null, undefined, kept]);
    expect((await rowOf(record)).sealed).toBe('');
    expect(await forgetTokens(pool, [asked[0]!], soon())).toEqual(['forgotten']);

    const rival = randomRecord({ token_fingerprint: record.token_fingerprint });
    expect(await records.insert([rival])).toEqual(['collision']);
    expect(await records.insert([rival], 100)).toEqual(['collision']);
    const again = randomRecord({ ...record, sealed: randomRecord().sealed, key_version: 2 });
    expect(await records.insert([rival, again])).toEqual(['collision', 'stored']);
    expect(await records.find([record.token_fingerprint])).toEqual([again]);
    expect((await rowOf(record)).expires_at).toBeNull();
  });

  test('a forgotten record comes back with a time to live, and a lasting one is forgotten all the same', async () => {
    const record = randomRecord();
    await records.insert([record], 100);
    await forgetTokens(pool, [record.token_fingerprint], soon());
    expect(await records.insert([record], 100)).toEqual(['stored']);
    expect(Number((await rowOf(record)).left_s)).toBeGreaterThan(100);
    expect(await isFound(record)).toBe(true);
    await leave(-900, record);
    // The record has expired but is not yet removed. Its value must go too.
    expect(await forgetTokens(pool, [record.token_fingerprint], soon())).toEqual(['known']);
    expect(await rowOf(record)).toMatchObject({ sealed: '', expires_at: null });
  });

  test('the first come back in the order of nodes that bring them in opposite orders: no deadlock', async () => {
    const made = Array.from({ length: 300 }, () => randomRecord());
    const fingerprints = made.map((one) => one.token_fingerprint);
    await records.insert(made);
    const nodes = [newStore(), newStore()];
    const deadlocks = 'select deadlocks from pg_stat_database where datname = current_database()';
    for (let round = 0; round < 5; round++) {
      await Promise.all([
        forgetTokens(pool, fingerprints.toReversed(), soon()),
        nodes[0]!.insert(made, 100),
        nodes[1]!.insert(made.toReversed()),
        forgetTokens(pool, fingerprints, soon()),
      ]);
    }
    if (kind === 'server') expect(await query(deadlocks)).toEqual([{ deadlocks: '0' }]);
    expect(await nodes[0]!.insert(made)).toEqual(Array(300).fill('stored'));
    expect(await records.find(fingerprints)).not.toContain(undefined);
  });

  test('several services remove what has expired, each record once, and end when they are told', async () => {
    const made = Array.from({ length: 1_200 }, () => randomRecord());
    await records.insert(made, 100);
    await query('update standin.records set expires_at = now() where expires_at is not null');
    // Includes records of other tests.
    const [row] = await query(
      'select count(*) as n from standin.records where expires_at is not null',
    );
    const expired = Number(row!.n);
    expect(expired).toBeGreaterThanOrEqual(made.length);
    const failures: unknown[] = [];
    const onFailure = (error: unknown) => failures.push(error);
    const expiries = [0, 1].map(() => new Expiry({ pool, onFailure, idlePauseMs: 20 }));
    const removed = () => expiries.reduce((sum, expiry) => sum + expiry.removed, 0);
    await until(() => removed() >= expired, 'all are removed');
    await Promise.all(expiries.map((expiry) => expiry.stop()));
    expect({ removed: removed(), failures }).toEqual({ removed: expired, failures: [] });
    const left = 'select count(*) as n from standin.records where expires_at is not null';
    expect(await query(left)).toEqual([{ n: '0' }]);
  });

  test('a database that is away does not end the removal: it says so, and can be told to end', async () => {
    const url = `postgres://postgres@127.0.0.1:${await freePort()}/nothing`;
    const away = new Pool({ connections: 1, locate: async () => ({ url }) });
    const failures: unknown[] = [];
    const expiry = new Expiry({ pool: away, onFailure: (error) => failures.push(error) });
    await until(() => failures.length > 0, 'it says so');
    await expiry.stop();
    expect(failures.map((error) => (error as Error).message)).toEqual(['database unavailable']);
    await away.end();
  });

  // The embedded database has one session. A Citus coordinator does not show waits on its nodes.
  const describeSessions = kind === 'server' ? describe : () => {};
  describeSessions('while another holds the row', () => {
    /**
     * Begins the work while a transaction has locked the row. The work reads the row, and waits before
     * it writes. At that moment, the transaction changes the row.
     */
    async function during<T>(change: string, record: SealedRecord, work: () => Promise<T>) {
      const hex = Buffer.from(record.token_fingerprint, 'latin1').toString('hex');
      const row = `standin.records where token_fingerprint = '${hex}'`;
      let begun: Promise<T> | undefined;
      await pool.transaction(soon(), async (ask) => {
        await ask(`select 1 from ${row} for update`);
        begun = work();
        await until(async () => {
          const waiting = "select 1 from pg_stat_activity where wait_event_type = 'Lock'";
          return (await query(`${waiting} and datname = current_database()`)).length > 0;
        }, 'it waits for the row');
        await ask(`update ${row.replace(' where', ` set ${change} where`)}`);
      });
      return begun!;
    }

    test('a removal spares a record that was extended meanwhile', async () => {
      const record = randomRecord();
      await records.insert([record], 100);
      await leave(-1, record);
      const removed = await during("expires_at = now() + interval '100 s'", record, () =>
        removeExpired(pool, ALL, soon()),
      );
      expect(removed).toEqual({ found: 1, removed: 0 });
      expect(await isFound(record)).toBe(true);
    });

    test('a record that was removed meanwhile comes back', async () => {
      const record = randomRecord();
      await records.insert([record], 100);
      await leave(-1, record);
      const outcomes = await during("sealed = '', expires_at = null", record, () =>
        records.insert([record], 100),
      );
      expect(outcomes).toEqual(['stored']);
      expect(await isFound(record)).toBe(true);
    });

    test.each([
      ["expires_at = now() + interval '1000 s'", 990],
      ['expires_at = null', Infinity],
    ])('a record that got %s meanwhile is not shortened', async (change, atLeastS) => {
      const record = randomRecord();
      await records.insert([record], 100);
      await leave(-1, record);
      const outcomes = await during(change, record, () => records.insert([record], 100));
      expect(outcomes).toEqual(['stored']);
      const [stored] = await records.findDurable([record.token_fingerprint]);
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
    const terms = { token_mode: 'deterministic', time_to_live_s: null } as const;
    const tokenOf = async (value: Value) => (await tokenizer.tokenize([value], terms))[0]!;
    const [first, second] = rivals();
    const tokens = [await tokenOf(first), await tokenOf(second)];
    expect(tokens[0]).not.toBe(tokens[1]);
    await forgetTokens(pool, [keyring.tokenFingerprint(tokens[0]!)], soon());
    expect(await detokenizer.detokenize(tokens)).toEqual([null, second]);
    expect(await tokenOf(second)).toBe(tokens[1]);
    expect(await detokenizer.detokenize(tokens)).toEqual([null, second]);
    const found = () => tokenizer.lookup([first, second], terms, soon());
    expect(await found()).toEqual([null, tokens[1]]);
    expect(await tokenOf(first)).toBe(tokens[0]);
    expect(await found()).toEqual(tokens);
    // Nor is a token found that has expired and is not removed yet.
    const expire = `update standin.records set expires_at = now() - interval '1 s'
      where token_fingerprint = $1::uuid`;
    const fingerprint = keyring.tokenFingerprint(tokens[0]!);
    await query(expire, [Buffer.from(fingerprint, 'latin1').toString('hex')]);
    expect(await found()).toEqual([null, tokens[1]]);
    expect(await tokenOf(first)).toBe(tokens[0]);
    expect(await detokenizer.detokenize(tokens)).toEqual([first, second]);
  });

  test('random order: what was promised is known, what was forgotten is not, and no token changes its value', async () => {
    const random = new Random();
    const run = new RetentionRun(random, newStore, pool);
    await run.run(8, kind === 'server' ? 800 : 250);
    expect(run.problems, `SEED=${random.seed}`).toEqual([]);
    expect(run.known).toBeGreaterThan(20);
    expect(run.unknown).toBeGreaterThan(20);
  });
}
