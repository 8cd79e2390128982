import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { newCluster, newProxy, newVault, start } from '../support/fault.ts';
import type { FaultProxy } from '../support/fault-proxy.ts';
import { type PostgresCluster, postgresBin, query } from '../support/postgres.ts';
import {
  call,
  createClient,
  type NewClient,
  type Place,
  runCli,
  type Service,
  until,
} from '../support/service.ts';

const FULL = 'version: 1\n';
const rightOf = (right: string) => `version: 1\nrights: { support: { "*": ${right} } }\n`;
const CLOSED = rightOf('none');
const MASKED = rightOf('masked');
/** F39: nodes use what another database has under the same number. */
const IN_FORCE_MS = 8_000;

interface Pair {
  readonly primary: PostgresCluster;
  readonly standby: PostgresCluster;
  /** Between the two. */
  readonly proxy: FaultProxy;
  readonly place: Place;
  readonly nodes: readonly Service[];
  readonly support: NewClient;
  readonly token: string;
}

/** Two nodes on a primary and its standby, with a client called support and a token. */
async function newPair(isSynchronous: boolean): Promise<Pair> {
  const primary = await newCluster();
  const place = await newVault(primary);
  const proxy = await newProxy(primary);
  const standby = await primary.startStandby(proxy.through(primary.directUrl('postgres')));
  onTestFinished(() => standby.stop());
  if (!isSynchronous) {
    await query(primary.directUrl('postgres'), 'alter system reset synchronous_standby_names');
    await query(primary.directUrl('postgres'), 'select pg_reload_conf()');
  }
  place.env.DATABASE_URL = place.env.DATABASE_URL!.replace(
    /@[^/]*/,
    `@127.0.0.1:${primary.port},127.0.0.1:${standby.port}`,
  );
  const first = await start(place);
  const nodes = [first, { ...(await start(place)), api_key: first.api_key }];
  const support = await createClient(place, '--name', 'support');
  const { a: token } = (await call(first, 'tokenize', { a: 'Ann Lee' })).body.data;
  return { primary, standby, proxy, place, nodes, support, token };
}

function apply({ place }: Pair, document: string) {
  const file = join(place.folder, 'policy.yaml');
  writeFileSync(file, document);
  return runCli(['policy', 'apply', file, '--yes'], place);
}

/** A statement on the primary. */
const onPrimary = ({ place }: Pair, text: string, values?: unknown[]) =>
  query(place.env.DATABASE_URL!.replace(/,[^/]*/, ''), text, values);

/** What support sees of the token: the value, or the status. */
async function seen(node: Service, { support, token }: Pair): Promise<string | number> {
  const { status, body } = await call(node, 'detokenize', { a: token }, support.api_key);
  return status === 200 ? body.data.a : status;
}

async function untilSeen(pair: Pair, what: string | number, patienceMs?: number) {
  for (const node of pair.nodes)
    await until(async () => (await seen(node, pair)) === what, `to see ${what}`, patienceMs);
}

async function caughtUp({ primary, standby }: Pair): Promise<void> {
  const [{ lsn }] = (await query(
    primary.directUrl('postgres'),
    'select pg_current_wal_flush_lsn()::text as lsn',
  )) as [{ lsn: string }];
  const has = 'select pg_last_wal_replay_lsn() >= $1::pg_lsn as has';
  const isThere = async () => (await query(standby.directUrl('postgres'), has, [lsn]))[0]!.has;
  await until(isThere, 'the standby to have all');
}

async function failOver({ primary, standby }: Pair): Promise<void> {
  await primary.crash();
  standby.promote();
}

const health = async ({ url }: Service) => (await fetch(`${url}/health`)).status;

describe.skipIf(postgresBin === undefined)('F39: a number that comes back', () => {
  test('with the first policy of a vault: nodes forget the one that the failover lost, and use the other', async () => {
    const pair = await newPair(false);
    await caughtUp(pair);
    pair.proxy.silence();
    expect((await apply(pair, MASKED)).code).toBe(0);
    await untilSeen(pair, '****');
    await failOver(pair);
    // No policy is a policy, too.
    await untilSeen(pair, 'Ann Lee', IN_FORCE_MS + 30_000);
    const applied = await apply(pair, CLOSED);
    expect(applied.stdout).toContain('Version 1 of the policy is in force');
    await untilSeen(pair, 403, IN_FORCE_MS);
  });

  test('with the second one', async () => {
    const pair = await newPair(false);
    expect((await apply(pair, FULL)).code).toBe(0);
    await caughtUp(pair);
    pair.proxy.silence();
    expect((await apply(pair, MASKED)).code).toBe(0);
    await untilSeen(pair, '****');
    await failOver(pair);
    let applied = await apply(pair, CLOSED);
    // The new primary may not be found at once.
    while (applied.code !== 0) applied = await apply(pair, CLOSED);
    expect(applied.stdout).toContain('Version 2 of the policy is in force');
    await untilSeen(pair, 403, IN_FORCE_MS);
  });
});

