import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { DEFAULT_SETTINGS } from '../../src/client-settings.ts';
import { StaleVersion } from '../../src/errors.ts';
import { ClientStore } from '../../src/store/clients.ts';
import type { Query } from '../../src/store/pool.ts';
import { fingerprintOf, hexOf, replaceWalked } from '../../src/store/record-walk.ts';
import { RecordStore } from '../../src/store/records.ts';
import { forgetTokens } from '../../src/store/removal.ts';
import { WrappedKeyStore } from '../../src/store/wrapped-keys.ts';
import { monotonicMs } from '../../src/timeouts.ts';
import { Tokenizer } from '../../src/tokens/tokenizer.ts';
import type { SealedRecord, Value } from '../../src/types.ts';
import { retireKey } from '../../src/vault/key-lifecycle.ts';
import { LeasedKeyring, SEAL_LEASE_MS } from '../../src/vault/leased-keyring.ts';
import { testKeys } from '../support/keys.ts';
import { blockVault, lockWaits, ownPool } from '../support/own.ts';
import { kinds, until } from '../support/service.ts';
import { addKeyVersions, leased, randomRecord, soon, sql } from '../support/vault.ts';

const TERMS = { token_mode: 'deterministic', time_to_live_s: null } as const;
const tokensOf = (records: readonly SealedRecord[]) => records.map((one) => one.token_fingerprint);
const uuid = ({ token_fingerprint: token }: SealedRecord) => hexOf(token);
/** The record with other content. */
const resealed = (record: SealedRecord, parts = {}) =>
  randomRecord({ ...record, sealed: randomRecord().sealed, ...parts });
const snapshotOf = (versions: number[], asOfMs = monotonicMs()) => ({
  ...{ keys: testKeys(versions), asOfMs, isDurable: true, failure: undefined },
});

