import type { IncomingMessage, ServerResponse } from 'node:http';
import { failureFields } from '../log.ts';
import { AdminAccess } from '../ops/admin/access.ts';
import { AdminApi } from '../ops/admin/api.ts';
import { documentRoutes } from '../ops/admin/openapi.ts';
import { AdminRouter, adminRoutes } from '../ops/admin/routes.ts';
import { AdminVault } from '../service/admin-vault.ts';
import type { ListenerOptions, PublicListener } from './public-listener.ts';

interface AdminApiOptions extends ListenerOptions {
  readonly listener: PublicListener;
}

export interface OpenAdminApi {
  readonly handle: (request: IncomingMessage, response: ServerResponse) => Promise<void>;
  close(): Promise<void>;
}

/** undefined: without ADMIN_TOKEN, there is no admin API. */
export function openAdminApi(options: AdminApiOptions): OpenAdminApi | undefined {
  const { config, vault, listener, log } = options;
  if (config.ADMIN_TOKEN === undefined) return undefined;
  const { shared } = listener;
  const adminVault = new AdminVault(vault, config.vault, config.ADMIN_DATABASE_URL);
  const routes = adminRoutes({
    openVault: adminVault.open,
    vaultOptions: config.vault,
    finder: shared,
    clientPrefix: config.CLIENT_PREFIX,
    tokenSuffix: config.TOKEN_SUFFIX,
  });
  const api = new AdminApi({
    access: new AdminAccess(config.ADMIN_TOKEN),
    router: new AdminRouter({ ...routes, ...documentRoutes(config) }),
    isServing: () => shared.state.phase === 'serving',
    onAct(entry) {
      const { event: _, ...fields } = entry;
      log.info(fields, 'admin');
      return shared.audit?.recordAct(entry);
    },
    onStranger: (entry) => shared.audit?.recordStranger(entry),
    onFailure: (error) => log.error(failureFields(error), 'the admin API could not answer'),
  });
  return {
    handle: (request, response) => api.handle(request, response),
    close: () => adminVault.close(),
  };
}
