import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createHmac,
  randomBytes,
  randomUUID,
} from 'node:crypto';
import { type Answer, type Asked, CloudStandIn } from './cloud.ts';

export const REGION = 'eu-central-1';
const ACCOUNT = '111122223333';
const ROLE = 'standin-role';

type Context = Record<string, string>;

/**
 * The Decrypt operation of AWS KMS over HTTP: JSON 1.1, Signature Version 4, ciphertexts bound to
 * their key and encryption context, and the documented error bodies. Also serves credentials as the
 * endpoints of an ECS container and of an EC2 instance (IMDSv2) do.
 */
export class KmsStandIn extends CloudStandIn {
  /** What each request to KMS asked for. */
  readonly operations: { target: string; accessKeyId: string }[] = [];
  readonly credentials: Credentials = {
    accessKeyId: 'AKIASTANDINTEST00001',
    secretAccessKey: 'a-secret/access+key',
  };
  /** The credentials of the container and the instance. */
  readonly temporary: Credentials = {
    accessKeyId: 'ASIASTANDINTEST00002',
    secretAccessKey: 'another-secret/access+key',
    sessionToken: 'FwoGZXIvYXdzEXAMPLE',
  };
  readonly #keys = new Map<string, Buffer>();

  /** Environment variables that make the AWS SDK use the credentials of a container. */
  get containerEnv(): Record<string, string> {
    return { AWS_CONTAINER_CREDENTIALS_FULL_URI: `${this.url}/container` };
  }

  /** Environment variables that make the AWS SDK use the credentials of an instance. */
  get instanceEnv(): Record<string, string> {
    return { AWS_EC2_METADATA_SERVICE_ENDPOINT: this.url };
  }

  addKey(): string {
    const keyId = randomUUID();
    this.#keys.set(keyId, randomBytes(32));
    return keyId;
  }

  arnOf(keyId: string): string {
    return `arn:aws:kms:${REGION}:${ACCOUNT}:key/${keyId}`;
  }

  /** Encrypts as `aws kms encrypt` does. The blob begins with the same bytes as blobs of KMS. */
  encrypt(keyId: string, plain: Buffer, context: Context = { service: 'standin' }): Buffer {
    const nonce = randomBytes(12);
    const cipher = createCipheriv('aes-256-gcm', this.#keys.get(keyId)!, nonce);
    cipher.setAAD(aad(context));
    const sealed = [nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()];
    return Buffer.concat([Buffer.from([1, 2, 2, 0]), Buffer.from(keyId), ...sealed]);
  }

  protected override headers(path: string): Record<string, string> {
    const type = path === '/' ? 'application/x-amz-json-1.1' : 'text/plain';
    return { 'content-type': type, 'x-amzn-requestid': randomUUID() };
  }

  protected answer(request: Asked): Answer {
    const { method, path, headers } = request;
    if (path === '/') return this.#operation(request);
    if (path === '/container') return { status: 200, body: this.#given() };
    if (path === '/latest/api/token' && method === 'PUT')
      return { status: 200, body: 'imds-token' };
    if (headers['x-aws-ec2-metadata-token'] !== 'imds-token') return { status: 401, body: '' };
    const roles = '/latest/meta-data/iam/security-credentials/';
    if (path === roles) return { status: 200, body: ROLE };
    return path === `${roles}${ROLE}`
      ? { status: 200, body: { Code: 'Success', ...this.#given() } }
      : { status: 404, body: '' };
  }

  #given(): Record<string, string> {
    const { accessKeyId, secretAccessKey, sessionToken } = this.temporary;
    return {
      AccessKeyId: accessKeyId,
      SecretAccessKey: secretAccessKey,
      Token: sessionToken!,
      Expiration: new Date(Date.now() + 3_600_000).toISOString(),
    };
  }

  #operation(request: Asked): Answer {
    const known = [this.credentials, this.temporary];
    const secretOf = (id: string) =>
      known.find(({ accessKeyId }) => accessKeyId === id)?.secretAccessKey;
    const scope = { region: REGION, service: 'kms' };
    const { accessKeyId, isRight } = checkSignature(request, scope, secretOf);
    const target = String(request.headers['x-amz-target']);
    this.operations.push({ target, accessKeyId });
    const who = known.find((one) => one.accessKeyId === accessKeyId);
    if (who?.sessionToken !== request.headers['x-amz-security-token'] || who === undefined)
      return error(
        'UnrecognizedClientException',
        'The security token included in the request is invalid.',
      );
    if (!isRight)
      return error(
        'InvalidSignatureException',
        'The request signature we calculated does not match the signature you provided.',
      );
    if (target !== 'TrentService.Decrypt') return error('UnknownOperationException', '');
    return this.#decrypt(JSON.parse(request.body));
  }

  #decrypt({
    CiphertextBlob: blob,
    KeyId: named,
    EncryptionContext: context,
  }: {
    CiphertextBlob: string;
    KeyId: string;
    EncryptionContext: Context;
  }): Answer {
    const keyId = named.replace(/^arn:.*:key\//, '');
    const key = this.#keys.get(keyId);
    if (key === undefined)
      return error('NotFoundException', `Key '${this.arnOf(keyId)}' does not exist`);
    const bytes = Buffer.from(blob, 'base64');
    const madeBy = bytes.toString('latin1', 4, 40);
    if (!this.#keys.has(madeBy)) return error('InvalidCiphertextException', null);
    if (madeBy !== keyId)
      return error(
        'IncorrectKeyException',
        'The key ID in the request does not identify a CMK that can perform this operation.',
      );
    const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(40, 52));
    decipher.setAAD(aad(context));
    decipher.setAuthTag(bytes.subarray(-16));
    try {
      const plain = Buffer.concat([decipher.update(bytes.subarray(52, -16)), decipher.final()]);
      const body = {
        KeyId: this.arnOf(keyId),
        Plaintext: plain.toString('base64'),
        EncryptionAlgorithm: 'SYMMETRIC_DEFAULT',
      };
      return { status: 200, body };
    } catch {
      return error('InvalidCiphertextException', null);
    }
  }
}

/** An error of KMS: its name is in `__type`, and some errors have a message. */
export function error(name: string, message: string | null, status = 400): Answer {
  return { status, body: { __type: name, ...(message !== null && { message }) } };
}

function aad(context: Context): Buffer {
  return Buffer.from(JSON.stringify(Object.entries(context).sort()));
}

export interface Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string;
}

