import { describe, expect, test } from 'vitest';
import { parseConfig } from '../../src/config/config.ts';
import { parseKekSettings } from '../../src/config/kek.ts';
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

test.each<[string, Environment]>([
  ['a file', { KEK_FILE: 'kek' }],
  ['a command', { KEK_COMMAND: 'pass show standin' }],
  ['AWS KMS', { ...KMS, KEK_AWS_KMS_ENDPOINT: 'https://kms.example' }],
  ['Google Cloud KMS', { ...GCP, KEK_GCP_KMS_ENDPOINT: 'https://kms.example' }],
  ['Azure Key Vault', { ...AZURE, KEK_AZURE_ALGORITHM: 'A256KW' }],
  ['transit', { ...TRANSIT, KEK_TRANSIT_MOUNT: 'eu/transit', KEK_TRANSIT_NAMESPACE: 'team/a' }],
  ['transit, with its defaults', { ...TRANSIT, VAULT_TOKEN: 'hvs.x', KEK_TRANSIT_CA_FILE: 'ca' }],
])('%s is read, alone and in the configuration, as plain data', (_, environment) => {
  const settings = parseKekSettings(environment);
  expect(settings).toMatchObject({ KEK_TRANSIT_MOUNT: 'transit', ...environment, environment });
  expect(JSON.parse(JSON.stringify(settings))).toEqual(settings);
  const database = { DATABASE_URL: 'postgres://db/x' };
  expect(parseConfig({ ...database, ...environment }).vault.kek).toMatchObject(environment);
});

test('the settings of other programs alone name no source, and are no problem', () => {
  const ambient = { AWS_REGION: 'eu-west-1', AZURE_CLIENT_SECRET: 's', VAULT_TOKEN: 'hvs.x' };
  expect(parseConfig(ambient).vault.kek).toMatchObject({ KEK_FILE: undefined });
  expect(problemsOf(() => parseKekSettings(ambient))).toEqual([
    'No key-encryption key is named: set KEK_FILE or KEK_COMMAND.',
  ]);
});

test.each([KMS, { KEK_COMMAND: 'c' }])(
  '%j gets the environment without the secrets of other parts',
  (settings) => {
    const wanted = { AWS_PROFILE: 'standin', VAULT_TOKEN: 'hvs.x', PORT: '8080' };
    const environment = { ...wanted, OPS_TOKEN: 'o'.repeat(16), REDIS_URL: 'redis://:s@h' };
    expect(parseConfig({ ...environment, ...settings }).vault.kek.environment).toEqual({
      ...wanted,
      ...settings,
    });
  },
);

describe('contradictions name every setting that is part of them', () => {
  const AWS_AND_COMMAND = { KEK_AWS_KMS_KEY_ID: ARN, KEK_COMMAND: 'c' };
  const OF_TRANSIT = { KEK_TRANSIT_KEY: 'k', KEK_TRANSIT_NAMESPACE: 'n', KEK_TRANSIT_CA_FILE: 'c' };
  test.each<[Environment, ...problems: string[]]>([
    [{ KEK_FILE: 'kek', KEK_COMMAND: 'c' }, 'KEK_FILE KEK_COMMAND'],
    [
      { ...KMS, KEK_TRANSIT_URL: 'https://v' },
      ...['KEK_AWS_KMS_KEY_ID KEK_TRANSIT_URL', 'KEK_TRANSIT_URL KEK_TRANSIT_KEY'],
      'KEK_TRANSIT_URL VAULT_TOKEN_FILE VAULT_TOKEN',
    ],
    [
      { ...GCP, KEK_AZURE_KEY_ID: AZURE_KEY, KEK_AWS_KMS_KEY_ID: ARN },
      'KEK_AWS_KMS_KEY_ID KEK_GCP_KMS_KEY KEK_AZURE_KEY_ID',
    ],
    [{ KEK_FILE: '', KEK_GCP_KMS_KEY: GCP_KEY }, 'KEK_GCP_KMS_KEY KEK_FILE'],
    [{ KEK_AZURE_KEY_ID: AZURE_KEY, KEK_COMMAND: 'c' }, 'KEK_AZURE_KEY_ID KEK_COMMAND'],
    [{ KEK_FILE: '', KEK_AWS_KMS_KEY_ID: ARN }, 'KEK_AWS_KMS_KEY_ID KEK_FILE'],
    [AWS_AND_COMMAND, 'KEK_AWS_KMS_KEY_ID KEK_COMMAND'],
    [{ KEK_AWS_KMS_ENDPOINT: 'https://k' }, 'KEK_AWS_KMS_ENDPOINT KEK_AWS_KMS_KEY_ID'],
    [{ ...TRANSIT, KEK_FILE: '' }, 'KEK_TRANSIT_URL KEK_FILE'],
    [{ ...TRANSIT, KEK_TRANSIT_KEY: '' }, 'KEK_TRANSIT_URL KEK_TRANSIT_KEY'],
    [{ ...TRANSIT, VAULT_TOKEN_FILE: '' }, 'KEK_TRANSIT_URL VAULT_TOKEN_FILE VAULT_TOKEN'],
    [OF_TRANSIT, ...Object.keys(OF_TRANSIT).map((name) => `${name} KEK_TRANSIT_URL`)],
  ])('%j: %s', (settings, ...expected) => {
    const environment = 'KEK_COMMAND' in settings ? settings : { KEK_FILE: 'kek', ...settings };
    const problems = problemsOf(() => parseConfig(environment));
    expect(problemsOf(() => parseKekSettings(environment))).toEqual(problems);
    expect(problems).toHaveLength(expected.length);
    problems.forEach((problem, i) => {
      for (const name of expected[i]!.split(' '))
        expect(problem).toMatch(new RegExp(`\\b${name}\\b`));
      expect(problem).toMatch(/ (Unset|unset|[Ss]et|name) /);
    });
  });

  test('are not looked for while one of the settings is refused', () => {
    const wrong = { KEK_TRANSIT_URL: 'vault.example', DATABASE_URL: 'postgres://d' };
    const environment = { ...TRANSIT, ...wrong };
    expect(problemsOf(() => parseConfig(environment))).toEqual([
      'KEK_TRANSIT_URL is not an https:// URL; http:// on the loopback only.',
    ]);
  });

  test('DATABASE_URL with a source that is not complete is one problem, not two', () => {
    const environment = { DATABASE_URL: 'postgres://d', KEK_AWS_KMS_KEY_ID: ARN };
    expect(problemsOf(() => parseConfig(environment))).toHaveLength(1);
  });
});
