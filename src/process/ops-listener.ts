import { createServer } from 'node:net';
import { getClient, isApiKeyId } from '../access/clients.ts';
import type { Config } from '../config/config.ts';
import { failureFields } from '../observe/log.ts';
import { AdminAccess, SignIn } from '../ops/access.ts';
import { type AdminApiOptions, addAdminApi } from '../ops/admin/api.ts';
import { adminDocumentOf } from '../ops/admin/document.ts';
import { CurrentState } from '../ops/console/current-state.ts';
import { EventStreams } from '../ops/console/events.ts';
import { addConsole, OPEN, pagesOf } from '../ops/console/routes.ts';
import { Sampler } from '../ops/console/sampler.ts';
import { createOpsServer } from '../ops/server.ts';
import type { OpsApp } from '../ops/web.ts';
import { readOffThread } from '../policy/policy-work.ts';
import { renewCertificate } from '../public/transport/connections.ts';
import { listen } from '../public/transport/listen.ts';
import { EveryKind } from '../tokens/every-kind.ts';
import type { TlsPem } from '../types.ts';
import { adminVault } from '../vault/vault.ts';
import type { VaultSizes } from '../vault/vault-size.ts';
import { VERSION } from '../version.ts';
import type { ListenerOptions, PublicListener } from './public-listener.ts';

type OpsListenerOptions = ListenerOptions & { listener: PublicListener; sizes: VaultSizes };

export type OpsListener = Awaited<ReturnType<typeof openOpsListener>>;

/**
 * Tries the ops port before the public listener opens. A node that failed after joining a shared
 * port would cut the callers that it had accepted.
 * @throws OperatorError when the port cannot be used
 */
export async function checkOpsPort({ OPS_HOST, OPS_PORT }: Config): Promise<void> {
  const probe = createServer();
  await listen(probe, { host: OPS_HOST, port: OPS_PORT }, 'OPS_PORT');
  probe.close();
}

/**
 * Opens the listener for metrics and console.
 * @throws OperatorError when it cannot listen
 */
export async function openOpsListener(options: OpsListenerOptions) {
  const { config, metrics, certificate, sizes, log, listener } = options;
  const { context } = listener;
  const tls = config.OPS_TLS && certificate ? opsPem(certificate.pem) : undefined;
  const { OPS_TOKEN: token } = config;
  const signIn = token
    ? new SignIn('console', [{ name: '', token }], tls !== undefined)
    : undefined;
  const sampler = new Sampler((names) => metrics.read(names));
  const state = new CurrentState({
    ...{ ...options, sampler, facts: factsOf(options), policies: listener.policies },
    databaseKind: config.DATABASE_URL === undefined ? 'embedded' : 'postgres',
    ...{ limits: config.limits, tokenSuffix: config.TOKEN_SUFFIX },
  });
  const events = new EventStreams(sampler, state);
  const admin = openAdminApi(options);
  const parts = {
    ...{ signIn, state, events, recent: context.recent, bodyLimit: config.BODY_LIMIT },
    serve: listener.serve,
    asksClients: () => certificate?.pem.clientCa !== undefined,
  };
  const server = createOpsServer({
    ...{ metrics, signIn, tls, budget: context.budget, pages: pagesOf(config, listener.url) },
    isOpen: (path) => OPEN.includes(path) || (admin !== undefined && path.startsWith('/admin/')),
    routes: [(app) => addConsole(app, parts), (app) => admin?.addRoutes(app)],
    onFailure: (error) => log.error(failureFields(error), 'the ops listener could not answer'),
  });
  const scheme = tls === undefined ? 'http' : 'https';
  const { OPS_HOST: host, OPS_PORT: port } = config;
  const url = await listen(server, { host, port }, 'OPS_PORT', scheme);
  sampler.start();
  sizes.start();
  return {
    url,
    /** Renews the certificate for new connections. */
    renew(pem: TlsPem): void {
      if (tls !== undefined) renewCertificate(server, opsPem(pem));
    },
    async close(): Promise<void> {
      sampler.stop();
      sizes.stop();
      events.close();
      server.close();
      await admin?.close();
    },
  };
}

function factsOf({ config, license, certificate }: OpsListenerOptions) {
  const startedAt = new Date(Date.now() - 1000 * process.uptime()).toISOString();
  return () => ({
    ...{ startedAt, version: VERSION },
    ...{ interfaceVersion: config.INTERFACE_VERSION, hasAdmin: config.ADMIN_TOKEN !== undefined },
    license: config.license ? { daysLeft: license.daysLeft() ?? 0 } : null,
    certificate: certificate ? { expires_at: certificate.expiresAt.toISOString() } : null,
  });
}

/** Only callers show a certificate. */
function opsPem(pem: TlsPem): TlsPem {
  return { ...pem, clientCa: undefined };
}

/** undefined: without ADMIN_TOKEN, there is no admin API. */
function openAdminApi({ config, vault, keys, listener, log }: OpsListenerOptions) {
  if (config.ADMIN_TOKEN === undefined) return undefined;
  const { context } = listener;
  const other = adminVault(vault, config.vault, config.ADMIN_DATABASE_URL);
  const kinds = new EveryKind(vault, config.TOKEN_SUFFIX, readOffThread);
  const openParts = async () => {
    const vault = await other.open();
    return {
      ...{ vault, vaultOptions: config.vault, finder: context },
      forgetting: { vault, follower: keys, kinds },
      ...{ clientPrefix: config.CLIENT_PREFIX, tokenSuffix: config.TOKEN_SUFFIX },
    };
  };
  const api: AdminApiOptions = {
    ...{ openParts, document: adminDocumentOf(config) },
    access: new AdminAccess('admin', config.ADMIN_TOKEN, config.OPS_TLS),
    async idOf(named) {
      if (isApiKeyId(named)) return named;
      const client = await getClient(await other.open(), named).catch(() => undefined);
      return client?.client_id ?? null;
    },
    isServing: () => context.state.phase === 'serving',
    onAct(entry) {
      const { event: _, ...fields } = entry;
      log.info(fields, 'admin');
      return context.audit?.recordAct(entry);
    },
    onStranger: (entry) => context.audit?.recordStranger(entry),
  };
  return {
    addRoutes: (app: OpsApp) => addAdminApi(app, api),
    close: () => other.close(),
  };
}
