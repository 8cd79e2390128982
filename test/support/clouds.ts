import {
  constants,
  createCipheriv,
  createDecipheriv,
  generateKeyPairSync,
  privateDecrypt,
  publicEncrypt,
  randomBytes,
  verify,
} from 'node:crypto';
import { crc32c } from '../../src/kek/google.ts';
import { type Answer, type Asked, CloudStandIn, SealingKey } from './cloud.ts';

/** What every server says, and no message may show. */
const words = 'secret words of the server';
const TOKEN = 'eyJ0.a-secret-access-token.x';

/** A key service with one key `kek`, and another key `other`. */
export abstract class KeyServiceStandIn extends CloudStandIn {
  /** As KEK_FILE has it. */
  abstract encrypt(kek: Buffer): Buffer;
  /** Settings and credentials of a node. */
  abstract get environment(): Record<string, string>;
  /** For many of them in one process. */
  get environmentHere(): Record<string, string> {
    return this.environment;
  }
  /** An error as this service sends it. */
  abstract error(status: number, code?: string): Answer;
  /** A part of the path of its decryption. */
  abstract readonly path: string;
}

/**
 * Decrypt of AWS KMS (JSON 1.1): ciphertexts are bound to their key and encryption context. Also
 * serves credentials as the endpoints of an ECS container and of an EC2 instance (IMDSv2) do. The
 * SDK signs; this looks only at the id of the access key.
 */
export class AwsStandIn extends KeyServiceStandIn {
  readonly path = '';
  key = 'arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab';
  context = '{"service":"standin"}';
  readonly accessKeys: string[] = [];
  readonly #key = new SealingKey();

  /** HTTP in clear: the SDK asks an instance over nothing else. */
  constructor(_tls?: object) {
    super();
  }

  get environment(): Record<string, string> {
    return {
      ...{ KEK_AWS_KMS_KEY_ID: this.key, KEK_AWS_KMS_ENDPOINT: this.url },
      ...{ AWS_ACCESS_KEY_ID: 'AKIAGIVEN', AWS_SECRET_ACCESS_KEY: 'a-secret-of-aws' },
    };
  }

  encrypt(kek: Buffer): Buffer {
    return this.#key.seal(kek, this.context);
  }

  error(status: number, code = 'SomethingNewException'): Answer {
    return { status, body: { __type: code, message: words } };
  }

  protected answer({ path, headers, body }: Asked): Answer {
    const given = {
      ...{ AccessKeyId: 'ASIAOFMACHINE', SecretAccessKey: 'a-secret-of-aws', Token: 'session' },
      ...{ Code: 'Success', Expiration: new Date(Date.now() + 3_600_000).toISOString() },
    };
    if (path === '/container' || path.endsWith('/role')) return { status: 200, body: given };
    if (path === '/latest/api/token') return { status: 200, body: 'imds-token' };
    if (path.startsWith('/latest/')) return { status: 200, body: 'role' };
    const id = /Credential=(\w+)\/\d+\/eu-central-1\/kms\//.exec(headers.authorization ?? '')?.[1];
    this.accessKeys.push(id!);
    const isTemporary = headers['x-amz-security-token'] === 'session';
    if (id !== (isTemporary ? 'ASIAOFMACHINE' : 'AKIAGIVEN'))
      return this.error(400, 'UnrecognizedClientException');
    const { CiphertextBlob: blob, KeyId: key, EncryptionContext: context } = JSON.parse(body);
    if (headers['x-amz-target'] !== 'TrentService.Decrypt' || key !== this.key)
      return this.error(400, 'NotFoundException');
    const plain = this.#key.open(Buffer.from(blob, 'base64'), JSON.stringify(context));
    if (plain === undefined) return this.error(400, 'InvalidCiphertextException');
    return { status: 200, body: { KeyId: key, Plaintext: plain.toString('base64') } };
  }
}

/**
 * Decrypt of Cloud KMS v1 with its CRC32C fields, the token endpoint of service accounts (RFC 7523),
 * the Security Token Service of federations (RFC 8693), and the metadata server.
 */
export class GoogleStandIn extends KeyServiceStandIn {
  readonly path = ':decrypt';
  readonly key = 'projects/acme/locations/europe-west3/keyRings/standin/cryptoKeys/kek';
  readonly #account = generateKeyPairSync('rsa', { modulusLength: 2048 });
  readonly #key = new SealingKey();

  get environment(): Record<string, string> {
    return {
      ...{ KEK_GCP_KMS_KEY: this.key, KEK_GCP_KMS_ENDPOINT: `${this.url}/` },
      GCE_METADATA_HOST: this.url,
    };
  }

  /** A file that GOOGLE_APPLICATION_CREDENTIALS may name. */
  get account(): Record<string, string> {
    return {
      type: 'service_account',
      private_key: this.#account.privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
      client_email: 'standin@acme.iam.gserviceaccount.com',
    };
  }

  encrypt(kek: Buffer): Buffer {
    return this.#key.seal(kek);
  }

  error(status: number, code = 'UNKNOWN'): Answer {
    return { status, body: { error: { code: status, message: words, status: code } } };
  }

  protected override headers(): Record<string, string> {
    return { 'content-type': 'application/json', 'metadata-flavor': 'Google' };
  }

