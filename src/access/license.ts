import { readFileSync } from 'node:fs';
import { InternalError } from '../errors.ts';
import type { LicenseFiles } from '../options.ts';

type LicenseState =
  | { readonly status: 'valid' | 'expired'; readonly subject: string; readonly expires_at: Date }
  | { readonly status: 'invalid'; readonly problem: string };

const RELOAD_INTERVAL_MS = 10_000;
const WARN_DAYS = 30;
const DAY_MS = 86_400_000;

/**
 * Verifies a license file offline: a JWT (RFC 7519) signed with EdDSA (RFC 8037), against a public
 * key in PEM (SPKI). `sub` names the licensee; `exp` is required.
 */
export async function verifyLicense(files: LicenseFiles): Promise<LicenseState> {
  return readLicense(files).catch((error) => invalid(unreadProblem(error)));
}

function invalid(problem: string): LicenseState {
  return { status: 'invalid', problem };
}

function unreadProblem({ code, path }: NodeJS.ErrnoException): string {
  return `${path}: ${code}`;
}

/** Adds the path, because Node's error has none when a file opens but cannot be read. */
function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw Object.assign(error as Error, { path });
  }
}

/** @throws file system errors */
async function readLicense({ licenseFile, publicKeyFile }: LicenseFiles): Promise<LicenseState> {
  const publicKey = readText(publicKeyFile);
  const license = readText(licenseFile).trim();
  // Loaded here, so that a start without a license does not load it.
  const { errors, importSPKI, jwtVerify } = await import('jose');
  const now = new Date();
  try {
    const key = await importSPKI(publicKey, 'EdDSA');
    // Every use checks the expiry, so the signature check ignores it.
    const { payload } = await jwtVerify(license, key, {
      algorithms: ['EdDSA'],
      requiredClaims: ['exp', 'sub'],
      currentDate: now,
      clockTolerance: '100 years',
    });
    const { exp, nbf = 0, sub: subject } = payload;
    const expiresAt = new Date(exp! * 1000);
    if (nbf * 1000 > now.getTime()) return invalid('it is not valid yet (nbf)');
    if (Number.isNaN(expiresAt.getTime())) return invalid('its expiry (exp) is not a date');
    if (typeof subject !== 'string') return invalid('its licensee (sub) is not a string');
    return { status: expiresAt > now ? 'valid' : 'expired', subject, expires_at: expiresAt };
  } catch (error) {
    const isRefused = error instanceof errors.JOSEError;
    return invalid(isRefused ? error.code : 'the public key is not an EdDSA key in PEM (SPKI)');
  }
}

/** Decides whether the license allows tokenize. Without license files, it always does. */
export class License {
  state: LicenseState | undefined;
  readonly #files: LicenseFiles | undefined;
  /** Why the files cannot be read now; the license read before stays in force. */
  #unread: string | undefined;

  constructor(files: LicenseFiles | undefined) {
    this.#files = files;
  }

  /** Reads the files now, then every 10 s. */
  async start(): Promise<void> {
    if (this.#files === undefined) return;
    await this.#load(this.#files);
    setInterval(() => void this.#load(this.#files!), RELOAD_INTERVAL_MS).unref();
  }

  /** Days until the license expires, negative afterwards; undefined: no valid license was read. */
  daysLeft(): number | undefined {
    if (this.state === undefined || this.state.status === 'invalid') return undefined;
    return (this.state.expires_at.getTime() - Date.now()) / DAY_MS;
  }

  /** A warning for operators; undefined: none. */
  warning(): string | undefined {
    if (this.state?.status === 'invalid')
      return `license invalid: ${this.state.problem}; tokenize answers 500`;
    if (this.#unread !== undefined)
      return `license cannot be read (${this.#unread}): the last one read stays in force until it expires`;
    const days = this.daysLeft();
    if (days === undefined || days > WARN_DAYS) return undefined;
    return days > 0
      ? `license expires in ${Math.ceil(days)} days`
      : 'license expired; tokenize answers 500';
  }

  /** @throws InternalError license_expired or license_invalid */
  check(): void {
    if (this.state === undefined) return;
    if (this.state.status === 'invalid') throw new InternalError('license_invalid');
    if (this.state.expires_at.getTime() <= Date.now()) throw new InternalError('license_expired');
  }

  async #load(files: LicenseFiles): Promise<void> {
    this.#unread = undefined;
    try {
      this.state = await readLicense(files);
    } catch (unread) {
      const error = unread as NodeJS.ErrnoException;
      // A missing file was removed on purpose. A file that cannot be opened now proves nothing.
      const wasRead = this.state !== undefined && this.state.status !== 'invalid';
      if (wasRead && error.code !== 'ENOENT') this.#unread = unreadProblem(error);
      else this.state = invalid(unreadProblem(error));
    }
  }
}
