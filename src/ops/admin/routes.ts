import { apiKeyRoutes } from './api-keys.ts';
import type { AdminMethod, AdminOperation, AdminParts, AdminRoutes } from './call.ts';
import { clientRoutes } from './clients.ts';
import { refusal } from './errors.ts';
import { keyringRoutes } from './keyring.ts';
import { policyRoutes } from './policies.ts';
import { valueRoutes } from './values.ts';

export const ADMIN_PATH = '/admin/v1';

export function adminRoutes(parts: AdminParts): AdminRoutes {
  return {
    ...clientRoutes(parts),
    ...apiKeyRoutes(parts),
    ...policyRoutes(parts),
    ...valueRoutes(parts),
    ...keyringRoutes(parts),
  };
}

export interface FoundOperation extends AdminOperation {
  readonly params: readonly string[];
}

/** Finds operations by method and path. */
export class AdminRouter {
  readonly #routes: readonly (readonly [RegExp, AdminRoutes[string]])[];

  constructor(routes: AdminRoutes) {
    this.#routes = Object.entries(routes).map(([path, methods]) => [
      patternOf(ADMIN_PATH + path),
      methods,
    ]);
  }

  /**
   * @param path without the query
   * @param setAllow called with the methods of the path when this is none of them
   * @throws Refusal
   */
  find(method: string, path: string, setAllow: (methods: string) => void): FoundOperation {
    for (const [pattern, methods] of this.#routes) {
      const found = pattern.exec(path);
      if (found === null) continue;
      const operation = methods[(method === 'HEAD' ? 'GET' : method) as AdminMethod];
      if (operation !== undefined) return { ...operation, params: found.slice(1).map(decoded) };
      const allowed = Object.keys(methods);
      setAllow(allowed.flatMap((one) => (one === 'GET' ? ['GET', 'HEAD'] : [one])).join(', '));
      throw refusal('method_not_allowed', `Use ${allowed.join(' or ')}.`);
    }
    throw refusal('not_found', `No such path. ${ADMIN_PATH}/openapi.json has all paths.`);
  }
}

function patternOf(path: string): RegExp {
  return new RegExp(`^${path.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '([^/]+)')}$`);
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw refusal('invalid_type', 'path: must be valid percent-encoding of UTF-8');
  }
}
