import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, test } from 'vitest';
import { kekOf } from '../../src/crypto/kek.ts';
import { Keyring } from '../../src/crypto/keyring.ts';
import { drawToken } from '../../src/shape/token.ts';
import type { KeyPurpose, Token, Value } from '../../src/types.ts';
import { freePort } from '../support/postgres.ts';
import {
  call,
  insist,
  kinds,
  LATE,
  newPlace,
  type Place,
  runCli,
  type Service,
  startService,
  until,
} from '../support/service.ts';
import { sql } from '../support/vault.ts';

const services: Service[] = [];
const places: Place[] = [];
afterEach(async () => {
  for (const service of services.splice(0)) await service.stop();
  for (const place of places.splice(0)) place.remove();
});

async function placeOn(kind: 'embedded' | 'server'): Promise<Place> {
  const place = await newPlace(kind);
  places.push(place);
  return place;
}

async function start(place: Place, env: Record<string, string> = {}): Promise<Service> {
  const service = await startService(place, env);
  services.push(service);
  return service;
}

describe.skipIf(!kinds().includes('server'))('two nodes on one server', () => {
  test('F18: 128 clients (16 on Citus) with the same 1,000 new values in opposite orders: one token a value, no deadlock', async () => {
    const place = await placeOn('server');
    const nodes = [await start(place), await start(place)];
    const { api_key: apiKey } = nodes[0]!;
    const values = Array.from({ length: 1_000 }, (_, i) => `same value ${i}`);
    const tokens = values.map(() => new Set<string>());
    // Citus lets inserts into a shard wait for each other: of so many, some beyond the deadline.
    const citus = await sql(place, "select 1 from pg_extension where extname = 'citus'");
    const clients = citus.length > 0 ? 16 : 128;
    await Promise.all(
      Array.from({ length: clients }, async (_, i) => {
        const order = values.map((_, n) => (i < clients / 2 ? n : values.length - 1 - n));
        const data = { a: order.map((n) => values[n]) };
        const answer = await insist(() => call(nodes[i % 2]!, 'tokenize', data, apiKey), LATE);
        expect(answer.status).toBe(200);
        order.forEach((n, at) => {
          tokens[n]!.add(answer.body.data.a[at]);
        });
      }),
    );
    expect(tokens.map((set) => set.size)).toEqual(values.map(() => 1));
    expect(Number((await sql(place, 'select count(*) as n from standin.records'))[0]!.n)).toBe(
      1_000,
    );
    const [stats] = await sql(
      place,
      'select deadlocks from pg_stat_database where datname = current_database()',
    );
    expect(Number(stats!.deadlocks)).toBe(0);
  });

  test('L14: an API key that one node knows works on the other, and its revocation is in force on both', async () => {
    const place = await placeOn('server');
    const nodes = [await start(place), await start(place)];
    const { stdout } = await runCli(['client', 'create', '--name', 'late', '--json'], place);
    const { api_key: apiKey, client_id: clientId } = JSON.parse(stdout);
    for (const node of nodes)
      expect((await call(node, 'tokenize', { a: 'b' }, apiKey)).status).toBe(200);
    const listed = await runCli(['api-key', 'list', '--client', clientId, '--json'], place);
    await runCli(['api-key', 'revoke', JSON.parse(listed.stdout)[0].api_key_id], place);
    for (const node of nodes) {
      await until(
        async () => (await call(node, 'tokenize', { a: 'b' }, apiKey)).status === 401,
        'a 401',
      );
    }
  });
});

