import { createHash, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { SignJWT } from 'jose';
import { Keyring, type PlainKey } from '../../src/crypto/keyring.ts';
import { KEY_PURPOSES } from '../../src/types.ts';
import { LeasedKeyring } from '../../src/vault/leased-keyring.ts';

/** A key derived from its name. */
export function testKey(name: string): Buffer {
  return Buffer.from(seededBytes(name, 32), 'latin1');
}

/** The id of a key version that `addKeyVersions` makes. */
export function testKeyId(version: number): string {
  return new Date(Date.parse('2026-01-01T00:00:00Z') + 1_000 * version).toISOString();
}

/** One key for each purpose, and a DEK for each version. */
export function testKeys(dekVersions: readonly number[] = [1]): PlainKey[] {
  const others = KEY_PURPOSES.filter((purpose) => purpose !== 'dek');
  return [
    ...dekVersions.map((version) => ({
      id: testKeyId(version),
      purpose: 'dek' as const,
      version,
      bytes: testKey(`dek ${version}`),
    })),
    ...others.map((purpose) => ({
      id: testKeyId(1),
      purpose,
      version: 1,
      bytes: testKey(purpose),
    })),
  ];
}

export function testKeyring(dekVersions?: readonly number[]): Keyring {
  return new Keyring(testKeys(dekVersions));
}

/** The test keys in the form of an engine, never too old to seal. */
export function testLeasedKeyring(): LeasedKeyring {
  const snapshot = { keys: testKeys(), asOfMs: Infinity, isDurable: true, failure: undefined };
  return new LeasedKeyring(snapshot, () => {});
}

/**
 * Pseudorandom bytes from a seed, as a latin1 string: SHA-256 of the seed and a counter, repeated.
 */
export function seededBytes(seed: string, length: number): string {
  let bytes = '';
  for (let block = 0; bytes.length < length; block++) {
    bytes += createHash('sha256').update(`${seed} ${block}`).digest('binary');
  }
  return bytes.slice(0, length);
}

/** Draws from a seed, instead of a keyring. */
export function seededDraws(seed: string): (draw: number, block: number) => string {
  return (draw, block) => seededBytes(`${seed} ${draw} ${block}`, 48);
}

/** The bytes that draw these letters and digits. Other characters take no byte. */
export function bytesThatDraw(text: string): string {
  return text.replace(/[^a-z0-9]/g, '').replace(/./g, (character) => {
    const digit = Number.parseInt(character, 36);
    return String.fromCharCode(digit < 10 ? digit : digit - 10);
  });
}

/** The 16 bytes of a UUID in PostgreSQL's notation. */
export function bytesOfUuid(uuid: string): Buffer {
  return Buffer.from(uuid.replaceAll('-', ''), 'hex');
}

/** An issuer of licenses, with the files of a license and a public key in a folder. */
export class Licenser {
  readonly env: { readonly LICENSE_FILE: string; readonly LICENSE_PUBLIC_KEY_FILE: string };
  readonly #privateKey: KeyObject;

  constructor(folder: string) {
    const { privateKey, publicKey } = generateKeyPairSync('ed25519');
    this.#privateKey = privateKey;
    this.env = {
      LICENSE_FILE: join(folder, 'license.jwt'),
      LICENSE_PUBLIC_KEY_FILE: join(folder, 'license.pem'),
    };
    writeFileSync(
      this.env.LICENSE_PUBLIC_KEY_FILE,
      publicKey.export({ type: 'spki', format: 'pem' }),
    );
  }

  /** Replaces the license with a license that expires in this many days. */
  async issue(days: number, claims: Record<string, unknown> = { sub: 'Acme Ltd' }): Promise<void> {
    const expiresAtS = Math.floor(Date.now() / 1000) + Math.round(days * 86_400);
    this.write(
      await new SignJWT({ ...claims, exp: expiresAtS })
        .setProtectedHeader({ alg: 'EdDSA' })
        .sign(this.#privateKey),
    );
  }

  /** Replaces the file atomically, because a service may read it at any time. */
  write(text: string): void {
    writeFileSync(`${this.env.LICENSE_FILE}.new`, `${text}\n`);
    renameSync(`${this.env.LICENSE_FILE}.new`, this.env.LICENSE_FILE);
  }
}
