import type { Server as HttpServer } from 'node:http';
import { Server } from 'node:net';
import { hostname } from 'node:os';
import { type Duplex, duplexPair } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { ApiKeyUses } from '../access/api-key-uses.ts';
import { Authenticator } from '../access/authenticator.ts';
import { IssuerKeys } from '../access/issuer-keys.ts';
import { JwtVerifier } from '../access/jwt-verifier.ts';
import type { License } from '../access/license.ts';
import { AuditLog } from '../audit/audit-log.ts';
import type { Config } from '../config/config.ts';
import { Unavailable } from '../errors.ts';
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
import { ApiKeyStore } from '../store/api-keys.ts';
import { PolicyStore } from '../store/policies.ts';
import { Health } from '../tokens/health.ts';
import { VaultClient } from '../tokens/threads/vault-client.ts';
import { WriteGuards } from '../tokens/write-guards.ts';
import type { TlsPem } from '../types.ts';
import type { KeyringFollower } from '../vault/keyring-follower.ts';
import type { Vault } from '../vault/vault.ts';
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
  const { HOST: host, PORT: port, REUSE_PORT: isShared } = config;
  const scheme = certificate === undefined ? 'http' : 'https';
  // `reusePort` is of Node 22.12. The types of Node 20 lack it.
  const address = isShared ? { host, port, reusePort: true } : { host, port };
  const opens = () => server.listen(address);
  const url = await listen(server, host, port, 'PORT', opens, scheme, isShared);
  uses.start();
  context.budget.start();
  guards.start((settings) => {
    if (settings.length > 0) return log.error({ settings }, 'PostgreSQL can lose tokens');
    log.info({}, 'PostgreSQL keeps tokens again');
    vault.pool.reconnect();
    context.vault.reconnect();
  });
  return new PublicListener(url, server, parts, isShared);
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
  readonly context: ServerContext;
  readonly policies: PolicyFollower;
  readonly #server: HttpServer;
  readonly #parts: Parts;
  readonly #isPortShared: boolean;
  #hasCut = false;

  constructor(url: string, server: HttpServer, parts: Parts, isPortShared: boolean) {
    this.url = url;
    this.context = parts.context;
    this.policies = parts.policies;
    this.#server = server;
    this.#parts = parts;
    this.#isPortShared = isPortShared;
  }

  /** Opens a connection from within the process, with all bounds of the listener. */
  connect(remoteAddress: string | undefined): Duplex {
    const [near, far] = duplexPair();
    const ready = 'setSecureContext' in this.#server ? 'secureConnection' : 'connection';
    this.#server.emit(ready, Object.assign(far, { remoteAddress }));
    return near;
  }

  /** Makes the audit log check whether its file was renamed. */
  refreshAudit(): void {
    this.context.audit?.refresh();
    this.context.log.info(
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
    return this.#hasCut ? undefined : this.context.budget.heldByRequests;
  }

  /** Drains in order: readiness fails, the listener closes, requests in flight finish. */
  async drain(delayMs: number): Promise<void> {
    if (delayMs > 0) {
      this.context.state.phase = 'draining';
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
    this.context.state.phase = 'draining';
    await Promise.race([gone, sleep(LEAVE_TIMEOUT_MS)]);
  }

  async #close(): Promise<void> {
    this.context.state.phase = 'closing';
    const cut = setTimeout(() => {
      this.#hasCut = true;
      this.#server.closeAllConnections();
    }, FINISH_TIMEOUT_MS);
    const { context, uses, guards, buckets, policies } = this.#parts;
    // Requests in flight were counted when they were accepted.
    const usesWritten = uses.stop();
    await new Promise((resolve) => this.#server.close(resolve));
    clearTimeout(cut);
    context.authenticator.stop();
    guards.stop();
    policies.stop();
    context.budget.stop();
    buckets.close();
    await context.audit?.close();
    await context.tracing?.close();
    await usesWritten;
    await context.vault.close();
  }
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
  const budgetBytes = config.MEMORY_BUDGET ?? defaultBudget(memoryLimits(), config.BODY_LIMIT);
  const budget = new ByteBudget(budgetBytes, metrics.cutOff);
  log.countWaiting((bytes) => budget.count(bytes));
  metrics.observe({
    standin_postgres_safe: guards.isServerSafe,
    standin_held_bytes: () => budget.held,
    standin_log_lines_dropped_total: () => log.dropped(),
    standin_rate_limit_shared: buckets.isShared === undefined ? undefined : () => buckets.isShared!,
    standin_key_version: () => keys.primaryVersion,
  });
  metrics.observeClients(() => uses.counts());
  const policies = followedPolicies(options);
  const parts = { buckets, uses, guards, policies };
  return { ...parts, context: await createContext(options, parts, budget) };
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
  options: ListenerOptions,
  { buckets, uses, guards, policies }: Omit<Parts, 'context'>,
  budget: ByteBudget,
): Promise<ServerContext> {
  const { config, vault, keys, certificate, metrics, log } = options;
  const authenticator = await openAuthenticator(options, uses);
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

async function openAuthenticator(
  { config, vault, metrics, log }: ListenerOptions,
  uses: ApiKeyUses,
): Promise<Authenticator> {
  const { keyring, vital } = vault;
  const { jwt } = config;
  const issuerKeys =
    jwt &&
    new IssuerKeys(jwt, (problem) => {
      if (problem === undefined) return log.info({}, 'the keys of JWT_ISSUER can be fetched again');
      const what = 'the keys of JWT_ISSUER cannot be fetched: the last ones serve for 1 h';
      log.warn({ problem }, what);
    });
  if (issuerKeys !== undefined)
    metrics.observe({ standin_issuer_keys_age_seconds: () => issuerKeys.ageS });
  const verifier =
    issuerKeys && new JwtVerifier(jwt!, issuerKeys, (token) => keyring.apiKeyDigest(token));
  const authenticator = new Authenticator(new ApiKeyStore(vital.keys), keyring, uses, verifier);
  // If the database went away after the vault opened, API keys are read when it is back.
  await authenticator.start().catch((error) => {
    if (!(error instanceof Unavailable)) throw error;
  });
  return authenticator;
}

function openAudit(options: ListenerOptions, budget: ByteBudget): AuditLog | undefined {
  const { config, vault, metrics, log } = options;
  if (config.AUDIT_LOG === undefined) return undefined;
  return new AuditLog({
    path: config.AUDIT_LOG,
    isRequired: config.AUDIT_REQUIRED,
    node: hostname(),
    macOf: (last, line) => vault.keyring.auditMac(last, line),
    onHead: (head) => log.info({ head }, 'last line of the audit log so far'),
    onLost: metrics.unaudited,
    onWaiting: (bytes) => budget.count(bytes),
    onChange: (isAvailable, code) => {
      if (isAvailable) log.warn({}, 'the audit log can be written again');
      else log.error({ code }, 'the audit log cannot be written');
    },
  });
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