describe.skipIf(postgresBin === undefined)('F40: a synchronous standby that is away', () => {
  test.each([
    ['no policy', undefined, 'Ann Lee'],
    ['a policy', MASKED, '****'],
  ])(
    'with %s: a node that starts detokenizes, and an apply that failed changes nothing',
    async (_, before, shown) => {
      const pair = await newPair(true);
      if (before !== undefined) expect((await apply(pair, before)).code).toBe(0);
      await untilSeen(pair, shown);
      pair.proxy.silence();
      const starts = async () => {
        const node = await start(pair.place);
        expect([await health(node), await seen(node, pair)]).toEqual([200, shown]);
        return node;
      };
      await starts();

      const applying = apply(pair, CLOSED);
      let isOver = false;
      void applying.finally(() => {
        isOver = true;
      });
      const others: unknown[] = [];
      const probe = async () => {
        for (const node of pair.nodes) {
          const found = [await health(node), await seen(node, pair)];
          if (found[0] !== 200 || found[1] !== shown) others.push(found);
        }
        return isOver;
      };
      await until(probe, 'the end of the command');
      expect((await applying).code).toBe(1);
      // Long enough for every lease of rights to end.
      const untilMs = performance.now() + 7_000;
      await until(async () => (await probe()) && performance.now() > untilMs, 'some seconds');
      expect(others).toEqual([]);
      await starts();
      const again = await apply(pair, CLOSED);
      expect([again.code, again.stdout]).toEqual([1, '']);
      expect(pair.nodes[0]!.output()).toContain('the policy before goes on');

      pair.proxy.heal();
      await untilSeen(pair, 403);
      expect((await apply(pair, CLOSED)).stdout).toContain('is this document already');
      // Noted as durable, so a node that starts knows it although nobody answers.
      pair.proxy.silence();
      expect(await seen(await start(pair.place), pair)).toBe(403);
      await failOver(pair);
      await untilSeen(pair, 403);
      const { code, stdout } = await runCli(['policy', 'show'], pair.place);
      expect([code, stdout]).toEqual([0, CLOSED]);
    },
  );

  test('a policy of an older program, which nobody has noted: a node that cannot know it shows nothing', async () => {
    const pair = await newPair(true);
    const [node] = pair.nodes as [Service];
    const insert = 'insert into standin.policies (version, document) values (1, $1)';
    await onPrimary(pair, insert, [CLOSED]);
    await untilSeen(pair, 403);
    pair.proxy.silence();
    expect(await seen(await start(pair.place), pair)).toBe(403);
    await onPrimary(
      pair,
      `begin; set local synchronous_commit = local; ${insert.replace('(1, $1)', `(2, '${MASKED}')`)}; commit`,
    );
    await until(async () => (await seen(node, pair)) === 500, 'it to be refused');
    pair.proxy.heal();
    await untilSeen(pair, '****');
  });

  test('a key that it does not have opens records and seals none, and nodes stay in service', async () => {
    const pair = await newPair(true);
    pair.proxy.silence();
    const rotating = runCli(['keyring', 'rotate'], pair.place);
    const keys = async () =>
      (await onPrimary(pair, "select 1 from standin.keyring where purpose = 'dek'")).length;
    expect((await rotating).code).toBe(1);
    await until(async () => (await keys()) === 2, 'the key');
    const node = await start(pair.place);
    for (const one of [...pair.nodes, node]) {
      expect([await health(one), await seen(one, pair)]).toEqual([200, 'Ann Lee']);
      expect((await call(one, 'tokenize', { a: 'new' }, pair.nodes[0]!.api_key)).status).toBe(500);
    }
    pair.proxy.heal();
    for (const one of [...pair.nodes, node])
      await until(
        async () =>
          (await call(one, 'tokenize', { a: 'new' }, pair.nodes[0]!.api_key)).status === 200,
        'tokens',
      );
  });
});
