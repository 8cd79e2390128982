/** How long a KEK source may take: nothing listens before it has answered. */
export interface Patience {
  /** From the question to the key, with all attempts. */
  readonly total_ms: number;
  /** One attempt over the network. */
  readonly attempt_ms: number;
}

export const PATIENCE: Patience = { total_ms: 10_000, attempt_ms: 4_000 };
/** Over the network: two more after one that failed. */
export const ATTEMPTS = 3;
