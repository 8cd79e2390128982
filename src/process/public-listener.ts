import { once } from 'node:events';
import type { Server as HttpServer, RequestListener, ServerResponse } from 'node:http';
import { Server } from 'node:net';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { ApiKeyUses } from '../access/api-key-uses.ts';
import { Authenticator } from '../access/authenticator.ts';
import { IssuerKeys } from '../access/issuer-keys.ts';
import { JwtVerifier } from '../access/jwt-verifier.ts';
import type { License } from '../access/license.ts';
import { AuditLog } from '../audit/audit-log.ts';
import type { Config } from '../config/config.ts';
import { Unavailable } from '../errors.ts';
import { ByteBudget } from '../limits/byte-budget.ts';
import { ClientLimits } from '../limits/client-limits.ts';
import { openBuckets } from '../limits/shared-buckets.ts';
import { defaultBudget } from '../memory.ts';
import { type Log, problemFields } from '../observe/log.ts';
import type { Metrics } from '../observe/metrics.ts';
import { RecentRequests } from '../observe/recent-requests.ts';
import { PolicyFollower, PolicyNotDurable } from '../policy/policy-follower.ts';
import { readOffThread } from '../policy/policy-work.ts';
import type { ServerContext } from '../public/exchange.ts';
import { CALL_LIFETIME_S, Guardrail, MemoryCalls } from '../public/guardrail/calls.ts';
import { createHttpServer, requestListener } from '../public/server.ts';
import { Descriptors, renewCertificate } from '../public/transport/connections.ts';
import { listen, untilAccepted } from '../public/transport/listen.ts';
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

export type PublicListener = Awaited<ReturnType<typeof openPublicListener>>;

/** Opens the listener for callers, with everything behind it except the vault. */
export async function openPublicListener(options: ListenerOptions) {
  const { config, vault, certificate, log } = options;
  const parts = await openParts(options);
  const context = await createContext(options, parts);
  const { uses, guards, policies } = parts;
  const answer = requestListener(context);
  const server = createHttpServer(context, answer);
  const guests = new Set<ServerResponse>();
  const { HOST: host, PORT: port, REUSE_PORT: isShared } = config;
  const scheme = certificate === undefined ? 'http' : 'https';
  const url = await listen(server, { host, port, reusePort: isShared }, 'PORT', scheme);
  uses.start();
  context.budget.start();
  guards.start((settings) => {
    if (settings.length > 0) return log.error({ settings }, 'PostgreSQL can lose tokens');
    log.info({}, 'PostgreSQL keeps tokens again');
    vault.pool.reconnect();
    context.vault.reconnect();
  });
  return {
    ...{ url, context, policies },
    /** Answers a request of another listener as one of this listener. `drain` waits for it. */
    serve: ((request, response) => {
      guests.add(response);
      response.once('close', () => guests.delete(response));
      answer(request, response);
    }) satisfies RequestListener,
    /** Renews the certificate for new connections. */
    renew: (tls: TlsPem) => renewCertificate(server, tls),
    /**
     * Drains in order: readiness fails, the listener closes, requests in flight finish.
     * @returns the bytes that requests still hold; undefined: some were cut, and may still wait for
     * the database
     */
    async drain(delayMs: number): Promise<number | undefined> {
      if (delayMs > 0) {
        context.state.phase = 'draining';
        await sleep(delayMs);
      }
      if (isShared) await leavePort(server, context.state);
      const hasCut = await close(server, guests, context, parts);
      return hasCut ? undefined : context.budget.heldByRequests;
    },
  };
}

/**
 * Leaves a shared port: new connections go to other nodes. Resolves when all connections have
 * ended, or after LEAVE_TIMEOUT_MS.
 */
async function leavePort(server: HttpServer, state: ServerContext['state']): Promise<void> {
  // The system resets connections that still wait to be accepted when the socket closes.
  await untilAccepted(server);
  // Not the HTTP server's own close, which would cut idle connections now.
  const gone = new Promise((resolve) => Server.prototype.close.call(server, resolve));
  // Only after the socket is closed: a caller that is told to reconnect must reach another node.
  state.phase = 'draining';
  await Promise.race([gone, sleep(LEAVE_TIMEOUT_MS)]);
}

/**
 * @param guests responses on connections of other listeners
 * @returns whether connections were cut
 */
async function close(
  server: HttpServer,
  guests: ReadonlySet<ServerResponse>,
  context: ServerContext,
  { uses, guards, buckets, policies }: Parts,
): Promise<boolean> {
  context.state.phase = 'closing';
  let hasCut = false;
  const cut = setTimeout(() => {
    hasCut = true;
    server.closeAllConnections();
    for (const response of guests) response.destroy();
  }, FINISH_TIMEOUT_MS);
  // Requests in flight were counted when they were accepted.
  const usesWritten = uses.stop();
  await new Promise((resolve) => server.close(resolve));
  await Promise.all(Array.from(guests, (response) => once(response, 'close')));
  clearTimeout(cut);
  context.authenticator.stop();
  guards.stop();
  policies.stop();
  context.budget.stop();
  context.guardrail?.close();
  buckets.close();
  await context.audit?.close();
  await context.tracing?.close();
  await usesWritten;
  await context.vault.close();
  return hasCut;
}

