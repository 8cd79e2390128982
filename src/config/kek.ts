import type { KekSettings } from '#kek';
import { OperatorError } from '../errors.ts';
import {
  credential,
  file,
  httpsUrl,
  matching,
  parseSettings,
  path,
  problemsOf,
  setting,
  text,
  type ValuesOf,
} from './setting.ts';

const HTTPS = 'an https:// URL; http:// on the loopback only';

/** Settings that say where the key-encryption key is. */
export const KEK_SETTINGS = {
  KEK_FILE: file(
    'The KEK: 32 bytes or 64 hex digits; with KEK_AWS_KMS_KEY_ID or KEK_TRANSIT_URL, its ciphertext. Not set: `kek` in DATA_DIR, except with DATABASE_URL.',
  ),
  KEK_COMMAND: setting(
    undefined,
    'a command line',
    text,
    'Command that prints the KEK, run by `sh`, instead of KEK_FILE.',
  ),
  KEK_AWS_KMS_KEY_ID: setting(
    undefined,
    'an id, alias or ARN',
    matching(/^[\w:/.-]{1,2048}$/),
    'Key of AWS KMS that decrypts KEK_FILE.',
  ),
  KEK_AWS_KMS_ENDPOINT: setting(
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
  AWS_ACCESS_KEY_ID: setting(
    undefined,
    'an access key id',
    credential,
    'Credentials for KEK_AWS_KMS_KEY_ID. Not set: those of the machine.',
  ),
  AWS_SECRET_ACCESS_KEY: setting(
    undefined,
    'a secret access key',
    credential,
    'Goes with AWS_ACCESS_KEY_ID.',
  ),
  AWS_SESSION_TOKEN: setting(
    undefined,
    'a session token',
    credential,
    'Goes with a temporary AWS_ACCESS_KEY_ID.',
  ),
  KEK_TRANSIT_URL: setting(
    undefined,
    HTTPS,
    httpsUrl,
    'HashiCorp Vault or OpenBao whose transit engine decrypts KEK_FILE.',
  ),
  KEK_TRANSIT_KEY: setting(
    undefined,
    'a name of letters, digits, `_`, `.` and `-`',
    matching(/^\w[\w.-]{0,127}$/),
    'Name of the transit key.',
  ),
  KEK_TRANSIT_MOUNT: setting('transit', 'a path', path, 'Where the transit engine is mounted.'),
  KEK_TRANSIT_NAMESPACE: setting(undefined, 'a path', path, 'Namespace of the transit engine.'),
  KEK_TRANSIT_CA_FILE: file('Authorities (PEM) for KEK_TRANSIT_URL. Not set: those of Node.'),
  VAULT_TOKEN_FILE: file('Token for KEK_TRANSIT_URL, read at each use.'),
  VAULT_TOKEN: setting(
    undefined,
    'a token',
    credential,
    'Token for KEK_TRANSIT_URL, without VAULT_TOKEN_FILE.',
  ),
} as const;

/** Parsed, but not yet checked for contradictions. */
export type KekValues = ValuesOf<typeof KEK_SETTINGS>;

/**
 * The KEK source that an environment names, for example a file in `.env` form with a new KEK.
 * @throws OperatorError with every problem, also when no source is named
 */
export function parseKekSettings(environment: NodeJS.Dict<string>): KekSettings {
  const { values, problems: refused } = parseSettings(KEK_SETTINGS, environment);
  const problems = [...refused.values(), ...kekProblems(values, refused)];
  if (problems.length === 0 && !namesSource(values)) {
    problems.push('No key-encryption key is named: set KEK_FILE or KEK_COMMAND.');
  }
  if (problems.length > 0) throw new OperatorError(...problems);
  return kekSettings(values);
}

/** Whether any setting names a KEK source, complete or not. */
export function namesSource(values: KekValues): boolean {
  const { KEK_FILE, KEK_COMMAND, KEK_AWS_KMS_KEY_ID, KEK_TRANSIT_URL } = values;
  return Boolean(KEK_FILE ?? KEK_COMMAND ?? KEK_AWS_KMS_KEY_ID ?? KEK_TRANSIT_URL);
}

/**
 * Contradictions between settings. Skips a contradiction if one of its settings was refused,
 * because a refused setting would seem not set.
 */
export function kekProblems(values: KekValues, refused: ReadonlyMap<string, string>): string[] {
  if (Object.keys(KEK_SETTINGS).some((name) => refused.has(name))) return [];
  return [...sourceProblems(values), ...awsProblems(values), ...transitProblems(values)];
}

function sourceProblems(values: KekValues): string[] {
  const places = (['KEK_FILE', 'KEK_COMMAND'] as const).filter((name) => values[name]);
  const decrypters = (['KEK_AWS_KMS_KEY_ID', 'KEK_TRANSIT_URL'] as const).filter(
    (name) => values[name],
  );
  const problems = problemsOf([
    [
      places.length > 1,
      'KEK_FILE and KEK_COMMAND are both set: the key-encryption key has one source. Unset one.',
    ],
    [
      decrypters.length > 1,
      'KEK_AWS_KMS_KEY_ID and KEK_TRANSIT_URL are both set: only one of them can decrypt KEK_FILE. Unset the other.',
    ],
  ]);
  if (places.includes('KEK_FILE')) return problems;
  const unfit = decrypters.map((name) =>
    places.length > 0
      ? `${name} and KEK_COMMAND are both set: ${name} decrypts KEK_FILE, but KEK_COMMAND prints the key itself. Unset one.`
      : `${name} is set, but KEK_FILE is not: set KEK_FILE to the file of the ciphertext.`,
  );
  return [...problems, ...unfit];
}

function awsProblems(values: KekValues): string[] {
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

function transitProblems(values: KekValues): string[] {
  const { KEK_TRANSIT_URL, KEK_TRANSIT_KEY, VAULT_TOKEN_FILE, VAULT_TOKEN } = values;
  if (KEK_TRANSIT_URL === undefined) {
    const parts = ['KEK_TRANSIT_KEY', 'KEK_TRANSIT_NAMESPACE', 'KEK_TRANSIT_CA_FILE'] as const;
    return alone(values, parts, 'KEK_TRANSIT_URL');
  }
  return problemsOf([
    [
      KEK_TRANSIT_KEY === undefined,
      'KEK_TRANSIT_URL is set, but KEK_TRANSIT_KEY is not: name the transit key that decrypts KEK_FILE.',
    ],
    [
      VAULT_TOKEN_FILE === undefined && VAULT_TOKEN === undefined,
      'KEK_TRANSIT_URL is set, but neither VAULT_TOKEN_FILE nor VAULT_TOKEN is: name the file of a token that may decrypt.',
    ],
  ]);
}

/** Problems of those settings that are set although `needed` is not. */
function alone(values: KekValues, names: readonly (keyof KekValues)[], needed: string): string[] {
  return names
    .filter((name) => values[name] !== undefined)
    .map(
      (name) =>
        `${name} is set, but ${needed} is not: ${name} alone does nothing. Set both or none.`,
    );
}

function awsRegion({ KEK_AWS_KMS_KEY_ID: keyId, AWS_REGION: region }: KekValues) {
  return /^arn:[\w-]+:kms:([a-z0-9-]+):/.exec(keyId ?? '')?.[1] ?? region;
}

/** @param values without problems */
export function kekSettings(values: KekValues): KekSettings {
  const { KEK_FILE: file, KEK_COMMAND: command } = values;
  if (command !== undefined) return { file, command };
  if (values.KEK_AWS_KMS_KEY_ID !== undefined) return { file, awsKms: awsKms(values) };
  if (values.KEK_TRANSIT_URL !== undefined) return { file, transit: transit(values) };
  return { file };
}

function awsKms(values: KekValues): NonNullable<KekSettings['awsKms']> {
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

function transit(values: KekValues): NonNullable<KekSettings['transit']> {
  return {
    url: values.KEK_TRANSIT_URL!,
    key: values.KEK_TRANSIT_KEY!,
    mount: values.KEK_TRANSIT_MOUNT,
    namespace: values.KEK_TRANSIT_NAMESPACE,
    caFile: values.KEK_TRANSIT_CA_FILE,
    tokenFile: values.VAULT_TOKEN_FILE,
    token: values.VAULT_TOKEN,
  };
}
