import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { License } from './access/license.ts';
import { checkAuditFile } from './audit/audit-file.ts';
import type { Config } from './config/config.ts';
import { kekSourceOf } from './kek/kek-source.ts';
import {
  endOnUncaught,
  failureFields,
  isPretty,
  type Log,
  openLog,
  problemFields,
} from './observe/log.ts';
import { createMetrics } from './observe/metrics.ts';
import { remind } from './observe/reminder.ts';
import { Certificate } from './process/certificate.ts';
import { createFirst } from './process/first-client.ts';
import type { OpsListener } from './process/ops-listener.ts';
import { openPublicListener, type PublicListener } from './process/public-listener.ts';
import { Expiry } from './records/removal.ts';
import { WrappedKeyStore } from './store/wrapped-keys.ts';
import { CLOSE_TIMEOUT_MS, monotonicMs } from './timeouts.ts';
import { KeyringFollower } from './vault/keyring-follower.ts';
import { openVault, type Vault } from './vault/vault.ts';
import { VaultSizes } from './vault/vault-size.ts';

/** How long a stop waits for a listener that is still opening. */
const OPEN_TIMEOUT_MS = 3_000;
/**
 * V8 would keep four more threads busy to collect the little garbage of small requests: 4 % of the
 * processor time of a tokenize.
 */
const ONE_COLLECTOR = '--no-parallel-scavenge';

/** Runs the service: opens everything, listens, and ends on SIGTERM or SIGINT. */
export async function serve(config: Config): Promise<void> {
  setFlagsFromString(ONE_COLLECTOR);
  const signals = new Signals(config.DRAIN_DELAY_MS);
  try {
    await start(config, signals);
  } catch (error) {
    // A stop during the start closes parts that the start still uses, which then fails. That is no
    // error.
    await signals.unlessEnding();
    throw error;
  }
}

async function start(config: Config, signals: Signals): Promise<void> {
  const isForReaders = isPretty(config.LOG_FORMAT);
  const log = await startLog(config, isForReaders);
  const license = new License(config.license);
  await license.start();
  if (config.AUDIT_LOG !== undefined) await checkAuditFile(config.AUDIT_LOG, true);
  // A node without an ops listener does not wait for its modules.
  const opsModule = config.OPS_PORT === 0 ? undefined : await import('./process/ops-listener.ts');
  await opsModule?.checkOpsPort(config);
  const certificate = config.tls && new Certificate(config.tls);
  // The first start creates the database, which takes seconds. Show people at a terminal that it is
  // at work.
  if (config.DATABASE_URL === undefined && isForReaders) {
    log.info({ data_dir: config.DATA_DIR }, 'opening the embedded database');
  }
  const vault = await openVault(config.vault);
  const expiry = new Expiry({
    pool: vault.pool,
    onFailure: (error) => log.warn(failureFields(error), 'expired records could not be removed'),
  });
  const keys = renewedKeys(vault, config, log);
  await keys.start();
  const sizes = new VaultSizes(vault.pool);
  const metrics = createMetrics();
  metrics.observe({
    standin_expired_records_total: () => expiry.removed,
    standin_vault_rows: async () => (await sizes.read()).records,
    standin_keyring_age_seconds: () => (monotonicMs() - keys.latest.asOfMs) / 1000,
    standin_license_days_left: config.license && (() => license.daysLeft() ?? 0),
    standin_tls_certificate_expires_seconds: certificate && (() => certificate.expiresAt),
  });
  log.debug({}, 'vault opened');
  const parts = { config, vault, keys, license, certificate, metrics, log };
  const opening = openPublicListener(parts);
  let ops: OpsListener | undefined;
  signals.end = async (delayMs) => {
    log.info({ delay_ms: delayMs }, 'draining');
    const heldBytes = await stopAnswering(opening, delayMs);
    await Promise.race([ops?.close(), sleep(CLOSE_TIMEOUT_MS)]);
    keys.stop();
    await Promise.race([expiry.stop().then(() => vault.close()), sleep(CLOSE_TIMEOUT_MS)]);
    log.info({ held_bytes: heldBytes }, 'stopped');
    log.output.end(0);
  };
  signals.onHangUp = () => void opening.then(({ context }) => refreshAudit(context));
  const listener = await opening;
  const { url } = listener;
  ops = await opsModule?.openOpsListener({ ...parts, listener, sizes });
  if (certificate !== undefined) keepFresh(certificate, [listener, ops], log);
  await createFirst(vault, config, { url, opsUrl: ops?.url, certificate }, log);
  const database = config.DATABASE_URL === undefined ? 'embedded' : 'postgres';
  log.info({ url, ops_url: ops?.url, database }, 'listening');
  log.debug(vault.schemaChanges, 'schema');
  const daysLeft = () => ({ days_left: license.daysLeft() });
  remind(log, () => license.warning(), daysLeft);
}

