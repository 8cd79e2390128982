import { execFileSync, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

export const hasOpenssl = spawnSync('openssl', ['version']).status === 0;

/** Paths of a certificate and its key, in PEM. */
export interface Issued {
  readonly cert: string;
  readonly key: string;
}

/** The test's own certificate authority, with its files in a folder. */
export class Authority {
  readonly ca: string;
  readonly #folder: string;
  readonly #name: string;
  #issued = 0;

  constructor(folder: string, name: string) {
    this.#folder = folder;
    this.#name = name;
    this.ca = join(folder, `${name}.pem`);
    openssl('req', '-x509', ...newKey(this.#key), '-out', this.ca, '-subj', `/CN=${name}`);
  }

  /** @param names a subjectAltName: `DNS:localhost,IP:127.0.0.1`; days 0: expires in a moment */
  issue(names: string, days = 100): Issued {
    const base = join(this.#folder, `${this.#name}-${++this.#issued}`);
    const [request, extensions] = [`${base}.csr`, `${base}.ext`];
    const issued = { cert: `${base}.crt`, key: `${base}.key` };
    openssl('req', '-new', ...newKey(issued.key), '-out', request, '-subj', '/CN=test');
    writeFileSync(extensions, `subjectAltName=${names}\n`);
    const by = ['-CA', this.ca, '-CAkey', this.#key, '-CAcreateserial', '-extfile', extensions];
    openssl('x509', '-req', '-in', request, ...by, '-days', String(days), '-out', issued.cert);
    return issued;
  }

  get #key(): string {
    return join(this.#folder, `${this.#name}.key`);
  }
}

export function openssl(...args: string[]): void {
  execFileSync('openssl', args, { stdio: ['ignore', 'ignore', 'pipe'] });
}

function newKey(file: string): string[] {
  return ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', file];
}
