import type { Server as HttpServer } from 'node:http';
import { Server } from 'node:net';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Config } from '../config/config.ts';
import { Unavailable } from '../errors.ts';
import { Descriptors } from '../http/connections.ts';
import type { ServerContext } from '../http/context.ts';
import { listen, untilAccepted } from '../http/listen.ts';
import { renewCertificate } from '../http/listener.ts';
import { createHttpServer } from '../http/server.ts';
import type { Log } from '../log.ts';
import { defaultBudget, memoryLimits } from '../memory.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { ApiKeyUses } from '../service/api-key-uses.ts';
import { AuditLog } from '../service/audit/audit-log.ts';
import { Authenticator } from '../service/authenticator.ts';
import { Health } from '../service/health.ts';
import { primaryVersion } from '../service/keys/key-news.ts';
import type { KeyRenewal } from '../service/keys/key-renewal.ts';
import type { License } from '../service/license.ts';
import { ByteBudget } from '../service/limits/byte-budget.ts';
import { ClientLimits } from '../service/limits/client-limits.ts';
import { type Limits, openLimits } from '../service/limits/limits.ts';
import { VaultClient } from '../service/threads/vault-client.ts';
import type { Vault } from '../service/vault.ts';
import { ApiKeyStore } from '../store/api-keys.ts';
import type { TlsPem } from '../types.ts';
import { WriteGuards } from './write-guards.ts';

/** Requests in flight get this long after the listener closes. Then their connections are cut. */
const FINISH_TIMEOUT_MS = 8_000;
/**
 * On a shared port, callers get this long to move to another node: each answer tells them to
 * reconnect. Closing their connections at once would fail requests on their way.
 */
const LEAVE_TIMEOUT_MS = 5_000;

/** Below this many connections, the log of the start says so. */
const FEW_CONNECTIONS = 10_000;

export interface PublicListenerOptions {
  readonly config: Config;
  readonly vault: Vault;
  readonly keys: KeyRenewal;
  readonly license: License;
  /** undefined: no TLS. */
  readonly tls: TlsPem | undefined;
  readonly metrics: Metrics;
  readonly log: Log;
}

/** The listener for callers, with everything behind it except the vault. */
export class PublicListener {
  readonly url: string;
  readonly #server: HttpServer;
  readonly #context: ServerContext;
  readonly #limits: Limits;
  readonly #uses: ApiKeyUses;
  readonly #guards: WriteGuards;
  readonly #isShared: boolean;

  static async open(options: PublicListenerOptions): Promise<PublicListener> {
    const { config, metrics, log } = options;
    const limits = await openLimits({
      redisUrl: config.REDIS_URL,
      onChange: (isShared, code) => log.warn({ code }, changeOfLimits(isShared)),
    });
    const uses = new ApiKeyUses(options.vault.api_key_uses);
    const guards = new WriteGuards({ ...options, options: config.vault });
    const budget = new ByteBudget(budgetOf(config), metrics.cutOff);
    log.countWaiting((bytes) => budget.count(bytes));
    metrics.observe({
      postgresSafe: guards.isServerSafe,
      bytesHeld: () => budget.held,
      clientRequests: () => uses.requests(),
      droppedLogLines: () => log.dropped(),
      rateLimitShared: limits.isShared,
      keyVersion: () => primaryVersion(options.keys.latest),
    });
    const context = await createContext(options, limits, uses, guards, budget);
    const server = createHttpServer(context);
    const url = await listen(
      server,
      config.HOST,
      config.PORT,
      'PORT',
      () => server.listen(addressOf(config)),
      options.tls === undefined ? 'http' : 'https',
      config.REUSE_PORT,
    );
    uses.start();
    budget.start();
    guards.start(() => {
      options.vault.pool.reconnect();
      context.vault.reconnect();
    });
    return new PublicListener(url, server, context, limits, uses, guards, config.REUSE_PORT);
  }

  private constructor(
    url: string,
    server: HttpServer,
    context: ServerContext,
    limits: Limits,
    uses: ApiKeyUses,
    guards: WriteGuards,
    isShared: boolean,
  ) {
    this.#isShared = isShared;
    this.#limits = limits;
    this.#uses = uses;
    this.#guards = guards;
    this.url = url;
    this.#server = server;
    this.#context = context;
  }

