import { readFileSync } from 'node:fs';
import { parseEnv } from 'node:util';
import { SETTINGS, type Setting } from './config/settings.ts';
import { OperatorError } from './errors.ts';
import type { TlsFiles } from './service/certificate.ts';
import type { LicenseFiles } from './service/license.ts';
import type { VaultOptions } from './service/vault.ts';

type Settings = {
  [Name in keyof typeof SETTINGS]: (typeof SETTINGS)[Name] extends Setting<infer T> ? T : never;
};
type OptionalName =
  | 'DATABASE_URL'
  | 'KEK_FILE'
  | 'REDIS_URL'
  | 'TLS_CERT_FILE'
  | 'TLS_KEY_FILE'
  | 'TLS_CLIENT_CA_FILE'
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
  /** undefined: HTTP in clear. */
  readonly tls: TlsFiles | undefined;
}

/**
 * The environment over the `.env` file of the working directory. Nothing else reads it.
 */
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
  return {
    ...config,
    vault: vaultOptions(config),
    license: licenseFiles(config),
    tls: tlsFiles(config),
  };
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
  if ((config.TLS_CERT_FILE === undefined) !== (config.TLS_KEY_FILE === undefined)) {
    problems.push('TLS_CERT_FILE and TLS_KEY_FILE go together: set both or none.');
  }
  if (config.TLS_CLIENT_CA_FILE !== undefined && config.TLS_CERT_FILE === undefined) {
    problems.push(
      'TLS_CLIENT_CA_FILE needs TLS: set TLS_CERT_FILE and TLS_KEY_FILE, or do not set it.',
    );
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
    kek: { file: config.KEK_FILE },
    token_suffix: config.TOKEN_SUFFIX,
    allow_unsafe_postgres: config.ALLOW_UNSAFE_POSTGRES,
  };
}

function licenseFiles(config: Values): LicenseFiles | undefined {
  const { LICENSE_FILE: license_file, LICENSE_PUBLIC_KEY_FILE: public_key_file } = config;
  return license_file && public_key_file ? { license_file, public_key_file } : undefined;
}

function tlsFiles(config: Values): TlsFiles | undefined {
  const { TLS_CERT_FILE: certificate_file, TLS_KEY_FILE: key_file } = config;
  const client_ca_file = config.TLS_CLIENT_CA_FILE;
  return certificate_file && key_file ? { certificate_file, key_file, client_ca_file } : undefined;
}