/** Makes the audit log check whether its file was renamed. */
function refreshAudit({ audit, log }: PublicListener['context']): void {
  audit?.refresh();
  log.info({}, 'SIGHUP: the next audit line goes to the file that has the configured name now');
}

async function startLog(config: Config, isForReaders: boolean): Promise<Log> {
  const log = await openLog(config.LOG_LEVEL, isForReaders);
  endOnUncaught(log);
  for (const words of config.unknownSettings) log.warn({}, words);
  log.debug({}, 'starting');
  return log;
}

/**
 * Drains the listener, even while it opens, because it may have answered already. If opening fails,
 * there is nothing to drain.
 */
async function stopAnswering(opening: Promise<PublicListener>, delayMs: number) {
  const listener = await Promise.race([opening.catch(() => undefined), sleep(OPEN_TIMEOUT_MS)]);
  return listener?.drain(delayMs);
}

/** Keeps the keys renewed. Logs each problem once, and again when it is solved. */
function renewedKeys(vault: Vault, config: Config, log: Log): KeyringFollower {
  const store = new WrappedKeyStore(vault.vital.keys);
  return new KeyringFollower(store, kekSourceOf(config.vault), vault.plainKeys, (problem) => {
    if (problem === undefined) return log.info({}, 'the keyring can be read again');
    log.warn(problemFields(problem), 'the keyring cannot be renewed: this process keeps its keys');
  });
}

/** Uses new certificate files without a restart. */
function keepFresh(
  certificate: Certificate,
  listeners: readonly (Pick<PublicListener, 'renew'> | undefined)[],
  log: Log,
): void {
  const expiry = () => ({ expires_at: certificate.expiresAt });
  remind(log, () => certificate.warning(), expiry);
  certificate.watch((change) => {
    if ('problem' in change) return log.error(change, 'TLS certificate not renewed');
    for (const listener of listeners) listener?.renew(change.pem);
    log.info(expiry(), 'TLS certificate renewed');
  });
}

/**
 * Handles SIGTERM, SIGINT and SIGHUP from the start of the service. Without a handler, each of them
 * would kill the process, even while it answers its first requests.
 */
class Signals {
  /** Until it is set there is nothing to finish, so a signal ends the process at once. */
  end: (delayMs: number) => Promise<void> = async () => process.exit(0);
  onHangUp = () => {};
  #ended: Promise<void> | undefined;

  /** @param drainDelayMs delay before a stop by SIGTERM */
  constructor(drainDelayMs: number) {
    // Remove the handlers that the command line uses while the program loads.
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.removeAllListeners(signal);
    process.on('SIGTERM', () => this.#stop(drainDelayMs));
    process.on('SIGINT', () => this.#stop(0));
    process.on('SIGHUP', () => this.onHangUp());
  }

  /** Only the first call has an effect. */
  #stop(delayMs: number): void {
    this.#ended ??= this.end(delayMs);
  }

  /**
   * Resolves when no signal has asked the process to end. Otherwise it never resolves, and the
   * process ends by itself.
   */
  async unlessEnding(): Promise<void> {
    if (this.#ended !== undefined) await new Promise(() => {});
  }
}
