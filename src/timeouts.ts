/** All statements of a request together: every answer comes within 5 s. */
export const REQUEST_PATIENCE_MS = 4_000;
/** A database that does not take leave must not keep a process. */
export const CLOSE_TIMEOUT_MS = 2_000;
/** Statements of commands and of the start. */
export const COMMAND_PATIENCE_MS = 30_000;
/** One that rewrites a large table, or waits for the node that does. */
const MIGRATION_PATIENCE_MS = 3_600_000;

export function commandDeadline(): number {
  return performance.now() + COMMAND_PATIENCE_MS;
}

export function migrationDeadline(): number {
  return performance.now() + MIGRATION_PATIENCE_MS;
}

/** How long a KEK source may take: nothing listens before it has answered. */
export interface KekTimeouts {
  /** From the question to the key, with all attempts. */
  readonly total_ms: number;
  /** One attempt over the network. */
  readonly attempt_ms: number;
}

export const KEK_TIMEOUTS: KekTimeouts = { total_ms: 10_000, attempt_ms: 4_000 };
/** Over the network: two more after one that failed. */
export const KEK_ATTEMPTS = 3;

/**
 * Calls `act` at the deadline, but not before what came by then was read: in a process that stood
 * still, timers are late before the answers that lie in its sockets are seen.
 * @param deadlineMs a performance.now() time
 */
export function afterReading(deadlineMs: number, act: () => void): NodeJS.Timeout {
  return setTimeout(() => setImmediate(act), deadlineMs - performance.now());
}
