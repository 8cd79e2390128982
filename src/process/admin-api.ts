import type { IncomingMessage, ServerResponse } from 'node:http';
import { failureFields } from '../log.ts';
import { AdminAccess } from '../ops/admin/access.ts';
import { AdminApi, type AdminApiOptions } from '../ops/admin/api.ts';
import { documentRoutes } from '../ops/admin/openapi.ts';
import { AdminRouter, adminRoutes } from '../ops/admin/routes.ts';
import { adminSignInRoutes } from '../ops/admin/sign-in.ts';
import type { Route } from '../ops/server.ts';
import { AdminVault } from '../service/admin-vault.ts';
import { getClient, isApiKeyId } from '../service/clients.ts';
import { EveryKind } from '../service/every-kind.ts';
import { readOffThread } from '../service/policy-work.ts';
import type { ListenerOptions, PublicListener } from './public-listener.ts';

interface OpenAdminOptions extends ListenerOptions {
  readonly listener: PublicListener;
}

interface OpenAdminApi {
  readonly handle: (request: IncomingMessage, response: ServerResponse) => Promise<void>;
  readonly signInRoutes: ReadonlyMap<string, Route>;
  close(): Promise<void>;
}

/** undefined: without ADMIN_TOKEN, there is no admin API. */
export function openAdminApi(options: OpenAdminOptions): OpenAdminApi | undefined {
  const { config, vault, keys, listener, log } = options;
  if (config.ADMIN_TOKEN === undefined) return undefined;
  const { shared } = listener;
  const adminVault = new AdminVault(vault, config.vault, config.ADMIN_DATABASE_URL);
  const kinds = new EveryKind(vault, config.TOKEN_SUFFIX, readOffThread);
  const routes = adminRoutes({
    openVault: adminVault.open,
    openForgetting: async () => ({ vault: await adminVault.open(), follower: keys, kinds }),
    vaultOptions: config.vault,
    finder: shared,
    clientPrefix: config.CLIENT_PREFIX,
    tokenSuffix: config.TOKEN_SUFFIX,
  });
  const access = new AdminAccess(config.ADMIN_TOKEN, config.OPS_TLS);
  const told: Pick<AdminApiOptions, 'onAct' | 'onStranger'> = {
    onAct(entry) {
      const { event: _, ...fields } = entry;
      log.info(fields, 'admin');
      return shared.audit?.recordAct(entry);
    },
    onStranger: (entry) => shared.audit?.recordStranger(entry),
  };
  const api = new AdminApi({
    ...{ access, ...told },
    idOf: async (named) => {
      if (isApiKeyId(named)) return named;
      const client = await getClient(await adminVault.open(), named).catch(() => undefined);
      return client?.client_id ?? null;
    },
    router: new AdminRouter({ ...routes, ...documentRoutes(config) }),
    isServing: () => shared.state.phase === 'serving',
    onFailure: (error) => log.error(failureFields(error), 'the admin API could not answer'),
  });
  return {
    handle: (request, response) => api.handle(request, response),
    signInRoutes: adminSignInRoutes({ access, ...told }),
    close: () => adminVault.close(),
  };
}
