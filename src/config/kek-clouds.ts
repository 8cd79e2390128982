import type { KekSettings } from '#kek';
import {
  alone,
  choice,
  credential,
  file,
  httpsUrl,
  matching,
  problemsOf,
  secret,
  setting,
  type ValuesOf,
} from './setting.ts';

const HTTPS = 'an https:// URL; http:// on the loopback only';

/** Settings of the key services of clouds, with the names that their own programs use. */
export const CLOUD_SETTINGS = {
  KEK_AWS_KMS_KEY_ID: setting(
    undefined,
    'an id, alias or ARN',
    matching(/^[\w:/.-]{1,2048}$/),
    'Key of AWS KMS that decrypts KEK_FILE.',
  ),
  KEK_AWS_KMS_ENDPOINT: secret(
    undefined,
    HTTPS,
    httpsUrl,
    'Endpoint of AWS KMS, such as a VPC endpoint. Not set: the public one.',
  ),
  AWS_REGION: setting(
    undefined,
    'a region',
    matching(/^[a-z0-9-]{1,63}$/),
    'Region of a KEK_AWS_KMS_KEY_ID that is not an ARN.',
  ),
  AWS_ACCESS_KEY_ID: secret(
    undefined,
    'an access key id',
    credential,
    'Credentials for KEK_AWS_KMS_KEY_ID. Not set: those of the machine.',
  ),
  AWS_SECRET_ACCESS_KEY: secret(
    undefined,
    'a secret access key',
    credential,
    'Goes with AWS_ACCESS_KEY_ID.',
  ),
  AWS_SESSION_TOKEN: secret(
    undefined,
    'a session token',
    credential,
    'Goes with a temporary AWS_ACCESS_KEY_ID.',
  ),
  KEK_GCP_KMS_KEY: setting(
    undefined,
    'projects/P/locations/L/keyRings/R/cryptoKeys/K',
    matching(
      /^projects\/[a-z0-9.:-]{1,64}\/locations\/[a-z0-9-]{1,63}\/keyRings\/[\w-]{1,63}\/cryptoKeys\/[\w-]{1,63}$/,
    ),
    'Key of Google Cloud KMS that decrypts KEK_FILE.',
  ),
  KEK_GCP_KMS_ENDPOINT: secret(
    'https://cloudkms.googleapis.com',
    HTTPS,
    httpsUrl,
    'Endpoint of Google Cloud KMS.',
  ),
  GOOGLE_APPLICATION_CREDENTIALS: file(
    'Key of a service account (JSON) for KEK_GCP_KMS_KEY. Not set: the identity of the machine or pod.',
  ),
  GCE_METADATA_HOST: setting(
    'metadata.google.internal',
    'a host, perhaps with a port',
    matching(/^[\w.-]{1,253}(:\d{1,5})?$/),
    'Metadata server of Google Cloud.',
  ),
  KEK_AZURE_KEY_ID: secret(
    undefined,
    'an https:// URL that ends in /keys/NAME/VERSION',
    azureKey,
    'Key of Azure Key Vault or Managed HSM that unwraps KEK_FILE.',
  ),
  KEK_AZURE_ALGORITHM: choice(
    ['RSA-OAEP-256', 'A256KW'],
    'RSA-OAEP-256',
    'Algorithm of KEK_AZURE_KEY_ID; A256KW: Managed HSM only.',
  ),
  AZURE_TENANT_ID: setting(
    undefined,
    'an id or a domain',
    matching(/^[\w.-]{1,253}$/),
    'Tenant of AZURE_CLIENT_ID.',
  ),
  AZURE_CLIENT_ID: setting(
    undefined,
    'an id',
    matching(/^[\w-]{1,128}$/),
    'Application for KEK_AZURE_KEY_ID, or a managed identity assigned by the user.',
  ),
  AZURE_CLIENT_SECRET: secret(
    undefined,
    'a secret',
    credential,
    'Secret of AZURE_CLIENT_ID. Not set: AZURE_FEDERATED_TOKEN_FILE or the managed identity.',
  ),
  AZURE_FEDERATED_TOKEN_FILE: file('Token of a workload identity, read at each use.'),
  AZURE_AUTHORITY_HOST: secret(
    'https://login.microsoftonline.com',
    HTTPS,
    httpsUrl,
    'Microsoft Entra ID.',
  ),
  AZURE_POD_IDENTITY_AUTHORITY_HOST: secret(
    'http://169.254.169.254',
    'an http:// origin',
    matching(/^http:\/\/[\w.-]{1,253}(:\d{1,5})?$/),
    'Managed identity of Azure.',
  ),
} as const;

type CloudValues = ValuesOf<typeof CLOUD_SETTINGS>;

