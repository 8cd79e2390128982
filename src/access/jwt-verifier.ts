import type { JWTPayload } from 'jose';
import { CallerError, overloaded } from '../errors.ts';
import type { JwtOptions } from '../options.ts';
import type { IssuerKeys, KeySet } from './issuer-keys.ts';
import { mayBeMisread } from './misread-names.ts';

/** Three parts in base64url, RFC 7515 section 7.1. */
const JWT = /^[\w-]{1,8000}\.[\w-]{1,8000}\.[\w-]{1,2000}$/;
const MAX_JWT_BYTES = 8_192;
/** Of public keys only: `none` and keys that an issuer shares are never accepted. */
const ALGORITHMS = [
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  ...['ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'],
];
/** How far the clocks of the issuer and this node may differ. */
const CLOCK_SKEW_S = 30;
/** A JWT that is valid for longer is refused: it cannot be revoked at the issuer. */
const MAX_LIFETIME_S = 86_400;
const MAX_VERIFIED = 10_000;
/**
 * Checks of signatures that fail or have not ended, for one subject in a second. Anybody can sign
 * for any subject with a key of their own; this bounds what that costs.
 */
const MAX_CHECKS = 100;
const CHECKS_WINDOW_MS = 1_000;

/** Whether the credential has the form of a JWT that is not too long. */
export function isJwt(text: string): boolean {
  return text.length <= MAX_JWT_BYTES && JWT.test(text);
}

/** The claims of a JWT before its signature is checked. */
interface Claimed {
  readonly kid: string;
  readonly subject: string;
}

interface Verified extends Claimed {
  readonly expiresAtMs: number;
  /** The JSON of the keys with this kid: a withdrawn key ends its JWTs, and no others. */
  readonly key: string;
}

/** Verifies JWTs of one issuer, and keeps the results in memory until the JWTs expire. */
export class JwtVerifier {
  readonly keys: IssuerKeys;
  readonly #options: JwtOptions;
  readonly #digestOf: (jwt: string) => string;
  readonly #nowMs: () => number;
  /** By digest. */
  readonly #verified = new Map<string, Verified>();
  /** Checks that run, by digest: requests with the same JWT share one. */
  readonly #checking = new Map<string, Promise<string>>();
  #checks = new Map<string, number>();
  #checksSinceMs = 0;

  /** @param nowMs Unix time */
  constructor(
    options: JwtOptions,
    keys: IssuerKeys,
    digestOf: (jwt: string) => string,
    nowMs = () => Date.now(),
  ) {
    this.#options = options;
    this.keys = keys;
    this.#digestOf = digestOf;
    this.#nowMs = nowMs;
  }

  /** The subject of a JWT that was verified before; undefined: verify it. */
  known(jwt: string): string | undefined {
    const verified = this.#verified.get(this.#digestOf(jwt));
    if (verified === undefined || verified.expiresAtMs <= this.#nowMs()) return undefined;
    const { kid, key, subject } = verified;
    return this.keys.current?.byKid.get(kid) === key ? subject : undefined;
  }

  /**
   * The subject of a JWT.
   * @param hasClient whether a subject has a client. Only then is the signature checked.
   * @throws CallerError unauthorized, or overloaded when too many for this subject fail;
   * InternalError issuer_unavailable
   */
  async verify(jwt: string, hasClient: (subject: string) => boolean): Promise<string> {
    const claimed = await this.#claimed(jwt);
    if (!hasClient(claimed.subject)) throw new CallerError('unauthorized');
    const keys = await this.keys.having(claimed.kid);
    if (!keys.byKid.has(claimed.kid)) throw new CallerError('unauthorized');
    const digest = this.#digestOf(jwt);
    const running = this.#checking.get(digest);
    if (running !== undefined) return running;
    const check = this.#check(jwt, digest, keys, claimed);
    this.#checking.set(digest, check);
    return check.finally(() => this.#checking.delete(digest));
  }

  /**
   * The claims of a JWT, whose signature is not checked. Refuses what no signature could make good
   * first: anybody can send it, and this costs little.
   */
  async #claimed(jwt: string): Promise<Claimed> {
    const { decodeJwt, decodeProtectedHeader } = await import('jose');
    const parts = jwt.split('.', 2).map((part) => Buffer.from(part, 'base64url').toString());
    if (parts.some(mayBeMisread)) throw new CallerError('unauthorized');
    try {
      const { alg = '', kid, typ } = decodeProtectedHeader(jwt);
      const payload = decodeJwt(jwt);
      const subject = this.#subjectOf(payload);
      const isOurs = ALGORITHMS.includes(alg) && subject !== undefined && this.#hasType(typ);
      if (isOurs && typeof kid === 'string') return { kid, subject };
    } catch {
      // Not a JWT.
    }
    throw new CallerError('unauthorized');
  }

  /** RFC 7515 section 4.1.9: a media type, whose `application/` may be left out. */
  #hasType(typ: unknown): boolean {
    const { type } = this.#options;
    const short = (text: string) => text.toLowerCase().replace(/^application\//, '');
    return type === undefined || (typeof typ === 'string' && short(typ) === short(type));
  }

  #subjectOf(payload: JWTPayload): string | undefined {
    const { issuer, audience, claim } = this.#options;
    const { iss, aud, exp } = payload;
    const subject = Object.hasOwn(payload, claim) ? payload[claim] : undefined;
    const isForUs = iss === issuer && [aud].flat().includes(audience);
    const leftS = (typeof exp === 'number' ? exp : Number.NaN) - this.#nowMs() / 1_000;
    const isInTime = leftS > -CLOCK_SKEW_S && leftS <= MAX_LIFETIME_S + CLOCK_SKEW_S;
    return isForUs && isInTime && typeof subject === 'string' ? subject : undefined;
  }

  async #check(
    jwt: string,
    digest: string,
    keys: KeySet,
    { kid, subject }: Claimed,
  ): Promise<string> {
    if (this.#nowMs() - this.#checksSinceMs >= CHECKS_WINDOW_MS) {
      this.#checks = new Map();
      this.#checksSinceMs = this.#nowMs();
    }
    const checks = this.#checks;
    const count = checks.get(subject) ?? 0;
    if (count >= MAX_CHECKS) throw overloaded();
    checks.set(subject, count + 1);
    const { exp } = await this.#signed(jwt, keys);
    checks.set(subject, checks.get(subject)! - 1);
    if (this.#verified.size >= MAX_VERIFIED)
      this.#verified.delete(this.#verified.keys().next().value!);
    const expiresAtMs = (exp! + CLOCK_SKEW_S) * 1_000;
    this.#verified.set(digest, { subject, expiresAtMs, kid, key: keys.byKid.get(kid)! });
    return subject;
  }

  /**
   * Checks the signature, `nbf` and critical headers. `#claimed` has checked the other claims.
   * @throws CallerError unauthorized
   */
  async #signed(jwt: string, { keyOf }: KeySet): Promise<JWTPayload> {
    const { errors, jwtVerify } = await import('jose');
    const options = {
      algorithms: ALGORITHMS,
      clockTolerance: CLOCK_SKEW_S,
      currentDate: new Date(this.#nowMs()),
    };
    try {
      return (await jwtVerify(jwt, keyOf, options)).payload;
    } catch (error) {
      if (!(error instanceof errors.JWKSMultipleMatchingKeys))
        throw new CallerError('unauthorized');
      for await (const key of error) {
        const verified = await jwtVerify(jwt, key, options).catch(() => undefined);
        if (verified !== undefined) return verified.payload;
      }
      throw new CallerError('unauthorized');
    }
  }
}
