import { setTimeout as sleep } from 'node:timers/promises';
import type { Config } from './config.ts';
import { listen } from './http/listen.ts';
import { endOnUncaught, failureFields, isPretty, type Log, openLog } from './log.ts';
import { createMetrics, type Gauges } from './ops/metrics.ts';
import { createOpsServer, type Scrape } from './ops/server.ts';
import { Workers } from './process/primary.ts';
import { PublicListener } from './process/public-listener.ts';
import { createFirstClient, type IssuedApiKey } from './service/clients.ts';
import { Expiry } from './service/expiry.ts';
import { type KeyFeed, monotonicMs } from './service/key-feed.ts';
import { KeyRenewal } from './service/key-renewal.ts';
import { License } from './service/license.ts';
import {
  CLOSE_TIMEOUT_MS,
  kekSourceOf,
  openVault,
  REQUEST_PATIENCE_MS,
  type Vault,
} from './service/vault.ts';
import { errorCode, operatorError } from './store/failure.ts';
import { countRecords } from './store/server.ts';

const LICENSE_LOOK_INTERVAL_MS = 10_000;
const LICENSE_REMINDER_INTERVAL_MS = 86_400_000;

/** What answers on PORT: this process, or workers of it. */
interface Front {
  readonly url: string;
  readonly metrics: Scrape;
  /** Answers for so long, with /health at 503; then finishes what is in flight. */
  stop(delay_ms: number): Promise<void>;
  /** A fresh process for each, without a request that fails. */
  restart(): void;
}

interface Parts {
  readonly config: Config;
  readonly vault: Vault;
  readonly keys: KeyFeed;
  readonly license: License;
  readonly gauges: Gauges;
  readonly log: Log;
  readonly onFatal: (problems: readonly string[]) => void;
}

/** The service: opens everything, listens, and ends on SIGTERM or SIGINT. */
export async function serve(config: Config): Promise<void> {
  const is_pretty = isPretty(config.LOG_FORMAT);
  const log = await openLog({ level: config.LOG_LEVEL, is_pretty });
  endOnUncaught(log);
  const license = new License(config.license);
  await license.start();
  const is_embedded = config.DATABASE_URL === undefined;
  // The first start makes it, which takes seconds: people at a terminal see that something goes on.
  if (is_embedded && is_pretty) {
    log.info({ data_dir: config.DATA_DIR }, 'opening the embedded database');
  }
  const vault = await openVault(config.vault);
  const expiry = new Expiry({
    pool: vault.pool,
    onFailure: (error) => log.warn(failureFields(error), 'expired records could not be removed'),
  });
  const keys = renewedKeys(vault, config, log);
  await keys.start();
  const gauges = {
    expiredRecords: () => expiry.removed,
    vaultRows: () => countRecords(vault.pool, performance.now() + REQUEST_PATIENCE_MS),
    keyringAge: () => (monotonicMs() - keys.latest.as_of_ms) / 1000,
    licenseDaysLeft: config.license && (() => license.daysLeft() ?? 0),
  };
  const onFatal = (problems: readonly string[]) => {
    log.error({ problems }, 'workers cannot start, ending');
    void stop(0, 1);
  };
  const open = config.WORKERS === 1 ? openAlone : openWorkers;
  const front = await open({ config, vault, keys, license, gauges, log, onFatal });
  const ops = config.OPS_PORT === 0 ? undefined : createOpsServer(front.metrics);
  const ops_url = ops && (await listen(ops, config.OPS_HOST, config.OPS_PORT, 'OPS_PORT'));
  const first = await createFirstClient(vault, config.CLIENT_PREFIX);
  if (first !== undefined) process.stdout.write(firstStart(first, front.url));
  log.info(
    {
      url: front.url,
      ops_url,
      workers: config.WORKERS === 1 ? undefined : config.WORKERS,
      database: is_embedded ? 'embedded' : 'postgres',
      migrations: vault.schema_changes.applied,
      distributed: vault.schema_changes.distributed,
    },
    'listening',
  );
  warnOfLicense(license, log);
  const stop = once(async (delay_ms: number, exit_code: number) => {
    log.info({ delay_ms }, 'draining');
    await front.stop(delay_ms);
    ops?.close();
    keys.stop();
    const closed = expiry.stop().then(() => vault.close());
    await Promise.race([closed, sleep(CLOSE_TIMEOUT_MS)]);
    log.info({}, 'stopped');
    log.flush(() => process.exit(exit_code));
  });
  process.on('SIGTERM', () => void stop(config.DRAIN_DELAY_MS, 0));
  process.on('SIGINT', () => void stop(0, 0));
  process.on('SIGHUP', () => front.restart());
}

/** One process: it answers itself, and hands nothing to others. */
async function openAlone({ config, vault, keys, license, gauges, log }: Parts): Promise<Front> {
  const metrics = createMetrics();
  metrics.observe(gauges);
  const options = { config, vault, keys, license, metrics, log };
  const listener = await PublicListener.open(options);
  return {
    url: listener.url,
    metrics,
    stop: (delay_ms) => listener.drain(delay_ms),
    restart: () => log.info({}, 'nothing to restart one by one: WORKERS is 1'),
  };
}

async function openWorkers({ config, keys, gauges, log, onFatal }: Parts): Promise<Front> {
  const workers = await Workers.start({ config, keys, gauges, log, onFatal });
  return {
    url: workers.url,
    metrics: workers.metrics,
    stop: (delay_ms) => workers.stop(delay_ms),
    restart: () => void workers.roll(),
  };
}

/** What goes wrong with them is logged once, and again when it is well. */
function renewedKeys(vault: Vault, config: Config, log: Log): KeyRenewal {
  return new KeyRenewal(vault.keys, kekSourceOf(config.vault), vault.plain_keys, (problem) => {
    if (problem === undefined) return log.info({}, 'the keyring can be read again');
    const problems = operatorError(problem)?.problems;
    const code = errorCode(problem) ?? errorCode((problem as Error).cause);
    log.warn({ problems, code }, 'the keyring cannot be renewed: this process keeps its keys');
  });
}

/** Says what is wrong with the license when that changes, and again every day. */
function warnOfLicense(license: License, log: Log): void {
  let last: string | undefined;
  let last_at_ms = -Infinity;
  const warn = () => {
    const warning = license.warning();
    const now_ms = performance.now();
    if (warning === last && now_ms - last_at_ms < LICENSE_REMINDER_INTERVAL_MS) return;
    last = warning;
    last_at_ms = now_ms;
    if (warning !== undefined) log.warn({ days_left: license.daysLeft() }, warning);
  };
  warn();
  setInterval(warn, LICENSE_LOOK_INTERVAL_MS).unref();
}

function firstStart(first: IssuedApiKey, url: string): string {
  return `
First start: client ${first.client_id} was made. Its API key, shown only this once:

  ${first.api_key}

Try it:

  curl -s '${url}/api/v1/tokenize' -H 'Authorization: Bearer ${first.api_key}' -H 'Content-Type: application/json' -d '{"data":{"email":"ann@example.com","name":"Ann Lee"}}'

`;
}

function once<T extends unknown[]>(
  work: (...args: T) => Promise<void>,
): (...args: T) => Promise<void> {
  let started: Promise<void> | undefined;
  return (...args) => {
    started ??= work(...args);
    return started;
  };
}
