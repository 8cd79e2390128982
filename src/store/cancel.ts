import { connect, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type pg from 'pg';
import { ignore } from './connection.ts';

/**
 * For a cancel request to reach the server. If the server does not answer, its statement goes on.
 */
const CANCEL_TIMEOUT_MS = 1_000;

/** Fields of a pg connection that the types of pg leave out. */
interface Parts {
  readonly processID: number | null;
  readonly secretKey: number | null;
  readonly host: string;
  readonly port: number;
  readonly connection: { readonly ssl: object | boolean };
}

const SSL_REQUEST = words(80_877_103);
const CANCEL_CODE = 80_877_102;

/**
 * Asks the server to cancel the statement of a connection (PostgreSQL 15 protocol, 55.2.9). Without
 * this, a statement whose client is gone goes on waiting for its lock. The connection must still be
 * open: PgBouncer in transaction mode finds the server through it, and passes the request on. A
 * statement_timeout is no alternative. PgBouncer refuses it in the startup packet, and SET would
 * stay on the server connection for the next client. Resolves when the request is done or has
 * failed; never throws.
 */
export async function cancelStatement(client: pg.ClientBase): Promise<void> {
  const { processID, secretKey, host, port, connection } = client as unknown as Parts;
  if (processID === null || secretKey === null) return;
  let socket = host.startsWith('/') ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, host);
  const late = setTimeout(() => socket.destroy(), CANCEL_TIMEOUT_MS);
  socket.on('error', ignore);
  try {
    await event(socket, 'connect');
    if (connection.ssl) {
      socket.write(frame(SSL_REQUEST));
      const answer = await event(socket, 'data');
      if (String(answer) !== 'S') return;
      const name = isIP(host) === 0 ? { servername: host } : {};
      const options = connection.ssl === true ? {} : connection.ssl;
      socket = connectTls({ socket, host, ...name, ...options }).on('error', ignore);
      await event(socket, 'secureConnect');
    }
    socket.write(frame(words(CANCEL_CODE, processID, secretKey)));
    // The server sends no answer. It closes the socket when it has handled the request.
    socket.resume();
    await event(socket, 'end');
  } catch {
    // The caller destroys the connection in any case.
  } finally {
    clearTimeout(late);
    socket.destroy();
  }
}

function event(socket: Socket, name: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    socket.once(name, resolve);
    socket.once('error', reject);
    socket.once('close', () => reject(new Error('closed')));
  });
}

function words(...numbers: number[]): Buffer {
  const bytes = Buffer.alloc(4 * numbers.length);
  for (const [i, number] of numbers.entries()) bytes.writeInt32BE(number, 4 * i);
  return bytes;
}

function frame(body: Buffer): Buffer {
  return Buffer.concat([words(body.length + 4), body]);
}