  protected answer({ path, headers, body }: Asked): Answer {
    const token = { access_token: TOKEN, expires_in: 3599, token_type: 'Bearer' };
    if (path.startsWith('/computeMetadata/')) return { status: 200, body: token };
    if (path === '/sts') {
      const isSubject = new URLSearchParams(body).get('subject_token') === 'token-of-the-pod';
      const issued = { issued_token_type: 'urn:ietf:params:oauth:token-type:access_token' };
      return isSubject ? { status: 200, body: { ...token, ...issued } } : this.error(400);
    }
    if (path === '/token') {
      const [, signed = '', last = ''] = /assertion=([\w.-]+)\.([\w-]+)/.exec(body) ?? [];
      const signature = Buffer.from(last, 'base64url');
      const isSigned = verify('sha256', Buffer.from(signed), this.#account.publicKey, signature);
      return isSigned ? { status: 200, body: token } : this.error(400);
    }
    if (headers.authorization !== `Bearer ${TOKEN}`) return this.error(401);
    if (path !== `/v1/${this.key}:decrypt`) return this.error(404);
    const { ciphertext, ciphertextCrc32c: sum } = JSON.parse(body);
    const sealed = Buffer.from(ciphertext, 'base64');
    const plain = this.#key.open(sealed);
    if (plain === undefined || sum !== String(crc32c(sealed))) return this.error(400);
    const plaintextCrc32c = String(crc32c(plain));
    return { status: 200, body: { plaintext: plain.toString('base64'), plaintextCrc32c } };
  }
}

const RSA_OAEP_256 = { padding: constants.RSA_PKCS1_OAEP_PADDING, oaepHash: 'sha256' } as const;
const WRAP_IV = Buffer.alloc(8, 0xa6);
const TENANT = '11111111-2222-3333-4444-555555555555';

/**
 * unwrapkey of Key Vault and Managed HSM 7.4, the token endpoint of Microsoft Entra ID with its
 * discovery, and the instance metadata service.
 */
export class AzureStandIn extends KeyServiceStandIn {
  readonly path = '/unwrapkey';
  readonly client = '66666666-7777-8888-9999-000000000000';
  readonly federatedToken = 'eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzdGFuZGluIn0.c2lnbmVk';
  readonly version = randomBytes(16).toString('hex');
  readonly #rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
  readonly #aes = randomBytes(32);

  get key(): string {
    return `${this.url}/keys/kek/${this.version}`;
  }

  get environment(): Record<string, string> {
    return { KEK_AZURE_KEY_ID: this.key, AZURE_POD_IDENTITY_AUTHORITY_HOST: this.url };
  }

  /** The library remembers the first machine that it asked, as long as the process lives. */
  override get environmentHere(): Record<string, string> {
    const proof = { AZURE_CLIENT_SECRET: 'a-secret-of-azure' };
    return { ...this.environment, ...this.application, ...proof };
  }

  /** Of an application in place of a machine, without its proof. */
  get application(): Record<string, string> {
    const authority = { AZURE_AUTHORITY_HOST: this.url, AZURE_TENANT_ID: TENANT };
    return { ...authority, AZURE_CLIENT_ID: this.client };
  }

  /** As `az keyvault key download` writes it. */
  get publicKey(): string {
    return this.#rsa.publicKey.export({ type: 'spki', format: 'pem' }) as string;
  }

  encrypt(kek: Buffer, algorithm = 'RSA-OAEP-256'): Buffer {
    if (algorithm !== 'A256KW')
      return publicEncrypt({ key: this.#rsa.publicKey, ...RSA_OAEP_256 }, kek);
    const cipher = createCipheriv('id-aes256-wrap', this.#aes, WRAP_IV);
    return Buffer.concat([cipher.update(kek), cipher.final()]);
  }

  error(status: number, code = 'X'): Answer {
    return { status, body: { error: { code, message: words } } };
  }

  protected answer({ path, headers, body }: Asked): Answer {
    const url = new URL(path, this.url);
    const token = { access_token: TOKEN, expires_in: 3599, token_type: 'Bearer' };
    if (url.pathname.startsWith('/metadata/identity/oauth2/token')) {
      const isRight = url.searchParams.get('resource') === 'https://vault.azure.net';
      return isRight ? { status: 200, body: token } : this.error(400, 'invalid_resource');
    }
    if (url.pathname.endsWith('/openid-configuration')) {
      const base = `${this.url}/${TENANT}`;
      const endpoints = {
        token_endpoint: `${base}/oauth2/v2.0/token`,
        authorization_endpoint: `${base}/oauth2/v2.0/authorize`,
        jwks_uri: `${base}/keys`,
      };
      return { status: 200, body: { issuer: `${base}/v2.0`, ...endpoints } };
    }
    if (url.pathname.endsWith('/token')) return this.#token(new URLSearchParams(body), token);
    if (headers.authorization !== `Bearer ${TOKEN}`) return this.error(401);
    if (path !== `/keys/kek/${this.version}/unwrapkey?api-version=7.4`) return this.error(404);
    const { alg, value } = JSON.parse(body);
    try {
      const key = this.#unwrapped(alg, Buffer.from(value, 'base64url'));
      return { status: 200, body: { value: key.toString('base64url') } };
    } catch {
      return this.error(400, 'BadParameter');
    }
  }

  #token(form: URLSearchParams, token: object): Answer {
    const isRight =
      form.get('client_secret') === 'a-secret-of-azure' ||
      form.get('client_assertion') === this.federatedToken;
    if (isRight && form.get('scope')?.split(' ').includes('https://vault.azure.net/.default'))
      return { status: 200, body: token };
    const errorDescription = `AADSTS7000215: ${words}`;
    return { status: 401, body: { error: 'invalid_client', error_description: errorDescription } };
  }

  #unwrapped(algorithm: string, wrapped: Buffer): Buffer {
    if (algorithm === 'RSA-OAEP-256')
      return privateDecrypt({ key: this.#rsa.privateKey, ...RSA_OAEP_256 }, wrapped);
    const decipher = createDecipheriv('id-aes256-wrap', this.#aes, WRAP_IV);
    return Buffer.concat([decipher.update(wrapped), decipher.final()]);
  }
}
