import { createHash, createHmac } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { newApiKey } from '../../src/crypto/api-key.ts';
import { RecordStore } from '../../src/store/records.ts';
import { Detokenizer } from '../../src/tokens/detokenizer.ts';
import { Tokenizer } from '../../src/tokens/tokenizer.ts';
import type { Value } from '../../src/types.ts';
import { readText } from '../support/docs.ts';
import { testLeasedKeyring } from '../support/keys.ts';
import { startWithOps } from '../support/ops.ts';
import { actsOn, ask, blockVault } from '../support/own.ts';
import { served } from '../support/served.ts';
import { call, kinds, leastPrivilegePlace } from '../support/service.ts';
import { metric, sql } from '../support/vault.ts';

/** Somebody with write access to the database changes rows: an error, never another value. */
const PAIRS = 100;
const NO_KEY = 'key version not in the keyring';
const NOT_AUTHENTIC = 'record failed authentication';
const service = served(async () => startWithOps(await leastPrivilegePlace()));

const query = (text: string, values?: unknown[]) => sql(service.place, text, values);
const clear = () => query('truncate standin.records');
const numbered = (name: string) => Array.from({ length: 2 * PAIRS }, (_, i) => `${name} ${i}`);
const damaged = () => metric(service, 'standin_damaged_records_total');
const restored = (data: object) => ask(service, 'detokenize', data);

/** Tokens of the values, in order. */
async function tokensOf(values: string[]): Promise<string[]> {
  return (await ask(service, 'tokenize', values)).data;
}

async function expectRefused(token: string, message = NOT_AUTHENTIC): Promise<void> {
  const { status, body } = await restored({ token });
  expect([status, body]).toEqual([500, { error: 'internal_error', message }]);
}

/** Exchanges columns between each two rows that follow one another in time; created_at is made unique for that. */
async function swap(columns: string[]): Promise<void> {
  const set = columns.map((column) => `${column} = other.${column}`).join(', ');
  await query(
    `with numbered as (
       select token_fingerprint as own, row_number() over (order by token_fingerprint) - 1 as n, * from standin.records
     )
     update standin.records as record set ${set}
     from numbered join numbered other on other.n = numbered.n + 1 - 2 * (numbered.n % 2)
     where record.token_fingerprint = numbered.own`,
  );
}

test.each([
  ['sealed', ['sealed']],
  ['value_fingerprint', ['value_fingerprint']],
  ['all but the token fingerprint', ['sealed', 'value_fingerprint', 'key_version', 'created_at']],
])(
  'C04: %s exchanged between 100 pairs of rows: 200 errors, 200 alarms',
  async (_name, columns) => {
    await clear();
    const tokens = await tokensOf(numbered(`swap ${columns}`));
    await swap(columns);
    const before = await damaged();
    for (const token of tokens) await expectRefused(token);
    expect(await damaged()).toBe(before + 2 * PAIRS);
  },
);

const flip = (column: string, at: string) =>
  `${column} = set_byte(${column}, ${at}, get_byte(${column}, ${at}) # 1)`;
const flipUuid = (column: string, at: number) =>
  `${column} = encode(set_byte(uuid_send(${column}), ${at}, get_byte(uuid_send(${column}), ${at}) # 1), 'hex')::uuid`;
const cut = (bytes: number) => `sealed = substr(sealed, 1, length(sealed) - ${bytes})`;

/** Every bit and every cut of each field is in test/unit/record.test.ts: here is what the service says. */
test.each([
  ['C04: another key version', 'key_version = key_version + 1', NO_KEY],
  ['C05: a bit of the nonce', flip('sealed', '0'), NOT_AUTHENTIC],
  ['C05: a bit of the ciphertext', flip('sealed', '12'), NOT_AUTHENTIC],
  ['C05: the last bit of the tag', flip('sealed', 'length(sealed) - 1'), NOT_AUTHENTIC],
  ['C05: the first byte of the value fingerprint', flipUuid('value_fingerprint', 0), NOT_AUTHENTIC],
  ['C05: the last byte of the value fingerprint', flipUuid('value_fingerprint', 15), NOT_AUTHENTIC],
  ['C05: a bit of the key version', 'key_version = key_version # 2::smallint', NO_KEY],
  ...[1, 4, 8, 12, 15, 27].map((bytes) => [`C06: ${bytes} bytes cut`, cut(bytes), NOT_AUTHENTIC]),
])('%s: an error, never another value', async (_, change, message) => {
  await clear();
  const [token] = await tokensOf(['Ann Lee']);
  await query(`update standin.records set ${change}`);
  await expectRefused(token!, message);
});

