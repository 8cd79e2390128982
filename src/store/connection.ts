import type pg from 'pg';

/** From the first packet to a usable connection. */
export const CONNECT_TIMEOUT_MS = 2_000;

/** For errors of a connection that another error already reports. */
export function ignore(): void {}

/** Cuts a connection. `end()` would wait for the answer that never comes. */
export function destroy(client: pg.ClientBase): void {
  const { connection } = client as unknown as { connection: { stream: { destroy(): void } } };
  connection.stream.destroy();
}
