import { readFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { examineTls, nameFor } from '../crypto/certificate.ts';
import { OperatorError } from '../errors.ts';
import type { TlsFiles } from '../options.ts';
import { count } from '../terminal.ts';
import type { TlsPem } from '../types.ts';

/**
 * Called with a new, usable certificate; or with the problem of new files that cannot be used, and
 * then the old certificate stays.
 */
type OnChange = (change: { readonly pem: TlsPem } | { readonly problem: string }) => void;

const SETTINGS = {
  ...{ certificate: 'TLS_CERT_FILE', key: 'TLS_KEY_FILE', clientCa: 'TLS_CLIENT_CA_FILE' },
};
const REFRESH_INTERVAL_MS = 5_000;
const WARN_DAYS = 14;
const DAY_MS = 86_400_000;

/** The PEM files, and the server certificate parsed from them. */
type Usable = ReturnType<typeof usable>;

/** The certificate of the public listener. Follows changes of its files while they are usable. */
export class Certificate {
  readonly files: TlsFiles;
  #usable: Usable;
  /**
   * The problem of the last read. Files change one by one, so a problem is reported when two reads
   * find it.
   */
  #doubted: string | undefined;
  #reported: string | undefined;

  /** @throws OperatorError that names the setting */
  constructor(files: TlsFiles) {
    this.files = files;
    this.#usable = usable(read(files), files);
  }

  get pem(): TlsPem {
    return this.#usable.pem;
  }

  get expiresAt(): Date {
    return new Date(this.#usable.x509.validTo);
  }

  /** The name in the certificate to use in a URL for this address. */
  readonly nameFor = (address: string): string => nameFor(this.#usable.x509, address);

  /** Checks the files every 5 s. */
  watch(onChange: OnChange): NodeJS.Timeout {
    return setInterval(() => this.#refresh(onChange), REFRESH_INTERVAL_MS).unref();
  }

  /** A warning for operators; undefined: none. */
  warning(): string | undefined {
    const nowMs = Date.now();
    const days = (this.expiresAt.getTime() - nowMs) / DAY_MS;
    const beginsAt = new Date(this.#usable.x509.validFrom);
    if (beginsAt.getTime() > nowMs)
      return `TLS certificate is not valid before ${beginsAt.toISOString()}`;
    if (days > WARN_DAYS) return undefined;
    return days > 0
      ? `TLS certificate expires in ${count(Math.ceil(days), 'day')}`
      : `TLS certificate expired ${this.expiresAt.toISOString()}`;
  }

  #refresh(onChange: OnChange): void {
    try {
      const pem = read(this.files);
      if (isDeepStrictEqual(pem, this.pem)) {
        this.#doubted = undefined;
        this.#reported = undefined;
        return;
      }
      this.#usable = usable(pem, this.files);
      onChange({ pem });
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      const { message } = error;
      if (message === this.#doubted && message !== this.#reported) {
        this.#reported = message;
        onChange({ problem: message });
      }
      this.#doubted = message;
    }
  }
}

function read(files: TlsFiles): TlsPem {
  return {
    certificate: readPart('certificate', files.certificateFile),
    key: readPart('key', files.keyFile),
    clientCa: files.clientCaFile && readPart('clientCa', files.clientCaFile),
  };
}

function readPart(part: keyof TlsPem, path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new OperatorError(
      `${SETTINGS[part]}: ${path} cannot be read (${code}). Name a PEM file that this user can read.`,
    );
  }
}

function usable(pem: TlsPem, files: TlsFiles) {
  const found = examineTls(pem);
  if (!('part' in found)) return { pem, x509: found };
  const { part, problem } = found;
  const path = files[`${part}File`];
  throw new OperatorError(
    `${SETTINGS[part]}: ${path} ${problem}. Put a certificate (PEM, chain included) and its key there.`,
  );
}
