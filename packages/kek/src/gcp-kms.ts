import { blobOf, decryptedKek, readCiphertext } from './file.ts';
import { askCloud, type Deadline, deadlineOf, objectOf } from './request.ts';
import { explained, KEK_TIMEOUTS, KekError, type KekSource, type PrivateFiles } from './source.ts';

/** Google Cloud KMS. */
export interface GcpKmsSettings {
  /** `projects/P/locations/L/keyRings/R/cryptoKeys/K`. */
  readonly key: string;
  readonly endpoint: string;
  /** Key of a service account in JSON; undefined: the metadata server of the machine. */
  readonly credentialsFile: string | undefined;
  /** Host of the metadata server. */
  readonly metadataHost: string;
}

const SCOPE = 'https://www.googleapis.com/auth/cloudkms';
const TOKEN_LIFETIME = '5 minutes';
const KEY_FILE = 'GOOGLE_APPLICATION_CREDENTIALS';
const GRANT =
  'Give this service account the role roles/cloudkms.cryptoKeyDecrypter on KEK_GCP_KMS_KEY, and enable the Cloud KMS API.';

/** @param path file with the ciphertext of a data key, raw or in base64 */
export function kekGcpKms(
  path: string,
  settings: GcpKmsSettings,
  files: PrivateFiles,
  patience = KEK_TIMEOUTS,
): KekSource {
  const by = `Google Cloud KMS key ${settings.key}`;
  const read = async () => {
    const ciphertext = blobOf(readCiphertext(path, 'KEK_GCP_KMS_KEY', files));
    const deadline = deadlineOf(patience);
    const token = await tokenOf(settings, files, deadline);
    return decryptedKek(await decrypt(ciphertext, token, settings, deadline), path, by);
  };
  return { place: `${path}, decrypted by ${by}`, setting: 'KEK_FILE', read };
}

async function decrypt(
  ciphertext: Buffer,
  token: string,
  { key, endpoint }: GcpKmsSettings,
  deadline: Deadline,
): Promise<Buffer> {
  const { text, answer } = await askCloud(
    {
      server: 'Google Cloud KMS',
      setting: 'KEK_GCP_KMS_ENDPOINT',
      url: new URL(`${endpoint.replace(/\/+$/, '')}/v1/${key}:decrypt`),
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        ciphertext: ciphertext.toString('base64'),
        ciphertextCrc32c: String(crc32c(ciphertext)),
      }),
      remedies: {
        400: 'KEK_FILE was encrypted with another key, or was changed, or the version of the key is disabled or destroyed: check KEK_GCP_KMS_KEY and KEK_FILE.',
        401: `The access token is not accepted: check ${KEY_FILE}, and the clock of this machine.`,
        403: GRANT,
        404: 'There is no such key: check KEK_GCP_KMS_KEY.',
        429: 'The quota of Cloud KMS is spent: wait, or raise it, and start again.',
      },
    },
    'plaintext',
    deadline,
  );
  const plaintext = Buffer.from(text, 'base64');
  // https://cloud.google.com/kms/docs/data-integrity-guidelines
  if (answer.plaintextCrc32c !== String(crc32c(plaintext)))
    throw new KekError(
      'The answer of Google Cloud KMS does not have the checksum that it names: it was damaged on its way. Check KEK_GCP_KMS_ENDPOINT, and start again.',
    );
  return plaintext;
}

function tokenOf(
  settings: GcpKmsSettings,
  files: PrivateFiles,
  deadline: Deadline,
): Promise<string> {
  const { credentialsFile, metadataHost } = settings;
  return credentialsFile === undefined
    ? machineToken(metadataHost, deadline)
    : serviceAccountToken(credentialsFile, files, deadline);
}

/** The token of the machine's, pod's or container's service account. */
async function machineToken(host: string, deadline: Deadline): Promise<string> {
  const { text, headers } = await askCloud(
    {
      server: 'The metadata server of Google Cloud',
      setting: `${KEY_FILE} or GCE_METADATA_HOST`,
      url: new URL(`http://${host}/computeMetadata/v1/instance/service-accounts/default/token`),
      headers: { 'metadata-flavor': 'Google' },
      remedies: { 404: 'This machine has no service account: attach one.', 403: GRANT },
    },
    'access_token',
    deadline,
  );
  if (headers['metadata-flavor'] === 'Google') return text;
  throw new KekError(
    `${host} is no metadata server of Google Cloud: set ${KEY_FILE}, or correct GCE_METADATA_HOST.`,
  );
}

interface ServiceAccount {
  readonly email: string;
  readonly privateKey: string;
  readonly tokenUrl: URL;
}

/** RFC 7523 section 2.1. */
async function serviceAccountToken(
  path: string,
  files: PrivateFiles,
  deadline: Deadline,
): Promise<string> {
  const { email, privateKey, tokenUrl } = serviceAccount(path, files);
  const assertion = await signed(email, privateKey, tokenUrl.href).catch(() => {
    throw new KekError(`${KEY_FILE} (${path}) has a private_key that is not an RSA key in PEM.`);
  });
  const renew = `The key of the service account was deleted or disabled, or the clock of this machine is wrong: make another key for ${KEY_FILE}.`;
  const { text } = await askCloud(
    {
      server: 'The token server of Google Cloud',
      setting: KEY_FILE,
      url: tokenUrl,
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({
        grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
        assertion,
      }).toString(),
      remedies: { 400: renew, 401: renew },
    },
    'access_token',
    deadline,
  );
  return text;
}

function serviceAccount(path: string, { readSecret }: PrivateFiles): ServiceAccount {
  const name = `${KEY_FILE} (${path})`;
  const content = explained(
    () => readSecret(path, name),
    (code) => `${name} cannot be read (${code}). Name a file that this user can read.`,
  );
  const { type, client_email: email, private_key: privateKey, token_uri: uri } = objectOf(content);
  const isAccount = type === 'service_account' && typeof email === 'string';
  if (!isAccount || typeof privateKey !== 'string' || typeof uri !== 'string' || !isSafe(uri))
    throw new KekError(
      `${name} is not the key of a service account in JSON. Make one with: gcloud iam service-accounts keys create; or unset ${KEY_FILE} to use the identity of this machine.`,
    );
  return { email, privateKey, tokenUrl: new URL(uri) };
}

/** https, or the loopback: the assertion is a credential. */
function isSafe(uri: string): boolean {
  if (!URL.canParse(uri)) return false;
  const { protocol, hostname } = new URL(uri);
  return protocol === 'https:' || (protocol === 'http:' && hostname === '127.0.0.1');
}

async function signed(email: string, privateKey: string, audience: string): Promise<string> {
  // Loaded on use: only installations with a service account need it.
  const { importPKCS8, SignJWT } = await import('jose');
  return new SignJWT({ scope: SCOPE })
    .setProtectedHeader({ alg: 'RS256', typ: 'JWT' })
    .setIssuer(email)
    .setAudience(audience)
    .setIssuedAt()
    .setExpirationTime(TOKEN_LIFETIME)
    .sign(await importPKCS8(privateKey, 'RS256'));
}

/** Castagnoli's polynomial (RFC 3720, appendix B.4), bits reversed. node:zlib has only CRC-32. */
const POLYNOMIAL = 0x82f63b78;

export function crc32c(bytes: Uint8Array): number {
  let rest = 0xffffffff;
  for (const byte of bytes) {
    rest ^= byte;
    for (let bit = 0; bit < 8; bit++) rest = (rest >>> 1) ^ (rest & 1 ? POLYNOMIAL : 0);
  }
  return (rest ^ 0xffffffff) >>> 0;
}
