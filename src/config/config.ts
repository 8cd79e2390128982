import { parseEnv } from 'node:util';
import { type DefaultLimits, LIMIT_COLUMNS, type LimitColumn } from '../client-settings.ts';
import type { PresidioOptions } from '../detect/presidio.ts';
import { errorCode, OperatorError } from '../errors.ts';
import type { KekSettings } from '../kek/source.ts';
import { leastBudget } from '../memory.ts';
import {
  type JwtOptions,
  type LicenseFiles,
  LOOPBACK,
  type TlsFiles,
  type VaultOptions,
} from '../options.ts';
import { readSecret, readTrusted } from '../private-files.ts';
import {
  KEK_SETTINGS,
  kekContradictions,
  kekSettings,
  namesSource,
  parseKekSettings,
} from './kek.ts';
import {
  alone,
  type Contradictions,
  parseSettings,
  problemsIn,
  together,
  type ValuesOf,
} from './setting.ts';
import { SETTINGS } from './settings.ts';
import { misspeltGuards, unknownSettings } from './unknown.ts';

type Values = ValuesOf<typeof SETTINGS>;

export interface Config extends ReturnType<typeof parseConfig> {}

/**
 * Reads `.env` of the working directory; the environment overrides it. No other code reads either.
 * `.env` must be trusted: settings can run commands and decide where values are sent.
 * @throws OperatorError when another user could have written the file
 */
export function readEnvironment(): NodeJS.Dict<string> {
  return { ...readEnvFile(), ...process.env };
}

function readEnvFile(): NodeJS.Dict<string> {
  try {
    return parseEnv(readTrusted('.env', 'The file .env').toString());
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return {};
    throw unreadable('The file .env', error);
  }
}

function unreadable(name: string, error: unknown): OperatorError {
  if (error instanceof OperatorError) return error;
  return new OperatorError(`${name} cannot be read (${errorCode(error)}).`);
}

/**
 * All settings as written, also those that a start refuses. The value is null for a setting that is
 * not set and for a secret; `from` only for one that is not set.
 */
export function settingsInForce() {
  const file = readEnvFile();
  return Object.entries(SETTINGS).map(([setting, { default: fallback, isSecret }]) => {
    const isOfEnvironment = process.env[setting] !== undefined;
    // Empty means not set, and also hides the line of the file.
    const written = (isOfEnvironment ? process.env : file)[setting];
    if (!written) return { setting, value: fallback ?? null, from: fallback ? 'default' : null };
    const value = isSecret ? null : written;
    return { setting, value, from: isOfEnvironment ? 'environment' : '.env' };
  });
}

/**
 * The settings of the KEK that will replace the present one. Ignores all KEK_ settings of the
 * environment.
 * @param file has the key
 * @param env in `.env` form, has KEK settings
 * @throws OperatorError with every problem
 */
export function newKekSettings(file: string | undefined, env: string | undefined): KekSettings {
  const others = Object.entries(readEnvironment()).filter(([name]) => !name.startsWith('KEK_'));
  const named = env === undefined ? { KEK_FILE: file } : parseEnv(readText(env, readTrusted));
  const misspelt = misspeltGuards(named);
  if (misspelt.length > 0) throw new OperatorError(...misspelt);
  return parseKekSettings(environmentOfKek({ ...Object.fromEntries(others), ...named }));
}

/** What a KEK_COMMAND and the library of a cloud get: no secrets of other parts. */
function environmentOfKek(environment: NodeJS.Dict<string>): NodeJS.Dict<string> {
  const isOther = (name: string) =>
    SETTINGS[name as keyof Values]?.isSecret && !Object.hasOwn(KEK_SETTINGS, name);
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !isOther(name)));
}

/** The service that a command calls, and an API key. The command needs no other setting. */
export interface ServiceSettings {
  readonly url: string;
  readonly api_key: string;
}

/**
 * @param keyFile read instead of STANDIN_API_KEY
 * @throws OperatorError with every problem
 */
export function serviceSettings(keyFile: string | undefined): ServiceSettings {
  const missing =
    'There is no API key: set STANDIN_API_KEY, or name its file with --api-key-file. Make one with: standin api-key issue --client NAME';
  return settingsWith('STANDIN_API_KEY', keyFile, missing);
}

/**
 * With the API key of the provider.
 * @param keyFile read instead of PROVIDER_API_KEY
 * @throws OperatorError with every problem
 */
export function providerSettings(keyFile: string | undefined): ServiceSettings {
  const missing =
    'There is no API key of the provider: set PROVIDER_API_KEY, or name its file with --provider-key-file.';
  return settingsWith('PROVIDER_API_KEY', keyFile, missing);
}