describe.each(kinds())('tokens on the %s database', (kind) => {
  test('a random client gets a fresh token each time; all restore, and nothing at rest links them', async () => {
    const place = await placeOn(kind);
    const service = await start(place);
    const { stdout } = await runCli(
      ['client', 'create', '--name', 'r', '--token-mode', 'random', '--json'],
      place,
    );
    const { api_key: apiKey } = JSON.parse(stdout);
    const tokens: string[] = [];
    for (let i = 0; i < 20; i++)
      tokens.push((await call(service, 'tokenize', { a: 'Ann Lee' }, apiKey)).body.data.a);
    expect(new Set(tokens).size).toBe(20);
    expect((await call(service, 'detokenize', { tokens })).body.data.tokens).toEqual(
      Array(20).fill('Ann Lee'),
    );
    const rows = await sql(place, 'select distinct value_fingerprint from standin.records');
    expect(rows).toHaveLength(20);
  });

  test('a repeated value is looked up; when its row is gone, or stands for another value, it is stored anew', async () => {
    const place = await placeOn(kind);
    const service = await start(place, { OPS_PORT: String(await freePort()) });
    const data = { a: 'Ann Lee', b: 'Bob Ray' };
    const first = (await call(service, 'tokenize', data)).body.data;
    const inserts = await insertBatches(service);
    expect((await call(service, 'tokenize', data)).body.data).toEqual(first);
    expect(await insertBatches(service)).toBe(inserts);
    await sql(place, 'delete from standin.records');
    expect((await call(service, 'tokenize', data)).body.data).toEqual(first);
    expect((await call(service, 'detokenize', first)).body.data).toEqual(data);
    expect(await insertBatches(service)).toBe(inserts + 1);
    await sql(place, 'update standin.records set value_fingerprint = $1', [Buffer.alloc(16)]);
    const second = (await call(service, 'tokenize', data)).body.data;
    expect(Object.values(second)).not.toContain(first.a);
    expect((await call(service, 'detokenize', second)).body.data).toEqual(data);
  });

  test('a value whose first draws stand for others gets the next, then a longer one, and all restore', async () => {
    const place = await placeOn(kind);
    const service = await start(place);
    const keyring = await keyringOf(place);
    const value = 'Bob' as Value;
    const { draws } = keyring.deterministicDraws(value);
    let draw = 0;
    const occupied: Token[] = [];
    for (; occupied.length < 10; draw++) {
      const drawn = drawToken(value, 'tok', draws, draw)!;
      draw = drawn.draw;
      occupied.push(drawn.token);
      const other = `holder of draw ${draw}` as Value;
      const { value_fingerprint: valueFingerprint } = keyring.deterministicDraws(other);
      const record = keyring.seal(other, keyring.tokenFingerprint(drawn.token), valueFingerprint);
      const bytes = (text: string) => Buffer.from(text, 'latin1').toString('hex');
      await sql(
        place,
        'insert into standin.records (token_fingerprint, value_fingerprint, key_version, sealed) values ($1, $2, $3, $4)',
        [
          bytes(record.token_fingerprint),
          bytes(record.value_fingerprint),
          record.key_version,
          record.sealed,
        ],
      );
    }
    const { a: token } = (await call(service, 'tokenize', { a: value })).body.data;
    expect(occupied).not.toContain(token);
    expect(token).toMatch(/^[a-z]{6}_tok$/);
    expect((await call(service, 'tokenize', { a: value })).body.data.a).toBe(token);
    const restored = await call(service, 'detokenize', { token, occupied });
    expect(restored.body.data.token).toBe(value);
    expect(restored.body.data.occupied[0]).toBe('holder of draw 0');
  });
});

async function insertBatches(service: Service): Promise<number> {
  const name = 'standin_batch_records_count{statement="insert"}';
  const metrics = await (await fetch(`${service.opsUrl}/metrics`)).text();
  return Number(
    metrics
      .split('\n')
      .find((line) => line.startsWith(name))
      ?.slice(name.length),
  );
}

/** The keys of a vault, as the service unwraps them. */
async function keyringOf(place: Place): Promise<Keyring> {
  const file = readFileSync(place.env.KEK_FILE ?? `${place.env.DATA_DIR}/kek`);
  const kek = kekOf(file.length === 32 ? file : Buffer.from(file.toString().trim(), 'hex'));
  const rows = await sql(place, 'select purpose, version, wrapped from standin.keyring');
  return new Keyring(
    rows.map(({ purpose, version, wrapped }) => ({
      id: '',
      purpose: purpose as KeyPurpose,
      version,
      bytes: kek.unwrap(purpose, version, wrapped)!,
    })),
  );
}
