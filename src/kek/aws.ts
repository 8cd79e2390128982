import { type Cloud, KEK_ATTEMPTS } from './source.ts';

/** KMS authenticates it with the ciphertext, and a key policy can require it. */
const ENCRYPTION_CONTEXT = { service: 'standin' };
const ENABLE = 'Enable KEK_AWS_KMS_KEY_ID, or cancel its deletion.';

export const AWS: Cloud = {
  name: 'AWS KMS',
  setting: 'KEK_AWS_KMS_KEY_ID',
  library: '@aws-sdk/client-kms@3',
  remedies: {
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
  },
  remedy:
    'Check the network, KEK_AWS_KMS_ENDPOINT and AWS_REGION; AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or the role of this machine; and its clock.',
  decrypt: async (ciphertext, settings, { totalMs, attemptMs }) => {
    const { KEK_AWS_KMS_KEY_ID: key = '', KEK_AWS_KMS_ENDPOINT: endpoint } = settings;
    const { KMSClient, DecryptCommand } = await import('@aws-sdk/client-kms');
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
    const abortSignal = AbortSignal.timeout(totalMs);
    const { Plaintext: plaintext } = await client.send(command, { abortSignal });
    return Buffer.from(plaintext ?? []);
  },
};
