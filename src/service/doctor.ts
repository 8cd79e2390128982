import { kekOf } from '../crypto/kek.ts';
import { errorCode, OperatorError, operatorError } from '../errors.ts';
import type { LicenseFiles, VaultOptions } from '../options.ts';
import { ApiKeyStore } from '../store/api-keys.ts';
import { ClientStore } from '../store/clients.ts';
import type { Pool } from '../store/pool.ts';
import { countByVersion } from '../store/record-counts.ts';
import { missingRights } from '../store/rights.ts';
import { readMigrations, schemaVersion } from '../store/schema.ts';
import { serverFacts } from '../store/server.ts';
import { WrappedKeyStore } from '../store/wrapped-keys.ts';
import { commandDeadline } from '../timeouts.ts';
import type { Finding, WrappedKey } from '../types.ts';
import { isNamed, type KekSource, kekSourceOf } from './kek/source.ts';
import { checkSuffix, unwrap } from './keys/open-keys.ts';
import { verifyLicense } from './license.ts';
import { PROBE } from './limits/shared-rate-limit.ts';
import { openPool } from './pools.ts';
import { serverProblems } from './vault.ts';

/**
 * Checks everything that a start needs, and changes nothing. After a problem, it continues with the
 * checks that are still possible.
 */
export async function examine(
  options: VaultOptions,
  license: LicenseFiles | undefined,
  redisUrl: string | undefined,
): Promise<Finding[]> {
  const findings: Finding[] = [];
  const pool = openPool(options);
  try {
    await run(findings, 'database', () => database(pool, options));
    const wrapped = isOk(findings) ? await storedKeys(findings, pool) : [];
    if (wrapped.length > 0 && findings.at(-1)!.status === 'ok')
      await run(findings, 'rights', () => rights(pool));
    // Without a vault, the KEK file in DATA_DIR does not exist yet.
    if (wrapped.length > 0 || isNamed(options.kek))
      await run(findings, 'key-encryption key', () => kek(kekSourceOf(options), wrapped));
    if (wrapped.length > 0) {
      await run(findings, 'records', () => records(pool, wrapped));
      await examineVault(findings, pool, options.token_suffix);
    }
    if (license !== undefined) await run(findings, 'license', () => licenseFinding(license));
    if (redisUrl !== undefined) await run(findings, 'redis', () => redis(redisUrl));
  } finally {
    await pool.end();
  }
  return findings;
}

function isOk(findings: readonly Finding[]): boolean {
  return findings.at(-1)!.status !== 'problem';
}

async function rights(pool: Pool): Promise<Omit<Finding, 'check'>> {
  const missing = await missingRights(pool, commandDeadline());
  if (missing.length === 0) return ok('the database user has the rights it needs');
  throw new OperatorError(
    `The user of DATABASE_URL lacks ${missing.join(', ')}. As the owner of the vault's tables, run: standin migrate --grant-to ROLE`,
  );
}

/** The wrapped keys of the vault. Empty when there is no vault yet, or the keys cannot be read. */
async function storedKeys(findings: Finding[], pool: Pool): Promise<WrappedKey[]> {
  let wrapped: WrappedKey[] = [];
  await run(findings, 'schema', async () => {
    const version = await schemaVersion(pool, commandDeadline());
    if (version > 0) wrapped = await new WrappedKeyStore(pool).list(commandDeadline());
    return schema(version, readMigrations().at(-1)!.version);
  });
  return wrapped;
}

async function kek(
  source: KekSource,
  wrapped: readonly WrappedKey[],
): Promise<Omit<Finding, 'check'>> {
  const kek = kekOf(await source.read());
  unwrap(wrapped, kek, source);
  const opens = wrapped.length > 0 ? `opens all ${wrapped.length} keys` : 'can be read';
  return ok(`${source.place} (${kek.id}) ${opens}`);
}

/**
 * AES-GCM with random nonces allows 2^32 records a key (NIST SP 800-38D, 8.3). A DEK has 256
 * subkeys; rotate at half of their total.
 */
const ROTATE_AT_RECORDS = 2 ** 39;

