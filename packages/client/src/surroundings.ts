export const IN_A_BROWSER =
  'standin/client is not for browsers: whoever opens the page could read the API key, and restore ' +
  'values with it. Call it in your backend, and have the page call that.';

/** Node, Deno and Bun are none, also where something as jsdom plays one in them. */
export function isBrowser(): boolean {
  const { window, document, Deno, Bun, process } = globalThis as {
    window?: unknown;
    document?: unknown;
    Deno?: unknown;
    Bun?: unknown;
    process?: { versions?: { node?: string } };
  };
  const isServer = Deno ?? Bun ?? process?.versions?.node;
  return window !== undefined && document !== undefined && isServer === undefined;
}
