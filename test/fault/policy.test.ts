import { describe, expect, test } from 'vitest';
import { healthOf, start } from '../support/fault.ts';
import { postgresBin } from '../support/postgres.ts';
import { call, createClient, type Service, until } from '../support/service.ts';
import { failOver, newPair, type Pair } from '../support/standby.ts';

const FULL = 'version: 1\n';
const rightOf = (right: string) => `version: 1\nrights: { support: { "*": ${right} } }\n`;
const CLOSED = rightOf('none');
const MASKED = rightOf('masked');
/** F39: nodes use what another database has under the same number. */
const IN_FORCE_MS = 8_000;

type Ruled = Awaited<ReturnType<typeof newRuled>>;

/** Two nodes on a primary and its standby, with a client called support and a token. */
async function newRuled(isSynchronous: boolean) {
  const pair = await newPair(2, {}, isSynchronous);
  const support = await createClient(pair.place, '--name', 'support');
  const { a: token } = await pair.tokenized({ a: 'Ann Lee' });
  return { ...pair, support, token };
}

const apply = ({ run, write }: Ruled, document: string) =>
  run(['policy', 'apply', write('policy.yaml', document), '--yes']);

/** What support sees of the token: the value, or the status. */
async function seen(node: Service, { support, token }: Ruled): Promise<string | number> {
  const { status, body } = await call(node, 'detokenize', { a: token }, support.api_key);
  return status === 200 ? body.data.a : status;
}

async function untilSeen(pair: Ruled, what: string | number, timeoutMs?: number) {
  for (const node of pair.nodes)
    await until(async () => (await seen(node, pair)) === what, `to see ${what}`, timeoutMs);
}

async function caughtUp({ primary, standby }: Pair): Promise<void> {
  const [row] = await primary.administer('select pg_current_wal_flush_lsn()::text as lsn');
  const has = 'select pg_last_wal_replay_lsn() >= $1::pg_lsn as has';
  const isThere = async () => (await standby.administer(has, [row!.lsn]))[0]!.has;
  await until(isThere, 'the standby to have all');
}

describe.skipIf(postgresBin === undefined)('F39: a number that comes back', () => {
  test.each([
    ['first', 1],
    ['second', 2],
  ])(
    'with the %s policy of a vault: nodes forget the one that the failover lost, and use the other',
    async (_, version) => {
      const pair = await newRuled(false);
      if (version === 2) expect((await apply(pair, FULL)).code).toBe(0);
      await caughtUp(pair);
      pair.proxy.silence();
      expect((await apply(pair, MASKED)).code).toBe(0);
      await untilSeen(pair, '****');
      await failOver(pair, []);
      // No policy is a policy, too.
      await untilSeen(pair, 'Ann Lee', IN_FORCE_MS + 30_000);
      const applied = await apply(pair, CLOSED);
      expect(applied.stdout).toContain(`Version ${version} of the policy is in force`);
      await untilSeen(pair, 403, IN_FORCE_MS);
    },
  );
});

describe.skipIf(postgresBin === undefined)('F40: a synchronous standby that is away', () => {
  test.each([
    ['no policy', undefined, 'Ann Lee'],
    ['a policy', MASKED, '****'],
  ])(
    'with %s: a node that starts detokenizes, and an apply that failed changes nothing',
    async (_, before, shown) => {
      const pair = await newRuled(true);
      if (before !== undefined) expect((await apply(pair, before)).code).toBe(0);
      await untilSeen(pair, shown);
      pair.proxy.silence();
      const starts = async () => {
        const node = await start(pair.place);
        expect([await healthOf(node), await seen(node, pair)]).toEqual([200, shown]);
        return node;
      };
      await starts();

      const applying = apply(pair, CLOSED);
      let isOver = false;
      void applying.finally(() => (isOver = true));
      const others: unknown[] = [];
      const probe = async () => {
        for (const node of pair.nodes) {
          const found = [await healthOf(node), await seen(node, pair)];
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
      const said = /is not in force: the synchronous standby does not.*the policy before goes on/;
      expect(pair.nodes[0]!.output()).toMatch(said);

      pair.proxy.heal();
      await untilSeen(pair, 403);
      expect((await apply(pair, CLOSED)).stdout).toContain('is this document already');
      // Noted as durable, so a node that starts knows it although nobody answers.
      pair.proxy.silence();
      expect(await seen(await start(pair.place), pair)).toBe(403);
      await failOver(pair, []);
      await untilSeen(pair, 403);
      expect(await pair.ok('policy show')).toBe(CLOSED);
    },
  );

  test('a policy of an older program, which nobody has noted: a node that cannot know it shows nothing', async () => {
    const pair = await newRuled(true);
    const [node] = pair.nodes as [Service];
    const insert = 'insert into standin.policies (version, document) values (1, $1)';
    await pair.on(pair.primary, insert, [CLOSED]);
    await untilSeen(pair, 403);
    pair.proxy.silence();
    expect(await seen(await start(pair.place), pair)).toBe(403);
    await pair.on(
      pair.primary,
      `begin; set local synchronous_commit = local; ${insert.replace('(1, $1)', `(2, '${MASKED}')`)}; commit`,
    );
    await until(async () => (await seen(node, pair)) === 500, 'it to be refused');
    pair.proxy.heal();
    await untilSeen(pair, '****');
  });

  test('a key that it does not have opens records and seals none, and nodes stay in service', async () => {
    const pair = await newRuled(true);
    pair.proxy.silence();
    expect((await pair.run('keyring rotate')).code).toBe(1);
    const deks = "select 1 from standin.keyring where purpose = 'dek'";
    await until(async () => (await pair.on(pair.primary, deks)).length === 2, 'the key');
    const node = await start(pair.place);
    const all = [...pair.nodes, node];
    const tokenize = async (one: Service) =>
      (await call(one, 'tokenize', { a: 'new' }, pair.api_key)).status;
    for (const one of all) {
      expect([await healthOf(one), await seen(one, pair)]).toEqual([200, 'Ann Lee']);
      expect(await tokenize(one)).toBe(500);
    }
    pair.proxy.heal();
    for (const one of all) await until(async () => (await tokenize(one)) === 200, 'tokens');
  });
});