/** Headers that a signature must cover: host, time and operation. */
const MUST_BE_SIGNED = ['host', 'x-amz-date', 'x-amz-target'];
const MAX_SKEW_MS = 300_000;

/**
 * Recomputes the signature of a request by the documented steps (canonical request, string to sign,
 * signing key). Returns the access key id of the request, and whether its signature is right.
 */
function checkSignature(
  request: Asked,
  scope: { region: string; service: string },
  secretOf: (accessKeyId: string) => string | undefined,
): { accessKeyId: string; isRight: boolean } {
  const { headers } = request;
  const [, accessKeyId = '', date, region, service, names = '', signature] =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/([^/]+)\/aws4_request, SignedHeaders=([^,]+), Signature=([0-9a-f]{64})$/.exec(
      headers.authorization ?? '',
    ) ?? [];
  const signed = names.split(';');
  const amzDate = String(headers['x-amz-date']);
  const secret = secretOf(accessKeyId);
  const needed = headers['x-amz-security-token'] ? ['x-amz-security-token'] : [];
  const isComplete = [...MUST_BE_SIGNED, ...needed].every((name) => signed.includes(name));
  const isInScope = region === scope.region && service === scope.service;
  const isNow = amzDate.startsWith(date ?? '-') && skewMs(amzDate) < MAX_SKEW_MS;
  if (secret === undefined || !isComplete || !isInScope || !isNow)
    return { accessKeyId, isRight: false };
  const canonical = [
    request.method,
    request.path,
    '',
    ...signed.map((name) => `${name}:${String(headers[name]).trim().replaceAll(/ +/g, ' ')}`),
    '',
    names,
    sha256(request.body),
  ].join('\n');
  const credentialScope = `${date}/${region}/${service}/aws4_request`;
  const toSign = ['AWS4-HMAC-SHA256', amzDate, credentialScope, sha256(canonical)].join('\n');
  const key = [date!, region!, service!, 'aws4_request'].reduce<string | Buffer>(
    (key, part) => createHmac('sha256', key).update(part).digest(),
    `AWS4${secret}`,
  );
  const expected = createHmac('sha256', key).update(toSign).digest('hex');
  return { accessKeyId, isRight: signature === expected };
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/** @param amzDate such as 20261121T104643Z */
function skewMs(amzDate: string): number {
  const iso = amzDate.replace(/^(....)(..)(..)T(..)(..)(..)Z$/, '$1-$2-$3T$4:$5:$6Z');
  return Math.abs(Date.now() - Date.parse(iso));
}
