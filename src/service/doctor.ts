import { kekOf } from '../crypto/kek.ts';
import { OperatorError } from '../errors.ts';
import { ClientStore } from '../store/clients.ts';
import { errorCode } from '../store/failure.ts';
import { KeyringStore } from '../store/keyring.ts';
import { readMigrations, schemaVersion } from '../store/migrate.ts';
import type { Pool } from '../store/pool.ts';
import { serverFacts } from '../store/server.ts';
import { isOpenToOthers, type KekSource } from './kek-file.ts';
import { checkSuffix, unwrap } from './keyring.ts';
import { type LicenseFiles, verifyLicense } from './license.ts';
import {
  commandDeadline,
  kekSource,
  openPool,
  serverProblems,
  type VaultOptions,
} from './vault.ts';

export interface Finding {
  readonly check: string;
  readonly status: 'ok' | 'warning' | 'problem';
  /** What is so, and for anything but `ok` what to do about it. */
  readonly detail: string;
}

/** Looks at everything that a start needs, changes nothing, and goes on after a problem as far as it can. */
export async function examine(
  options: VaultOptions,
  license: LicenseFiles | undefined,
): Promise<Finding[]> {
  const findings: Finding[] = [];
  const source = kekSource(options);
  const pool = openPool(options);
  try {
    await run(findings, 'database', async () => database(pool, options));
    if (findings.at(-1)!.status !== 'problem') await examineVault(findings, pool, source, options);
    if (license !== undefined) await run(findings, 'license', async () => licenseFinding(license));
  } finally {
    await pool.end();
  }
  return findings;
}

async function examineVault(
  findings: Finding[],
  pool: Pool,
  source: KekSource,
  options: VaultOptions,
): Promise<void> {
  const version = await schemaVersion(pool, commandDeadline());
  const newest = readMigrations().at(-1)!.version;
  findings.push(schema(version, newest));
  const is_made = version > 0;
  // Without a vault, the file in DATA_DIR is still to be made.
  if (!is_made && options.kek_file === undefined) return;
  const keys = new KeyringStore(pool);
  await run(findings, 'key-encryption key', async () => {
    const kek = kekOf(source.read());
    const wrapped = is_made ? await keys.list(commandDeadline()) : [];
    unwrap(wrapped, kek, source);
    if (isOpenToOthers(source.place)) {
      return warning(
        `${source.place} can be read by other users of the system. Run: chmod 600 ${source.place}`,
      );
    }
    return ok(`${source.place} (${kek.id}) opens all ${wrapped.length} keys`);
  });
  if (!is_made) return;
  await run(findings, 'token suffix', async () => {
    await checkSuffix(keys, options.token_suffix, commandDeadline());
    return ok(`_${options.token_suffix}`);
  });
  await run(findings, 'clients', async () => {
    const clients = await new ClientStore(pool).list(commandDeadline());
    const enabled = clients.filter((client) => client.disabled_at === null).length;
    return enabled > 0
      ? ok(`${enabled} enabled`)
      : warning(
          'There is none, so nobody can call. Make one with: standin client create --name NAME',
        );
  });
}

async function database(pool: Pool, options: VaultOptions): Promise<Omit<Finding, 'check'>> {
  const facts = await serverFacts(pool, commandDeadline());
  const problems = serverProblems(facts, options);
  if (problems.length > 0) throw new OperatorError(...problems);
  if (options.database_url === undefined) {
    return ok(
      `embedded PostgreSQL ${facts.version} in ${options.data_dir}; for trying and small use: a power cut can lose the last writes`,
    );
  }
  return facts.unsafe_settings.length > 0
    ? warning(
        `PostgreSQL ${facts.version} with ${facts.unsafe_settings.join(', ')} off: a crash can lose acknowledged tokens`,
      )
    : ok(`PostgreSQL ${facts.version}`);
}

function schema(version: number, newest: number): Finding {
  const check = 'schema';
  if (version > newest) {
    return {
      check,
      status: 'problem',
      detail: `The schema has version ${version}, this program knows ${newest}. Start a newer release.`,
    };
  }
  if (version < newest) {
    return {
      check,
      status: 'warning',
      detail: `The schema has version ${version} of ${newest}; the next start brings it up, or run: standin migrate`,
    };
  }
  return { check, status: 'ok', detail: `version ${version}` };
}

async function licenseFinding(files: LicenseFiles): Promise<Omit<Finding, 'check'>> {
  const state = await verifyLicense(files);
  if (state.status === 'valid')
    return ok(`${state.subject}, until ${state.expires_at.toISOString()}`);
  const why = 'problem' in state ? state.problem : `it expired ${state.expires_at.toISOString()}`;
  throw new OperatorError(
    `Tokenize answers 500: ${why}. Put a valid license in ${files.license_file}.`,
  );
}

function ok(detail: string): Omit<Finding, 'check'> {
  return { status: 'ok', detail };
}

function warning(detail: string): Omit<Finding, 'check'> {
  return { status: 'warning', detail };
}

async function run(
  findings: Finding[],
  check: string,
  look: () => Promise<Omit<Finding, 'check'>>,
): Promise<void> {
  try {
    findings.push({ check, ...(await look()) });
  } catch (error) {
    findings.push({ check, status: 'problem', detail: problemText(error) });
  }
}

function problemText(error: unknown): string {
  if (error instanceof OperatorError) return error.message;
  const code = errorCode((error as Error).cause) ?? errorCode(error);
  return `The database does not answer${code === undefined ? '' : ` (${code})`}. Check DATABASE_URL, that the server runs, and that it takes this user.`;
}
