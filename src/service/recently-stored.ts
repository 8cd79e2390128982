import type { TokenFingerprint } from '../types.ts';

const SLOTS = 2 ** 20;

/**
 * Which token fingerprints were stored a short while ago, as a hint only: it may forget any, and
 * take one for another once in 2^32. 4 MiB whatever happens, and 32 bits of a fingerprint each.
 */
export class RecentlyStored {
  readonly #marks = new Uint32Array(SLOTS);

  has(fingerprint: TokenFingerprint): boolean {
    return this.#marks[slotOf(fingerprint)] === markOf(fingerprint);
  }

  add(fingerprint: TokenFingerprint): void {
    this.#marks[slotOf(fingerprint)] = markOf(fingerprint);
  }
}

function slotOf(fingerprint: TokenFingerprint): number {
  return word(fingerprint, 0) % SLOTS;
}

/** Never 0, which is an empty slot. */
function markOf(fingerprint: TokenFingerprint): number {
  return word(fingerprint, 4) || 1;
}

function word(fingerprint: TokenFingerprint, at: number): number {
  return (
    (fingerprint.charCodeAt(at) |
      (fingerprint.charCodeAt(at + 1) << 8) |
      (fingerprint.charCodeAt(at + 2) << 16) |
      (fingerprint.charCodeAt(at + 3) << 24)) >>>
    0
  );
}
