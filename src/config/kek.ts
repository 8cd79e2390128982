import { OperatorError } from '../errors.ts';
import type { KekSettings } from '../kek/source.ts';
import {
  alone,
  choice,
  credential,
  file,
  httpsUrl,
  matching,
  parseSettings,
  path,
  problemsOf,
  secret,
  setting,
  text,
  type ValuesOf,
} from './setting.ts';

/** Its path may be secret. */
function url<const D extends string | undefined>(fallback: D, meaning: string) {
  return secret(fallback, 'an https:// URL; http:// on the loopback only', httpsUrl, meaning);
}

/** Settings that say where the key-encryption key is. */
export const KEK_SETTINGS = {
  KEK_FILE: file(
    'The KEK: 32 bytes or 64 hex digits; with a key service or KEK_TRANSIT_URL, its ciphertext. Not set: `kek` in DATA_DIR, except with DATABASE_URL.',
  ),
  KEK_COMMAND: secret(
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
  KEK_AWS_KMS_ENDPOINT: url(
    undefined,
    'Endpoint of AWS KMS, such as a VPC endpoint. Not set: the public one.',
  ),
  KEK_GCP_KMS_KEY: setting(
    undefined,
    'projects/P/locations/L/keyRings/R/cryptoKeys/K',
    matching(
      /^projects\/[a-z0-9.:-]{1,64}\/locations\/[a-z0-9-]{1,63}\/keyRings\/[\w-]{1,63}\/cryptoKeys\/[\w-]{1,63}$/,
    ),
    'Key of Google Cloud KMS that decrypts KEK_FILE.',
  ),
  KEK_GCP_KMS_ENDPOINT: url('https://cloudkms.googleapis.com', 'Endpoint of Google Cloud KMS.'),
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
  KEK_TRANSIT_URL: url(
    undefined,
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
  VAULT_TOKEN: secret(
    undefined,
    'a token',
    credential,
    'Token for KEK_TRANSIT_URL, without VAULT_TOKEN_FILE.',
  ),
} as const;

/** Parsed, but not yet checked for contradictions. */
type KekValues = ValuesOf<typeof KEK_SETTINGS>;

/** Names one version: what a key wrapped is of the version that wrapped it. */
function azureKey(text: string): string | undefined {
  const isKey = /\/\/[^/]+\/keys\/[A-Za-z0-9-]{1,127}\/[0-9a-f]{32}$/.test(text);
  return isKey ? httpsUrl(text) : undefined;
}

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
  return kekSettings(values, environment);
}

/** Each names what decrypts KEK_FILE. */
const DECRYPTERS = [
  ...(['KEK_AWS_KMS_KEY_ID', 'KEK_GCP_KMS_KEY'] as const),
  ...(['KEK_AZURE_KEY_ID', 'KEK_TRANSIT_URL'] as const),
];

/** Whether any setting names a KEK source, complete or not. */
export function namesSource(values: KekValues): boolean {
  return (['KEK_FILE', 'KEK_COMMAND', ...DECRYPTERS] as const).some(
    (name) => values[name] !== undefined,
  );
}

/** Parts of a source, which do nothing without the setting that names it. */
const PARTS = [
  ['KEK_AWS_KMS_KEY_ID', ['KEK_AWS_KMS_ENDPOINT']],
  ['KEK_TRANSIT_URL', ['KEK_TRANSIT_KEY', 'KEK_TRANSIT_NAMESPACE', 'KEK_TRANSIT_CA_FILE']],
] as const;

/**
 * Contradictions between settings. Skips a contradiction if one of its settings was refused,
 * because a refused setting would seem not set.
 */
export function kekProblems(values: KekValues, refused: ReadonlyMap<string, string>): string[] {
  if (Object.keys(KEK_SETTINGS).some((name) => refused.has(name))) return [];
  const { KEK_FILE, KEK_COMMAND, KEK_TRANSIT_URL, KEK_TRANSIT_KEY } = values;
  const decrypters = DECRYPTERS.filter((name) => values[name]);
  const isTransit = KEK_TRANSIT_URL !== undefined;
  const hasToken = (values.VAULT_TOKEN_FILE ?? values.VAULT_TOKEN) !== undefined;
  return [
    ...problemsOf([
      [
        KEK_FILE !== undefined && KEK_COMMAND !== undefined,
        'KEK_FILE and KEK_COMMAND are both set: the key-encryption key has one source. Unset one.',
      ],
      [
        decrypters.length > 1,
        `${decrypters.join(' and ')} are set: only one of them can decrypt KEK_FILE. Unset the others.`,
      ],
      [
        decrypters.length > 0 && KEK_FILE === undefined,
        `${decrypters[0]} decrypts KEK_FILE, which is not set: set KEK_FILE to the file of the ciphertext, and unset KEK_COMMAND.`,
      ],
      [
        isTransit && KEK_TRANSIT_KEY === undefined,
        'KEK_TRANSIT_URL is set, but KEK_TRANSIT_KEY is not: name the transit key that decrypts KEK_FILE.',
      ],
      [
        isTransit && !hasToken,
        'KEK_TRANSIT_URL is set, but neither VAULT_TOKEN_FILE nor VAULT_TOKEN is: name the file of a token that may decrypt.',
      ],
    ]),
    ...PARTS.flatMap(([needed, parts]) =>
      values[needed] === undefined ? alone(values, parts, needed) : [],
    ),
  ];
}

/**
 * @param values without problems
 * @param environment of a command, and of the library of a cloud
 */
export function kekSettings(values: KekValues, environment: NodeJS.Dict<string>): KekSettings {
  const names = Object.keys(KEK_SETTINGS) as (keyof KekValues)[];
  const settings = Object.fromEntries(names.map((name) => [name, values[name]]));
  return { ...settings, ...(namesSource(values) && { environment }) };
}