/** What keeps a statement that comes late, or meets another, from doing harm. */
describe.skipIf(!kinds().includes('server'))('a fence of the store', () => {
  const at = blockVault('server', [1, 2, 3], { isDistributed: false });
  const records = () => new RecordStore(at.pool);
  const keys = () => new WrappedKeyStore(at.pool);
  const query = (text: string, values?: unknown[]) => sql(at.place, text, values);
  const close = (version: number) => keys().locked(soon(), (locked) => locked.close(version));
  const closed = async (version: number) => (await keys().closed(soon())).get(version);
  const hasVersion = async (version: number) =>
    (await keys().list(soon())).some((key) => key.version === version);
  const forget = (...all: SealedRecord[]) => forgetTokens(at.pool, tokensOf(all), soon());
  const find = (...all: SealedRecord[]) => records().find(tokensOf(all));

  test('keys that were last read long ago seal nothing: tokenize reads them before', async () => {
    const old = snapshotOf([1], monotonicMs() - SEAL_LEASE_MS);
    const keyring: LeasedKeyring = new LeasedKeyring(old, () =>
      setImmediate(() => keyring.take(snapshotOf([1, 2]))),
    );
    const tokenizer = new Tokenizer(records(), keyring, 'tok', () => {});
    await tokenizer.tokenize(['Ann Lee' as Value], TERMS, soon());
    const rows = await query('select key_version from standin.records');
    expect(rows).toEqual([{ key_version: 2 }]);
    await query('truncate standin.records');
  });

  const inTransaction = (work: (ask: Query) => Promise<void>) => at.pool.transaction(soon(), work);
  const waitingFor = (type: string) => lockWaits(at.place, `wait_event = '${type}'`);

  async function sealedOf(record: SealedRecord): Promise<Buffer> {
    const text = 'select sealed from standin.records where token_fingerprint = $1';
    return (await query(text, [uuid(record)]))[0]!.sealed;
  }

  test('a record takes the place of an alias only while that is as it was read, with an open key version', async () => {
    const [old, other] = [randomRecord(), randomRecord()];
    await records().insert([old, other]);
    const inPlace = ({ token_fingerprint: token }: SealedRecord, parts = {}) =>
      randomRecord({ token_fingerprint: token, ...parts });
    const [fresh, rival] = [inPlace(old), inPlace(old)];
    const closed = inPlace(other, { key_version: 99 });
    expect(await records().supersede([old], [fresh], soon())).toEqual(['stored']);
    // As a run does that did not get the answer, and another run.
    expect(await records().supersede([old], [fresh], soon())).toEqual(['stored']);
    const outcomes = await records().supersede([old], [rival], soon());
    expect(outcomes).toEqual([{ record: fresh, leftS: null }]);
    expect(await records().supersede([other], [closed], soon())).toEqual(['key_retired']);
    expect(await find(old, other)).toEqual([fresh, other]);
  });

  test('a record with a closed key version, or none in the keyring, is refused; it may be forgotten all the same', async () => {
    const old = randomRecord();
    expect(await records().insert([old])).toEqual(['stored']);
    await addKeyVersions(at.pool, 4);
    const ofVersion = (version: number) => randomRecord({ key_version: version });
    const [late, more, unknown, good] = [ofVersion(4), ofVersion(4), ofVersion(999), ofVersion(1)];
    expect(await records().insert([late])).toEqual(['stored']);
    await close(4);
    const first = await closed(4);
    expect(first).toBeDefined();
    await close(4);
    expect(await closed(4)).toEqual(first);
    const outcomes = await records().insert([more, unknown, good]);
    expect(outcomes).toEqual(['key_retired', 'key_retired', 'stored']);
    expect(await records().insert(leased(100, more))).toEqual(['key_retired']);
    expect(await find(late, more, unknown)).toEqual([late, undefined, undefined]);
    // Nor is a stub put back with it, nor a record mended.
    expect(await forget(late)).toEqual(['known']);
    expect(await sealedOf(late)).toHaveLength(0);
    expect(await records().insert([late])).toEqual(['key_retired']);
    const fresh = resealed(old, { key_version: 4 });
    expect(await records().mend([{ old, fresh }], soon())).toBe(0);
    expect(await find(old)).toEqual([old]);
  });

  test('a record of a lost key is refused once another key has its version, in every statement', async () => {
    await addKeyVersions(at.pool, 5);
    const ofKey = (parts = {}) => randomRecord({ key_version: 5, ...parts });
    const [old, forgotten] = [ofKey(), ofKey()];
    expect(await records().insert([old, forgotten])).toEqual(['stored', 'stored']);
    await forget(forgotten);
    // As after a failover that lost the version, and another rotate.
    await query('update standin.keyring set created_at = now() where version = 5');
    expect(await records().insert([ofKey(), forgotten])).toEqual(['key_retired', 'key_retired']);
    expect(await records().insert(leased(100, ofKey()))).toEqual(['key_retired']);
    expect(await records().insertMissing([ofKey()], soon())).toEqual(['key_retired']);
    const fresh = resealed(old);
    expect(await records().supersede([old], [fresh], soon())).toEqual(['key_retired']);
    expect(await records().mend([{ old, fresh }], soon())).toBe(0);
    // Sealed on both sides of the moment when a node reads the keyring.
    const id = 'select created_at::text as id from standin.keyring where version = 5';
    const [key] = await query(id);
    for (const digit of ['0', 'f']) {
      const token = { token_fingerprint: fingerprintOf(digit.repeat(32)) };
      const current = { ...ofKey(token), key_id: key!.id };
      expect(await records().insert([ofKey(), current])).toEqual(['key_retired', 'key_retired']);
      expect(await records().insert([current])).toEqual(['stored']);
    }
  });

  test('a record is mended only while it is the one that did not open', async () => {
    const [old, other] = [randomRecord(), randomRecord()];
    await records().insert([old, other]);
    await forget(other);
    const [mended, revived] = [resealed(old), resealed(other)];
    const replacements = [
      { old, fresh: mended },
      { old: other, fresh: revived },
    ];
    expect(await records().mend(replacements, soon())).toBe(1);
    expect(await find(old, other)).toEqual([mended, null]);
  });

  test('after a mend with a closed key version, the keys are read before the next one', async () => {
    await addKeyVersions(at.pool, 6, 7);
    let reads = 0;
    const keyring: LeasedKeyring = new LeasedKeyring(snapshotOf([6]), () => {
      reads++;
      setImmediate(() => keyring.take(snapshotOf([6, 7])));
    });
    const store = records();
    const mend = vi.spyOn(store, 'mend');
    const tokenizer = new Tokenizer(store, keyring, 'tok', () => {});
    const tokenOf = () => tokenizer.tokenize(['Eve Low' as Value], TERMS, soon());
    const tokens = await tokenOf();
    const damage =
      "update standin.records set sealed = sealed || '\\x00'::bytea where key_version = 6";
    await query(damage);
    await close(6);
    expect(await tokenOf()).toEqual(tokens);
    expect([mend.mock.calls.length, reads]).toEqual([2, 1]);
  });

  test('a forget removes what comes back between its statements, also of a forgotten token', async () => {
    const record = randomRecord();
    await records().insert([record]);
    await forget(record);
    let forgetting: Promise<unknown> | undefined;
    await inTransaction(async (ask) => {
      const revive = 'update standin.records set sealed = $2 where token_fingerprint = $1';
      await ask(revive, [uuid(record), record.sealed]);
      forgetting = forget(record);
      await waitingFor('transactionid');
    });
    expect(await forgetting).toEqual(['forgotten']);
    expect(await sealedOf(record)).toHaveLength(0);
  });

  test('a reseal does not bring back what was forgotten after it was read', async () => {
    const [kept, forgotten] = [randomRecord(), randomRecord()];
    await records().insert([kept, forgotten]);
    await forget(forgotten);
    await addKeyVersions(at.pool, 10);
    const replacements = [kept, forgotten].map((old) => ({
      old,
      fresh: resealed(old, { key_version: 10 }),
    }));
    expect(await replaceWalked(at.pool, replacements, 10, soon())).toBe(1);
    expect(await sealedOf(forgotten)).toHaveLength(0);
  });

  test('a batch of reseal waits for a rotation under way, and sees it', async () => {
    const old = randomRecord();
    await records().insert([old]);
    await addKeyVersions(at.pool, 20);
    const fresh = resealed(old, { key_version: 20 });
    // Where an administrator has chosen so, a transaction sees the same all the time.
    const name = new URL(at.place.env.DATABASE_URL!).pathname.slice(1);
    const isolation = 'default_transaction_isolation';
    await query(`alter database ${name} set ${isolation} = 'repeatable read'`);
    onTestFinished(async () => void (await query(`alter database ${name} reset ${isolation}`)));
    const other = ownPool(at.place);
    let replacing: Promise<number | undefined> | undefined;
    await keys().locked(soon(), async (locked) => {
      replacing = replaceWalked(other, [{ old, fresh }], 20, soon());
      await waitingFor('advisory');
      const key = { purpose: 'dek', version: 21, kek_id: '', wrapped: Buffer.alloc(0) } as const;
      await locked.insert(key);
    });
    expect(await replacing).toBeUndefined();
    expect(await sealedOf(old)).toEqual(old.sealed);
  });

  test('of two changes of a client that expect the same state, only one is made', async () => {
    const clients = new ClientStore(at.pool);
    const id = 'standin_000000000000000000000001';
    await clients.insert(id, { ...DEFAULT_SETTINGS, name: 'two' }, false, soon());
    const change = (rate: number) =>
      clients.update(id, { rate_limit: rate }, soon(), (client) => {
        if (client.rate_limit !== null) throw new StaleVersion('it has a limit');
      });
    let changes: Promise<unknown>[] = [];
    await inTransaction(async (ask) => {
      await ask('select from standin.clients where client_id = $1 for update', [id]);
      changes = [change(1), change(2)];
      for (const one of changes) one.catch(() => {});
      await lockWaits(at.place, 'true', (count) => count === 2);
    });
    const ended = await Promise.allSettled(changes);
    expect(ended.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
  });

  test('retire looks again whether the version is the primary, as after a failover that lost a newer one', async () => {
    await addKeyVersions(at.pool, 22, 23);
    let retiring: Promise<unknown> | undefined;
    await inTransaction(async (ask) => {
      await ask('update standin.records set key_version = key_version');
      retiring = retireKey(keys(), 22, 0);
      retiring.catch(() => {});
      await until(async () => (await closed(22)) !== undefined, 'the version is closed');
      await query('delete from standin.keyring where version = 23');
    });
    await expect(retiring).rejects.toThrow('Version 22 is the primary');
    await addKeyVersions(at.pool, 23);
  });

  test('retire does not wait for a transaction that writes after its first look', async () => {
    const write = `update standin.records set key_version = key_version where sealed = 'x'`;
    const looks = vi.spyOn(at.pool, 'query');
    onTestFinished(() => looks.mockRestore());
    await inTransaction(async (later) => {
      let gone: Promise<readonly string[]> | undefined;
      await inTransaction(async (earlier) => {
        await earlier(write);
        gone = keys().writersGone(60_000);
        await until(() => looks.mock.settledResults[0]?.type === 'fulfilled', 'the first look');
        await later(write);
      });
      expect(await gone).toEqual([]);
    });
  });

  test('retire waits for a transaction that wrote before the version was closed, and counts its record', async () => {
    await addKeyVersions(at.pool, 30, 31);
    const late = randomRecord({ key_version: 30 });
    let retiring: Promise<unknown> | undefined;
    await inTransaction(async (ask) => {
      await ask(
        'insert into standin.records (token_fingerprint, value_fingerprint, key_version, sealed) values ($1, $1, 30, $2)',
        [uuid(late), late.sealed],
      );
      retiring = retireKey(keys(), 30, 0);
      retiring.catch(() => {});
      await until(async () => (await closed(30)) !== undefined, 'the version is closed');
    });
    await expect(retiring).rejects.toThrow(
      '1 record needs key version 30; the version stays closed',
    );
    expect(await hasVersion(30)).toBe(true);
    await forget(late);
    await retireKey(keys(), 30, 0);
    expect(await hasVersion(30)).toBe(false);
  });

  test('retire gives up in words on a transaction that does not end, and destroys nothing', async () => {
    await addKeyVersions(at.pool, 40, 41);
    await inTransaction(async (ask) => {
      await ask('update standin.records set key_version = 40 where false');
      const { rows } = await ask('select pg_backend_pid() as pid');
      await expect(retireKey(keys(), 40, 0, 100)).rejects.toThrow(
        `may still write records with it (backends: ${rows[0]!.pid})`,
      );
      expect(await hasVersion(40)).toBe(true);
    });
    await retireKey(keys(), 40, 0);
  });

  test('a token that came to stand for another value meanwhile is not written over', async () => {
    const record = randomRecord();
    const rival = randomRecord();
    await records().insert(leased(100, record));
    const where = 'where token_fingerprint = $1';
    let inserting: Promise<readonly unknown[]> | undefined;
    await inTransaction(async (ask) => {
      await ask(`select 1 from standin.records ${where} for update`, [uuid(record)]);
      // It is to be there for longer than it is, so it is written again, and waits.
      inserting = records().insert([record]);
      await waitingFor('transactionid');
      const set = 'set value_fingerprint = $2, sealed = $3';
      await ask(`update standin.records ${set} ${where}`, [
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
    await records().insert(made);
    const [first, , last] = made;
    const lock = 'select 1 from standin.records where token_fingerprint = $1 for update';
    let removing: Promise<unknown> | undefined;
    await inTransaction(async (ask) => {
      await ask(lock, [uuid(first!)]);
      removing = forget(...made.toReversed());
      await waitingFor('transactionid');
      // It would fail, were the last one locked before the first.
      await ask(`${lock} nowait`, [uuid(last!)]);
    });
    expect(await removing).toEqual(['known', 'known', 'known']);
  });
});
