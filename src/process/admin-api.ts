import { getClient, isApiKeyId } from '../access/clients.ts';
import type { AdminEntry } from '../audit/audit-log.ts';
import type { StrangerEntry } from '../audit/unknown-callers.ts';
import { AdminAccess } from '../ops/admin/access.ts';
import { addAdminApi } from '../ops/admin/api.ts';
import { adminDocumentOf } from '../ops/admin/document.ts';
import type { OpsApp } from '../ops/web.ts';
import { readOffThread } from '../policy/policy-work.ts';
import { EveryKind } from '../tokens/every-kind.ts';
import { AdminVault } from '../vault/admin-vault.ts';
import type { ListenerOptions, PublicListener } from './public-listener.ts';

interface OpenAdminOptions extends ListenerOptions {
  readonly listener: PublicListener;
}

interface OpenAdminApi {
  addRoutes(app: OpsApp): void;
  close(): Promise<void>;
}

/** undefined: without ADMIN_TOKEN, there is no admin API. */
export function openAdminApi(options: OpenAdminOptions): OpenAdminApi | undefined {
  const { config, vault, keys, listener, log } = options;
  if (config.ADMIN_TOKEN === undefined) return undefined;
  const { shared } = listener;
  const adminVault = new AdminVault(vault, config.vault, config.ADMIN_DATABASE_URL);
  const kinds = new EveryKind(vault, config.TOKEN_SUFFIX, readOffThread);
  const parts = {
    openVault: adminVault.open,
    openForgetting: async () => ({ vault: await adminVault.open(), follower: keys, kinds }),
    vaultOptions: config.vault,
    finder: shared,
    clientPrefix: config.CLIENT_PREFIX,
    tokenSuffix: config.TOKEN_SUFFIX,
  };
  const api = {
    ...{ parts, document: adminDocumentOf(config) },
    access: new AdminAccess(config.ADMIN_TOKEN, config.OPS_TLS),
    async idOf(named: string) {
      if (isApiKeyId(named)) return named;
      const client = await getClient(await adminVault.open(), named).catch(() => undefined);
      return client?.client_id ?? null;
    },
    isServing: () => shared.state.phase === 'serving',
    onAct(entry: AdminEntry) {
      const { event: _, ...fields } = entry;
      log.info(fields, 'admin');
      return shared.audit?.recordAct(entry);
    },
    onStranger: (entry: StrangerEntry) => shared.audit?.recordStranger(entry),
  };
  return {
    addRoutes: (app) => addAdminApi(app, api),
    close: () => adminVault.close(),
  };
}
