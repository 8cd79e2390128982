import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { SignJWT } from 'jose';

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
