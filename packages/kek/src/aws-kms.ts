import { blobOf, decryptedKek, readCiphertext } from './file.ts';
import {
  KEK_ATTEMPTS,
  KEK_TIMEOUTS,
  KekError,
  type KekSource,
  type KekTimeouts,
  type PrivateFiles,
} from './source.ts';

export interface AwsKmsSettings {
  /** Id, alias or ARN. */
  readonly keyId: string;
  readonly region: string;
  /** undefined: the public endpoint of the region. */
  readonly endpoint: string | undefined;
  /**
   * undefined: the credentials that the AWS SDK finds (profile, web identity, container, instance).
   */
  readonly credentials: AwsCredentials | undefined;
}

interface AwsCredentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string;
}

const PACKAGE = '@aws-sdk/client-kms';
/** KMS authenticates it with the ciphertext, and a key policy can require it. */
const ENCRYPTION_CONTEXT = { service: 'standin' };

/** @param path file with the ciphertext of a data key, raw from KMS or in base64 */
export function kekAwsKms(
  path: string,
  settings: AwsKmsSettings,
  files: PrivateFiles,
  patience = KEK_TIMEOUTS,
): KekSource {
  const by = `AWS KMS key ${settings.keyId} in ${settings.region}`;
  const read = async () => {
    const ciphertext = blobOf(readCiphertext(path, 'KEK_AWS_KMS_KEY_ID', files));
    const decrypting = decrypt(ciphertext, settings, patience);
    return decryptedKek(await within(patience, decrypting), path, by);
  };
  return { place: `${path}, decrypted by ${by}`, setting: 'KEK_FILE', read };
}

async function decrypt(
  ciphertext: Buffer,
  settings: AwsKmsSettings,
  patience: KekTimeouts,
): Promise<Buffer> {
  const { KMSClient, DecryptCommand } = await loadSdk();
  const { region, endpoint, credentials, keyId } = settings;
  const client = new KMSClient({
    region,
    ...(endpoint && { endpoint }),
    ...(credentials && { credentials }),
    maxAttempts: KEK_ATTEMPTS,
    requestHandler: {
      connectionTimeout: patience.attemptMs,
      requestTimeout: patience.attemptMs,
      throwOnRequestTimeout: true,
    },
  });
  const command = new DecryptCommand({
    CiphertextBlob: ciphertext,
    KeyId: keyId,
    EncryptionContext: ENCRYPTION_CONTEXT,
  });
  try {
    const abortSignal = AbortSignal.timeout(patience.totalMs);
    const { Plaintext: plaintext } = await client.send(command, { abortSignal });
    return Buffer.from(plaintext ?? []);
  } catch (error) {
    throw new KekError(explain(error, settings));
  } finally {
    client.destroy();
  }
}

/** Loaded on use: only installations with AWS KMS have the package. */
async function loadSdk(): Promise<typeof import('@aws-sdk/client-kms')> {
  try {
    return await import('@aws-sdk/client-kms');
  } catch (error) {
    throw new KekError(
      `KEK_AWS_KMS_KEY_ID needs the package ${PACKAGE}, which cannot be loaded (${(error as NodeJS.ErrnoException).code}). Run: npm install --no-save --save-prod ${PACKAGE}@3`,
    );
  }
}

/** A time-out of our own, because the SDK's search for credentials cannot be aborted. */
async function within<T>({ totalMs }: KekTimeouts, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const problem = `AWS KMS, or the source of its credentials, did not answer within ${totalMs / 1_000} s. Check the network, KEK_AWS_KMS_ENDPOINT and the credentials of this machine, and start again.`;
    timer = setTimeout(() => reject(new KekError(problem)), totalMs);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

const CREDENTIALS =
  'Check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or the role of this machine, and its clock.';
const ENABLE = 'Enable KEK_AWS_KMS_KEY_ID, or cancel its deletion.';

/** What to do about each error code of KMS. The texts of its errors are never shown. */
const REMEDIES: Record<string, string> = {
  AccessDeniedException:
    'Allow kms:Decrypt on KEK_AWS_KMS_KEY_ID, with the encryption context service=standin, to the credentials of this service.',
  NotFoundException: 'There is no such key: check KEK_AWS_KMS_KEY_ID and AWS_REGION.',
  IncorrectKeyException:
    'KEK_FILE was encrypted with another key: set KEK_AWS_KMS_KEY_ID to that one, or KEK_FILE to the right file.',
  InvalidCiphertextException:
    'KEK_FILE is not a ciphertext of KMS, was changed, or was made without --encryption-context service=standin.',
  DisabledException: ENABLE,
  KMSInvalidStateException: ENABLE,
  InvalidKeyUsageException:
    'KEK_AWS_KMS_KEY_ID must be a symmetric key for encryption and decryption.',
  InvalidArnException: 'Check the ARN in KEK_AWS_KMS_KEY_ID.',
  CredentialsProviderError: `There are no credentials. ${CREDENTIALS}`,
  UnrecognizedClientException: CREDENTIALS,
  InvalidSignatureException: CREDENTIALS,
  IncompleteSignature: CREDENTIALS,
  InvalidClientTokenId: CREDENTIALS,
  MissingAuthenticationToken: CREDENTIALS,
  ExpiredTokenException: CREDENTIALS,
};

function explain(error: unknown, { keyId, region, endpoint }: AwsKmsSettings): string {
  const { name, code, $metadata } = error as Error & {
    code?: string;
    $metadata?: { httpStatusCode?: number };
  };
  const where = endpoint ?? `the endpoint of ${region}`;
  const failed = `AWS KMS did not decrypt the key-encryption key with ${keyId}`;
  const remedy = Object.hasOwn(REMEDIES, name) ? REMEDIES[name] : undefined;
  if (remedy !== undefined) return `${failed} (${name}). ${remedy}`;
  if ($metadata?.httpStatusCode !== undefined) {
    return `${failed} (${name}, status ${$metadata.httpStatusCode}, from ${where}). Start again. If it fails again, look this code up in the documentation of AWS KMS.`;
  }
  return `AWS KMS cannot be reached at ${where} (${code ?? name}). Check the network, KEK_AWS_KMS_ENDPOINT and AWS_REGION, and start again.`;
}
