/** The paths of the public listener with their methods, as the Allow header lists them. */
export const METHODS: Readonly<Record<string, string>> = {
  // No prototype, so that a path like /constructor is not found.
  __proto__: null as never,
  '/api/v1/tokenize': 'POST',
  '/api/v1/detokenize': 'POST',
  '/api/v1/lookup': 'POST',
  '/api/v1/text/tokenize': 'POST',
  '/api/v1/text/detokenize': 'POST',
  '/api/v1/policy': 'GET, HEAD',
  '/health': 'GET, HEAD',
  '/health/live': 'GET, HEAD',
};

/**
 * The path in a request target, compared letter for letter; undefined when this listener does not
 * have it. Routing, log, metrics, shedding and audit all use this function. The router alone would
 * decode `/api/v1/%64etokenize` and cut `/api/v1/detokenize#x`.
 */
export function routeOf(target: string): string | undefined {
  const query = target.indexOf('?');
  const path = query === -1 ? target : target.slice(0, query);
  return path in METHODS ? path : undefined;
}

const ABSOLUTE = /^https?:\/\/[^/?#@\s]+(?=[/?]|$)/i;

/**
 * RFC 9112 section 3.2.2: a server must accept `http://host/path`, too. Removes scheme and host.
 */
export function originForm(target: string): string {
  if (target.startsWith('/')) return target;
  const rest = target.replace(ABSOLUTE, '');
  return rest === '' || rest.startsWith('?') ? `/${rest}` : rest;
}
