/** The paths of the public listener and their methods, as an Allow header lists them. */
export const METHODS: Readonly<Record<string, string>> = {
  // No prototype: a path like /constructor is not there.
  __proto__: null as never,
  '/api/v1/tokenize': 'POST',
  '/api/v1/detokenize': 'POST',
  '/health': 'GET, HEAD',
  '/health/live': 'GET, HEAD',
};

/** A request target without its query. */
export function pathOf(url: string): string {
  const query = url.indexOf('?');
  return query === -1 ? url : url.slice(0, query);
}
