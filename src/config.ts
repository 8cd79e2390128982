import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { parseEnv } from 'node:util';
import { OperatorError } from './errors.ts';
import type { LicenseFiles } from './service/license.ts';
import type { VaultOptions } from './service/vault.ts';
import { databaseHosts } from './store/hosts.ts';

/**
 * The only reader of the environment. docs/configuration.md is checked against SETTINGS both ways.
 */
interface Setting<T> {
  /** As it is written in the environment; undefined: not set. */
  readonly default: string | undefined;
  /** What is accepted, in words. */
  readonly accepts: string;
  readonly meaning: string;
  /** undefined: not acceptable. */
  readonly parse: (text: string) => T | undefined;
}

const text = (text: string): string => text;
const matching = (pattern: RegExp) => (text: string) => (pattern.test(text) ? text : undefined);
const oneOf =
  <T extends string>(...choices: readonly T[]) =>
  (text: string): T | undefined =>
    choices.find((choice) => choice === text);
const whole = (min: number, max: number) => (text: string) => {
  const number = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  return number >= min && number <= max ? number : undefined;
};
// Not a look-up in an object: `constructor` would be found there, and count as true.
const flag = (text: string): boolean | undefined =>
  text === 'true' ? true : text === 'false' ? false : undefined;

/** Requests a second: 0, or from 0.001 (one in a quarter of an hour) to a million. */
export function parseRate(text: string): number | undefined {
  const rate = /^\d{1,7}(\.\d{1,3})?$/.test(text) ? Number(text) : Number.NaN;
  return rate <= 1_000_000 ? rate : undefined;
}

const MAX_WORKERS = 64;
/** A worker keeps as many busy: its event loop and its vault thread. */
const PROCESSORS_A_WORKER = 2;

function workers(text: string): number | undefined {
  if (text !== 'auto') return whole(1, MAX_WORKERS)(text);
  const workers = Math.floor(availableParallelism() / PROCESSORS_A_WORKER);
  return Math.min(MAX_WORKERS, Math.max(1, workers));
}

function databaseUrl(text: string): string | undefined {
  return databaseHosts(text) && text;
}

/** What the client library makes of it is checked here, so that nothing of it fails later. */
function redisUrl(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined;
  const { protocol, hostname, pathname, username, password } = new URL(text);
  const is_decodable = isDecodable(username) && isDecodable(password);
  const is_fit = /^rediss?:$/.test(protocol) && hostname !== '' && /^(\/\d{0,5})?$/.test(pathname);
  return is_fit && is_decodable ? text : undefined;
}

function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

function setting<T>(
  fallback: string | undefined,
  accepts: string,
  parse: Setting<T>['parse'],
  meaning: string,
): Setting<T> {
  return { default: fallback, accepts, meaning, parse };
}

export const SETTINGS = {
  HOST: setting(
    '127.0.0.1',
    'an address',
    text,
    'Address of the public listener; `0.0.0.0` for all IPv4, `::` for all.',
  ),
  PORT: setting(
    '8080',
    '0 to 65535',
    whole(0, 65_535),
    'Port of the public listener; 0 lets the system choose.',
  ),
  OPS_HOST: setting(
    '127.0.0.1',
    'an address',
    text,
    'Address of the ops listener (`/metrics`). Keep it away from callers.',
  ),
  OPS_PORT: setting(
    '9464',
    '0 to 65535',
    whole(0, 65_535),
    'Port of the ops listener; 0 turns it off.',
  ),
  WORKERS: setting(
    '1',
    '1 to 64, or auto',
    workers,
    'Processes that answer on PORT; auto: one for every two processors.',
  ),
  DATABASE_URL: setting(
    undefined,
    'a postgres:// URL',
    databaseUrl,
    'The PostgreSQL (14 or newer) that holds the vault; of several hosts (`host1,host2:5433`), the primary. Not set: the embedded one in DATA_DIR.',
  ),
  DATABASE_CONNECTIONS: setting(
    '11',
    '5 to 200',
    whole(5, 200),
    'Connections of one process to the database.',
  ),
  DATA_DIR: setting('./data', 'a folder', text, 'Folder of the embedded database and its KEK.'),
  KEK_FILE: setting(
    undefined,
    'a file',
    text,
    'File of the key-encryption key: 32 bytes, or 64 hex digits. Required with DATABASE_URL; not set: `kek` in DATA_DIR, made with the vault.',
  ),
  TOKEN_SUFFIX: setting(
    'tok',
    '1 to 16 letters a-z',
    matching(/^[a-z]{1,16}$/),
    'What tokens end in, after `_`. Fixed when the vault is made.',
  ),
  CLIENT_PREFIX: setting(
    'standin',
    '1 to 32 of a-z and 0-9',
    matching(/^[a-z0-9]{1,32}$/),
    'What the ids of new clients begin with, before `_`.',
  ),
  INTERFACE_VERSION: setting(
    '1.0.5',
    '1.0.5 or 1.0.4',
    oneOf('1.0.5', '1.0.4'),
    'Version of the interface: names of response fields and of the 429 error.',
  ),
  RATE_LIMIT: setting(
    '1000',
    '0 to 1000000',
    parseRate,
    'Requests a second of a client that has no limit of its own; 0: no limit.',
  ),
  REDIS_URL: setting(
    undefined,
    'a redis:// or rediss:// URL',
    redisUrl,
    'Redis (5 or newer) or Valkey through which all nodes share the rate limits. Not set: each process limits on its own.',
  ),
  BODY_LIMIT: setting(
    '1048576',
    '1024 to 67108864',
    whole(1024, 67_108_864),
    'Largest request body in bytes.',
  ),
  VALUES_LIMIT: setting(
    '10000',
    '1 to 1000000',
    whole(1, 1_000_000),
    'Most values in one request.',
  ),
  LICENSE_FILE: setting(
    undefined,
    'a file',
    text,
    'License (a signed JWT). Not set: no license is asked for.',
  ),
  LICENSE_PUBLIC_KEY_FILE: setting(
    undefined,
    'a file',
    text,
    'Public key (PEM) that LICENSE_FILE is verified with.',
  ),
  DRAIN_DELAY_MS: setting(
    '2000',
    '0 to 10000',
    whole(0, 10_000),
    'After SIGTERM, how long requests are still taken while /health says 503, so that load balancers notice.',
  ),
  ALLOW_UNSAFE_POSTGRES: setting(
    'false',
    'true or false',
    flag,
    'Serve on a PostgreSQL with fsync, full_page_writes or synchronous_commit off, which can lose acknowledged tokens.',
  ),
  LOG_LEVEL: setting(
    'info',
    'trace, debug, info, warn, error or silent',
    oneOf('trace', 'debug', 'info', 'warn', 'error', 'silent'),
    'Lowest level that is logged; requests are `info`.',
  ),
  LOG_FORMAT: setting(
    'auto',
    'auto, json or pretty',
    oneOf('auto', 'json', 'pretty'),
    'auto: pretty on a terminal, JSON lines otherwise.',
  ),
} as const;

