import { OperatorError } from '../errors.ts';
import type { KekSettings } from '../kek/source.ts';
import {
  alone,
  type Contradictions,
  choice,
  file,
  httpsUrl,
  matching,
  parseSettings,
  path,
  problemsIn,
  secret,
  setting,
  text,
  url,
  type ValuesOf,
} from './setting.ts';

/** Where the key-encryption key is. */
export const KEK_SETTINGS = {
  KEK_FILE: file,
  KEK_COMMAND: secret(setting(undefined, 'a command line', text)),
  KEK_AWS_KMS_KEY_ID: matching(undefined, 'an id, alias or ARN', /^[\w:/.-]{1,2048}$/),
  KEK_AWS_KMS_ENDPOINT: url(undefined),
  KEK_GCP_KMS_KEY: matching(
    undefined,
    'projects/P/locations/L/keyRings/R/cryptoKeys/K',
    /^projects\/[a-z0-9.:-]{1,64}\/locations\/[a-z0-9-]{1,63}\/keyRings\/[\w-]{1,63}\/cryptoKeys\/[\w-]{1,63}$/,
  ),
  KEK_GCP_KMS_ENDPOINT: url('https://cloudkms.googleapis.com'),
  KEK_AZURE_KEY_ID: secret(
    setting(undefined, 'an https:// URL that ends in /keys/NAME/VERSION', azureKey),
  ),
  KEK_AZURE_ALGORITHM: choice('RSA-OAEP-256', 'RSA-OAEP-256', 'A256KW'),
  KEK_TRANSIT_URL: url(undefined),
  KEK_TRANSIT_KEY: matching(
    undefined,
    'a name of letters, digits, `_`, `.` and `-`',
    /^\w[\w.-]{0,127}$/,
  ),
  KEK_TRANSIT_MOUNT: setting('transit', 'a path', path),
  KEK_TRANSIT_NAMESPACE: setting(undefined, 'a path', path),
  KEK_TRANSIT_CA_FILE: file,
  VAULT_TOKEN_FILE: file,
  // Text that needs no escaping in a header.
  VAULT_TOKEN: secret(matching(undefined, 'a token', /^[\x21-\x7e]{1,8192}$/)),
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
  const problems = [...refused.values(), ...problemsIn(kekContradictions(values), refused)];
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

export function kekContradictions(values: KekValues): Contradictions {
  const { KEK_FILE, KEK_COMMAND, KEK_TRANSIT_URL, KEK_TRANSIT_KEY } = values;
  const decrypters = DECRYPTERS.filter((name) => values[name]);
  const isTransit = KEK_TRANSIT_URL !== undefined;
  const hasToken = (values.VAULT_TOKEN_FILE ?? values.VAULT_TOKEN) !== undefined;
  return {
    'KEK_FILE and KEK_COMMAND are both set: the key-encryption key has one source. Unset one.':
      KEK_FILE !== undefined && KEK_COMMAND !== undefined,
    [`${decrypters.join(' and ')} are set: only one of them can decrypt KEK_FILE. Unset the others.`]:
      decrypters.length > 1,
    [`${decrypters[0]} decrypts KEK_FILE, which is not set: set KEK_FILE to the file of the ciphertext, and unset KEK_COMMAND.`]:
      decrypters.length > 0 && KEK_FILE === undefined,
    'KEK_TRANSIT_URL is set, but KEK_TRANSIT_KEY is not: name the transit key that decrypts KEK_FILE.':
      isTransit && KEK_TRANSIT_KEY === undefined,
    'KEK_TRANSIT_URL is set, but neither VAULT_TOKEN_FILE nor VAULT_TOKEN is: name the file of a token that may decrypt.':
      isTransit && !hasToken,
    ...alone(values, 'KEK_AWS_KMS_KEY_ID', 'KEK_AWS_KMS_ENDPOINT'),
    ...alone(values, 'KEK_TRANSIT_URL', 'KEK_TRANSIT_KEY', 'KEK_TRANSIT_NAMESPACE'),
    ...alone(values, 'KEK_TRANSIT_URL', 'KEK_TRANSIT_CA_FILE'),
  };
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
