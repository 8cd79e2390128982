export const IN_A_BROWSER =
  'standin/client is not for browsers: anyone who opens the page could read the API key and restore ' +
  'values with it. Use it in your backend, and let the page call the backend.';

/** False in Node, Deno and Bun, even with a simulated DOM such as jsdom. */
export function isBrowser(): boolean {
  const { window, document, Deno, Bun, process } = globalThis as Record<string, unknown> & {
    process?: { versions?: { node?: string } };
  };
  const isServer = Deno ?? Bun ?? process?.versions?.node;
  return window !== undefined && document !== undefined && isServer === undefined;
}
