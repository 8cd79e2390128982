import { OperatorError } from '../errors.ts';
import { requestKey } from './request.ts';
import type { Cloud } from './source.ts';

const SCOPE = 'https://www.googleapis.com/auth/cloudkms';
const REMEDIES = {
  400: 'KEK_FILE was encrypted with another key, or was changed, or the version of the key is disabled or destroyed: check KEK_GCP_KMS_KEY and KEK_FILE.',
  401: 'The access token is not accepted: check GOOGLE_APPLICATION_CREDENTIALS, and the clock of this machine.',
  403: 'Give this service account the role roles/cloudkms.cryptoKeyDecrypter on KEK_GCP_KMS_KEY, and enable the Cloud KMS API.',
  404: 'There is no such key: check KEK_GCP_KMS_KEY.',
  429: 'The quota of Cloud KMS is spent: wait, or raise it, and start again.',
};

export const GOOGLE: Cloud = {
  name: 'Google Cloud KMS',
  setting: 'KEK_GCP_KMS_KEY',
  library: 'google-auth-library@10',
  secretFile: 'GOOGLE_APPLICATION_CREDENTIALS',
  remedy:
    'Check GOOGLE_APPLICATION_CREDENTIALS (its key may have been deleted), or the service account of this machine, and its clock.',
  decrypt: async (ciphertext, settings, timeouts) => {
    const { KEK_GCP_KMS_KEY: key = '', KEK_GCP_KMS_ENDPOINT: endpoint = '' } = settings;
    const { GoogleAuth } = await import('google-auth-library');
    // Named, because the library would search for it, which takes seconds.
    const auth = new GoogleAuth({ scopes: [SCOPE], projectId: key.split('/')[1]! });
    const request = {
      server: 'Google Cloud KMS',
      setting: 'KEK_GCP_KMS_ENDPOINT',
      url: `${endpoint.replace(/\/+$/, '')}/v1/${key}:decrypt`,
      headers: { authorization: `Bearer ${await auth.getAccessToken()}` },
      body: {
        ciphertext: ciphertext.toString('base64'),
        ciphertextCrc32c: String(crc32c(ciphertext)),
      },
      remedies: REMEDIES,
    };
    const find = (body: Record<'plaintext' | 'plaintextCrc32c', unknown>) => body.plaintext;
    const { key: base64, body } = await requestKey(request, timeouts, find);
    const plaintext = Buffer.from(base64, 'base64');
    // https://cloud.google.com/kms/docs/data-integrity-guidelines
    if (body.plaintextCrc32c === String(crc32c(plaintext))) return plaintext;
    throw new OperatorError(
      'The response of Google Cloud KMS does not have the checksum that it names: it was damaged on its way. Check KEK_GCP_KMS_ENDPOINT, and start again.',
    );
  },
};

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
