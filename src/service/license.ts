import { readFileSync } from 'node:fs';
import { InternalError } from '../errors.ts';

export interface LicenseFiles {
  readonly license_file: string;
  readonly public_key_file: string;
}

export type LicenseState =
  | { readonly status: 'valid' | 'expired'; readonly subject: string; readonly expires_at: Date }
  | { readonly status: 'invalid'; readonly problem: string };

const RELOAD_INTERVAL_MS = 10_000;
const WARN_DAYS = 30;
const DAY_MS = 86_400_000;

/**
 * The state of a license file: a JWT (RFC 7519) signed with EdDSA (RFC 8037), verified offline
 * against a public key in PEM (SPKI). `sub` names the licensee, `exp` is required.
 */
export async function verifyLicense(
  files: LicenseFiles,
  now: Date = new Date(),
): Promise<LicenseState> {
  // Not before there is a license: a start without one need not load it.
  const { errors, importSPKI, jwtVerify } = await import('jose');
  try {
    const key = await importSPKI(readFileSync(files.public_key_file, 'utf8'), 'EdDSA');
    const jwt = readFileSync(files.license_file, 'utf8').trim();
    // The expiry is looked at on every use, so it is not part of the signature check.
    const { payload } = await jwtVerify(jwt, key, {
      algorithms: ['EdDSA'],
      requiredClaims: ['exp', 'sub'],
      currentDate: now,
      clockTolerance: '100 years',
    });
    if (payload.nbf !== undefined && payload.nbf * 1000 > now.getTime()) {
      return { status: 'invalid', problem: 'it is not valid yet (nbf)' };
    }
    const expires_at = new Date(payload.exp! * 1000);
    if (Number.isNaN(expires_at.getTime()))
      return { status: 'invalid', problem: 'its expiry (exp) is no date' };
    if (typeof payload.sub !== 'string')
      return { status: 'invalid', problem: 'its licensee (sub) is no text' };
    return { status: expires_at > now ? 'valid' : 'expired', subject: payload.sub, expires_at };
  } catch (error) {
    const problem = error instanceof errors.JOSEError ? error.code : problemOf(error);
    return { status: 'invalid', problem };
  }
}

/** Of reading the files. */
function problemOf(error: unknown): string {
  const { code, path } = error as NodeJS.ErrnoException;
  return path === undefined
    ? 'the public key is not an EdDSA key in PEM (SPKI)'
    : `${path}: ${code}`;
}

/** Decides whether the license lets tokenize go on. Without files there is nothing to decide. */
export class License {
  readonly #files: LicenseFiles | undefined;
  #state: LicenseState | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(files: LicenseFiles | undefined) {
    this.#files = files;
  }

  /** Reads the files now, and again every 10 s. */
  async start(): Promise<void> {
    if (this.#files === undefined) return;
    await this.#load(this.#files);
    this.#timer = setInterval(() => void this.#load(this.#files!), RELOAD_INTERVAL_MS);
    this.#timer.unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  get state(): LicenseState | undefined {
    return this.#state;
  }

  /** Days until it expires, negative after; undefined without a license that can be read. */
  daysLeft(now_ms: number = Date.now()): number | undefined {
    if (this.#state === undefined || this.#state.status === 'invalid') return undefined;
    return (this.#state.expires_at.getTime() - now_ms) / DAY_MS;
  }

  /** What an operator must know, or undefined when all is well. */
  warning(): string | undefined {
    if (this.#state?.status === 'invalid')
      return `license invalid: ${this.#state.problem}; tokenize answers 500`;
    const days = this.daysLeft();
    if (days === undefined || days > WARN_DAYS) return undefined;
    return days > 0
      ? `license expires in ${Math.ceil(days)} days`
      : 'license expired; tokenize answers 500';
  }

  /** @throws InternalError license_expired or license_invalid */
  check(now_ms: number = Date.now()): void {
    if (this.#state === undefined) return;
    if (this.#state.status === 'invalid') throw new InternalError('license_invalid');
    if (this.#state.expires_at.getTime() <= now_ms) throw new InternalError('license_expired');
  }

  async #load(files: LicenseFiles): Promise<void> {
    this.#state = await verifyLicense(files);
  }
}