describe('a record that does not open', () => {
  const broken: [string, string][] = [
    ['damaged', "sealed = '\\xdeadbeef'"],
    ['with its last bit changed', flip('sealed', 'length(sealed) - 1')],
    ['of a key version that is gone', 'key_version = 999'],
    ['with sealed null', 'sealed = null'],
  ];
  beforeAll(() => query('alter table standin.records alter sealed drop not null'));
  afterAll(() => query('alter table standin.records alter sealed set not null'));

  // Together with a new value it is inserted, alone it is looked up: it was stored a moment ago.
  test.each(
    broken.flatMap(([name, set]) => [
      { name, set, more: [] },
      { name, set, more: ['a new value'] },
    ]),
  )('$name is sealed again when its value comes with $more', async ({ set, more }) => {
    await clear();
    const values = ['Ann Lee', 'Bob Ray', 'Cy Vance'];
    const tokens = await tokensOf(values);
    // Found and opened: what was true of a record then says nothing of a changed one.
    expect(await tokensOf(values)).toEqual(tokens);
    await query(`update standin.records set ${set}`);
    expect((await restored({ tokens })).status).toBe(500);
    const before = await damaged();
    const again = await tokensOf([...values, ...more]);
    expect(again.slice(0, 3)).toEqual(tokens);
    expect((await restored({ again })).body.data.again).toEqual([...values, ...more]);
    expect(await damaged()).toBe(before + 3);
    await actsOn(service.place).json('verify');
  });
});

test('C07: the row of one token put in the place of another is an error', async () => {
  await clear();
  const [ann] = await tokensOf(['Ann Lee']);
  const [record] = await query('select * from standin.records');
  await clear();
  const [bob] = await tokensOf(['Bob Ray']);
  await query('update standin.records set value_fingerprint = $1, sealed = $2', [
    record!.value_fingerprint,
    record!.sealed,
  ]);
  await expectRefused(bob!);
  expect((await restored({ a: ann })).status).toBe(400);
});

describe('with a store of its own', () => {
  const at = blockVault(kinds().at(-1)!, [1, 2, 3]);

  test('C07: a record that is answered for another token is an error', async () => {
    const records = new RecordStore(at.pool);
    const keys = testLeasedKeyring();
    const values = ['Ann Lee', 'Bob Ray'] as Value[];
    const terms = { token_mode: 'deterministic', time_to_live_s: null } as const;
    const tokens = await new Tokenizer(records, keys, 'tok', () => {}).tokenize(values, terms);
    const detokenizer = new Detokenizer(records, keys, () => {});
    expect(await detokenizer.detokenize(tokens)).toEqual(values);
    const find = records.find.bind(records);
    vi.spyOn(records, 'find').mockImplementation(async (...args) =>
      (await find(...args)).toReversed(),
    );
    await expect(detokenizer.detokenize(tokens)).rejects.toThrow('record failed authentication');
  });
});

test('C08: an older row of a token that is put back opens: documented as not noticed', async () => {
  await clear();
  const [token] = await tokensOf(['Dee Fox']);
  await query('create table public.older as select * from standin.records');
  await clear();
  await tokensOf(['Dee Fox']);
  await query('delete from standin.records');
  await query('insert into standin.records select * from public.older');
  expect((await restored({ token })).body.data).toEqual({ token: 'Dee Fox' });
  expect(readText('docs/internals/threat-model.md')).toContain('put old rows back');
});

test('C08: a record that was deleted is an unknown token, and tokenizing again brings the same one back', async () => {
  const [token] = await tokensOf(['Cy Vance']);
  await clear();
  expect((await restored({ token })).status).toBe(400);
  expect(await tokensOf(['Cy Vance'])).toEqual([token]);
  expect((await restored({ token })).body.data).toEqual({ token: 'Cy Vance' });
});

test('C09: an API key row that was made without the keys of the vault opens nothing', async () => {
  const apiKey = newApiKey();
  const [found] = await query('select client_id, digest from standin.api_keys');
  const stored = await query('select wrapped from standin.keyring');
  const secrets = [
    Buffer.alloc(0),
    Buffer.alloc(32),
    found!.digest,
    ...stored.map((key) => key.wrapped),
  ];
  const digests = [
    createHash('sha256').update(apiKey).digest(),
    createHash('sha512').update(apiKey).digest().subarray(0, 32),
    Buffer.from(apiKey.slice(-32)),
    Buffer.alloc(32),
    ...secrets.map((secret) => createHmac('sha256', secret).update(apiKey).digest()),
  ];
  for (const [i, digest] of digests.entries()) {
    await sql(
      service.place,
      'insert into standin.api_keys (api_key_id, client_id, digest) values ($1, $2, $3)',
      [`forged_${i}`, found!.client_id, digest],
    );
  }
  expect((await call(service, 'tokenize', { a: 'b' }, apiKey)).status).toBe(401);
  // A row that the service has made is seen at once: it does read the table.
  const issued = await actsOn(service.place).json(`api-key issue --client ${found!.client_id}`);
  expect((await call(service, 'tokenize', { a: 'b' }, issued.api_key)).status).toBe(200);
  expect((await call(service, 'tokenize', { a: 'b' }, apiKey)).status).toBe(401);
  await query("delete from standin.api_keys where api_key_id like 'forged%'");
});

test('C21: of an API key there is a keyed digest only', async () => {
  const rows = await query('select digest, k::text as row from standin.api_keys k');
  expect(rows[0]!.digest).toHaveLength(32);
  const plain = createHash('sha256').update(service.api_key).digest();
  for (const { digest, row } of rows) {
    expect(digest.equals(plain)).toBe(false);
    expect(row).not.toContain(service.api_key);
  }
});
