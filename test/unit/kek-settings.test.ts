import { describe, expect, test } from 'vitest';
import { parseConfig } from '../../src/config/config.ts';
import { KEK_SETTINGS, parseKekSettings } from '../../src/config/kek.ts';
import { OperatorError } from '../../src/errors.ts';

type Environment = Record<string, string>;

function problemsOf(parse: () => unknown): readonly string[] {
  try {
    parse();
    return [];
  } catch (error) {
    expect(error).toBeInstanceOf(OperatorError);
    return (error as OperatorError).problems;
  }
}

const ARN = 'arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab';
const KMS = { KEK_FILE: 'kek', KEK_AWS_KMS_KEY_ID: ARN };
const TRANSIT = {
  KEK_FILE: 'kek',
  KEK_TRANSIT_URL: 'https://vault.example:8200',
  KEK_TRANSIT_KEY: 'standin',
  VAULT_TOKEN_FILE: 'token',
};

const GCP_KEY = 'projects/acme/locations/europe-west3/keyRings/standin/cryptoKeys/kek';
const GCP = { KEK_FILE: 'kek', KEK_GCP_KMS_KEY: GCP_KEY };
const AZURE_KEY = `https://acme.vault.azure.net/keys/kek/${'0a'.repeat(16)}`;
const AZURE = { KEK_FILE: 'kek', KEK_AZURE_KEY_ID: AZURE_KEY };

test.each<[string, Environment, object]>([
  ['a file', { KEK_FILE: 'kek' }, { file: 'kek' }],
  ['a command', { KEK_COMMAND: 'pass show standin' }, { command: 'pass show standin' }],
  [
    'AWS KMS, its region from the ARN',
    { ...KMS, AWS_REGION: 'us-east-1' },
    { file: 'kek', awsKms: { keyId: ARN, region: 'eu-central-1' } },
  ],
  [
    'AWS KMS, all set',
    {
      KEK_FILE: 'kek',
      KEK_AWS_KMS_KEY_ID: 'alias/standin',
      KEK_AWS_KMS_ENDPOINT: 'https://vpce-1.kms.us-east-1.vpce.amazonaws.com',
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: 'AKIA',
      AWS_SECRET_ACCESS_KEY: 's/e+c=',
      AWS_SESSION_TOKEN: 'session',
    },
    {
      file: 'kek',
      awsKms: {
        keyId: 'alias/standin',
        region: 'us-east-1',
        endpoint: 'https://vpce-1.kms.us-east-1.vpce.amazonaws.com',
        credentials: {
          accessKeyId: 'AKIA',
          secretAccessKey: 's/e+c=',
          sessionToken: 'session',
        },
      },
    },
  ],
  [
    'Google Cloud KMS',
    GCP,
    {
      file: 'kek',
      gcpKms: {
        key: GCP_KEY,
        endpoint: 'https://cloudkms.googleapis.com',
        metadataHost: 'metadata.google.internal',
      },
    },
  ],
  [
    'Google Cloud KMS, all set',
    {
      ...GCP,
      KEK_GCP_KMS_ENDPOINT: 'https://cloudkms-eu.p.googleapis.com',
      GOOGLE_APPLICATION_CREDENTIALS: 'account.json',
      GCE_METADATA_HOST: '169.254.169.254:80',
    },
    {
      file: 'kek',
      gcpKms: {
        key: GCP_KEY,
        endpoint: 'https://cloudkms-eu.p.googleapis.com',
        credentialsFile: 'account.json',
        metadataHost: '169.254.169.254:80',
      },
    },
  ],
  [
    'Azure Key Vault',
    AZURE,
    {
      file: 'kek',
      azure: {
        keyId: AZURE_KEY,
        algorithm: 'RSA-OAEP-256',
        credentials: {
          authority: 'https://login.microsoftonline.com',
          identityHost: 'http://169.254.169.254',
        },
      },
    },
  ],
  [
    'a managed HSM, all set',
    {
      KEK_FILE: 'kek',
      KEK_AZURE_KEY_ID: AZURE_KEY.replace('vault', 'managedhsm'),
      KEK_AZURE_ALGORITHM: 'A256KW',
      AZURE_TENANT_ID: 'acme.example',
      AZURE_CLIENT_ID: 'client',
      AZURE_CLIENT_SECRET: 'a~b',
      AZURE_FEDERATED_TOKEN_FILE: 'token',
      AZURE_AUTHORITY_HOST: 'https://login.microsoftonline.us/',
      AZURE_POD_IDENTITY_AUTHORITY_HOST: 'http://127.0.0.1:40342',
    },
    {
      file: 'kek',
      azure: {
        keyId: AZURE_KEY.replace('vault', 'managedhsm'),
        algorithm: 'A256KW',
        credentials: {
          authority: 'https://login.microsoftonline.us/',
          identityHost: 'http://127.0.0.1:40342',
          tenantId: 'acme.example',
          clientId: 'client',
          federatedTokenFile: 'token',
          secret: 'a~b',
        },
      },
    },
  ],
  [
    'transit',
    TRANSIT,
    {
      file: 'kek',
      transit: {
        url: TRANSIT.KEK_TRANSIT_URL,
        key: 'standin',
        mount: 'transit',
        tokenFile: 'token',
      },
    },
  ],
  [
    'transit, all set',
    {
      ...TRANSIT,
      KEK_TRANSIT_MOUNT: 'eu/transit',
      KEK_TRANSIT_NAMESPACE: 'team/a',
      KEK_TRANSIT_CA_FILE: 'ca.pem',
      VAULT_TOKEN: 'hvs.x',
    },
    {
      file: 'kek',
      transit: {
        url: TRANSIT.KEK_TRANSIT_URL,
        key: 'standin',
        mount: 'eu/transit',
        namespace: 'team/a',
        caFile: 'ca.pem',
        tokenFile: 'token',
        token: 'hvs.x',
      },
    },
  ],
])('%s is read, alone and in the configuration, as plain data', (_, environment, expected) => {
  const settings = parseKekSettings(environment);
  expect(settings).toEqual(expected);
  expect(JSON.parse(JSON.stringify(settings))).toEqual(expected);
  const database = { DATABASE_URL: 'postgres://db/x' };
  expect(parseConfig({ ...database, ...environment }).vault.kek).toMatchObject(expected);
});