function settingsWith(
  name: 'STANDIN_API_KEY' | 'PROVIDER_API_KEY',
  keyFile: string | undefined,
  missing: string,
): ServiceSettings {
  const environment = readEnvironment();
  if (keyFile !== undefined) environment[name] = secretText(keyFile).trim();
  if (keyFile !== undefined && environment[name] === '')
    throw new OperatorError(`The file ${keyFile} is empty. Write the API key into it.`);
  const { STANDIN_URL, [name]: key } = SETTINGS;
  const { values, problems } = parseSettings({ STANDIN_URL, [name]: key }, environment);
  if (problems.size > 0) throw new OperatorError(...problems.values());
  const { STANDIN_URL: url, [name]: apiKey } = values;
  if (apiKey === undefined) throw new OperatorError(missing);
  return { url: url!, api_key: apiKey };
}

/** A file that only this user may read. @throws OperatorError */
export function secretText(path: string): string {
  return readText(path, readSecret);
}

function readText(path: string, readOne: typeof readSecret): string {
  const name = `The file ${path}`;
  try {
    return readOne(path, name).toString();
  } catch (error) {
    throw unreadable(name, error);
  }
}

/** @throws OperatorError with every problem, not only the first */
export function parseConfig(environment: NodeJS.Dict<string>) {
  const { values: config, problems: refused } = parseSettings(SETTINGS, environment);
  const problems = [
    ...(environment.WORKERS ? [WORKERS_IS_GONE] : []),
    ...misspeltGuards(environment),
    ...refused.values(),
    ...problemsIn(contradictions(config), refused),
  ];
  if (problems.length > 0) throw new OperatorError(...problems);
  return {
    ...config,
    vault: vaultOptions(config, environment),
    license: licenseFiles(config),
    /** undefined: callers need an API key. */
    jwt: jwtOptions(config),
    /** Of clients without their own. */
    limits: defaultLimits(config),
    /** undefined: HTTP in clear. */
    tls: tlsFiles(config),
    /** undefined: no entities of Presidio. */
    presidio: presidioOptions(config),
    /** undefined: no spans. */
    tracing: tracingOptions(config),
    /** Names that look like settings, in words. */
    unknownSettings: unknownSettings(environment),
  };
}

/** Ignoring a removed setting silently would leave most of a machine unused. */
const WORKERS_IS_GONE =
  'WORKERS is gone, because a service is one process: remove it. To use more processors, run more nodes: on one port with REUSE_PORT=true (Node 22.12 or newer), or each on its own port behind a load balancer. Share their rate limits with REDIS_URL. See docs/operating/deploy.md, Several nodes on one machine.';

/** Whether this Node supports `reusePort` in net.Server.listen. Older versions ignore it. */
export function canSharePort(nodeVersion: string): boolean {
  const [major, minor] = nodeVersion.split('.').map(Number) as [number, number];
  return major >= 24 || (major === 23 && minor >= 1) || (major === 22 && minor >= 12);
}

function contradictions(config: Values): Contradictions {
  const { HOST, PORT, OPS_HOST, OPS_PORT, OPS_TOKEN, MEMORY_BUDGET, BODY_LIMIT } = config;
  const { TLS_CERT_FILE, TLS_CLIENT_CA_FILE, REUSE_PORT } = config;
  const { node } = process.versions;
  return {
    ...kekContradictions(config),
    ...together(config, 'JWT_ISSUER', 'JWT_AUDIENCE'),
    ...alone(config, 'JWT_ISSUER', 'JWT_JWKS_URL', 'JWT_TYPE'),
    [`REUSE_PORT needs Node 22.12 or newer, but this is ${node}: install a newer Node; or unset REUSE_PORT, and give each node its own PORT behind a load balancer.`]:
      REUSE_PORT && !canSharePort(node),
    // Node listens on one of the two addresses, and nodes that share a port need the same one.
    'HOST is "localhost", which is two addresses: with REUSE_PORT, set it to 127.0.0.1 or ::1.':
      REUSE_PORT && HOST.toLowerCase() === 'localhost',
    'KEK_FILE is not set: with DATABASE_URL, name the file of the key-encryption key; or set KEK_COMMAND, a command that prints it; or have KEK_FILE decrypted by a key service (docs/operating/kek.md). Make one with: openssl rand -hex 32':
      config.DATABASE_URL !== undefined && !namesSource(config),
    ...together(config, 'LICENSE_FILE', 'LICENSE_PUBLIC_KEY_FILE'),
    'AUDIT_REQUIRED is true, but AUDIT_LOG is not set: name the file, or stdout.':
      config.AUDIT_REQUIRED && config.AUDIT_LOG === undefined,
    [`MEMORY_BUDGET is too small for BODY_LIMIT: set it to ${leastBudget(BODY_LIMIT)} or more, or do not set it.`]:
      MEMORY_BUDGET !== undefined && MEMORY_BUDGET < leastBudget(BODY_LIMIT),
    ...together(config, 'TLS_CERT_FILE', 'TLS_KEY_FILE'),
    'TLS_CLIENT_CA_FILE needs TLS: set TLS_CERT_FILE and TLS_KEY_FILE, or do not set it.':
      TLS_CLIENT_CA_FILE !== undefined && TLS_CERT_FILE === undefined,
    'PORT and OPS_PORT are the same: change OPS_PORT, or set it to 0 for no ops listener.':
      Boolean(PORT) && PORT === OPS_PORT && HOST === OPS_HOST,
    [`OPS_HOST is "${OPS_HOST}", which other machines may reach, but OPS_TOKEN is not set: set OPS_TOKEN (make one with: openssl rand -hex 24), or OPS_HOST=127.0.0.1, or OPS_PORT=0.`]:
      Boolean(OPS_PORT) && OPS_TOKEN === undefined && !LOOPBACK.test(OPS_HOST),
    ...adminContradictions(config),
  };
}

