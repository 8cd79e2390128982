import { type AdminDocument, adminDocument } from '../../openapi/admin-document.ts';
import type { AdminRoutes } from './call.ts';
import { ADMIN_ERRORS } from './errors.ts';

/** Where the ops listener listens. */
interface OpsAddress {
  readonly OPS_HOST: string;
  readonly OPS_PORT: number;
  readonly OPS_TLS: boolean;
}

/** The OpenAPI document of the admin API. */
export function adminDocumentOf({ OPS_HOST, OPS_PORT, OPS_TLS }: OpsAddress): AdminDocument {
  const host = OPS_HOST.includes(':') ? `[${OPS_HOST}]` : OPS_HOST;
  const url = `${OPS_TLS ? 'https' : 'http'}://${host}:${OPS_PORT}`;
  return adminDocument({ url, errors: ADMIN_ERRORS });
}

/** The document as text, as it is printed and kept in docs/admin-openapi.json. */
export function adminDocumentText(address: OpsAddress): string {
  return `${JSON.stringify(adminDocumentOf(address), null, 2)}\n`;
}

export function documentRoutes(address: OpsAddress): AdminRoutes {
  const body = adminDocumentOf(address);
  return { '/openapi.json': { GET: { act: 'openapi', run: async () => ({ status: 200, body }) } } };
}
