import { randomUUID } from 'node:crypto';
import {
  type CryptoKey,
  exportJWK,
  generateKeyPair,
  type JWK,
  type JWTPayload,
  SignJWT,
} from 'jose';
import { StandIn } from './stand-in.ts';

export const AUDIENCE = 'standin';
export const SUBJECT = 'spiffe://example.org/billing';

interface Signer {
  readonly alg: string;
  readonly kid: string;
  readonly privateKey: CryptoKey;
  readonly jwk: JWK;
}

type Answer = { readonly status: number; readonly body: string };

/** An OpenID Connect issuer: discovery, keys that rotate, and JWTs. Its port stays the same. */
export class IssuerStandIn extends StandIn {
  /** Paths of the requests so far. */
  readonly asked: string[] = [];
  /** What the key set has; the JWTs of the issuer are signed by the last signer. */
  jwks: unknown[] = [];
  /** Faults that replace all answers. */
  failure: 'hang up' | 'be silent' | Answer | undefined;
  /** Changes to the discovery document. */
  discovery: Record<string, unknown> = {};
  #signer!: Signer;

  static async start(): Promise<IssuerStandIn> {
    const itself = await new IssuerStandIn().open();
    await itself.rotate();
    return itself;
  }

  private constructor() {
    super((request, response) => {
      this.asked.push(request.url!);
      if (this.failure === 'be silent') return;
      if (this.failure === 'hang up') return request.socket.destroy();
      const { status, body } = this.failure ?? this.#answer(request.url!);
      response.writeHead(status, { 'content-type': 'application/json' }).end(body);
    });
  }

  get env(): Record<string, string> {
    return { JWT_ISSUER: this.url, JWT_AUDIENCE: AUDIENCE };
  }

  get signer(): Signer {
    return this.#signer;
  }

  /** Signs with a new key from now on. The key set keeps `kept` of the former keys. */
  async rotate(alg = 'ES256', kept = 0): Promise<void> {
    this.#signer = await newSigner(alg, randomUUID());
    this.jwks = [...this.jwks.slice(this.jwks.length - kept), this.#signer.jwk];
  }

  /** A JWT for SUBJECT, valid for five minutes. undefined removes a claim or header. */
  jwt(
    claims: Record<string, unknown> = {},
    header: Record<string, unknown> = {},
    signer: Pick<Signer, 'alg' | 'kid'> & { readonly privateKey: CryptoKey | Uint8Array } = this
      .#signer,
  ): Promise<string> {
    const payload: JWTPayload = { ...this.claims(), ...claims };
    const { alg, kid } = signer;
    return new SignJWT(payload)
      .setProtectedHeader({ alg, kid, typ: 'JWT', ...header })
      .sign(signer.privateKey);
  }

  claims(): JWTPayload {
    const nowS = Math.floor(Date.now() / 1_000);
    return { iss: this.url, aud: [AUDIENCE, 'others'], sub: SUBJECT, iat: nowS, exp: nowS + 300 };
  }

  #answer(path: string): Answer {
    if (path === '/.well-known/openid-configuration') {
      const document = { issuer: this.url, jwks_uri: `${this.url}/keys`, ...this.discovery };
      return { status: 200, body: JSON.stringify(document) };
    }
    if (path !== '/keys') return { status: 404, body: '{"error":"not found"}' };
    return { status: 200, body: JSON.stringify({ keys: this.jwks }) };
  }
}

export async function newSigner(alg: string, kid: string): Promise<Signer> {
  const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true });
  return { alg, kid, privateKey, jwk: { ...(await exportJWK(publicKey)), kid } };
}

/** The parts of a JWT, changed. */
export function changed(jwt: string, change: (parts: string[]) => string[]): string {
  return change(jwt.split('.')).join('.');
}

export function base64urlOf(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}
