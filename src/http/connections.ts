import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Descriptors } from './descriptors.ts';

/** When unsent bytes make no progress for this long, their reader has stopped reading. */
const UNREAD_TIMEOUT_MS = 30_000;
const LOOK_INTERVAL_MS = 1_000;

/** The unsent bytes of a connection at the last look. */
interface Unsent {
  /** The connection's count of sent bytes once these are sent. */
  readonly untilByte: number;
  readonly sinceMs: number;
}

/**
 * Bounds the number of connections, and how long an answer waits for its reader. Node has no
 * time-out for readers: its idle time-out restarts with every byte taken.
 */
export function boundConnections(
  server: Server,
  descriptors: Descriptors,
  onRefused: () => void,
  onUnread: () => void,
): void {
  const unsent = new Map<Socket, Unsent | undefined>();
  let connections = 0;
  server.on('connection', (socket: Socket) => {
    if (connections >= descriptors.connections) {
      socket.destroy();
      onRefused();
      return;
    }
    connections++;
    socket.once('close', () => connections--);
  });
  // On TLS connections, count the bytes before encryption.
  const ready = 'setSecureContext' in server ? 'secureConnection' : 'connection';
  server.on(ready, (socket: Socket) => {
    unsent.set(socket, undefined);
    socket.once('close', () => unsent.delete(socket));
  });
  const look = setInterval(() => {
    descriptors.look();
    const nowMs = performance.now();
    for (const [socket, before] of unsent) {
      const now = unsentOf(socket, before, nowMs);
      if (now !== undefined && nowMs - now.sinceMs > UNREAD_TIMEOUT_MS) {
        socket.destroy();
        onUnread();
      } else if (now !== before) unsent.set(socket, now);
    }
  }, LOOK_INTERVAL_MS);
  look.unref();
  server.once('close', () => clearInterval(look));
}

function unsentOf(socket: Socket, before: Unsent | undefined, nowMs: number): Unsent | undefined {
  const waiting = socket.writableLength;
  if (waiting === 0) return undefined;
  if (before !== undefined && socket.bytesWritten - waiting < before.untilByte) return before;
  return { untilByte: socket.bytesWritten, sinceMs: nowMs };
}