/** Samples a large vault. `verify` opens every record. */
async function records(
  pool: Pool,
  wrapped: readonly WrappedKey[],
): Promise<Omit<Finding, 'check'>> {
  const { byVersion, isExact } = await countByVersion(pool, commandDeadline());
  const about = isExact ? '' : 'about ';
  const deks = new Set(wrapped.filter(({ purpose }) => purpose === 'dek').map((k) => k.version));
  const lost = [...byVersion].filter(([version]) => !deks.has(version));
  if (lost.length > 0) {
    const listed = lost.map(([version, count]) => `${about}${count} with version ${version}`);
    return warning(
      `The keyring lacks the key of some records, so nobody can open them: ${listed.join(', ')}. Restore the rows of standin.keyring from a backup with the same KEK.`,
    );
  }
  const ofPrimary = byVersion.get(Math.max(...deks)) ?? 0;
  if (ofPrimary >= ROTATE_AT_RECORDS) {
    return warning(`One key seals ${about}${ofPrimary} records. Run: standin keyring rotate`);
  }
  const all = [...byVersion.values()].reduce((sum, count) => sum + count, 0);
  const versions = [...byVersion.keys()].sort((a, b) => a - b).join(', ');
  return ok(all === 0 ? 'none yet' : `${about}${all}, of key version ${versions}`);
}

async function examineVault(findings: Finding[], pool: Pool, tokenSuffix: string): Promise<void> {
  await run(findings, 'token suffix', async () => {
    await checkSuffix(new WrappedKeyStore(pool), tokenSuffix, commandDeadline());
    return ok(`_${tokenSuffix}`);
  });
  await run(findings, 'clients', async () => {
    const clients = await new ClientStore(pool).list(commandDeadline());
    const enabled = clients.filter((client) => client.disabled_at === null).length;
    const live = (await new ApiKeyStore(pool).listLive(commandDeadline())).length;
    if (enabled === 0) {
      return warning(
        'No client is enabled, so nobody can call. Create one with: standin client create --name NAME',
      );
    }
    return live > 0
      ? ok(`${enabled} enabled, ${live} live API ${live > 1 ? 'keys' : 'key'}`)
      : warning(
          'No API key is live, so nobody can call. Issue one with: standin api-key issue --client CLIENT_ID',
        );
  });
}

async function database(pool: Pool, options: VaultOptions): Promise<Omit<Finding, 'check'>> {
  const facts = await serverFacts(pool, commandDeadline());
  const problems = serverProblems(facts, options);
  if (problems.length > 0) throw new OperatorError(...problems);
  if (options.databaseUrl === undefined) {
    return ok(
      `embedded PostgreSQL ${facts.version} in ${options.dataDir}; for trying and small use: a power cut can lose the last writes`,
    );
  }
  return facts.unsafeSettings.length > 0
    ? warning(
        `PostgreSQL ${facts.version} with ${facts.unsafeSettings.join(', ')}: a crash can lose acknowledged tokens`,
      )
    : ok(`PostgreSQL ${facts.version}`);
}

function schema(version: number, newest: number): Omit<Finding, 'check'> {
  if (version > newest) {
    throw new OperatorError(
      `The schema has version ${version}, but this program knows only ${newest}. Start a newer release.`,
    );
  }
  return version < newest
    ? warning(
        `The schema has version ${version} of ${newest}; the next start migrates it, or run: standin migrate`,
      )
    : ok(`version ${version}`);
}

async function licenseFinding(files: LicenseFiles): Promise<Omit<Finding, 'check'>> {
  const state = await verifyLicense(files);
  if (state.status === 'valid')
    return ok(`${state.subject}, until ${state.expires_at.toISOString()}`);
  const why = 'problem' in state ? state.problem : `it expired ${state.expires_at.toISOString()}`;
  throw new OperatorError(
    `Tokenize answers 500: ${why}. Put a valid license in ${files.licenseFile}.`,
  );
}

/** Never a problem: the service works without Redis. */
async function redis(redisUrl: string): Promise<Omit<Finding, 'check'>> {
  const { RedisBuckets } = await import('./limits/redis-buckets.ts');
  const buckets = await RedisBuckets.open(redisUrl);
  try {
    await buckets.take(PROBE, 0);
    return ok(`${await buckets.server()}: all nodes share the rate limits`);
  } catch {
    const failure = buckets.failure ?? 'no answer';
    return warning(
      `Redis does not answer (${failure}), so each node limits alone. Check REDIS_URL, that the server runs, and that it accepts this user.`,
    );
  } finally {
    buckets.close();
  }
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
  const explained = operatorError(error);
  if (explained !== undefined) return explained.message;
  const code = errorCode((error as Error).cause) ?? errorCode(error);
  return `The database does not answer${code === undefined ? '' : ` (${code})`}. Check DATABASE_URL, that the server runs, and that it accepts this user.`;
}