test('the settings of other programs alone name no source, and are no problem', () => {
  const ambient = {
    ...{ AWS_REGION: 'eu-west-1', AWS_ACCESS_KEY_ID: 'AKIA', VAULT_TOKEN: 'hvs.x' },
    ...{ GOOGLE_APPLICATION_CREDENTIALS: 'account.json', AZURE_CLIENT_SECRET: 's' },
  };
  expect(parseConfig(ambient).vault.kek).toEqual({ file: undefined });
  expect(problemsOf(() => parseKekSettings(ambient))).toEqual([
    'No key-encryption key is named: set KEK_FILE or KEK_COMMAND.',
  ]);
});

describe('contradictions name every setting that is part of them', () => {
  test.each<[Environment, string[][]]>([
    [{ KEK_FILE: 'kek', KEK_COMMAND: 'c' }, [['KEK_FILE', 'KEK_COMMAND']]],
    [
      { ...KMS, KEK_TRANSIT_URL: 'https://v' },
      [
        ['KEK_AWS_KMS_KEY_ID', 'KEK_TRANSIT_URL'],
        ['KEK_TRANSIT_URL', 'KEK_TRANSIT_KEY'],
        ['KEK_TRANSIT_URL', 'VAULT_TOKEN_FILE', 'VAULT_TOKEN'],
      ],
    ],
    [
      { ...GCP, KEK_AZURE_KEY_ID: AZURE_KEY, KEK_AWS_KMS_KEY_ID: ARN },
      [['KEK_AWS_KMS_KEY_ID', 'KEK_GCP_KMS_KEY', 'KEK_AZURE_KEY_ID']],
    ],
    [{ KEK_GCP_KMS_KEY: GCP_KEY }, [['KEK_GCP_KMS_KEY', 'KEK_FILE']]],
    [{ KEK_AZURE_KEY_ID: AZURE_KEY, KEK_COMMAND: 'c' }, [['KEK_AZURE_KEY_ID', 'KEK_COMMAND']]],
    ...[
      { AZURE_CLIENT_SECRET: 's' },
      { AZURE_FEDERATED_TOKEN_FILE: 't', AZURE_CLIENT_ID: 'c' },
    ].map((credentials): [Environment, string[][]] => [
      { ...AZURE, ...credentials } as Environment,
      [['AZURE_CLIENT_SECRET', 'AZURE_TENANT_ID', 'AZURE_CLIENT_ID']],
    ]),
    [{ KEK_AWS_KMS_KEY_ID: ARN }, [['KEK_AWS_KMS_KEY_ID', 'KEK_FILE']]],
    [{ KEK_AWS_KMS_KEY_ID: ARN, KEK_COMMAND: 'c' }, [['KEK_AWS_KMS_KEY_ID', 'KEK_COMMAND']]],
    [{ ...KMS, KEK_AWS_KMS_KEY_ID: 'alias/x' }, [['KEK_AWS_KMS_KEY_ID', 'AWS_REGION']]],
    [{ ...KMS, AWS_ACCESS_KEY_ID: 'a' }, [['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY']]],
    [{ ...KMS, AWS_SESSION_TOKEN: 'a' }, [['AWS_SESSION_TOKEN', 'AWS_ACCESS_KEY_ID']]],
    [
      { KEK_FILE: 'k', KEK_AWS_KMS_ENDPOINT: 'https://k' },
      [['KEK_AWS_KMS_ENDPOINT', 'KEK_AWS_KMS_KEY_ID']],
    ],
    [{ ...TRANSIT, KEK_FILE: '' }, [['KEK_TRANSIT_URL', 'KEK_FILE']]],
    [{ ...TRANSIT, KEK_TRANSIT_KEY: '' }, [['KEK_TRANSIT_URL', 'KEK_TRANSIT_KEY']]],
    [
      { ...TRANSIT, VAULT_TOKEN_FILE: '' },
      [['KEK_TRANSIT_URL', 'VAULT_TOKEN_FILE', 'VAULT_TOKEN']],
    ],
    [
      { KEK_FILE: 'k', KEK_TRANSIT_KEY: 'k', KEK_TRANSIT_NAMESPACE: 'n', KEK_TRANSIT_CA_FILE: 'c' },
      ['KEY', 'NAMESPACE', 'CA_FILE'].map((name) => [`KEK_TRANSIT_${name}`, 'KEK_TRANSIT_URL']),
    ],
  ])('%j', (environment, expected) => {
    const problems = problemsOf(() => parseConfig(environment));
    expect(problemsOf(() => parseKekSettings(environment))).toEqual(problems);
    expect(problems).toHaveLength(expected.length);
    problems.forEach((problem, i) => {
      for (const name of expected[i]!) expect(problem).toMatch(new RegExp(`\\b${name}\\b`));
      expect(problem).toMatch(/ (Unset|unset|[Ss]et|name) /);
    });
  });

  test('are not looked for while one of the settings is refused', () => {
    const environment = {
      ...TRANSIT,
      KEK_TRANSIT_URL: 'vault.example',
      DATABASE_URL: 'postgres://d',
    };
    expect(problemsOf(() => parseConfig(environment))).toEqual([
      'KEK_TRANSIT_URL is not an https:// URL; http:// on the loopback only.',
    ]);
  });

  test('DATABASE_URL with a source that is not complete is one problem, not two', () => {
    const environment = { DATABASE_URL: 'postgres://d', KEK_AWS_KMS_KEY_ID: ARN };
    expect(problemsOf(() => parseConfig(environment))).toHaveLength(1);
  });
});

