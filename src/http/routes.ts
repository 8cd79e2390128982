/** The paths of the public listener and their methods, as an Allow header lists them. */
export const METHODS: Readonly<Record<string, string>> = {
  // No prototype: a path like /constructor is not there.
  __proto__: null as never,
  '/api/v1/tokenize': 'POST',
  '/api/v1/detokenize': 'POST',
  '/health': 'GET, HEAD',
  '/health/live': 'GET, HEAD',
};

/**
 * The path that a request target names, letter for letter, or undefined when this listener has no
 * such path. Routing, log, metrics, shedding and audit log all ask here: the router alone would
 * decode `/api/v1/%64etokenize` and cut `/api/v1/detokenize#x`.
 */
export function routeOf(target: string): string | undefined {
  const query = target.indexOf('?');
  const path = query === -1 ? target : target.slice(0, query);
  return path in METHODS ? path : undefined;
}

const ABSOLUTE = /^https?:\/\/[^/?#@\s]+(?=[/?]|$)/i;

/**
 * RFC 9112 section 3.2.2: a server must take `http://host/path` as well. Without the host it is as
 * any other target.
 */
export function originForm(target: string): string {
  if (target.startsWith('/')) return target;
  const rest = target.replace(ABSOLUTE, '');
  return rest === '' || rest.startsWith('?') ? `/${rest}` : rest;
}