/** Names one version: what a key wrapped is of the version that wrapped it. */
function azureKey(text: string): string | undefined {
  const isKey = /\/\/[^/]+\/keys\/[A-Za-z0-9-]{1,127}\/[0-9a-f]{32}$/.test(text);
  return isKey ? httpsUrl(text) : undefined;
}

export function cloudProblems(values: CloudValues): string[] {
  return [...awsProblems(values), ...azureProblems(values)];
}

function awsProblems(values: CloudValues): string[] {
  if (values.KEK_AWS_KMS_KEY_ID === undefined) {
    return alone(values, ['KEK_AWS_KMS_ENDPOINT'], 'KEK_AWS_KMS_KEY_ID');
  }
  const { AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY } = values;
  const isHalf = (AWS_ACCESS_KEY_ID === undefined) !== (AWS_SECRET_ACCESS_KEY === undefined);
  return [
    ...problemsOf([
      [
        awsRegion(values) === undefined,
        'KEK_AWS_KMS_KEY_ID is set, but AWS_REGION is not: set the region of the key, or name the key by its ARN.',
      ],
      [isHalf, 'AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY go together: set both or none.'],
    ]),
    ...(isHalf || AWS_ACCESS_KEY_ID
      ? []
      : alone(values, ['AWS_SESSION_TOKEN'], 'AWS_ACCESS_KEY_ID')),
  ];
}

function azureProblems(values: CloudValues): string[] {
  const { KEK_AZURE_KEY_ID, AZURE_TENANT_ID, AZURE_CLIENT_ID } = values;
  const { AZURE_CLIENT_SECRET, AZURE_FEDERATED_TOKEN_FILE } = values;
  const hasProof = AZURE_CLIENT_SECRET !== undefined || AZURE_FEDERATED_TOKEN_FILE !== undefined;
  const isNamed = AZURE_TENANT_ID !== undefined && AZURE_CLIENT_ID !== undefined;
  return problemsOf([
    [
      KEK_AZURE_KEY_ID !== undefined && hasProof && !isNamed,
      'AZURE_CLIENT_SECRET and AZURE_FEDERATED_TOKEN_FILE need AZURE_TENANT_ID and AZURE_CLIENT_ID: set both of them, or unset the secret and the file to use the managed identity.',
    ],
  ]);
}

function awsRegion({ KEK_AWS_KMS_KEY_ID: keyId, AWS_REGION: region }: CloudValues) {
  return /^arn:[\w-]+:kms:([a-z0-9-]+):/.exec(keyId ?? '')?.[1] ?? region;
}

/** The key service that decrypts KEK_FILE; empty: none of these. */
export function cloudSettings(
  values: CloudValues,
): Pick<KekSettings, 'awsKms' | 'gcpKms' | 'azure'> {
  if (values.KEK_AWS_KMS_KEY_ID !== undefined) return { awsKms: awsKms(values) };
  if (values.KEK_GCP_KMS_KEY !== undefined) return { gcpKms: gcpKms(values) };
  return values.KEK_AZURE_KEY_ID === undefined ? {} : { azure: azure(values) };
}

function awsKms(values: CloudValues): NonNullable<KekSettings['awsKms']> {
  const { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey } = values;
  const { AWS_SESSION_TOKEN: sessionToken } = values;
  return {
    keyId: values.KEK_AWS_KMS_KEY_ID!,
    region: awsRegion(values)!,
    endpoint: values.KEK_AWS_KMS_ENDPOINT,
    credentials:
      accessKeyId !== undefined && secretAccessKey !== undefined
        ? {
            accessKeyId,
            secretAccessKey,
            ...(sessionToken !== undefined && { sessionToken }),
          }
        : undefined,
  };
}

function gcpKms(values: CloudValues): NonNullable<KekSettings['gcpKms']> {
  return {
    key: values.KEK_GCP_KMS_KEY!,
    endpoint: values.KEK_GCP_KMS_ENDPOINT,
    credentialsFile: values.GOOGLE_APPLICATION_CREDENTIALS,
    metadataHost: values.GCE_METADATA_HOST,
  };
}

function azure(values: CloudValues): NonNullable<KekSettings['azure']> {
  return {
    keyId: values.KEK_AZURE_KEY_ID!,
    algorithm: values.KEK_AZURE_ALGORITHM,
    credentials: {
      authority: values.AZURE_AUTHORITY_HOST,
      identityHost: values.AZURE_POD_IDENTITY_AUTHORITY_HOST,
      tenantId: values.AZURE_TENANT_ID,
      clientId: values.AZURE_CLIENT_ID,
      federatedTokenFile: values.AZURE_FEDERATED_TOKEN_FILE,
      secret: values.AZURE_CLIENT_SECRET,
    },
  };
}
