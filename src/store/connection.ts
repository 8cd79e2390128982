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
