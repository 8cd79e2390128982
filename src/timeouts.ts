/** All statements of a request together, so that every answer comes within 5 s. */
export const VAULT_TIMEOUT_MS = 4_000;
/** Least time of a statement, even after the deadline of its request. */
export const LEAST_TIMEOUT_MS = 1_000;
/** A request that uses an older policy could break the promise of 5 s. */
export const POLICY_LEASE_MS = 5_000;
/** A change of policies or keys is in force on all nodes within this time. */
export const IN_FORCE_S = POLICY_LEASE_MS / 1_000;
/** For the standby and a new key or policy, on the connection of API keys, which would wait. */
export const STANDBY_TIMEOUT_MS = 1_000;
/** A database that does not answer the goodbye must not keep the process alive. */
export const CLOSE_TIMEOUT_MS = 2_000;
/** Statements of commands and of the start. */
export const COMMAND_TIMEOUT_MS = 30_000;
/**
 * The first statement, which starts the embedded database. Longer than its own START_TIMEOUT_MS, so
 * that a slow machine gets that time and the words for it.
 */
export const OPENING_TIMEOUT_MS = 65_000;
/** A migration may rewrite a large table, or wait for the node that does. */
export const MIGRATION_TIMEOUT_MS = 3_600_000;

/**
 * The deadline of the next statement of a request. A process that stood still past the deadline can
 * still answer.
 * @param deadlineMs of the request, a performance.now() time
 */
export function statementDeadline(deadlineMs: number): number {
  return Math.max(deadlineMs, performance.now() + LEAST_TIMEOUT_MS);
}

export function commandDeadline(timeoutMs = COMMAND_TIMEOUT_MS): number {
  return performance.now() + timeoutMs;
}

/** Milliseconds of a clock that all threads of a process share. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** Clocks are set in smaller steps, all the time. */
const LEAST_SLEEP_MS = 1_000;
let sleptMs = 0;
let aheadMs = Date.now() - performance.now();

/**
 * Milliseconds of performance.now(), which stands still while the machine is suspended, and of that
 * time, which the clock of the day shows. For leases of rights: when somebody sets that clock
 * forward, they are read again, no more.
 */
export function leaseMs(): number {
  const nowMs = performance.now();
  const nowAheadMs = Date.now() - nowMs;
  if (nowAheadMs - aheadMs >= LEAST_SLEEP_MS) sleptMs += nowAheadMs - aheadMs;
  aheadMs = nowAheadMs;
  return nowMs + sleptMs;
}

/**
 * Calls `act` after the deadline, but first lets Node read what has arrived. After a process stood
 * still, its timers would otherwise fire before it sees the answers in its sockets.
 * @param deadlineMs a performance.now() time
 */
export function afterReading(deadlineMs: number, act: () => void): NodeJS.Timeout {
  return setTimeout(() => setImmediate(act), deadlineMs - performance.now());
}
