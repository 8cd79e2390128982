import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';
import type { Config } from './config.ts';
import { OperatorError } from './errors.ts';
import type { ServerContext } from './http/context.ts';
import { createHttpServer } from './http/server.ts';
import { failureFields, type Log, openLog } from './log.ts';
import { createMetrics, type Metrics } from './ops/metrics.ts';
import { createOpsServer } from './ops/server.ts';
import { Authenticator } from './service/authenticator.ts';
import { createFirstClient, type IssuedApiKey } from './service/clients.ts';
import { Health } from './service/health.ts';
import { License } from './service/license.ts';
import { type Limits, openLimits } from './service/limits.ts';
import { openVault, REQUEST_PATIENCE_MS, type Vault } from './service/vault.ts';
import { VaultClient } from './service/vault-client.ts';
import { countRecords } from './store/server.ts';

/**
 * In-flight requests get this long after the listener is closed; then their connections are cut.
 */
const FINISH_TIMEOUT_MS = 8_000;
/** A database that does not take leave must not keep the process. */
const CLOSE_TIMEOUT_MS = 2_000;
const LIMITS_SHARED = 'Redis answers again: all nodes share the rate limits';
const LIMITS_NOT_SHARED = 'Redis does not answer: this node limits on its own';
const LICENSE_LOOK_INTERVAL_MS = 10_000;
const LICENSE_REMINDER_INTERVAL_MS = 86_400_000;

/** The service: opens everything, listens, and ends on SIGTERM or SIGINT. */
export async function serve(config: Config): Promise<void> {
  const log = await openLog({ level: config.LOG_LEVEL, is_pretty: isPretty(config) });
  endOnUncaught(log);
  const metrics = createMetrics();
  const license = new License(config.license);
  await license.start();
  const is_embedded = config.DATABASE_URL === undefined;
  // The first start makes it, which takes seconds: people at a terminal see that something goes on.
  if (is_embedded && isPretty(config)) {
    log.info({ data_dir: config.DATA_DIR }, 'opening the embedded database');
  }
  const vault = await openVault(config.vault);
  const limits = await openLimits(config.REDIS_URL, (is_shared, code) =>
    log.warn({ code }, is_shared ? LIMITS_SHARED : LIMITS_NOT_SHARED),
  );
  const context = await createContext(config, vault, license, limits, metrics, log);
  const app = createHttpServer(context);
  const ops = config.OPS_PORT === 0 ? undefined : createOpsServer(metrics);
  const url = await listen(app.server, config.HOST, config.PORT, 'PORT', () =>
    app.listen({ host: config.HOST, port: config.PORT }),
  );
  const ops_url =
    ops &&
    (await listen(ops, config.OPS_HOST, config.OPS_PORT, 'OPS_PORT', () =>
      ops.listen(config.OPS_PORT, config.OPS_HOST),
    ));
  const first = await createFirstClient(vault, config.CLIENT_PREFIX);
  if (first !== undefined) process.stdout.write(firstStart(first, url));
  log.info(
    {
      url,
      ops_url,
      database: is_embedded ? 'embedded' : 'postgres',
      migrations: vault.schema_changes.applied,
      distributed: vault.schema_changes.distributed,
    },
    'listening',
  );
  warnOfLicense(license, log);
  const stop = once((delay_ms: number) =>
    shutDown(context, app, ops, limits, vault, delay_ms, log),
  );
  process.on('SIGTERM', () => void stop(config.DRAIN_DELAY_MS));
  process.on('SIGINT', () => void stop(0));
  // The default of Node would open a debugger port, with all keys behind it.
  process.on('SIGUSR1', () => {});
}

async function createContext(
  config: Config,
  vault: Vault,
  license: License,
  limits: Limits,
  metrics: Metrics,
  log: Log,
): Promise<ServerContext> {
  const authenticator = new Authenticator(vault.clients, vault.api_keys, vault.keyring);
  await authenticator.start();
  metrics.observe({
    vaultRows: () => countRecords(vault.pool, performance.now() + REQUEST_PATIENCE_MS),
    licenseDaysLeft: config.license && (() => license.daysLeft() ?? 0),
    rateLimitShared: limits.isShared,
  });
  return {
    interface_version: config.INTERFACE_VERSION,
    body_limit: config.BODY_LIMIT,
    values_limit: config.VALUES_LIMIT,
    rate_limit: config.RATE_LIMIT,
    authenticator,
    rate_limiter: limits.rate_limiter,
    vault: new VaultClient({ vault: config.vault, keys: vault.plain_keys }, license, metrics),
    health: new Health(vault.pool),
    metrics,
    log,
    state: { phase: 'serving' },
  };
}

/** Readiness first, then the listener, then what is in flight, then the database. */
async function shutDown(
  context: ServerContext,
  app: FastifyInstance,
  ops: Server | undefined,
  limits: Limits,
  vault: Vault,
  delay_ms: number,
  log: Log,
): Promise<void> {
  context.state.phase = 'draining';
  log.info({ delay_ms }, 'draining');
  await sleep(delay_ms);
  context.state.phase = 'closing';
  const cut = setTimeout(() => app.server.closeAllConnections(), FINISH_TIMEOUT_MS);
  await app.close();
  clearTimeout(cut);
  ops?.close();
  context.authenticator.stop();
  limits.close();
  await Promise.race([
    Promise.all([context.vault.close(), vault.close()]),
    sleep(CLOSE_TIMEOUT_MS),
  ]);
  log.info({}, 'stopped');
  log.flush(() => process.exit(0));
}

/** @returns the URL it listens on; OperatorError that names the setting when it cannot */
async function listen(
  server: Server,
  host: string,
  port: number,
  setting: string,
  start: () => unknown,
): Promise<string> {
  await new Promise<void>((resolve, reject) => {
    const fail = (error: NodeJS.ErrnoException) =>
      reject(
        new OperatorError(
          `Cannot listen on ${host}:${port} (${error.code}). ${listenRemedy(error.code, setting)}`,
        ),
      );
    server.once('listening', resolve);
    server.once('error', fail);
    Promise.resolve(start()).catch(fail);
  });
  const { address, family, port: bound } = server.address() as AddressInfo;
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${bound}`;
}

function listenRemedy(code: string | undefined, setting: string): string {
  if (code === 'EADDRINUSE') return `Stop what listens there, or set ${setting} to another port.`;
  if (code === 'EACCES')
    return `This user may not take that port: set ${setting} to one above 1023.`;
  return `Set ${setting.replace('PORT', 'HOST')} to an address of this machine.`;
}

function isPretty(config: Config): boolean {
  return (
    config.LOG_FORMAT === 'pretty' ||
    (config.LOG_FORMAT === 'auto' && process.stdout.isTTY === true)
  );
}

/** Half alive is worse than dead: the supervisor starts a whole one. */
function endOnUncaught(log: Log): void {
  process.on('uncaughtException', (error) => {
    log.error(failureFields(error), 'unexpected failure, ending');
    log.flush(() => process.exit(1));
    setTimeout(() => process.exit(1), 500);
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

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
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