/** What each setting takes, and what it refuses. */
const BOUNDS: Record<string, { takes: string[]; refuses: string[] }> = {
  KEK_AWS_KMS_KEY_ID: {
    takes: [ARN, 'alias/aws_Standin-1', '1234abcd-12ab-34cd-56ef-1234567890ab'],
    refuses: ['two words', 'a\n', 'a'.repeat(2049), 'é'],
  },
  KEK_AWS_KMS_ENDPOINT: {
    takes: ['https://kms.example', 'http://127.0.0.1:4566'],
    refuses: ['kms.example', 'http://kms.example', 'https://u:p@kms.example', 'https://k?x=1'],
  },
  AWS_REGION: { takes: ['eu-central-1', 'us-gov-west-1'], refuses: ['EU', 'eu central', '../x'] },
  AWS_ACCESS_KEY_ID: { takes: ['AKIA'], refuses: ['a b', 'a\n', 'é'] },
  AWS_SECRET_ACCESS_KEY: { takes: ['a/b+c='], refuses: ['a b', 'a\r'] },
  AWS_SESSION_TOKEN: { takes: ['x'.repeat(8192)], refuses: ['a b', 'x'.repeat(8193)] },
  KEK_GCP_KMS_KEY: {
    takes: [GCP_KEY, GCP_KEY.replace('acme', 'example.com:acme-1')],
    refuses: [
      `/${GCP_KEY}`,
      `${GCP_KEY}/cryptoKeyVersions/1`,
      GCP_KEY.replace('kek', 'a b'),
      'kek',
    ],
  },
  KEK_GCP_KMS_ENDPOINT: {
    takes: ['https://cloudkms.googleapis.com/', 'http://127.0.0.1:1'],
    refuses: ['http://cloudkms.googleapis.com', 'cloudkms.googleapis.com'],
  },
  GCE_METADATA_HOST: {
    takes: ['metadata.google.internal', '169.254.169.254:80'],
    refuses: ['http://metadata', 'a/b', 'a b', 'u@h'],
  },
  KEK_AZURE_KEY_ID: {
    takes: [AZURE_KEY, `http://127.0.0.1:1/keys/K-1/${'0'.repeat(32)}`],
    refuses: [
      'https://acme.vault.azure.net/keys/kek',
      AZURE_KEY.replace('https', 'http'),
      AZURE_KEY.replace('/keys', '/secrets'),
      `${AZURE_KEY}/`,
      AZURE_KEY.replace('//', '//u:p@'),
    ],
  },
  KEK_AZURE_ALGORITHM: { takes: ['RSA-OAEP-256', 'A256KW'], refuses: ['RSA-OAEP', 'a256kw'] },
  AZURE_TENANT_ID: { takes: ['acme.example', 'a-1'], refuses: ['a/b', 'a b', '../x'] },
  AZURE_CLIENT_ID: { takes: ['a-1'], refuses: ['a/b', 'a b', 'a&b'] },
  AZURE_CLIENT_SECRET: { takes: ['a~8Q'], refuses: ['a b', 'a\n'] },
  AZURE_AUTHORITY_HOST: {
    takes: ['https://login.microsoftonline.com/'],
    refuses: ['http://login.microsoftonline.com', 'login.microsoftonline.com', 'https://a?b'],
  },
  AZURE_POD_IDENTITY_AUTHORITY_HOST: {
    takes: ['http://169.254.169.254', 'http://127.0.0.1:40342'],
    refuses: ['169.254.169.254', 'http://a/b', 'http://u@h'],
  },
  KEK_TRANSIT_URL: {
    takes: ['https://v:8200/', 'https://v/prefix', 'http://localhost:8200', 'http://[::1]:1'],
    refuses: [
      'http://vault:8200',
      'http://127.0.0.1.evil',
      'https://u:p@v',
      'https://v#x',
      'v:8200',
    ],
  },
  KEK_TRANSIT_KEY: { takes: ['a', 'Standin_1.x-y'], refuses: ['a/b', '..', '.a', 'a b', 'é'] },
  KEK_TRANSIT_MOUNT: {
    takes: ['transit', 'a/b.c/d-e'],
    refuses: ['/transit', 'a/', 'a//b', '../sys', 'a/./b', 'a?b', 'a b'],
  },
  KEK_TRANSIT_NAMESPACE: { takes: ['team/a'], refuses: ['team/a/', 'a\nb'] },
  VAULT_TOKEN: { takes: ['hvs.CAESI-_'], refuses: ['a b', 'a\nx: y', 'é'] },
};
const SECRETS =
  /^(AWS_(ACCESS|SECRET|SESSION)_.*|AZURE_(CLIENT_SECRET|AUTHORITY_HOST)|VAULT_TOKEN|KEK_.*_(URL|ENDPOINT)|KEK_AZURE_KEY_ID)$/;

