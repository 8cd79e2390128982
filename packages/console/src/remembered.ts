import type { SESSION_HEADERS } from './protocol.ts';

/**
 * What the browser stores for this page, and for no other port of the host: the theme, and for
 * each session the secret of the page, which is worth nothing without the cookie.
 */
type Name = 'theme' | keyof typeof SESSION_HEADERS;

/** For a browser that forbids storage: until the page closes. */
const kept = new Map<Name, string>();

export function recall(name: Name): string | null {
  try {
    return localStorage.getItem(keyOf(name));
  } catch {
    return kept.get(name) ?? null;
  }
}

export function remember(name: Name, value: string): void {
  kept.set(name, value);
  try {
    localStorage.setItem(keyOf(name), value);
  } catch {}
}

export function forget(name: Name): void {
  kept.delete(name);
  try {
    localStorage.removeItem(keyOf(name));
  } catch {}
}

function keyOf(name: Name): string {
  return `standin.${name}`;
}
