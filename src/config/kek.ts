import type { KekSettings } from '#kek';
import { OperatorError } from '../errors.ts';
import { CLOUD_SETTINGS, cloudProblems, cloudSettings } from './kek-clouds.ts';
import {
  alone,
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

const HTTPS = 'an https:// URL; http:// on the loopback only';

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
  ...CLOUD_SETTINGS,
  KEK_TRANSIT_URL: secret(
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
  VAULT_TOKEN: secret(
    undefined,
    'a token',
    credential,
    'Token for KEK_TRANSIT_URL, without VAULT_TOKEN_FILE.',
  ),
} as const;

/** Parsed, but not yet checked for contradictions. */
type KekValues = ValuesOf<typeof KEK_SETTINGS>;

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

const PLACES = ['KEK_FILE', 'KEK_COMMAND'] as const;
/** Each names what decrypts KEK_FILE. */
const DECRYPTERS = [
  ...(['KEK_AWS_KMS_KEY_ID', 'KEK_GCP_KMS_KEY', 'KEK_AZURE_KEY_ID'] as const),
  'KEK_TRANSIT_URL',
] as const;

/** Whether any setting names a KEK source, complete or not. */
export function namesSource(values: KekValues): boolean {
  return [...PLACES, ...DECRYPTERS].some((name) => values[name] !== undefined);
}

/**
 * Contradictions between settings. Skips a contradiction if one of its settings was refused,
 * because a refused setting would seem not set.
 */
export function kekProblems(values: KekValues, refused: ReadonlyMap<string, string>): string[] {
  if (Object.keys(KEK_SETTINGS).some((name) => refused.has(name))) return [];
  return [...sourceProblems(values), ...cloudProblems(values), ...transitProblems(values)];
}

function sourceProblems(values: KekValues): string[] {
  const places = PLACES.filter((name) => values[name]);
  const decrypters = DECRYPTERS.filter((name) => values[name]);
  const problems = problemsOf([
    [
      places.length > 1,
      'KEK_FILE and KEK_COMMAND are both set: the key-encryption key has one source. Unset one.',
    ],
    [
      decrypters.length > 1,
      `${decrypters.join(' and ')} are set: only one of them can decrypt KEK_FILE. Unset the others.`,
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

/** @param values without problems */
export function kekSettings(values: KekValues): KekSettings {
  const { KEK_FILE: file, KEK_COMMAND: command } = values;
  if (command !== undefined) return { file, command };
  if (values.KEK_TRANSIT_URL !== undefined) return { file, transit: transit(values) };
  return { file, ...cloudSettings(values) };
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
