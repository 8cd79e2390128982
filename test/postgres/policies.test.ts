import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { NO_POLICY } from '../../src/policy/policy.ts';
import {
  PolicyFollower,
  type PolicySnapshot,
  UnreadablePolicy,
} from '../../src/policy/policy-follower.ts';
import { PolicyStore, versionOf } from '../../src/store/policies.ts';
import type { Pool } from '../../src/store/pool.ts';
import { migrate } from '../../src/store/schema.ts';
import { leaseMs } from '../../src/timeouts.ts';
import { EveryKind } from '../../src/tokens/every-kind.ts';
import type { Durable } from '../../src/types.ts';
import { loseStandby, ownCluster, ownPlace, ownPool } from '../support/own.ts';
import { kinds, type Place, until } from '../support/service.ts';
import { soon, sql } from '../support/vault.ts';

const FIRST = 'version: 1\n';
const SECOND =
  '# Zwölf Boxkämpfer \u{1f984}\r\nversion: 1\r\nfields: { "a\\u0000b": text }\r\n\r\n';
const NONE_KNOWN = { policy: NO_POLICY, asOfMs: -Infinity };

async function newStore(kind: Place['kind'], serverUrl?: string) {
  const place = await ownPlace(kind, serverUrl);
  const pool = ownPool(place);
  await migrate(pool, soon());
  return { place, pool, store: new PolicyStore(pool) };
}

describe.each(kinds())('policies on the %s database', (kind) => {
  let place: Place;
  let pool: Pool;
  let store: PolicyStore;
  beforeEach(async () => {
    ({ place, pool, store } = await newStore(kind));
  });

  const versions = async () => (await store.list(soon())).map(({ version }) => version);
  const newest = async () => (await store.newest(soon()))!;
  const query = (text: string, values: unknown[] = []) => pool.query(text, values, soon());

  test('are kept byte for byte, in versions from 1, with their date and user', async () => {
    expect([await store.newest(soon()), await versions()]).toEqual([undefined, []]);
    expect(await store.apply(FIRST, 0, soon())).toEqual({ version: 1, is_new: true });
    const first = await newest();
    const by = expect.stringMatching(/./);
    const applied = { version: 1, applied_at: expect.any(Date), applied_by: by };
    expect(first).toEqual({ ...applied, document: FIRST });
    expect(await store.apply(SECOND, 1, soon())).toEqual({ version: 2, is_new: true });
    const second = await newest();
    expect(second).toEqual({ ...applied, version: 2, document: SECOND });
    expect(await store.newestDurable(soon())).toEqual(second);
    expect(await store.get(1, soon())).toEqual(first);
    expect(await store.get(3, soon())).toBeUndefined();
    expect(await store.list(soon())).toEqual([second, first].map(versionOf));
    // Known as durable, so that a node that starts needs no standby.
    const known = { ...versionOf(second), is_durable: true, is_noted: true };
    expect(await store.candidates(0, soon())).toEqual([known]);
  });

  test('follow the version that the caller has seen, or nothing changes', async () => {
    expect(await store.apply(FIRST, 1, soon())).toBeUndefined();
    await store.apply(FIRST, 0, soon());
    for (const seen of [0, 2]) expect(await store.apply(SECOND, seen, soon())).toBeUndefined();
    // A document that is the newest already makes no version, whatever the caller has seen.
    for (const seen of [0, 1, 2])
      expect(await store.apply(FIRST, seen, soon())).toEqual({ version: 1, is_new: false });
    expect(await versions()).toEqual([1]);
  });

  test('applied by eight processes at once: one wins, the others are refused; and no number is left out', async () => {
    const stores = Array.from({ length: 8 }, () => new PolicyStore(ownPool(place, 1)));
    const document = (i: number, round: number) => `version: 1 # of ${i} in round ${round}\n`;
    for (let round = 0; round < 5; round++) {
      const applied = await Promise.all(
        stores.map((one, i) => one.apply(document(i, round), round, soon())),
      );
      const winner = applied.findIndex((one) => one !== undefined);
      expect(applied.filter((one) => one !== undefined)).toHaveLength(1);
      expect((await newest()).document).toBe(document(winner, round));
    }
    expect(await versions()).toEqual([5, 4, 3, 2, 1]);
  });

  function following() {
    const problems: unknown[] = [];
    const follower = new PolicyFollower(store, (problem) => problems.push(problem));
    onTestFinished(() => follower.stop());
    return { follower, problems };
  }

  /** Requires reads until one of them began after the call. */
  async function read(follower: PolicyFollower): Promise<PolicySnapshot> {
    const sinceMs = leaseMs();
    await until(async () => {
      const { asOfMs, problem } = await follower.refresh();
      return asOfMs >= sinceMs || problem !== undefined;
    }, 'a read');
    return follower.latest;
  }

  test('are followed: none, one, the next, each with the time of its read', async () => {
    const { follower, problems } = following();
    expect(follower.latest).toEqual({ ...NONE_KNOWN, problem: undefined });
    const beforeMs = leaseMs();
    await follower.start();
    expect(follower.latest).toMatchObject({ policy: NO_POLICY, problem: undefined });
    expect(follower.latest.asOfMs).toBeGreaterThanOrEqual(beforeMs);
    await store.apply(FIRST, 0, soon());
    expect((await read(follower)).policy?.version).toBe(1);
    const { policy } = follower.latest;
    expect((await read(follower)).policy).toBe(policy);
    await store.apply(SECOND, 1, soon());
    // Without being asked.
    await until(() => follower.latest.policy?.version === 2, 'the second version');
    expect(follower.latest.policy?.fields).toEqual([{ path: 'a\0b', kind: 'text' }]);
    expect(problems).toEqual([]);
  });

  test('that this program cannot read are not ignored: no policy is known until one can be read', async () => {
    const { follower, problems } = following();
    await store.apply(FIRST, 0, soon());
    expect((await read(follower)).policy?.version).toBe(1);
    await store.apply('version: 2\n', 1, soon());
    const unreadable = { ...NONE_KNOWN, problem: expect.any(UnreadablePolicy) };
    for (let i = 0; i < 2; i++) expect(await read(follower)).toEqual(unreadable);
    expect(String(follower.latest.problem)).toContain(
      'Version 2 of the policy cannot be read by this program: line 1, column 10: ',
    );
    expect(problems).toEqual([follower.latest.problem]);
    await store.apply(FIRST, 2, soon());
    expect(await read(follower)).toMatchObject({ policy: { version: 3 }, problem: undefined });
    expect(problems.slice(1)).toEqual([undefined]);
  });

  test('stay known, with the time of their read, while they cannot be read', async () => {
    const { follower, problems } = following();
    await store.apply(FIRST, 0, soon());
    const { policy, asOfMs } = await read(follower);
    await query('alter table standin.policies rename to away');
    const { problem, ...kept } = await read(follower);
    expect(kept).toEqual({ policy, asOfMs });
    expect(problems).toEqual([problem]);
    await query('alter table standin.away rename to policies');
    await until(async () => (await follower.refresh()).problem === undefined, 'a read');
    expect(follower.latest.asOfMs).toBeGreaterThan(asOfMs);
    expect(problems).toHaveLength(2);
  });

  test('are noted as durable by their document: a failover can give the number to another', async () => {
    await query('insert into standin.policies (version, document) values (1, $1)', [FIRST]);
    for (const document of [SECOND, FIRST]) {
      await store.note({ version: 1 } as Durable<{ version: number }>, document, soon());
      const [head] = await store.candidates(0, soon());
      expect(head!.is_durable).toBe(document === FIRST);
    }
    // The same document, applied again.
    await query("update standin.policies set applied_at = applied_at + interval '1 s'");
    expect((await store.candidates(0, soon()))[0]!.is_durable).toBe(false);
  });

  test('of a database that was restored are those of the database', async () => {
    const { follower } = following();
    const known = async () => (await read(follower)).policy;
    const lose = () => query('delete from standin.policies where version = 2');
    await store.apply(FIRST, 0, soon());
    await store.apply(SECOND, 1, soon());
    expect((await known())?.version).toBe(2);
    await lose();
    expect(await known()).toMatchObject({ version: 1, fields: undefined });
    await store.apply(SECOND, 1, soon());
    expect(await known()).toMatchObject({ version: 2, fields: [{}], elsewhere: 'pass' });
    await lose();
    await store.apply(`${FIRST}\n`, 1, soon());
    expect(await known()).toMatchObject({ version: 2, fields: undefined });
  });
});

