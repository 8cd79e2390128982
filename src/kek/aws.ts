import { OperatorError } from '../errors.ts';
import { type Cloud, loaded } from './cloud.ts';
import { KEK_ATTEMPTS } from './source.ts';

const SETTING = 'KEK_AWS_KMS_KEY_ID';
const PACKAGE = '@aws-sdk/client-kms@3';
/** KMS authenticates it with the ciphertext, and a key policy can require it. */
const ENCRYPTION_CONTEXT = { service: 'standin' };

export const AWS: Cloud = {
  name: 'AWS KMS',
  setting: SETTING,
  decrypt: async (ciphertext, settings, { totalMs, attemptMs }) => {
    const { KEK_AWS_KMS_KEY_ID: key = '', KEK_AWS_KMS_ENDPOINT: endpoint } = settings;
    const sdk = import('@aws-sdk/client-kms');
    const { KMSClient, DecryptCommand } = await loaded(SETTING, PACKAGE, sdk);
    const region = /^arn:[\w-]+:kms:([a-z0-9-]+):/.exec(key)?.[1];
    const client = new KMSClient({
      ...(region && { region }),
      ...(endpoint && { endpoint }),
      maxAttempts: KEK_ATTEMPTS,
      requestHandler: {
        connectionTimeout: attemptMs,
        requestTimeout: attemptMs,
        throwOnRequestTimeout: true,
      },
    });
    const command = new DecryptCommand({
      CiphertextBlob: ciphertext,
      KeyId: key,
      EncryptionContext: ENCRYPTION_CONTEXT,
    });
    try {
      const abortSignal = AbortSignal.timeout(totalMs);
      const { Plaintext: plaintext } = await client.send(command, { abortSignal });
      return Buffer.from(plaintext ?? []);
    } catch (error) {
      throw new OperatorError(explain(error, key, endpoint ?? 'its public endpoint'));
    }
  },
};

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
  CredentialsProviderError: `There are no credentials. ${CREDENTIALS}`,
};

function explain(error: unknown, key: string, where: string): string {
  const { name, code, $metadata } = error as Error & {
    code?: string;
    $metadata?: { httpStatusCode?: number };
  };
  const failed = `AWS KMS did not decrypt the key-encryption key with ${key}`;
  if (Object.hasOwn(REMEDIES, name)) return `${failed} (${name}). ${REMEDIES[name]}`;
  if ($metadata?.httpStatusCode !== undefined) {
    return `${failed} (${name}, status ${$metadata.httpStatusCode}, from ${where}). ${CREDENTIALS} If they are right, look this code up in the documentation of AWS KMS.`;
  }
  return `AWS KMS cannot be reached at ${where} (${code ?? name}). Check the network, KEK_AWS_KMS_ENDPOINT and AWS_REGION, and start again.`;
}
