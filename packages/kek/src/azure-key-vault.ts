import { blobOf, decryptedKek, readCiphertext } from './file.ts';
import { askCloud, type Deadline, deadlineOf } from './request.ts';
import { explained, KEK_TIMEOUTS, KekError, type KekSource, type PrivateFiles } from './source.ts';

/** Azure Key Vault or Managed HSM. */
export interface AzureKeyVaultSettings {
  /** `https://VAULT.vault.azure.net/keys/NAME/VERSION`. */
  readonly keyId: string;
  readonly algorithm: 'RSA-OAEP-256' | 'A256KW';
  readonly credentials: AzureCredentials;
}

export interface AzureCredentials {
  /** Where Microsoft Entra ID answers. */
  readonly authority: string;
  /** Where the managed identity answers. */
  readonly identityHost: string;
  readonly tenantId: string | undefined;
  readonly clientId: string | undefined;
  /** Used before `secret`. Without both: the managed identity. */
  readonly federatedTokenFile: string | undefined;
  readonly secret: string | undefined;
}

const API_VERSION = '7.4';
const IDENTITY_API_VERSION = '2018-02-01';
const CLOUDS = /\.((?:vault|managedhsm)\.(?:azure\.net|azure\.cn|usgovcloudapi\.net))$/;
const PUBLIC_CLOUD = 'vault.azure.net';
const TOKEN_FILE = 'AZURE_FEDERATED_TOKEN_FILE';

/** @param path file with the wrapped data key, raw or in base64 */
export function kekAzureKeyVault(
  path: string,
  settings: AzureKeyVaultSettings,
  files: PrivateFiles,
  patience = KEK_TIMEOUTS,
): KekSource {
  const by = `Azure key ${settings.keyId}`;
  const read = async () => {
    const wrapped = blobOf(readCiphertext(path, 'KEK_AZURE_KEY_ID', files));
    const deadline = deadlineOf(patience);
    const token = await tokenOf(settings, files, deadline);
    return decryptedKek(await unwrap(wrapped, token, settings, deadline), path, by);
  };
  return { place: `${path}, decrypted by ${by}`, setting: 'KEK_FILE', read };
}

async function unwrap(
  wrapped: Buffer,
  token: string,
  { keyId, algorithm }: AzureKeyVaultSettings,
  deadline: Deadline,
): Promise<Buffer> {
  const { text } = await askCloud(
    {
      server: 'Azure Key Vault',
      setting: 'KEK_AZURE_KEY_ID',
      url: new URL(`${keyId}/unwrapkey?api-version=${API_VERSION}`),
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ alg: algorithm, value: wrapped.toString('base64url') }),
      remedies: {
        400: 'KEK_FILE was wrapped with another key or algorithm, or was changed: check KEK_AZURE_KEY_ID, KEK_AZURE_ALGORITHM and KEK_FILE.',
        401: 'The access token is not accepted: check AZURE_TENANT_ID, which must be the tenant of the vault.',
        403: 'This identity may not unwrap, the firewall of the vault keeps this machine out, or the key is disabled or has expired: give it the role Key Vault Crypto Service Encryption User.',
        404: 'There is no such key or version: check KEK_AZURE_KEY_ID.',
        429: 'The vault gets too many requests: wait, and start again.',
      },
    },
    'value',
    deadline,
  );
  return Buffer.from(text, 'base64url');
}

async function tokenOf(
  { keyId, credentials }: AzureKeyVaultSettings,
  files: PrivateFiles,
  deadline: Deadline,
): Promise<string> {
  const resource = `https://${CLOUDS.exec(new URL(keyId).hostname)?.[1] ?? PUBLIC_CLOUD}`;
  const { federatedTokenFile: file, secret } = credentials;
  if (file === undefined && secret === undefined)
    return machineToken(credentials, resource, deadline);
  const proof =
    file === undefined
      ? { client_secret: secret! }
      : {
          client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
          client_assertion: federatedToken(file, files),
        };
  return applicationToken(credentials, resource, proof, deadline);
}

/** The managed identity, from the instance metadata service. */
async function machineToken(
  { identityHost, clientId }: AzureCredentials,
  resource: string,
  deadline: Deadline,
): Promise<string> {
  const url = new URL('/metadata/identity/oauth2/token', identityHost);
  url.searchParams.set('api-version', IDENTITY_API_VERSION);
  url.searchParams.set('resource', resource);
  if (clientId !== undefined) url.searchParams.set('client_id', clientId);
  const none =
    'This machine does not have the managed identity: assign one, or correct AZURE_CLIENT_ID.';
  const { text } = await askCloud(
    {
      server: 'The managed identity of Azure',
      setting: 'AZURE_CLIENT_SECRET or AZURE_FEDERATED_TOKEN_FILE',
      url,
      headers: { metadata: 'true' },
      remedies: { 400: none, 403: none, 404: none },
    },
    'access_token',
    deadline,
  );
  return text;
}

/** RFC 6749 section 4.4, with a secret or with an assertion (RFC 7523 section 2.2). */
async function applicationToken(
  { authority, tenantId, clientId }: AzureCredentials,
  resource: string,
  proof: Record<string, string>,
  deadline: Deadline,
): Promise<string> {
  const remedy =
    'Check AZURE_TENANT_ID, AZURE_CLIENT_ID, and AZURE_CLIENT_SECRET (it may have expired) or the federated credential of the application.';
  const { text } = await askCloud(
    {
      server: 'Microsoft Entra ID',
      setting: 'AZURE_AUTHORITY_HOST',
      url: new URL(`${authority.replace(/\/+$/, '')}/${tenantId}/oauth2/v2.0/token`),
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({
        grant_type: 'client_credentials',
        client_id: clientId!,
        scope: `${resource}/.default`,
        ...proof,
      }).toString(),
      remedies: { 400: remedy, 401: remedy, 404: remedy },
    },
    'access_token',
    deadline,
  );
  return text;
}

function federatedToken(path: string, { readSecret }: PrivateFiles): string {
  const name = `${TOKEN_FILE} (${path})`;
  const text = explained(
    () => readSecret(path, name).toString().trim(),
    (code) => `${name} cannot be read (${code}). Name a file that this user can read.`,
  );
  if (/^[\w-]+\.[\w-]+\.[\w-]+$/.test(text)) return text;
  throw new KekError(`${name} must contain one JWT. Check that the workload identity writes it.`);
}
