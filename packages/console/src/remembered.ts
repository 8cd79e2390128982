/** What the browser stores for this page: the theme, and whether the user signed in. No secret. */
type Name = 'theme' | 'signed_in';

export function recall(name: Name): string | null {
  try {
    return localStorage.getItem(`standin.${name}`);
  } catch {
    return null; // The browser may forbid storage.
  }
}

export function remember(name: Name, value: string): void {
  try {
    localStorage.setItem(`standin.${name}`, value);
  } catch {
    // Without storage, the choice lasts until the page closes.
  }
}

export function forget(name: Name): void {
  try {
    localStorage.removeItem(`standin.${name}`);
  } catch {
    // Without storage, there is nothing to forget.
  }
}
