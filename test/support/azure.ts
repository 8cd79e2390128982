import {
  constants,
  createCipheriv,
  createDecipheriv,
  generateKeyPairSync,
  privateDecrypt,
  publicEncrypt,
  randomBytes,
} from 'node:crypto';
import { type Answer, type Asked, CloudStandIn } from './cloud.ts';

export const TENANT = '11111111-2222-3333-4444-555555555555';
export const CLIENT = '66666666-7777-8888-9999-000000000000';
export const SECRET = 'Qn8~a-secret-of-the-application';
const ASSERTION_TYPE = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer';
const WRAP_IV = Buffer.alloc(8, 0xa6);

const words = 'secret words of the server';

/** The errors of Key Vault, and of the instance metadata service. */
export function azureError(status: number, code: string): Answer {
  return { status, body: { error: { code, message: words } } };
}

/** The errors of Microsoft Entra ID (RFC 6749 section 5.2). */
export function entraError(status: number, error: string): Answer {
  return {
    status,
    body: { error, error_description: `AADSTS70021: ${words}`, error_codes: [70021] },
  };
}

const RSA_OAEP_256 = { padding: constants.RSA_PKCS1_OAEP_PADDING, oaepHash: 'sha256' } as const;

/**
 * The HTTP interfaces of Azure: unwrapkey of Key Vault and Managed HSM 7.4, the token endpoint of
 * Microsoft Entra ID, and the instance metadata service.
 * https://learn.microsoft.com/rest/api/keyvault/keys/unwrap-key/unwrap-key
 */
export class AzureStandIn extends CloudStandIn {
  readonly accessToken = 'eyJ0.a-secret-access-token.x';
  readonly federatedToken = 'eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzdGFuZGluIn0.c2lnbmVk';
  readonly version = randomBytes(16).toString('hex');
  /** What the token is for. */
  resource = 'https://vault.azure.net';
  /** The identity that the user assigned to the machine; undefined: that of the system. */
  assignedId: string | undefined;
  readonly #rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
  readonly #aes = randomBytes(32);

  get keyId(): string {
    return `${this.url}/keys/kek/${this.version}`;
  }

  /** As `az keyvault key download` writes it. */
  get publicKey(): string {
    return this.#rsa.publicKey.export({ type: 'spki', format: 'pem' }) as string;
  }

  wrap(key: Buffer, algorithm = 'RSA-OAEP-256'): Buffer {
    if (algorithm === 'RSA-OAEP-256')
      return publicEncrypt({ key: this.#rsa.publicKey, ...RSA_OAEP_256 }, key);
    const cipher = createCipheriv('id-aes256-wrap', this.#aes, WRAP_IV);
    return Buffer.concat([cipher.update(key), cipher.final()]);
  }

  protected answer(asked: Asked): Answer {
    const url = new URL(asked.path, this.url);
    if (url.pathname === '/metadata/identity/oauth2/token') return this.#identity(asked, url);
    if (url.pathname === `/${TENANT}/oauth2/v2.0/token`) return this.#token(asked);
    if (url.pathname.endsWith('/oauth2/v2.0/token')) return entraError(400, 'invalid_request');
    return this.#unwrap(asked, url);
  }

  #identity({ method, headers }: Asked, { searchParams }: URL): Answer {
    if (method !== 'GET' || headers.metadata !== 'true')
      return { status: 400, body: { error: 'invalid_request', error_description: words } };
    if (searchParams.get('api-version') !== '2018-02-01') return entraError(400, 'bad_request');
    if (searchParams.get('resource') !== this.resource) return entraError(400, 'invalid_resource');
    if ((searchParams.get('client_id') ?? undefined) !== this.assignedId)
      return {
        status: 400,
        body: { error: 'invalid_request', error_description: 'Identity not found' },
      };
    const { resource, accessToken } = this;
    const rest = { expires_in: '86399', resource, token_type: 'Bearer' };
    return { status: 200, body: { access_token: accessToken, ...rest } };
  }

  #token({ method, body }: Asked): Answer {
    const form = new URLSearchParams(body);
    if (method !== 'POST' || form.get('grant_type') !== 'client_credentials')
      return entraError(400, 'unsupported_grant_type');
    if (form.get('scope') !== `${this.resource}/.default`) return entraError(400, 'invalid_scope');
    if (form.get('client_id') !== CLIENT) return entraError(400, 'unauthorized_client');
    const isFederated =
      form.get('client_assertion_type') === ASSERTION_TYPE &&
      form.get('client_assertion') === this.federatedToken;
    if (form.get('client_secret') !== SECRET && !isFederated)
      return entraError(401, 'invalid_client');
    const rest = { token_type: 'Bearer', expires_in: 3599 };
    return { status: 200, body: { access_token: this.accessToken, ...rest } };
  }

  #unwrap({ method, headers, body }: Asked, { pathname, searchParams }: URL): Answer {
    if (headers.authorization !== `Bearer ${this.accessToken}`)
      return {
        ...azureError(401, 'Unauthorized'),
        headers: { 'www-authenticate': `Bearer resource="${this.resource}"` },
      };
    if (searchParams.get('api-version') !== '7.4') return azureError(400, 'BadParameter');
    if (method !== 'POST' || pathname !== `/keys/kek/${this.version}/unwrapkey`)
      return azureError(404, 'KeyNotFound');
    const { alg, value } = JSON.parse(body);
    try {
      const key = this.#unwrapped(alg, Buffer.from(value, 'base64url'));
      return { status: 200, body: { kid: this.keyId, value: key.toString('base64url') } };
    } catch {
      return azureError(400, 'BadParameter');
    }
  }

  #unwrapped(algorithm: string, wrapped: Buffer): Buffer {
    if (algorithm === 'RSA-OAEP-256')
      return privateDecrypt({ key: this.#rsa.privateKey, ...RSA_OAEP_256 }, wrapped);
    const decipher = createDecipheriv('id-aes256-wrap', this.#aes, WRAP_IV);
    return Buffer.concat([decipher.update(wrapped), decipher.final()]);
  }
}
