import type { JWTVerifyGetKey } from 'jose';
import { InternalError, OperatorError } from '../errors.ts';
import { fetchJson } from '../fetch-json.ts';
import type { JwtOptions } from '../options.ts';
import { Refresher, whenItChanges } from '../refresher.ts';
import type { Finding } from '../types.ts';

/** A key that the issuer withdraws is refused after this time. */
const REFRESH_INTERVAL_MS = 300_000;
/** Anybody can invent key ids, so they cause at most one fetch in this time. */
const COOL_DOWN_MS = 5_000;
/** Keys older than this are not used. */
const MAX_AGE_MS = 3_600_000;
/** Discovery and keys together. */
const FETCH_TIMEOUT_MS = 5_000;
const MAX_KEYS = 100;
const MAX_ANSWER_BYTES = 262_144;

/** The public keys of the issuer at one time. */
export interface KeySet {
  /** The JSON of the keys with a kid, which is mostly one key. */
  readonly byKid: ReadonlyMap<string, string>;
  readonly keyOf: JWTVerifyGetKey;
}

/** Called with the problem when keys cannot be fetched, and with undefined when they can again. */
type OnChange = (problem: string | undefined) => void;

/** Fetches the public keys of an issuer, and follows their rotation. */
export class IssuerKeys {
  readonly #options: JwtOptions;
  readonly #notify: (problem: string | undefined) => void;
  readonly #nowMs: () => number;
  readonly #refresher: Refresher;
  #keys: KeySet | undefined;
  #fetchedAtMs: number;

  /** @param nowMs a clock that never goes back */
  constructor(options: JwtOptions, onChange: OnChange, nowMs = () => performance.now()) {
    this.#options = options;
    this.#notify = whenItChanges(onChange);
    this.#nowMs = nowMs;
    this.#fetchedAtMs = nowMs() - MAX_AGE_MS;
    const intervalMs = REFRESH_INTERVAL_MS;
    this.#refresher = new Refresher((askedAtMs) => this.#fetch(askedAtMs), { intervalMs, nowMs });
  }

  /** Fetches the keys now, without waiting for them, and every 5 minutes. */
  start(): void {
    void this.#refresher.start();
  }

  stop(): void {
    this.#refresher.stop();
  }

  /** undefined: none, or too old. */
  get current(): KeySet | undefined {
    return this.#nowMs() - this.#fetchedAtMs < MAX_AGE_MS ? this.#keys : undefined;
  }

  /** Time since the keys were fetched: 3600 s and more mean that there are none. */
  get ageS(): number {
    return (this.#nowMs() - this.#fetchedAtMs) / 1_000;
  }

  /**
   * The keys, fetched again when they lack this key id.
   * @throws InternalError issuer_unavailable when there are none that are young enough
   */
  async having(kid: string): Promise<KeySet> {
    if (this.current?.byKid.has(kid) !== true) await this.#refreshSometimes();
    if (this.current === undefined) throw new InternalError('issuer_unavailable');
    return this.current;
  }

  /** Fetches the keys. Never rejects. */
  refresh(): Promise<void> {
    return this.#refresher.refresh();
  }

  #refreshSometimes(): Promise<void> {
    const isCool = this.#nowMs() - this.#refresher.startedAtMs < COOL_DOWN_MS;
    return isCool ? this.#refresher.latest : this.refresh();
  }

  async #fetch(askedAtMs: number): Promise<() => void> {
    try {
      const keys = await keySet(await fetchKeys(this.#options));
      return () => {
        this.#keys = keys;
        this.#fetchedAtMs = askedAtMs;
        this.#notify(undefined);
      };
    } catch (error) {
      const problem = error instanceof IssuerError ? error.message : 'the keys cannot be used';
      return () => this.#notify(problem);
    }
  }
}

type PublicKey = Record<string, unknown> & { readonly kid: string };

/**
 * Whether the keys can be fetched now.
 * @throws OperatorError
 */
export async function issuerState(options: JwtOptions): Promise<Omit<Finding, 'check'>> {
  const keys = await fetchKeys(options).catch((error) => {
    throw new OperatorError(
      `${(error as Error).message}. Check JWT_ISSUER, JWT_JWKS_URL and the network.`,
    );
  });
  const count = keys.length === 1 ? 'its key' : `its ${keys.length} keys`;
  return { status: 'ok', detail: `${options.issuer} gives ${count}` };
}

/** @throws IssuerError */
async function fetchKeys({ issuer, jwksUrl }: JwtOptions): Promise<PublicKey[]> {
  const signal = AbortSignal.timeout(FETCH_TIMEOUT_MS);
  const url = jwksUrl ?? (await discover(issuer, signal));
  const { keys } = await fetchObject(url, signal);
  const usable = Array.isArray(keys) ? keys.map(withSpiffeUse).filter(isUsable) : [];
  if (usable.length === 0 || usable.length > MAX_KEYS)
    throw new IssuerError(`${url} has ${usable.length} keys with a kid, not 1 to ${MAX_KEYS}`);
  return usable;
}

/** OpenID Connect Discovery 1.0, section 4. */
async function discover(issuer: string, signal: AbortSignal): Promise<string> {
  const url = `${issuer.replace(/\/+$/, '')}/.well-known/openid-configuration`;
  const { issuer: named, jwks_uri: jwksUri } = await fetchObject(url, signal);
  if (named !== issuer)
    throw new IssuerError(
      `${url} names another issuer: JWT_ISSUER must be the same, to the letter`,
    );
  const isHttp = typeof jwksUri === 'string' && URL.canParse(jwksUri);
  // A page of TLS must not send to one in clear.
  if (!isHttp || new URL(jwksUri).protocol !== new URL(issuer).protocol)
    throw new IssuerError(`${url} has no jwks_uri with the scheme of JWT_ISSUER`);
  return jwksUri;
}

/** A SPIFFE bundle says `jwt-svid` for RFC 7517's `sig`. */
function withSpiffeUse(key: unknown): unknown {
  const { use } = (key ?? {}) as { use?: unknown };
  return use === 'jwt-svid' ? { ...(key as object), use: 'sig' } : key;
}

function isUsable(key: unknown): key is PublicKey {
  const { kid, use = 'sig' } = (key ?? {}) as Record<string, unknown>;
  return typeof kid === 'string' && use === 'sig';
}

/** Keys with the same kid are tried one after the other. */
async function keySet(keys: readonly PublicKey[]): Promise<KeySet> {
  // Loaded here, so that a start without JWTs does not load it.
  const { createLocalJWKSet } = await import('jose');
  const unique = [...new Map(keys.map((key) => [JSON.stringify(key), key])).values()];
  const byKid = new Map<string, string>();
  for (const key of unique) byKid.set(key.kid, `${byKid.get(key.kid) ?? ''}${JSON.stringify(key)}`);
  return {
    byKid,
    keyOf: createLocalJWKSet({ keys: unique as never }),
  };
}

/** Why an issuer gave no keys, in words for operators. Contains nothing of its answer. */
class IssuerError extends Error {}

/** @throws IssuerError */
async function fetchObject(url: string, signal: AbortSignal): Promise<Record<string, unknown>> {
  const json = await fetchJson(url, { signal }, MAX_ANSWER_BYTES).catch((error) => {
    throw new IssuerError(`${url} ${error.message}`);
  });
  if (typeof json === 'object' && json !== null) return json as Record<string, unknown>;
  throw new IssuerError(`${url} did not answer with a JSON object`);
}
