import pg from 'pg';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { DEFAULT_SETTINGS } from '../../src/client-settings.ts';
import { Changed } from '../../src/errors.ts';
import { ClientStore } from '../../src/store/clients.ts';
import type { Pool } from '../../src/store/pool.ts';
import { fingerprintOf, hexOf, readPage, replaceWalked } from '../../src/store/record-walk.ts';
import { RecordStore } from '../../src/store/records.ts';
import { forgetTokens } from '../../src/store/removal.ts';
import { migrate } from '../../src/store/schema.ts';
import { WrappedKeyStore } from '../../src/store/wrapped-keys.ts';
import { monotonicMs } from '../../src/timeouts.ts';
import { Tokenizer } from '../../src/tokens/tokenizer.ts';
import type { SealedRecord, Value } from '../../src/types.ts';
import { retireKey } from '../../src/vault/key-lifecycle.ts';
import { LeasedKeyring, SEAL_LEASE_MS } from '../../src/vault/leased-keyring.ts';
import { testKeys } from '../support/keys.ts';
import { kinds, newPlace, type Place, until } from '../support/service.ts';
import {
  addKeyVersions,
  openTestPool,
  randomRecord,
  soon,
  sql,
  vaultAddress,
} from '../support/vault.ts';

/** What keeps a statement that comes late, or meets another, from doing harm. */
describe.skipIf(!kinds().includes('server'))('a fence of the store', () => {
  let place: Place;
  let pool: Pool;
  let records: RecordStore;
  let keys: WrappedKeyStore;
  beforeAll(async () => {
    place = await newPlace('server');
    pool = openTestPool(place, 8);
    await migrate(pool, soon());
    await addKeyVersions(pool, 1, 2, 3);
    records = new RecordStore(pool);
    keys = new WrappedKeyStore(pool);
  });
  afterAll(async () => {
    await pool.end();
    place.remove();
  });

  test('keys that were last read long ago seal nothing: tokenize reads them before', async () => {
    const longAgoMs = monotonicMs() - SEAL_LEASE_MS;
    const old = { keys: testKeys([1]), asOfMs: longAgoMs, isDurable: true, failure: undefined };
    const leased: LeasedKeyring = new LeasedKeyring(old, () =>
      setImmediate(() => leased.take({ ...old, keys: testKeys([1, 2]), asOfMs: monotonicMs() })),
    );
    const terms = { token_mode: 'deterministic', time_to_live_s: null } as const;
    const tokenizer = new Tokenizer(records, leased, 'tok', () => {});
    await tokenizer.tokenize(['Ann Lee' as Value], terms, soon());
    const rows = await sql(place, 'select key_version from standin.records');
    expect(rows).toEqual([{ key_version: 2 }]);
    await sql(place, 'truncate standin.records');
  });

  /** A transaction of the test's own, on a connection of its own. */
  async function inTransaction(work: (client: pg.Client) => Promise<void>): Promise<void> {
    const client = new pg.Client(vaultAddress(place));
    await client.connect();
    try {
      await client.query('begin isolation level read committed');
      await work(client);
      await client.query('commit');
    } finally {
      await client.end();
    }
  }

  /** Resolves when a statement of the pool waits for a lock of this type. */
  async function waitingFor(type: string): Promise<void> {
    const text = `select 1 from pg_stat_activity where wait_event_type = 'Lock' and wait_event = $1
      and datname = current_database()`;
    await until(async () => (await sql(place, text, [type])).length > 0, `a wait for ${type}`);
  }

  const uuid = ({ token_fingerprint: tokenFingerprint }: SealedRecord) => hexOf(tokenFingerprint);

  async function sealedOf(record: SealedRecord): Promise<Buffer> {
    const text = 'select sealed from standin.records where token_fingerprint = $1';
    return (await sql(place, text, [uuid(record)]))[0]!.sealed;
  }

  test('a record takes the place of an alias only while that is as it was read, with an open key version', async () => {
    const [old, other] = [randomRecord(), randomRecord()];
    await records.insert([old, other]);
    const inPlace = ({ token_fingerprint: token }: SealedRecord, parts = {}) =>
      randomRecord({ token_fingerprint: token, ...parts });
    const [fresh, rival, closed] = [
      inPlace(old),
      inPlace(old),
      inPlace(other, { key_version: 99 }),
    ];
    expect(await records.supersede([old], [fresh], soon())).toEqual(['stored']);
    // As a run does that did not get the answer, and another run.
    expect(await records.supersede([old], [fresh], soon())).toEqual(['stored']);
    expect(await records.supersede([old], [rival], soon())).toEqual([
      { record: fresh, leftS: null },
    ]);
    expect(await records.supersede([other], [closed], soon())).toEqual(['key_retired']);
    const tokens = [old, other].map((one) => one.token_fingerprint);
    expect(await records.find(tokens)).toEqual([fresh, other]);
  });

  test('a record with a closed key version, or none in the keyring, is refused; it may be forgotten all the same', async () => {
    const old = randomRecord();
    expect(await records.insert([old])).toEqual(['stored']);
    await addKeyVersions(pool, 4);
    const [closed, unknown, good] = [4, 999, 1].map((keyVersion) =>
      randomRecord({ key_version: keyVersion }),
    );
    expect(await records.insert([closed!])).toEqual(['stored']);
    await keys.locked(soon(), (locked) => locked.close(4));
    const closedAt = async () => (await keys.closed(soon())).get(4);
    const first = await closedAt();
    expect(first).toBeDefined();
    await keys.locked(soon(), (locked) => locked.close(4));
    expect(await closedAt()).toEqual(first);
    const more = randomRecord({ key_version: 4 });
    expect(await records.insert([more, unknown!, good!])).toEqual([
      'key_retired',
      'key_retired',
      'stored',
    ]);
    expect(await records.insert([more], 100)).toEqual(['key_retired']);
    const fingerprints = [closed!, more, unknown!].map((one) => one.token_fingerprint);
    expect(await records.find(fingerprints)).toEqual([closed, undefined, undefined]);
    // Nor is a stub put back with it, nor a record mended.
    expect(await forgetTokens(pool, [closed!.token_fingerprint], soon())).toEqual(['known']);
    expect(await sealedOf(closed!)).toHaveLength(0);
    expect(await records.insert([closed!])).toEqual(['key_retired']);
    const fresh = randomRecord({ ...old, key_version: 4, sealed: more.sealed });
    expect(await records.mend([{ old, fresh }])).toBe(0);
    expect(await records.find([old.token_fingerprint])).toEqual([old]);
  });

  test('a record of a lost key is refused once another key has its version, in every statement', async () => {
    await addKeyVersions(pool, 5);
    const ofKey = (parts = {}) => randomRecord({ key_version: 5, ...parts });
    const [old, forgotten] = [ofKey(), ofKey()];
    expect(await records.insert([old, forgotten])).toEqual(['stored', 'stored']);
    await forgetTokens(pool, [forgotten.token_fingerprint], soon());
    // As after a failover that lost the version, and another rotate.
    await sql(place, 'update standin.keyring set created_at = now() where version = 5');
    expect(await records.insert([ofKey(), forgotten])).toEqual(['key_retired', 'key_retired']);
    expect(await records.insert([ofKey()], 100)).toEqual(['key_retired']);
    expect(await records.insertMissing([ofKey()], soon())).toEqual(['key_retired']);
    const fresh = ofKey({ ...old, sealed: randomRecord().sealed });
    expect(await records.supersede([old], [fresh], soon())).toEqual(['key_retired']);
    expect(await records.mend([{ old, fresh }])).toBe(0);
    // Sealed on both sides of the moment when a node reads the keyring.
    const [{ id }] = (await sql(
      place,
      'select created_at::text as id from standin.keyring where version = 5',
    )) as [{ id: string }];
    for (const digit of ['0', 'f']) {
      const token = { token_fingerprint: fingerprintOf(digit.repeat(32)) };
      const current = { ...ofKey(token), key_id: id };
      expect(await records.insert([ofKey(), current])).toEqual(['key_retired', 'key_retired']);
      expect(await records.insert([current])).toEqual(['stored']);
    }
  });

  test('a record is mended only while it is the one that did not open', async () => {
    const [old, other] = [randomRecord(), randomRecord()];
    await records.insert([old, other]);
    const fresh = (record: SealedRecord) =>
      randomRecord({ ...record, sealed: randomRecord().sealed });
    await forgetTokens(pool, [other.token_fingerprint], soon());
    const [mended, revived] = [fresh(old), fresh(other)];
    const replacements = [
      { old, fresh: mended },
      { old: other, fresh: revived },
    ];
    expect(await records.mend(replacements)).toBe(1);
    const fingerprints = [old.token_fingerprint, other.token_fingerprint];
    expect(await records.find(fingerprints)).toEqual([mended, null]);
  });

  test('after a mend with a closed key version, the keys are read before the next one', async () => {
    await addKeyVersions(pool, 6, 7);
    const snapshot = (...versions: number[]) => ({
      ...{ keys: testKeys(versions), asOfMs: monotonicMs(), isDurable: true, failure: undefined },
    });
    let reads = 0;
    const leased: LeasedKeyring = new LeasedKeyring(snapshot(6), () => {
      reads++;
      setImmediate(() => leased.take(snapshot(6, 7)));
    });
    const store = new RecordStore(pool);
    const mend = vi.spyOn(store, 'mend');
    const tokenizer = new Tokenizer(store, leased, 'tok', () => {});
    const terms = { token_mode: 'deterministic', time_to_live_s: null } as const;
    const tokenOf = () => tokenizer.tokenize(['Eve Low' as Value], terms, soon());
    const tokens = await tokenOf();
    const damage =
      "update standin.records set sealed = sealed || '\\x00'::bytea where key_version = 6";
    await sql(place, damage);
    await keys.locked(soon(), (locked) => locked.close(6));
    expect(await tokenOf()).toEqual(tokens);
    expect([mend.mock.calls.length, reads]).toEqual([2, 1]);
  });

  test('a forget removes what comes back between its statements, also of a forgotten token', async () => {
    const record = randomRecord();
    const token = [record.token_fingerprint];
    await records.insert([record]);
    await forgetTokens(pool, token, soon());
    let forgetting: Promise<unknown> | undefined;
    await inTransaction(async (client) => {
      const revive = 'update standin.records set sealed = $2 where token_fingerprint = $1';
      await client.query(revive, [uuid(record), record.sealed]);
      forgetting = forgetTokens(pool, token, soon());
      await waitingFor('transactionid');
    });
    expect(await forgetting).toEqual(['forgotten']);
    expect(await sealedOf(record)).toHaveLength(0);
  });

  test('a reseal does not bring back what was forgotten after it was read', async () => {
    const [kept, forgotten] = [randomRecord(), randomRecord()];
    await records.insert([kept, forgotten]);
    await forgetTokens(pool, [forgotten.token_fingerprint], soon());
    await addKeyVersions(pool, 10);
    const replacements = [kept, forgotten].map((old) => ({
      old,
      fresh: randomRecord({ ...old, key_version: 10, sealed: randomRecord().sealed }),
    }));
    expect(await replaceWalked(pool, replacements, 10, soon())).toBe(1);
    expect(await sealedOf(forgotten)).toHaveLength(0);
  });

  test('a window of a walk has the record that it begins with', async () => {
    const fingerprints = ['0', '1'].map((digit) => fingerprintOf('e'.repeat(31) + digit));
    const made = fingerprints.map((one) => randomRecord({ token_fingerprint: one }));
    await records.insert(made);
    const window = await readPage(pool, fingerprints[0]!, undefined, soon());
    expect(window.records.slice(0, 2)).toEqual(made);
  });

  test('a batch of reseal waits for a rotation under way, and sees it', async () => {
    const old = randomRecord();
    await records.insert([old]);
    await addKeyVersions(pool, 20);
    const fresh = randomRecord({ ...old, key_version: 20, sealed: randomRecord().sealed });
    // Where an administrator has chosen so, a transaction sees the same all the time.
    const name = new URL(place.env.DATABASE_URL!).pathname.slice(1);
    const isolation = 'default_transaction_isolation';
    await sql(place, `alter database ${name} set ${isolation} = 'repeatable read'`);
    const ownPool = openTestPool(place);
    onTestFinished(async () => {
      await ownPool.end();
      await sql(place, `alter database ${name} reset ${isolation}`);
    });
    let replacing: Promise<number | undefined> | undefined;
    await keys.locked(soon(), async (locked) => {
      replacing = replaceWalked(ownPool, [{ old, fresh }], 20, soon());
      await waitingFor('advisory');
      const key = { purpose: 'dek', version: 21, kek_id: '', wrapped: Buffer.alloc(0) } as const;
      await locked.insert(key);
    });
    expect(await replacing).toBeUndefined();
    expect(await sealedOf(old)).toEqual(old.sealed);
  });

  test('of two changes of a client that expect the same state, only one is made', async () => {
    const clients = new ClientStore(pool);
    const id = 'standin_000000000000000000000001';
    await clients.insert(id, { ...DEFAULT_SETTINGS, name: 'two' }, false, soon());
    const change = (rate: number) =>
      clients.update(id, { rate_limit: rate }, soon(), (client) => {
        if (client.rate_limit !== null) throw new Changed('it has a limit');
      });
    let changes: Promise<unknown>[] = [];
    await inTransaction(async (client) => {
      await client.query('select from standin.clients where client_id = $1 for update', [id]);
      changes = [change(1), change(2)];
      for (const one of changes) one.catch(() => {});
      const waiting = "select 1 from pg_stat_activity where wait_event_type = 'Lock'";
      await until(async () => (await sql(place, waiting)).length === 2, 'both wait');
    });
    const ended = await Promise.allSettled(changes);
    expect(ended.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
  });

  test('retire looks again whether the version is the primary, as after a failover that lost a newer one', async () => {
    await addKeyVersions(pool, 22, 23);
    let retiring: Promise<unknown> | undefined;
    await inTransaction(async (client) => {
      await client.query('update standin.records set key_version = key_version');
      retiring = retireKey(keys, 22, 0);
      retiring.catch(() => {});
      await until(async () => (await keys.closed(soon())).has(22), 'the version is closed');
      await sql(place, 'delete from standin.keyring where version = 23');
    });
    await expect(retiring).rejects.toThrow('Version 22 is the primary');
    await addKeyVersions(pool, 23);
  });

  test('retire does not wait for a transaction that writes after its first look', async () => {
    const write = `update standin.records set key_version = key_version where sealed = 'x'`;
    const looks = vi.spyOn(pool, 'query');
    onTestFinished(() => looks.mockRestore());
    await inTransaction(async (later) => {
      let gone: Promise<readonly string[]> | undefined;
      await inTransaction(async (earlier) => {
        await earlier.query(write);
        gone = keys.writersGone(60_000);
        await until(() => looks.mock.settledResults[0]?.type === 'fulfilled', 'the first look');
        await later.query(write);
      });
      expect(await gone).toEqual([]);
    });
  });

  test('retire waits for a transaction that wrote before the version was closed, and counts its record', async () => {
    await addKeyVersions(pool, 30, 31);
    const late = randomRecord({ key_version: 30 });
    let retiring: Promise<unknown> | undefined;
    await inTransaction(async (client) => {
      await client.query(
        'insert into standin.records (token_fingerprint, value_fingerprint, key_version, sealed) values ($1, $1, 30, $2)',
        [uuid(late), late.sealed],
      );
      retiring = retireKey(keys, 30, 0);
      retiring.catch(() => {});
      await until(async () => (await keys.closed(soon())).has(30), 'the version is closed');
    });
    await expect(retiring).rejects.toThrow(
      '1 record needs key version 30; the version stays closed',
    );
    expect((await keys.list(soon())).some(({ version }) => version === 30)).toBe(true);
    await forgetTokens(pool, [late.token_fingerprint], soon());
    await retireKey(keys, 30, 0);
    expect((await keys.list(soon())).some(({ version }) => version === 30)).toBe(false);
  });

  test('retire gives up in words on a transaction that does not end, and destroys nothing', async () => {
    await addKeyVersions(pool, 40, 41);
    await inTransaction(async (client) => {
      await client.query('update standin.records set key_version = 40 where false');
      const { rows } = await client.query('select pg_backend_pid() as pid');
      await expect(retireKey(keys, 40, 0, 100)).rejects.toThrow(
        `may still write records with it (backends: ${rows[0].pid})`,
      );
      expect((await keys.list(soon())).some(({ version }) => version === 40)).toBe(true);
    });
    await retireKey(keys, 40, 0);
  });

  test('a token that came to stand for another value meanwhile is not written over', async () => {
    const record = randomRecord();
    const rival = randomRecord();
    await records.insert([record], 100);
    const where = 'where token_fingerprint = $1';
    let inserting: Promise<readonly unknown[]> | undefined;
    await inTransaction(async (client) => {
      await client.query(`select 1 from standin.records ${where} for update`, [uuid(record)]);
      // It is to be there for longer than it is, so it is written again, and waits.
      inserting = records.insert([record]);
      await waitingFor('transactionid');
      const set = 'set value_fingerprint = $2, sealed = $3';
      await client.query(`update standin.records ${set} ${where}`, [
        uuid(record),
        Buffer.from(rival.value_fingerprint, 'latin1').toString('hex'),
        rival.sealed,
      ]);
    });
    expect(await inserting).toEqual(['collision']);
    expect(await sealedOf(record)).toEqual(rival.sealed);
  });

  test('a removal locks its rows in the order of their fingerprints', async () => {
    const made = [randomRecord(), randomRecord(), randomRecord()].toSorted((a, b) =>
      uuid(a) < uuid(b) ? -1 : 1,
    );
    await records.insert(made);
    const [first, , last] = made;
    const lock = 'select 1 from standin.records where token_fingerprint = $1 for update';
    let removing: Promise<unknown> | undefined;
    await inTransaction(async (client) => {
      await client.query(lock, [uuid(first!)]);
      removing = forgetTokens(pool, made.map((one) => one.token_fingerprint).toReversed(), soon());
      await waitingFor('transactionid');
      // It would fail, were the last one locked before the first.
      await client.query(`${lock} nowait`, [uuid(last!)]);
    });
    expect(await removing).toEqual(['known', 'known', 'known']);
  });
});
