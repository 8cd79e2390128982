import type { Server as HttpServer } from 'node:http';
import { Server } from 'node:net';
import { type Duplex, duplexPair } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { ApiKeyUses } from '../access/api-key-uses.ts';
import type { License } from '../access/license.ts';
import type { Config } from '../config/config.ts';
import type { Buckets } from '../limits/buckets.ts';
import { ByteBudget } from '../limits/byte-budget.ts';
import { ClientLimits } from '../limits/client-limits.ts';
import { openBuckets } from '../limits/shared-buckets.ts';
import { defaultBudget, memoryLimits } from '../memory.ts';
import { type Log, problemFields } from '../observe/log.ts';
import type { Metrics } from '../observe/metrics.ts';
import { RecentRequests } from '../observe/recent-requests.ts';
import { PolicyFollower, PolicyNotDurable } from '../policy/policy-follower.ts';
import { PolicyGate } from '../policy/policy-gate.ts';
import { readOffThread } from '../policy/policy-work.ts';
import type { ServerContext } from '../public/context.ts';
import { createHttpServer } from '../public/server.ts';
import type { Tracing } from '../public/tracing.ts';
import { Descriptors } from '../public/transport/connections.ts';
import { listen, untilAccepted } from '../public/transport/listen.ts';
import { renewCertificate } from '../public/transport/listener.ts';
import { PolicyStore } from '../store/policies.ts';
import { Health } from '../tokens/health.ts';
import { VaultClient } from '../tokens/threads/vault-client.ts';
import { WriteGuards } from '../tokens/write-guards.ts';
import type { TlsPem } from '../types.ts';
import type { KeyringFollower } from '../vault/keyring-follower.ts';
import type { Vault } from '../vault/vault.ts';
import { openAudit } from './audit.ts';
import { openAuthenticator } from './authentication.ts';
import type { Certificate } from './certificate.ts';
import { openTracing } from './tracing.ts';

/** Requests in flight get this long after the listener closes. Then their connections are cut. */
const FINISH_TIMEOUT_MS = 8_000;
/**
 * On a shared port, callers get this long to move to another node: each answer tells them to
 * reconnect. Closing their connections at once would fail requests on their way.
 */
const LEAVE_TIMEOUT_MS = 5_000;

/** Below this many connections, the log of the start says so. */
const FEW_CONNECTIONS = 10_000;

/** What main.ts has opened for both listeners. */
export interface ListenerOptions {
  readonly config: Config;
  readonly vault: Vault;
  readonly keys: KeyringFollower;
  readonly license: License;
  /** undefined: no TLS. */
  readonly certificate: Certificate | undefined;
  readonly metrics: Metrics;
  readonly log: Log;
}

/** Opens the listener for callers, with everything behind it except the vault. */
export async function openPublicListener(options: ListenerOptions): Promise<PublicListener> {
  const { config, vault, certificate, log } = options;
  const parts = await openParts(options);
  const { context, uses, guards } = parts;
  const server = createHttpServer(context);
  const url = await listen(
    server,
    config.HOST,
    config.PORT,
    'PORT',
    () => server.listen(addressOf(config)),
    certificate === undefined ? 'http' : 'https',
    config.REUSE_PORT,
  );
  uses.start();
  context.budget.start();
  guards.start((settings) => {
    if (settings.length > 0) return log.error({ settings }, 'PostgreSQL can lose tokens');
    log.info({}, 'PostgreSQL keeps tokens again');
    vault.pool.reconnect();
    context.vault.reconnect();
  });
  return new PublicListener(url, server, parts, config.REUSE_PORT);
}

/** What the listener opens and closes. */
interface Parts {
  readonly context: ServerContext;
  readonly buckets: Buckets;
  readonly uses: ApiKeyUses;
  readonly guards: WriteGuards;
  readonly policies: PolicyFollower;
}

export class PublicListener {
  readonly url: string;
  readonly #server: HttpServer;
  readonly #parts: Parts;
  #hasCut = false;
  readonly #context: ServerContext;
  readonly #isPortShared: boolean;

  constructor(url: string, server: HttpServer, parts: Parts, isPortShared: boolean) {
    this.url = url;
    this.#server = server;
    this.#parts = parts;
    this.#context = parts.context;
    this.#isPortShared = isPortShared;
  }

  /** What the ops listener and the admin API share with callers. */
  get shared(): Pick<ServerContext, 'vault' | 'policies' | 'audit' | 'state' | 'budget'> {
    return this.#context;
  }

