import type { PlainKey } from '../../crypto/keyring.ts';
import type { InternalReason } from '../../errors.ts';

/** How the keys of the vault stand, for whoever seals and opens records. */
export interface KeyNews {
  readonly keys: readonly PlainKey[];
  /**
   * When standin.keyring was last read with every DEK in it unwrapped (a time of monotonicMs): what
   * is older than that is in `keys`.
   */
  readonly as_of_ms: number;
  /** Why the last look failed; undefined: it did not. */
  readonly failure: InternalReason | undefined;
}

/** Brings news of the keys to a process, and takes its wish for them. */
export interface KeyFeed {
  readonly latest: KeyNews;
  /** Has the keyring read at once. */
  demand(): void;
  /** @param listener called with all news from now on */
  subscribe(listener: (news: KeyNews) => void): void;
}

/** Milliseconds of a clock that is the same in all threads and processes of a machine. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** Wishes of so long share a message. */
const GATHER_MS = 5;

/** The feed of a worker: news and wishes go through the primary. */
export class RelayedKeys implements KeyFeed {
  readonly #ask: () => void;
  readonly #listeners: ((news: KeyNews) => void)[] = [];
  #latest: KeyNews;
  #due: NodeJS.Timeout | undefined;

  /** @param ask sends a wish to the primary */
  constructor(latest: KeyNews, ask: () => void) {
    this.#latest = latest;
    this.#ask = ask;
  }

  get latest(): KeyNews {
    return this.#latest;
  }

  demand(): void {
    this.#due ??= setTimeout(() => {
      this.#due = undefined;
      this.#ask();
    }, GATHER_MS);
  }

  subscribe(listener: (news: KeyNews) => void): void {
    this.#listeners.push(listener);
  }

  put(news: KeyNews): void {
    this.#latest = news;
    for (const listener of this.#listeners) listener(news);
  }
}

/** The highest DEK version of the keys: what new records are sealed with. */
export function primaryVersion({ keys }: KeyNews): number {
  return Math.max(...keys.filter(({ purpose }) => purpose === 'dek').map((key) => key.version));
}
