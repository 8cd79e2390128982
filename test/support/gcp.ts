import { createCipheriv, createDecipheriv, generateKeyPairSync, randomBytes } from 'node:crypto';
import { errors, jwtVerify } from 'jose';
import { crc32c } from '../../packages/kek/src/gcp-kms.ts';
import { type Answer, type Asked, CloudStandIn } from './cloud.ts';

export const KEY = 'projects/acme/locations/europe-west3/keyRings/standin/cryptoKeys/kek';
const SCOPE = 'https://www.googleapis.com/auth/cloudkms';
const GRANT = 'urn:ietf:params:oauth:grant-type:jwt-bearer';

/** google.rpc.Status in JSON, as Google's APIs answer errors. */
export function googleError(status: number, code: string): Answer {
  const message = 'secret words of the server';
  return { status, body: { error: { code: status, message, status: code } } };
}

/**
 * The HTTP interfaces of Google Cloud: Decrypt of Cloud KMS v1 with its CRC32C fields, the token
 * endpoint of service accounts (RFC 7523), and the metadata server.
 * https://cloud.google.com/kms/docs/reference/rest/v1/projects.locations.keyRings.cryptoKeys/decrypt
 */
export class GcpStandIn extends CloudStandIn {
  readonly accessToken = 'ya29.a-secret-access-token';
  readonly email = 'standin@acme.iam.gserviceaccount.com';
  readonly #accountKey = generateKeyPairSync('rsa', { modulusLength: 2048 });
  readonly #keys = new Map([[KEY, randomBytes(32)]]);

  /** The file that GOOGLE_APPLICATION_CREDENTIALS names. */
  get account(): Record<string, string> {
    return {
      type: 'service_account',
      project_id: 'acme',
      private_key_id: '0123456789abcdef',
      private_key: this.#accountKey.privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
      client_email: this.email,
      token_uri: `${this.url}/token`,
    };
  }

  /** Makes a missing key. */
  encrypt(plaintext: Buffer, key = KEY): Buffer {
    if (!this.#keys.has(key)) this.#keys.set(key, randomBytes(32));
    const nonce = randomBytes(12);
    const cipher = createCipheriv('aes-256-gcm', this.#keys.get(key)!, nonce);
    // The first bytes of real ciphertexts.
    const start = Buffer.from('0a2400', 'hex');
    return Buffer.concat([
      start,
      nonce,
      cipher.update(plaintext),
      cipher.final(),
      cipher.getAuthTag(),
    ]);
  }

  protected async answer(asked: Asked): Promise<Answer> {
    if (asked.path.startsWith('/computeMetadata/')) return this.#metadata(asked);
    if (asked.path === '/token') return this.#token(asked);
    const key = /^\/v1\/(projects\/.+):decrypt$/.exec(asked.path)?.[1];
    if (key === undefined || asked.method !== 'POST') return googleError(404, 'NOT_FOUND');
    if (asked.headers.authorization !== `Bearer ${this.accessToken}`)
      return googleError(401, 'UNAUTHENTICATED');
    return this.#decrypt(key, JSON.parse(asked.body));
  }

  #metadata({ path, headers }: Asked): Answer {
    const flavor = { 'metadata-flavor': 'Google' };
    if (headers['metadata-flavor'] !== 'Google')
      return { status: 403, body: 'Missing Metadata-Flavor:Google header.', headers: flavor };
    if (!path.endsWith('/instance/service-accounts/default/token'))
      return { status: 404, body: '<html>404</html>', headers: flavor };
    return { ...this.#granted(), headers: flavor };
  }

  async #token({ body, headers }: Asked): Promise<Answer> {
    const form = new URLSearchParams(body);
    const isForm = headers['content-type'] === 'application/x-www-form-urlencoded';
    if (!isForm || form.get('grant_type') !== GRANT)
      return { status: 400, body: { error: 'unsupported_grant_type' } };
    try {
      const { payload } = await jwtVerify(form.get('assertion')!, this.#accountKey.publicKey, {
        algorithms: ['RS256'],
        issuer: this.email,
        audience: `${this.url}/token`,
        requiredClaims: ['iat', 'exp'],
      });
      if (payload.scope !== SCOPE) return { status: 400, body: { error: 'invalid_scope' } };
      return this.#granted();
    } catch (error) {
      if (!(error instanceof errors.JOSEError)) throw error;
      const words = 'Invalid JWT Signature. secret words of the server';
      return { status: 400, body: { error: 'invalid_grant', error_description: words } };
    }
  }

  #granted(): Answer {
    const body = { access_token: this.accessToken, expires_in: 3599, token_type: 'Bearer' };
    return { status: 200, body };
  }

  #decrypt(name: string, body: { ciphertext: string; ciphertextCrc32c?: string }): Answer {
    const key = this.#keys.get(name);
    if (key === undefined) return googleError(404, 'NOT_FOUND');
    const sealed = Buffer.from(body.ciphertext, 'base64');
    const sum = body.ciphertextCrc32c;
    if (sum !== undefined && sum !== String(crc32c(sealed)))
      return googleError(400, 'INVALID_ARGUMENT');
    if (sealed.length < 31) return googleError(400, 'INVALID_ARGUMENT');
    const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(3, 15));
    decipher.setAuthTag(sealed.subarray(-16));
    try {
      const plain = Buffer.concat([decipher.update(sealed.subarray(15, -16)), decipher.final()]);
      const plaintextCrc32c = String(crc32c(plain));
      const plaintext = plain.toString('base64');
      const rest = { usedPrimary: true, protectionLevel: 'SOFTWARE' };
      return { status: 200, body: { plaintext, plaintextCrc32c, ...rest } };
    } catch {
      return googleError(400, 'INVALID_ARGUMENT');
    }
  }
}
