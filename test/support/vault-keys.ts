import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseKek } from '#kek';
import { kekOf } from '../../src/crypto/kek.ts';
import type { PlainKey } from '../../src/crypto/keyring.ts';
import type { KeyPurpose } from '../../src/types.ts';
import type { Place } from './service.ts';
import { sql } from './sql.ts';

/** The key-encryption key of a vault. */
export function kekBytes({ env }: Place): Buffer {
  return parseKek(readFileSync(env.KEK_FILE ?? join(env.DATA_DIR!, 'kek')))!;
}

/** The keys that the KEK wraps. An embedded database needs a running service. */
export async function plainKeys(place: Place): Promise<PlainKey[]> {
  const kek = kekOf(kekBytes(place));
  const rows = await sql(place, 'select purpose, version, wrapped from standin.keyring');
  return rows.map(({ purpose, version, wrapped }) => ({
    purpose: purpose as KeyPurpose,
    version,
    bytes: kek.unwrap(purpose, version, wrapped)!,
  }));
}

/** All keys of a vault, which must never be outside memory and the KEK file. */
export async function allKeys(place: Place): Promise<Buffer[]> {
  return [kekBytes(place), ...(await plainKeys(place)).map((key) => key.bytes)];
}