describe.each(Object.entries(BOUNDS))('%s', (name, { takes, refuses }) => {
  const bases = { KEK_TRANSIT: TRANSIT, VAULT: TRANSIT, KEK_GCP: GCP, GCE: GCP, KEK_AZURE: AZURE };
  const base = Object.entries(bases).find(([prefix]) => name.startsWith(prefix))?.[1] ?? KMS;
  const rest = {
    AWS_ACCESS_KEY_ID: 'AKIA',
    AWS_SECRET_ACCESS_KEY: 's',
    AWS_REGION: 'eu-central-1',
  };

  test.each(takes)('takes %j', (text) => {
    expect(problemsOf(() => parseConfig({ ...rest, ...base, [name]: text }))).toEqual([]);
  });

  test.each(refuses)('refuses %j with its name and what it takes', (text) => {
    const problems = problemsOf(() => parseConfig({ ...rest, ...base, [name]: text }));
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatch(new RegExp(`^${name} is`));
    expect(problems[0]).toContain(KEK_SETTINGS[name as keyof typeof KEK_SETTINGS].accepts);
    if (SECRETS.test(name)) expect(problems[0]).toMatch(/^\w+ is not an? /);
  });
});

test('every setting that can be refused has its bounds above', () => {
  const freeText = [
    ...['KEK_FILE', 'KEK_COMMAND', 'KEK_TRANSIT_CA_FILE', 'VAULT_TOKEN_FILE'],
    ...['GOOGLE_APPLICATION_CREDENTIALS', 'AZURE_FEDERATED_TOKEN_FILE'],
  ];
  expect([...Object.keys(BOUNDS), ...freeText].toSorted()).toEqual(
    Object.keys(KEK_SETTINGS).toSorted(),
  );
});