test('of every kind, those of a document that took the number of a lost one are read, too', async () => {
  const { pool, store } = await newStore(kinds()[0]!);
  const every = new EveryKind({ policies: store }, 'tok');
  for (const name of ['one', 'other']) {
    await pool.query('delete from standin.policies', [], soon());
    await store.apply(`version: 1\nkinds: { ${name}: { shape: uuid } }\n`, 0, soon());
    await every.update();
  }
  expect(every.names).toEqual(expect.arrayContaining(['one', 'other']));
});

test.skipIf(!kinds().includes('server'))(
  'a version that a failover would lose is not in force',
  async () => {
    const cluster = await ownCluster();
    const { place, store } = await newStore('server', cluster.url('postgres'));
    await store.apply(FIRST, 0, soon());
    const follower = new PolicyFollower(store);
    await follower.refresh();
    expect(follower.latest.policy?.version).toBe(1);
    const back = await loseStandby(cluster);
    // As a version whose wait for the standby was cancelled: visible, and on this server only.
    const insert = `insert into standin.policies (version, document) values (2, '${FIRST}')`;
    await sql(place, `begin; set local synchronous_commit = local; ${insert}; commit`);
    expect((await store.newest(soon()))!.version).toBe(2);
    await until(async () => (await follower.refresh()).problem !== undefined, 'a failed read');
    expect(follower.latest.policy?.version).toBe(1);
    await back();
    await until(async () => (await follower.refresh()).policy?.version === 2, 'the version');
  },
);
