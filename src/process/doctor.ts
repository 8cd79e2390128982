import { stat, statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { issuerState } from '../access/issuer-keys.ts';
import { verifyLicense } from '../access/license.ts';
import { checkAuditFile, STANDARD_OUTPUT } from '../audit/audit-file.ts';
import type { Config } from '../config/config.ts';
import { kekOf } from '../crypto/kek.ts';
import { analyze, type PresidioOptions } from '../detect/presidio.ts';
import { errorCode, OperatorError, operatorError } from '../errors.ts';
import { isNamed, kekSourceOf } from '../kek/kek-source.ts';
import type { KekSource } from '../kek/source.ts';
import { PROBE } from '../limits/shared-buckets.ts';
import type { LicenseFiles, TlsFiles, VaultOptions } from '../options.ts';
import { policyState } from '../policy/policies.ts';
import { ApiKeyStore } from '../store/api-keys.ts';
import { ClientStore } from '../store/clients.ts';
import { PolicyStore } from '../store/policies.ts';
import type { Pool } from '../store/pool.ts';
import { countByVersion } from '../store/record-counts.ts';
import { missingRights } from '../store/rights.ts';
import {
  readMigrations,
  requireKnown,
  requireNothingForeign,
  schemaVersion,
} from '../store/schema.ts';
import { serverFacts } from '../store/server.ts';
import { WrappedKeyStore } from '../store/wrapped-keys.ts';
import { count } from '../terminal.ts';
import { commandDeadline } from '../timeouts.ts';
import type { Finding, WrappedKey } from '../types.ts';
import { checkSuffix, unwrap } from '../vault/open-keys.ts';
import { openPool } from '../vault/pools.ts';
import { serverProblems } from '../vault/vault.ts';
import { noVault, requireFolder } from '../vault/vault-place.ts';
import { Certificate } from './certificate.ts';

/** The parts of the configuration that doctor checks. */
type Examined = Pick<
  Config,
  'vault' | 'license' | 'jwt' | 'presidio' | 'tls' | 'REDIS_URL' | 'AUDIT_LOG'
>;

/** A text: it is ok. A check that throws has found a problem. */
type Result = string | Omit<Finding, 'check'>;

/** Does a check, and notes what it finds; resolves to the status. */
type Run = (check: string, read: () => Result | Promise<Result>) => Promise<Finding['status']>;

/**
 * Checks everything that a start needs, and changes nothing. After a problem, it continues with the
 * checks that are still possible.
 */
export async function examine(examined: Examined): Promise<Finding[]> {
  const { vault, license, jwt, presidio, tls, REDIS_URL: redisUrl, AUDIT_LOG: auditLog } = examined;
  const findings: Finding[] = [];
  const run: Run = async (check, read) => {
    const failed = (error: unknown): Result => ({ status: 'problem', detail: problemText(error) });
    const found = await (async () => read())().catch(failed);
    const result = typeof found === 'string' ? ({ status: 'ok', detail: found } as const) : found;
    findings.push({ check, ...result });
    return result.status;
  };
  const pool = openPool(vault);
  try {
    await examineVault(run, pool, vault, presidio);
  } finally {
    await pool.end();
  }
  if (license !== undefined) await run('license', () => licenseState(license));
  if (jwt !== undefined) await run('jwt issuer', () => issuerState(jwt));
  if (presidio !== undefined) await run('presidio', () => presidioState(presidio));
  if (redisUrl !== undefined) await run('redis', () => redis(redisUrl));
  if (tls !== undefined) await run('tls certificate', () => certificate(tls));
  if (auditLog !== undefined) await run('audit log', () => auditFile(auditLog));
  return findings;
}

async function examineVault(
  run: Run,
  pool: Pool,
  vault: VaultOptions,
  presidio: PresidioOptions | undefined,
): Promise<void> {
  const keys = new WrappedKeyStore(pool);
  let wrapped: readonly WrappedKey[] = [];
  const reached = await run('database', () => {
    requireFolder(vault);
    return database(pool, vault);
  });
  let isNewest = false;
  if (reached !== 'problem') {
    const found = await run('schema', async () => {
      const version = await schemaVersion(pool, commandDeadline());
      if (version === 0) throw noVault(vault);
      wrapped = await keys.list(commandDeadline());
      return schema(version, readMigrations().at(-1)!.version);
    });
    isNewest = wrapped.length > 0 && found === 'ok';
    if (isNewest) await run('rights', () => rights(pool));
    await run('owners', async () => {
      await requireNothingForeign(pool.queryUntil(commandDeadline()));
      return 'nobody else has put anything into the schema of the vault';
    });
  }
  // Without a vault, the KEK file in DATA_DIR does not exist yet.
  if (wrapped.length > 0 || isNamed(vault.kek))
    await run('key-encryption key', () => kek(kekSourceOf(vault), wrapped));
  if (wrapped.length === 0) return;
  await run('records', () => records(pool, wrapped));
  await run('token suffix', async () => {
    await checkSuffix(keys, vault.token_suffix, commandDeadline());
    return `_${vault.token_suffix}`;
  });
  // An older schema has neither policies nor all columns of clients.
  if (!isNewest) return;
  await run('clients', () => clients(pool));
  await run('policy', () => policyState(new PolicyStore(pool), presidio !== undefined));
}

async function presidioState({ url, language }: PresidioOptions): Promise<Result> {
  await analyze({ url, language }, 'Ann', ['PERSON']).catch((error) => {
    throw new OperatorError(
      `${url} does not analyze texts (${errorCode(error.cause)}). Check PRESIDIO_URL, PRESIDIO_LANGUAGE, and that the analyzer runs.`,
    );
  });
  return `${url} analyzes texts (${language})`;
}

async function rights(pool: Pool): Promise<Result> {
  const missing = await missingRights(pool, commandDeadline());
  if (missing.length === 0) return 'the database user has the rights it needs';
  throw new OperatorError(
    `The user of DATABASE_URL lacks ${missing.join(', ')}. As the owner of the vault's tables, run: standin migrate --grant-to ROLE`,
  );
}

async function kek(source: KekSource, wrapped: readonly WrappedKey[]): Promise<Result> {
  const kek = kekOf(await source.read());
  unwrap(wrapped, kek, source);
  const opens = wrapped.length > 0 ? `opens all ${count(wrapped.length, 'key')}` : 'can be read';
  return `${source.place} (${kek.id}) ${opens}`;
}

/**
 * AES-GCM with random nonces allows 2^32 records a key (NIST SP 800-38D, 8.3). A DEK has 256
 * subkeys; rotate at half of their total.
 */
const ROTATE_AT_RECORDS = 2 ** 39;

/** Samples a large vault. `verify` opens every record. */
async function records(pool: Pool, wrapped: readonly WrappedKey[]): Promise<Result> {
  const { byVersion, isExact } = await countByVersion(pool, commandDeadline());
  const about = isExact ? '' : 'about ';
  const deks = new Set(wrapped.filter(({ purpose }) => purpose === 'dek').map((k) => k.version));
  const lost = [...byVersion].filter(([version]) => !deks.has(version));
  if (lost.length > 0) {
    const listed = lost.map(
      ([version, number]) => `${about}${count(number)} with version ${version}`,
    );
    return warning(
      `The keyring lacks the key of some records, so nobody can open them: ${listed.join(', ')}. Restore the rows of standin.keyring from a backup with the same KEK.`,
    );
  }
  const ofPrimary = byVersion.get(Math.max(...deks)) ?? 0;
  if (ofPrimary >= ROTATE_AT_RECORDS) {
    return warning(
      `One key seals ${about}${count(ofPrimary, 'record')}. Run: standin keyring rotate`,
    );
  }
  const all = [...byVersion.values()].reduce((sum, count) => sum + count, 0);
  const versions = [...byVersion.keys()].sort((a, b) => a - b).join(', ');
  return all === 0 ? 'none yet' : `${about}${count(all)}, of key version ${versions}`;
}

async function clients(pool: Pool): Promise<Result> {
  const all = await new ClientStore(pool).list(commandDeadline());
  const enabled = all.filter((client) => client.disabled_at === null).length;
  const live = (await new ApiKeyStore(pool).listLive(commandDeadline())).length;
  if (enabled === 0) {
    return warning(
      'No client is enabled, so nobody can call. Create one with: standin client create --name NAME',
    );
  }
  return live > 0
    ? `${enabled} enabled, ${count(live, 'live API key')}`
    : warning(
        'No API key is live, so nobody can call. Issue one with: standin api-key issue --client CLIENT_ID',
      );
}

async function database(pool: Pool, options: VaultOptions): Promise<Result> {
  const facts = await serverFacts(pool, commandDeadline());
  const problems = serverProblems(facts, options);
  if (problems.length > 0) throw new OperatorError(...problems);
  if (options.databaseUrl === undefined) {
    return `embedded PostgreSQL ${facts.version} in ${options.dataDir}; for trying and small use: a power cut can lose the last writes`;
  }
  const server = `PostgreSQL ${facts.version}`;
  if (facts.unsafeSettings.length === 0) return server;
  const settings = facts.unsafeSettings.join(', ');
  return warning(`${server} with ${settings}: a crash can lose acknowledged tokens`);
}

function schema(version: number, newest: number): Result {
  requireKnown(version, newest);
  return version < newest
    ? warning(
        `The schema has version ${version} of ${newest}; the next start migrates it, or run: standin migrate`,
      )
    : `version ${version}`;
}

async function licenseState(files: LicenseFiles): Promise<Result> {
  const state = await verifyLicense(files);
  if (state.status === 'valid') return `${state.subject}, until ${state.expires_at.toISOString()}`;
  const why = 'problem' in state ? state.problem : `it expired ${state.expires_at.toISOString()}`;
  throw new OperatorError(
    `Tokenize answers 500: ${why}. Put a valid license in ${files.licenseFile}.`,
  );
}

/** Never a problem: the service works without Redis. */
async function redis(redisUrl: string): Promise<Result> {
  const { RedisBuckets } = await import('../limits/redis-buckets.ts');
  const buckets = await RedisBuckets.open(redisUrl);
  try {
    await buckets.charge(PROBE, 0);
    return 'it answers: all nodes share the rate limits';
  } catch {
    const failure = buckets.failure ?? 'no answer';
    return warning(
      `Redis does not answer (${failure}), so each node limits alone. Check REDIS_URL, that the server runs, and that it accepts this user.`,
    );
  } finally {
    buckets.close();
  }
}

function certificate(files: TlsFiles): Result {
  const made = new Certificate(files);
  const problem = made.warning();
  if (problem !== undefined) return warning(`${problem}. Replace it.`);
  return `until ${made.expiresAt.toISOString()}`;
}

const GIB = 2 ** 30;
/** Room for two million lines of 500 bytes: time enough to react. */
const WARN_FREE_BYTES = GIB;

/** @throws OperatorError when the audit log cannot be written */
async function auditFile(path: string): Promise<Result> {
  if (path === STANDARD_OUTPUT) return 'standard output';
  const written = await checkAuditFile(path, false);
  if (written === undefined) return `${path} can be written, and is not a file on a disk`;
  const { bavail, bsize } = await statfs(written);
  const space = `${((bavail * bsize) / GIB).toFixed(1)} GiB free on the disk of ${await mountOf(written)}`;
  return bavail * bsize >= WARN_FREE_BYTES
    ? `${path} can be written, ${space}`
    : warning(
        `${path} can be written, but ${space}. Make room there, or set AUDIT_LOG to a file on another disk.`,
      );
}

/**
 * The topmost folder on the same file system.
 * @param path without symbolic links
 */
async function mountOf(path: string): Promise<string> {
  const { dev } = await stat(path);
  let at = path;
  while (at !== dirname(at) && (await stat(dirname(at))).dev === dev) at = dirname(at);
  return at;
}

function warning(detail: string): Result {
  return { status: 'warning', detail };
}

function problemText(error: unknown): string {
  const explained = operatorError(error);
  if (explained !== undefined) return explained.problems.join(' ');
  const code = errorCode((error as Error).cause) ?? errorCode(error);
  if (code === '3D000')
    return 'The server has no database of this name (3D000). Create it, or correct DATABASE_URL.';
  return `The database does not answer${code === undefined ? '' : ` (${code})`}. Check DATABASE_URL, that the server runs, and that it accepts this user.`;
}
