/** What a browser keeps of this page: the theme, and whether one signed in. Never a secret. */
type Name = 'theme' | 'signed_in';

export function recall(name: Name): string | null {
  try {
    return localStorage.getItem(`standin.${name}`);
  } catch {
    return null; // A browser that keeps nothing.
  }
}

export function remember(name: Name, value: string): void {
  try {
    localStorage.setItem(`standin.${name}`, value);
  } catch {
    // Then it holds until the page is closed.
  }
}

export function forget(name: Name): void {
  try {
    localStorage.removeItem(`standin.${name}`);
  } catch {
    // It was not kept.
  }
}