type Settings = {
  [Name in keyof typeof SETTINGS]: (typeof SETTINGS)[Name] extends Setting<infer T> ? T : never;
};
type OptionalName =
  | 'DATABASE_URL'
  | 'KEK_FILE'
  | 'REDIS_URL'
  | 'LICENSE_FILE'
  | 'LICENSE_PUBLIC_KEY_FILE';
/** URLs that can have a password in them: never shown. */
const SECRETS: readonly string[] = ['DATABASE_URL', 'REDIS_URL'];
type Values = {
  [Name in keyof Settings]: Name extends OptionalName ? Settings[Name] | undefined : Settings[Name];
};

export interface Config extends Values {
  readonly vault: VaultOptions;
  readonly license: LicenseFiles | undefined;
}

/** The environment over the `.env` file of the working directory. */
export function readEnvironment(): NodeJS.Dict<string> {
  let file: NodeJS.Dict<string> = {};
  try {
    file = parseEnv(readFileSync('.env', 'utf8'));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') {
      throw new OperatorError(
        `The file .env cannot be read (${(error as NodeJS.ErrnoException).code}).`,
      );
    }
  }
  return { ...file, ...process.env };
}

/** @throws OperatorError with every problem, not only the first */
export function parseConfig(environment: NodeJS.Dict<string>): Config {
  const problems: string[] = [];
  const values: Record<string, unknown> = {};
  for (const [name, setting] of Object.entries(SETTINGS)) {
    // An empty variable is how shells and compose files say "not set".
    const written = environment[name] || setting.default;
    values[name] = written === undefined ? undefined : setting.parse(written);
    if (written !== undefined && values[name] === undefined) {
      const shown = SECRETS.includes(name) ? 'is not' : `is "${written}"; it must be`;
      problems.push(`${name} ${shown} ${setting.accepts}.`);
    }
  }
  const config = values as unknown as Values;
  problems.push(...contradictions(config));
  if (problems.length > 0) throw new OperatorError(...problems);
  return { ...config, vault: vaultOptions(config), license: licenseFiles(config) };
}

function contradictions(config: Values): string[] {
  const problems: string[] = [];
  if (config.DATABASE_URL !== undefined && config.KEK_FILE === undefined) {
    problems.push(
      'KEK_FILE is not set: with DATABASE_URL, name the file of the key-encryption key. Make one with: openssl rand -hex 32',
    );
  }
  if ((config.LICENSE_FILE === undefined) !== (config.LICENSE_PUBLIC_KEY_FILE === undefined)) {
    problems.push('LICENSE_FILE and LICENSE_PUBLIC_KEY_FILE go together: set both or none.');
  }
  if (config.PORT && config.PORT === config.OPS_PORT && config.HOST === config.OPS_HOST) {
    problems.push(
      'PORT and OPS_PORT are the same: give the ops listener a port of its own, or OPS_PORT=0.',
    );
  }
  return problems;
}

function vaultOptions(config: Values): VaultOptions {
  return {
    database_url: config.DATABASE_URL,
    database_connections: config.DATABASE_CONNECTIONS,
    data_dir: config.DATA_DIR,
    kek_file: config.KEK_FILE,
    token_suffix: config.TOKEN_SUFFIX,
    allow_unsafe_postgres: config.ALLOW_UNSAFE_POSTGRES,
  };
}

function licenseFiles(config: Values): LicenseFiles | undefined {
  const { LICENSE_FILE: license_file, LICENSE_PUBLIC_KEY_FILE: public_key_file } = config;
  return license_file && public_key_file ? { license_file, public_key_file } : undefined;
}