/** The parts behind the context of requests. */
type Parts = Awaited<ReturnType<typeof openParts>>;

async function openParts(options: ListenerOptions) {
  const { config, vault, keys, license, metrics, log } = options;
  const buckets = await openBuckets(config.REDIS_URL, (isShared, code) => {
    if (isShared) log.warn({ code }, 'Redis answers again: rate limits are shared');
    else log.warn({ code }, 'Redis does not answer: this process limits on its own');
  });
  const uses = new ApiKeyUses(vault.apiKeys);
  const guards = new WriteGuards({
    ...{ vault: config.vault, pool: vault.vital.keys, keys, license },
    onSpace: (hasSpace) => {
      if (hasSpace) log.info({}, 'the disk of the database has space again');
      else log.error({}, 'the disk of the database is full: /health answers 503');
    },
  });
  const budgetBytes = config.MEMORY_BUDGET ?? defaultBudget(config.BODY_LIMIT);
  const budget = new ByteBudget(budgetBytes, metrics.cutOff);
  log.output.countWaiting((bytes) => budget.count(bytes));
  metrics.observe({
    standin_postgres_safe: guards.isServerSafe,
    standin_held_bytes: () => budget.held,
    standin_log_lines_dropped_total: () => log.output.dropped,
    standin_rate_limit_shared: buckets.isShared === undefined ? undefined : () => buckets.isShared!,
    standin_key_version: () => keys.primaryVersion,
  });
  metrics.observeClients(() => uses.counts());
  const policies = followedPolicies(options);
  return { buckets, uses, guards, policies, budget };
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
  { buckets, uses, guards, policies, budget }: Parts,
): Promise<ServerContext> {
  const { config, vault, keys, certificate, metrics, log } = options;
  const authenticator = await openAuthenticator(options, uses);
  const data = { vault: config.vault, keys: keys.latest, timeline: vault.timeline.shared };
  const keysWanted = () => void keys.refresh();
  const { batch, damaged } = metrics;
  const vaultClient = new VaultClient(data, guards, { batch, damaged, keysWanted });
  keys.subscribe((snapshot) => vaultClient.renew(snapshot));
  await policies.start((policy) => vaultClient.renew({ policy }));
  return {
    interfaceVersion: config.INTERFACE_VERSION,
    bodyLimit: config.BODY_LIMIT,
    valuesLimit: config.VALUES_LIMIT,
    authenticator,
    conversationKeys: vault.keyring,
    guardrail: await openGuardrail(options),
    vault: vaultClient,
    policies,
    presidio: config.presidio,
    tokenSuffix: config.TOKEN_SUFFIX,
    limits: new ClientLimits(buckets, config.limits, (id, limit, refused) =>
      log.warn({ client_id: id, limit, refused }, 'a client is over its limit'),
    ),
    budget,
    health: new Health(vault.vital.health, guards),
    ...{ metrics, log, recent: new RecentRequests() },
    audit: openAudit(options, budget),
    tracing:
      config.tracing &&
      (await openTracing(config.tracing, (isAvailable) => {
        if (isAvailable) log.info({}, 'the collector takes spans again');
        else log.warn({}, 'the collector does not take spans: they are dropped');
      })),
    state: { phase: 'serving' },
    descriptors: descriptorsOf(options),
    tls: certificate?.pem,
  };
}

async function openGuardrail({ config, log }: ListenerOptions): Promise<Guardrail | undefined> {
  if (!config.GUARDRAIL) return undefined;
  const { REDIS_URL: redisUrl } = config;
  // Only nodes that use Redis load its library.
  const calls = redisUrl
    ? new (await import('../limits/redis-calls.ts')).RedisCalls(redisUrl, CALL_LIFETIME_S)
    : new MemoryCalls();
  return new Guardrail(calls, config.GUARDRAIL_IMAGES === 'pass', (unknown) =>
    log.warn({ unknown }, 'answers of models whose calls are unknown: their tokens stay tokens'),
  );
}

async function openAuthenticator(
  { config, vault, metrics, log }: ListenerOptions,
  uses: ApiKeyUses,
): Promise<Authenticator> {
  const { keyring, vital } = vault;
  const { jwt } = config;
  let verifier: JwtVerifier | undefined;
  if (jwt !== undefined) {
    const issuerKeys = new IssuerKeys(jwt, (problem) => {
      if (problem === undefined) return log.info({}, 'the keys of JWT_ISSUER can be fetched again');
      const what = 'the keys of JWT_ISSUER cannot be fetched: the last ones serve for 1 h';
      log.warn({ problem }, what);
    });
    metrics.observe({ standin_issuer_keys_age_seconds: () => issuerKeys.ageS });
    verifier = new JwtVerifier(jwt, issuerKeys, (token) => keyring.apiKeyDigest(token));
  }
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

function descriptorsOf({ config, log }: ListenerOptions): Descriptors {
  const descriptors = new Descriptors(config.DATABASE_CONNECTIONS);
  const { connections } = descriptors;
  if (connections < FEW_CONNECTIONS)
    log.info({ connections }, 'the limit of open files bounds the connections of callers');
  return descriptors;
}