  /** What the console shows of it. */
  get shown(): { readonly recent: RecentRequests; readonly policies: PolicyFollower } {
    return { recent: this.#context.recent, policies: this.#parts.policies };
  }

  /** Opens a connection from within the process, with all bounds of the listener. */
  connect(remoteAddress: string | undefined): Duplex {
    const [near, far] = duplexPair();
    const ready = 'setSecureContext' in this.#server ? 'secureConnection' : 'connection';
    this.#server.emit(ready, Object.assign(far, { remoteAddress }));
    return near;
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

  /** undefined: some were cut, and may still wait for the database. */
  get heldByRequests(): number | undefined {
    return this.#hasCut ? undefined : this.#context.budget.heldByRequests;
  }

  /** Drains in order: readiness fails, the listener closes, requests in flight finish. */
  async drain(delayMs: number): Promise<void> {
    if (delayMs > 0) {
      this.#context.state.phase = 'draining';
      await sleep(delayMs);
    }
    if (this.#isPortShared) await this.#leavePort();
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
    const cut = setTimeout(() => {
      this.#hasCut = true;
      this.#server.closeAllConnections();
    }, FINISH_TIMEOUT_MS);
    const { uses, guards, buckets, policies } = this.#parts;
    // Requests in flight were counted when they were accepted.
    const usesWritten = uses.stop();
    await new Promise((resolve) => this.#server.close(resolve));
    clearTimeout(cut);
    this.#context.authenticator.stop();
    guards.stop();
    policies.stop();
    this.#context.budget.stop();
    buckets.close();
    await this.#context.audit?.close();
    await this.#context.tracing?.close();
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

async function openParts(options: ListenerOptions): Promise<Parts> {
  const { config, vault, keys, license, metrics, log } = options;
  const buckets = await openBuckets(config.REDIS_URL, (isShared, code) =>
    log.warn(
      { code },
      isShared
        ? 'Redis answers again: rate limits are shared'
        : 'Redis does not answer: this process limits on its own',
    ),
  );
  const uses = new ApiKeyUses(vault.apiKeys);
  const pool = vault.vital.keys;
  const guards = new WriteGuards({
    ...{ vault: config.vault, pool, keys, license },
    onSpace: (hasSpace) => {
      if (hasSpace) log.info({}, 'the disk of the database has space again');
      else log.error({}, 'the disk of the database is full: /health answers 503');
    },
  });
  const budget = new ByteBudget(budgetOf(config), metrics.cutOff);
  log.countWaiting((bytes) => budget.count(bytes));
  metrics.observe({
    postgresSafe: guards.isServerSafe,
    bytesHeld: () => budget.held,
    clientCounts: () => uses.counts(),
    droppedLogLines: () => log.dropped(),
    rateLimitShared: buckets.isShared === undefined ? undefined : () => buckets.isShared!,
    keyVersion: () => keys.primaryVersion,
  });
  const policies = followedPolicies(options);
  const context = await createContext({ ...options, policies }, buckets, uses, guards, budget);
  return { context, buckets, uses, guards, policies };
}

/** Logs each problem once, and again when it is solved. */
function followedPolicies({ vault, log }: ListenerOptions): PolicyFollower {
  const onChange = (problem: unknown) => {
    if (problem === undefined) return log.info({}, 'the policy can be read again');
    if (problem instanceof PolicyNotDurable)
      return log.warn(problemFields(problem), 'the policy before goes on');
    log.warn(problemFields(problem), 'the policy cannot be read: requests get 500 in 5 s');
  };
  return new PolicyFollower(new PolicyStore(vault.vital.keys), onChange, readOffThread);
}

async function createContext(
  options: ListenerOptions & { readonly policies: PolicyFollower },
  buckets: Buckets,
  uses: ApiKeyUses,
  guards: WriteGuards,
  budget: ByteBudget,
): Promise<ServerContext> {
  const { config, vault, keys, policies, certificate, metrics, log } = options;
  const authenticator = await openAuthenticator(vault, uses, config.jwt, metrics, log);
  const data = { vault: config.vault, keys: keys.latest, timeline: vault.timeline.shared };
  const vaultClient = new VaultClient(data, guards, {
    batch: metrics.batch,
    damaged: metrics.damaged,
    keysWanted: () => void keys.refresh(),
  });
  keys.subscribe((snapshot) => vaultClient.renew(snapshot));
  await policies.start();
  return {
    interfaceVersion: config.INTERFACE_VERSION,
    bodyLimit: config.BODY_LIMIT,
    valuesLimit: config.VALUES_LIMIT,
    authenticator,
    vault: vaultClient,
    policies: new PolicyGate(policies, (policy) => vaultClient.renew({ policy })),
    tokenSuffix: config.TOKEN_SUFFIX,
    limits: openClientLimits(options, buckets),
    budget,
    health: new Health(vault.vital.health, guards),
    ...{ metrics, log, recent: new RecentRequests() },
    audit: openAudit(options, budget),
    tracing: await openTraces(options),
    state: { phase: 'serving' },
    descriptors: descriptorsOf(options),
    tls: certificate?.pem,
  };
}

async function openTraces({ config, log }: ListenerOptions): Promise<Tracing | undefined> {
  if (config.tracing === undefined) return undefined;
  return openTracing(config.tracing, (isAvailable) => {
    if (isAvailable) log.info({}, 'the collector takes spans again');
    else log.warn({}, 'the collector does not take spans: they are dropped');
  });
}

function descriptorsOf({ config, log }: ListenerOptions): Descriptors {
  const descriptors = new Descriptors(config.DATABASE_CONNECTIONS);
  const { connections } = descriptors;
  if (connections < FEW_CONNECTIONS)
    log.info({ connections }, 'the limit of open files bounds the connections of callers');
  return descriptors;
}

function openClientLimits({ config, log }: ListenerOptions, buckets: Buckets): ClientLimits {
  return new ClientLimits(buckets, config.limits, (clientId, limit, refused) =>
    log.warn({ client_id: clientId, limit, refused }, 'a client is over its limit'),
  );
}