function adminContradictions(config: Values): Contradictions {
  const { ADMIN_TOKEN, ADMIN_DATABASE_URL, OPS_HOST, OPS_PORT, OPS_TLS, OPS_TOKEN } = config;
  return {
    'OPS_TLS is true, but there is no certificate: set TLS_CERT_FILE and TLS_KEY_FILE.':
      OPS_TLS && config.TLS_CERT_FILE === undefined,
    'ADMIN_TOKEN is set, but OPS_PORT is 0, and the admin API is on the ops listener: set OPS_PORT to another port, or do not set ADMIN_TOKEN.':
      ADMIN_TOKEN !== undefined && OPS_PORT === 0,
    [`ADMIN_TOKEN is set, and OPS_HOST is "${OPS_HOST}", which other machines may reach: set OPS_TLS=true, so that nobody can read the token on its way, or OPS_HOST=127.0.0.1.`]:
      ADMIN_TOKEN !== undefined && !OPS_TLS && !LOOPBACK.test(OPS_HOST),
    'ADMIN_TOKEN has the token of OPS_TOKEN: make another one, for example with: openssl rand -hex 24':
      ADMIN_TOKEN?.some(({ token }) => token === OPS_TOKEN) === true,
    'ADMIN_DATABASE_URL is for the admin API, but ADMIN_TOKEN is not set: set both, or only ADMIN_TOKEN.':
      ADMIN_DATABASE_URL !== undefined && ADMIN_TOKEN === undefined,
    'ADMIN_DATABASE_URL needs DATABASE_URL, the same database as the role of the service.':
      ADMIN_DATABASE_URL !== undefined && config.DATABASE_URL === undefined,
  };
}

function vaultOptions(config: Values, environment: NodeJS.Dict<string>): VaultOptions {
  return {
    ...{ databaseUrl: config.DATABASE_URL, databaseConnections: config.DATABASE_CONNECTIONS },
    ...{ dataDir: config.DATA_DIR, kek: kekSettings(config, environmentOfKek(environment)) },
    ...{ token_suffix: config.TOKEN_SUFFIX, allowUnsafePostgres: config.ALLOW_UNSAFE_POSTGRES },
  };
}

function defaultLimits(config: Values): DefaultLimits {
  const upper = (column: LimitColumn) => column.toUpperCase() as Uppercase<LimitColumn>;
  const limits = LIMIT_COLUMNS.map((column) => [column, config[upper(column)]]);
  return Object.fromEntries(limits);
}

function licenseFiles(config: Values): LicenseFiles | undefined {
  const { LICENSE_FILE: licenseFile, LICENSE_PUBLIC_KEY_FILE: publicKeyFile } = config;
  return licenseFile && publicKeyFile ? { licenseFile, publicKeyFile } : undefined;
}

function tlsFiles(config: Values): TlsFiles | undefined {
  const { TLS_CERT_FILE: certificateFile, TLS_KEY_FILE: keyFile } = config;
  const clientCaFile = config.TLS_CLIENT_CA_FILE;
  return certificateFile && keyFile ? { certificateFile, keyFile, clientCaFile } : undefined;
}

function jwtOptions(config: Values): JwtOptions | undefined {
  const { JWT_ISSUER: issuer, JWT_AUDIENCE: audience } = config;
  if (issuer === undefined || audience === undefined) return undefined;
  const { JWT_JWKS_URL: jwksUrl, JWT_CLIENT_CLAIM: claim, JWT_TYPE: type } = config;
  return { issuer, audience, jwksUrl, claim, type };
}

function presidioOptions(config: Values): PresidioOptions | undefined {
  const { PRESIDIO_URL: url, PRESIDIO_LANGUAGE: language } = config;
  return url === undefined ? undefined : { url, language };
}

function tracingOptions(config: Values) {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint } = config;
  if (endpoint === undefined) return undefined;
  return {
    url: `${endpoint}/v1/traces`,
    headers: config.OTEL_EXPORTER_OTLP_HEADERS ?? {},
    attributes: { ...config.OTEL_RESOURCE_ATTRIBUTES, 'service.name': config.OTEL_SERVICE_NAME },
    sampler: config.OTEL_TRACES_SAMPLER,
    ratio: config.OTEL_TRACES_SAMPLER_ARG,
  };
}