  /** Makes the audit log check whether its file was renamed. */
  lookAtAudit(): void {
    this.#context.audit?.look();
    this.#context.log.info(
      {},
      'SIGHUP: the next audit line goes to the file that has the configured name now',
    );
  }

  /** Renews the certificate for new connections. */
  renew(tls: TlsPem): void {
    renewCertificate(this.#server, tls);
  }

  /** Drains in order: readiness fails, the listener closes, requests in flight finish. */
  async drain(delayMs: number): Promise<void> {
    if (delayMs > 0) {
      this.#context.state.phase = 'draining';
      await sleep(delayMs);
    }
    if (this.#isShared) await this.#leavePort();
    await this.#close();
  }

  /**
   * Leaves a shared port: new connections go to other nodes. Resolves when all connections have
   * ended, or after LEAVE_TIMEOUT_MS.
   */
  async #leavePort(): Promise<void> {
    const server = this.#server;
    // The system resets connections that still wait to be accepted when the socket closes.
    await untilAccepted(server);
    // Not the HTTP server's own close, which would cut idle connections now.
    const gone = new Promise((resolve) => Server.prototype.close.call(server, resolve));
    // Only after the socket is closed: a caller that is told to reconnect must reach another node.
    this.#context.state.phase = 'draining';
    await Promise.race([gone, sleep(LEAVE_TIMEOUT_MS)]);
  }

  async #close(): Promise<void> {
    this.#context.state.phase = 'closing';
    const cut = setTimeout(() => this.#server.closeAllConnections(), FINISH_TIMEOUT_MS);
    // Requests in flight were counted when they were accepted.
    const usesWritten = this.#uses.stop();
    await new Promise((resolve) => this.#server.close(resolve));
    clearTimeout(cut);
    this.#context.authenticator.stop();
    this.#guards.stop();
    this.#context.budget.stop();
    this.#limits.close();
    await this.#context.audit?.close();
    await usesWritten;
    await this.#context.vault.close();
  }
}

/** @returns listen options with `reusePort` of Node 22.12, which the types of Node 20 lack */
function addressOf({ HOST: host, PORT: port, REUSE_PORT }: Config) {
  return REUSE_PORT ? { host, port, reusePort: true } : { host, port };
}

/** The memory budget in bytes. */
function budgetOf({ MEMORY_BUDGET, BODY_LIMIT }: Config): number {
  return MEMORY_BUDGET ?? defaultBudget(memoryLimits(), BODY_LIMIT);
}

function changeOfLimits(isShared: boolean): string {
  return isShared
    ? 'Redis answers again: rate limits are shared'
    : 'Redis does not answer: this process limits on its own';
}

async function createContext(
  options: PublicListenerOptions,
  limits: Limits,
  uses: ApiKeyUses,
  guards: WriteGuards,
  budget: ByteBudget,
): Promise<ServerContext> {
  const { config, vault, keys, tls, metrics, log } = options;
  const authenticator = new Authenticator(new ApiKeyStore(vault.vital.keys), vault.keyring, uses);
  // If the database went away after the vault opened, API keys are read when it is back.
  await authenticator.start().catch((error) => {
    if (!(error instanceof Unavailable)) throw error;
  });
  const data = { vault: config.vault, keys: keys.latest, timeline: vault.timeline.shared };
  const vaultClient = new VaultClient(data, guards, {
    batch: metrics.batch,
    damaged: metrics.damaged,
    keysWanted: () => keys.demand(),
  });
  keys.subscribe((news) => vaultClient.renew(news));
  return {
    interfaceVersion: config.INTERFACE_VERSION,
    bodyLimit: config.BODY_LIMIT,
    valuesLimit: config.VALUES_LIMIT,
    authenticator,
    vault: vaultClient,
    tokenSuffix: config.TOKEN_SUFFIX,
    limits: openClientLimits(options, limits),
    budget,
    health: new Health(vault.vital.health, guards),
    metrics,
    log,
    audit: openAudit(options, budget),
    state: { phase: 'serving' },
    descriptors: descriptorsOf(options),
    tls,
  };
}

function descriptorsOf({ config, log }: PublicListenerOptions): Descriptors {
  const descriptors = new Descriptors(config.DATABASE_CONNECTIONS);
  const { connections } = descriptors;
  if (connections < FEW_CONNECTIONS)
    log.info({ connections }, 'the limit of open files bounds the connections of callers');
  return descriptors;
}

function openClientLimits({ config, log }: PublicListenerOptions, limits: Limits): ClientLimits {
  const defaults = {
    requests: config.RATE_LIMIT,
    detokenize: config.DETOKENIZE_LIMIT,
    unknown_tokens: config.UNKNOWN_TOKEN_LIMIT,
  };
  return new ClientLimits(limits.rateLimiter, defaults, (clientId, limit, refused) =>
    log.warn({ client_id: clientId, limit, refused }, 'a client is over its limit'),
  );
}

function openAudit(options: PublicListenerOptions, budget: ByteBudget): AuditLog | undefined {
  const { config, metrics, log } = options;
  if (config.AUDIT_LOG === undefined) return undefined;
  return new AuditLog({
    path: config.AUDIT_LOG,
    isRequired: config.AUDIT_REQUIRED,
    node: hostname(),
    onLost: metrics.unaudited,
    onWaiting: (bytes) => budget.count(bytes),
    onChange: (isAvailable, code) => {
      if (isAvailable) log.warn({}, 'the audit log can be written again');
      else log.error({ code }, 'the audit log cannot be written');
    },
  });
}
