import { describe, expect, test } from 'vitest';
import { drawToken } from '../../src/shape/kind.ts';
import type { Token, Value } from '../../src/types.ts';
import { ownVault } from '../support/own.ts';
import { call, createClient, insist, kinds, LATE, scrape, until } from '../support/service.ts';
import { openedVault, sealedWith } from '../support/vault.ts';

describe.skipIf(!kinds().includes('server'))('two nodes on one server', () => {
  test('F18: 128 clients (16 on Citus) with the same 1,000 new values in opposite orders: one token a value, no deadlock', async () => {
    const { nodes, service, sql } = await ownVault({ kind: 'server', nodes: 2 });
    const values = Array.from({ length: 1_000 }, (_, i) => `same value ${i}`);
    const tokens = values.map(() => new Set<string>());
    // Citus lets inserts into a shard wait for each other: of so many, some beyond the deadline.
    const citus = await sql("select 1 from pg_extension where extname = 'citus'");
    const clients = citus.length > 0 ? 16 : 128;
    const ask = async (_: unknown, i: number) => {
      const order = values.map((_, n) => (i < clients / 2 ? n : values.length - 1 - n));
      const data = { a: order.map((n) => values[n]) };
      const asking = () => call(nodes[i % 2]!, 'tokenize', data, service.api_key);
      const { status, body } = await insist(asking, LATE);
      expect(status).toBe(200);
      for (const [at, n] of order.entries()) tokens[n]!.add(body.data.a[at]);
    };
    await Promise.all(Array.from({ length: clients }, ask));
    expect(tokens.map((set) => set.size)).toEqual(values.map(() => 1));
    expect(await sql('select count(*)::int as n from standin.records')).toEqual([{ n: 1_000 }]);
    const stats = 'from pg_stat_database where datname = current_database()';
    expect(await sql(`select deadlocks::int ${stats}`)).toEqual([{ deadlocks: 0 }]);
  });

  test('L14: an API key that one node knows works on the other, and its revocation is in force on both', async () => {
    const { place, nodes, json } = await ownVault({ kind: 'server', nodes: 2 });
    const { api_key: apiKey, client_id: clientId } = await createClient(place);
    const statusOn = async (node: (typeof nodes)[0]) =>
      (await call(node, 'tokenize', { a: 'b' }, apiKey)).status;
    for (const node of nodes) expect(await statusOn(node)).toBe(200);
    const [{ api_key_id: id }] = await json(`api-key list --client ${clientId}`);
    await json(`api-key revoke ${id}`);
    for (const node of nodes) await until(async () => (await statusOn(node)) === 401, 'a 401');
  });
});

describe.each(kinds())('tokens on the %s database', (kind) => {
  test('a random client gets a fresh token each time; all restore, and nothing at rest links them', async () => {
    const { place, service, restored, sql } = await ownVault({ kind });
    const { api_key: apiKey } = await createClient(place, '--token-mode', 'random');
    const tokens: string[] = [];
    for (let i = 0; i < 20; i++)
      tokens.push((await call(service, 'tokenize', { a: 'Ann Lee' }, apiKey)).body.data.a);
    expect(new Set(tokens).size).toBe(20);
    expect(await restored(tokens)).toEqual(Array(20).fill('Ann Lee'));
    const rows = await sql('select distinct value_fingerprint from standin.records');
    expect(rows).toHaveLength(20);
  });

  test('a repeated value is looked up; when its row is gone, or stands for another value, it is stored anew', async () => {
    const { service, tokenized, restored, sql } = await ownVault({ kind });
    const data = { a: 'Ann Lee', b: 'Bob Ray' };
    const inserts = async () =>
      (await scrape(service.opsUrl, 'standin_batch_records_count'))['statement="insert"'];
    const first = await tokenized(data);
    const before = (await inserts())!;
    expect(await tokenized(data)).toEqual(first);
    expect(await inserts()).toBe(before);
    await sql('delete from standin.records');
    expect(await tokenized(data)).toEqual(first);
    expect(await restored(first)).toEqual(data);
    expect(await inserts()).toBe(before + 1);
    await sql('update standin.records set value_fingerprint = $1', [Buffer.alloc(16)]);
    const second = await tokenized(data);
    expect(Object.values(second)).not.toContain(first.a);
    expect(await restored(second)).toEqual(data);
  });

  test('a value whose first draws stand for others gets the next, then a longer one, and all restore', async () => {
    const { place, tokenized, restored } = await ownVault({ kind });
    const { records, keyring: current } = openedVault(place);
    const keyring = await current();
    const value = 'Bob' as Value;
    const { draws } = keyring.deterministicDraws(value);
    const occupied: Token[] = [];
    for (let draw = 0; occupied.length < 10; draw++) {
      const drawn = drawToken(value, 'tok', draws, draw)!;
      draw = drawn.draw;
      occupied.push(drawn.token);
      await records.insert([sealedWith(keyring, `holder of draw ${draw}`, drawn.token)]);
    }
    const { a: token } = await tokenized({ a: value });
    expect(occupied).not.toContain(token);
    expect(token).toMatch(/^[a-z]{6}_tok$/);
    expect(await tokenized({ a: value })).toEqual({ a: token });
    const [first] = occupied;
    expect(await restored({ token, first })).toEqual({ token: value, first: 'holder of draw 0' });
  });
});
