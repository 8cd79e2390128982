import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type pg from 'pg';
import { expect, onTestFinished } from 'vitest';
import { kekOf } from '../../src/crypto/kek.ts';
import { Keyring, type PlainKey } from '../../src/crypto/keyring.ts';
import { kekSourceOf } from '../../src/kek/kek-source.ts';
import { parseKek } from '../../src/kek/source.ts';
import type { Pool } from '../../src/store/pool.ts';
import { RecordStore } from '../../src/store/records.ts';
import { WrappedKeyStore } from '../../src/store/wrapped-keys.ts';
import type { FreshRecord, KeyPurpose, SealedRecord } from '../../src/types.ts';
import { openKeys } from '../../src/vault/open-keys.ts';
import { openPool } from '../../src/vault/pools.ts';
import { testKeyId } from './keys.ts';
import { query } from './postgres.ts';
import { call, type Place, type Service, scrape } from './service.ts';

/** The parts of the vault of a place until the end of the test, for a part of the program's work. */
export function openedVault(place: Place) {
  const pool = openTestPool(place);
  const keys = new WrappedKeyStore(pool);
  const file = place.env.KEK_FILE ?? join(place.env.DATA_DIR!, 'kek');
  const { DATA_DIR: dataDir, DATABASE_URL: databaseUrl } = place.env;
  const source = kekSourceOf({ kek: { KEK_FILE: file }, dataDir: dataDir!, databaseUrl });
  onTestFinished(() => pool.end());
  return {
    pool,
    keys,
    source,
    records: new RecordStore(pool),
    /** The current keys. */
    keyring: async () => new Keyring(await openKeys(keys, source, 'tok', soon())),
  };
}

/** Seals as a node with this keyring does. */
export function sealedWith(keyring: Keyring, value: string, token: string): FreshRecord {
  const { value_fingerprint: valueFingerprint } = keyring.deterministicDraws(value as never);
  return keyring.seal(value as never, keyring.tokenFingerprint(token as never), valueFingerprint);
}

const VALUES_A_REQUEST = 10_000;

/** Tokenizes or detokenizes the strings in large requests. */
async function all(
  operation: 'tokenize' | 'detokenize',
  service: Service,
  texts: readonly string[],
  apiKey?: string,
): Promise<string[]> {
  const done: string[][] = [];
  for (let at = 0; at < texts.length; at += VALUES_A_REQUEST) {
    const part = texts.slice(at, at + VALUES_A_REQUEST);
    const { status, body } = await call(service, operation, { part }, apiKey);
    expect(status, JSON.stringify(body).slice(0, 200)).toBe(200);
    done.push(body.data.part);
  }
  return done.flat();
}

export const tokenizeAll = (service: Service, values: readonly string[]) =>
  all('tokenize', service, values);
export const detokenizeAll = (service: Service, tokens: readonly string[], apiKey?: string) =>
  all('detokenize', service, tokens, apiKey);

/** The value of a metric without labels. */
export async function metric({ opsUrl }: Service, name: string): Promise<number> {
  return Number((await scrape(opsUrl!, name))['']);
}

/** A pool on the database of a place. Starts an embedded database if it is not running. */
export function openTestPool(place: Place, connections = 4): Pool {
  const { DATABASE_URL: databaseUrl, DATA_DIR: dataDir = '' } = place.env;
  return openPool({ databaseUrl, dataDir }, connections);
}

/** Keys for writing records. No record opens with these keys. */
export async function addKeyVersions(pool: Pool, ...versions: number[]): Promise<void> {
  for (const version of versions) {
    await pool.query(
      "insert into standin.keyring (purpose, version, kek_id, wrapped, created_at) values ('dek', $1, '', '', $2)",
      [version, testKeyId(version)],
      soon(),
    );
  }
}

/** A deadline that even a busy machine meets. */
export function soon(): number {
  return performance.now() + 120_000;
}

/** The key of a fresh record is no part of what is stored: a record equals its row. */
expect.addEqualityTesters([
  function (one, other) {
    if (!(isFresh(one) && other instanceof Object) && !(isFresh(other) && one instanceof Object))
      return undefined;
    const [{ key_id: _, ...left }, { key_id: __, ...right }] = [one as any, other as any];
    return this.equals(left, right);
  },
]);

function isFresh(one: unknown): one is FreshRecord {
  return typeof one === 'object' && one !== null && 'key_id' in one;
}

/** A record of random bytes, because the store does not read the content. */
export function randomRecord(parts: Partial<SealedRecord> = {}): FreshRecord {
  const latin1 = () => randomBytes(16).toString('latin1') as never;
  return {
    token_fingerprint: latin1(),
    value_fingerprint: latin1(),
    key_version: 1,
    sealed: randomBytes(40) as never,
    ...parts,
    key_id: testKeyId(parts.key_version ?? 1),
  };
}

/** Records to insert that live for so long; null or undefined: for ever. */
export const leased = (timeToLiveS: number | null | undefined, ...records: FreshRecord[]) =>
  records.map((one) => (timeToLiveS == null ? one : { ...one, time_to_live_s: timeToLiveS }));

/** Runs a statement on the vault of a place. An embedded database needs a running service. */
export function sql(place: Place, text: string, values?: unknown[]) {
  return query(vaultAddress(place), text, values);
}

/** The address of a place's database. */
export function vaultAddress({ kind, env }: Place): pg.ClientConfig {
  if (kind === 'server') return { connectionString: env.DATABASE_URL };
  const dataDir = env.DATA_DIR!;
  const [socket] = readdirSync(dataDir).filter((name) => name.startsWith('.s.PGSQL.'));
  const port = Number(socket!.slice('.s.PGSQL.'.length));
  return { host: dataDir, port, user: 'postgres', database: 'postgres' };
}

/** The key-encryption key of a vault. */
function kekBytes({ env }: Place): Buffer {
  return parseKek(readFileSync(env.KEK_FILE ?? join(env.DATA_DIR!, 'kek')))!;
}

/** The keys that the KEK wraps. An embedded database needs a running service. */
export async function plainKeys(place: Place): Promise<PlainKey[]> {
  const kek = kekOf(kekBytes(place));
  const rows = await sql(
    place,
    'select created_at::text as id, purpose, version, wrapped from standin.keyring',
  );
  return rows.map(({ id, purpose, version, wrapped }) => ({
    id,
    purpose: purpose as KeyPurpose,
    version,
    bytes: kek.unwrap(purpose, version, wrapped)!,
  }));
}

/** All keys of a vault, which must never be outside memory and the KEK file. */
export async function allKeys(place: Place): Promise<Buffer[]> {
  return [kekBytes(place), ...(await plainKeys(place)).map((key) => key.bytes)];
}
