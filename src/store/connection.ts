import type pg from 'pg';

/** For a connection to be there, from its first packet on. */
export const CONNECT_TIMEOUT_MS = 2_000;

/** For errors of a connection that another error tells of already. */
export function ignore(): void {}

/** Cuts a connection. Not end(): that would wait, in turn, for the answer that does not come. */
export function destroy(client: pg.ClientBase): void {
  const { connection } = client as unknown as { connection: { stream: { destroy(): void } } };
  connection.stream.destroy();
}

/**
 * Calls `act` at the deadline, but not before what came by then was read: in a process that stood
 * still, timers are late before the answers that lie in its sockets are seen.
 * @param deadline_ms a performance.now() time
 */
export function afterReading(deadline_ms: number, act: () => void): NodeJS.Timeout {
  return setTimeout(() => setImmediate(act), deadline_ms - performance.now());
}
