import { join } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import type { KekSource } from '#kek';
import { Keyring } from '../../src/crypto/keyring.ts';
import { kekSourceOf, openKeys } from '../../src/service/keys/open-keys.ts';
import type { Pool } from '../../src/store/pool.ts';
import { RecordStore } from '../../src/store/records.ts';
import { WrappedKeyStore } from '../../src/store/wrapped-keys.ts';
import type { SealedRecord } from '../../src/types.ts';
import { call, type Place, type Service } from './service.ts';
import { openTestPool, soon } from './store.ts';

/** The parts of a vault, for tests that do a part of the program's work. */
export interface OpenedVault {
  readonly pool: Pool;
  readonly keys: WrappedKeyStore;
  readonly source: KekSource;
  readonly records: RecordStore;
  /** The current keys. */
  keyring(): Promise<Keyring>;
}

/** Opens the existing vault of a place. Closes it at the end of the test. */
export function openedVault(place: Place): OpenedVault {
  const pool = openTestPool(place);
  const keys = new WrappedKeyStore(pool);
  const file = place.env.KEK_FILE ?? join(place.env.DATA_DIR!, 'kek');
  const { DATA_DIR: dataDir, DATABASE_URL: databaseUrl } = place.env;
  const source = kekSourceOf({ kek: { file }, dataDir: dataDir!, databaseUrl });
  onTestFinished(() => pool.end());
  return {
    pool,
    keys,
    source,
    records: new RecordStore(pool, { patienceMs: 20_000, onBatch: () => {} }),
    keyring: async () => new Keyring(await openKeys(keys, source, 'tok', soon())),
  };
}

/** Seals as a node with this keyring does. */
export function sealedWith(keyring: Keyring, value: string, token: string): SealedRecord {
  const { value_fingerprint: valueFingerprint } = keyring.deterministicDraws(value as never);
  return keyring.seal(value as never, keyring.tokenFingerprint(token as never), valueFingerprint);
}

const VALUES_A_REQUEST = 10_000;

/** Tokenizes the values in large requests. */
export async function tokenizeAll(service: Service, values: string[]): Promise<string[]> {
  return inParts(values, async (part) => {
    const { status, body } = await call(service, 'tokenize', { part });
    expect(status).toBe(200);
    return body.data.part;
  });
}

export async function detokenizeAll(
  service: Service,
  tokens: string[],
  apiKey = service.api_key,
): Promise<string[]> {
  return inParts(tokens, async (part) => {
    const { status, body } = await call(service, 'detokenize', { part }, apiKey);
    expect(status, JSON.stringify(body).slice(0, 200)).toBe(200);
    return body.data.part;
  });
}

async function inParts<T>(all: T[], work: (part: T[]) => Promise<T[]>): Promise<T[]> {
  const done: T[][] = [];
  for (let at = 0; at < all.length; at += VALUES_A_REQUEST) {
    done.push(await work(all.slice(at, at + VALUES_A_REQUEST)));
  }
  return done.flat();
}

/** The value of a metric without labels. */
export async function metric({ opsUrl }: Service, name: string): Promise<number> {
  const text = await (await fetch(`${opsUrl}/metrics`)).text();
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]);
}
