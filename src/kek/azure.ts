import { requestKey } from './request.ts';
import type { Cloud } from './source.ts';

const API_VERSION = '7.4';
const CLOUDS = /\.((?:vault|managedhsm)\.(?:azure\.net|azure\.cn|usgovcloudapi\.net))$/;
const PUBLIC_CLOUD = 'vault.azure.net';
const REMEDIES = {
  400: 'KEK_FILE was wrapped with another key or algorithm, or was changed: check KEK_AZURE_KEY_ID, KEK_AZURE_ALGORITHM and KEK_FILE.',
  401: 'The access token is not accepted: check AZURE_TENANT_ID, which must be the tenant of the vault.',
  403: 'This identity may not unwrap, the firewall of the vault keeps this machine out, or the key is disabled or has expired: give it the role Key Vault Crypto Service Encryption User.',
  404: 'There is no such key or version: check KEK_AZURE_KEY_ID.',
  429: 'The vault gets too many requests: wait, and start again.',
};

/** Also Managed HSM. */
export const AZURE: Cloud = {
  name: 'Azure Key Vault',
  setting: 'KEK_AZURE_KEY_ID',
  library: '@azure/identity@4',
  secretFile: 'AZURE_FEDERATED_TOKEN_FILE',
  remedy:
    'Check AZURE_TENANT_ID, AZURE_CLIENT_ID, and AZURE_CLIENT_SECRET (it may have expired) or AZURE_FEDERATED_TOKEN_FILE, or assign a managed identity to this machine.',
  decrypt: async (wrapped, settings, timeouts) => {
    const { KEK_AZURE_KEY_ID: key = '', KEK_AZURE_ALGORITHM: alg } = settings;
    const { DefaultAzureCredential } = await import('@azure/identity');
    // Discovery would ask the public cloud whether AZURE_AUTHORITY_HOST is known.
    const credential = new DefaultAzureCredential({ disableInstanceDiscovery: true });
    const scope = `https://${CLOUDS.exec(new URL(key).hostname)?.[1] ?? PUBLIC_CLOUD}/.default`;
    const { token } = await credential.getToken(scope);
    const request = {
      server: 'Azure Key Vault',
      setting: 'KEK_AZURE_KEY_ID',
      url: `${key}/unwrapkey?api-version=${API_VERSION}`,
      headers: { authorization: `Bearer ${token}` },
      body: { alg, value: wrapped.toString('base64url') },
      remedies: REMEDIES,
    };
    const find = (body: { value: unknown }) => body.value;
    return Buffer.from((await requestKey(request, timeouts, find)).key, 'base64url');
  },
};
