import type { AddressInfo, Server } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { OperatorError } from '../../errors.ts';

/**
 * Connections that may wait until Node accepts them. Linux takes at most `net.core.somaxconn`, by
 * default this many. With Node's 511, a stall of 1.5 s lost 388 of 900 connections: their callers
 * had sent requests, and got no answer.
 */
const BACKLOG = 4_096;

/**
 * Opens a listener.
 * @param address `reusePort` (of Node 22.12): the port is shared with other nodes
 * @param setting the setting of the port: PORT or OPS_PORT
 * @returns the URL of the listener
 * @throws OperatorError that names the setting
 */
export async function listen(
  server: Server,
  address: { readonly host: string; readonly port: number; readonly reusePort?: boolean },
  setting: string,
  scheme: 'http' | 'https' = 'http',
): Promise<string> {
  const { host, port, reusePort = false } = address;
  await new Promise<void>((resolve, reject) => {
    const fail = (error: NodeJS.ErrnoException) =>
      reject(
        new OperatorError(
          `Cannot listen on ${host}:${port} (${error.code}). ${remedy(error.code, setting, reusePort)}`,
        ),
      );
    server.once('listening', resolve);
    server.once('error', fail);
    server.listen({ ...address, backlog: BACKLOG });
  });
  const bound = server.address() as AddressInfo;
  const name = bound.family === 'IPv6' ? `[${bound.address}]` : bound.address;
  return `${scheme}://${name}:${bound.port}`;
}

function remedy(code: string | undefined, setting: string, isShared: boolean): string {
  if (code === 'EADDRINUSE' && isShared)
    return `The program on that port runs as another user or without REUSE_PORT=true: stop it, or set ${setting} to another port.`;
  if (code === 'EADDRINUSE')
    return `Stop the program on that port, or set ${setting} to another port.`;
  if (code === 'ENOTSUP' && isShared)
    return 'This system cannot spread connections over nodes that share a port: unset REUSE_PORT.';
  if (code === 'EACCES')
    return `This user may not use that port: set ${setting} to a port above 1023.`;
  return `Set ${setting.replace('PORT', 'HOST')} to an address of this machine.`;
}

/** Gives up after this many turns of the event loop when the queue never empties. */
const MAX_TURNS = 1_000;

/**
 * Resolves after a turn of the event loop without a new connection. Node accepts one connection a
 * turn, so on a busy server some still wait. 20 closes reset 355 connections without this wait, and
 * 20 with it.
 */
export async function untilAccepted(server: Server): Promise<void> {
  let accepted = 0;
  const count = () => accepted++;
  server.on('connection', count);
  for (let turn = 0; turn < MAX_TURNS; turn++) {
    const before = accepted;
    // Between two calls, the loop polls all sockets once.
    await setImmediate();
    await setImmediate();
    if (accepted === before) break;
  }
  server.off('connection', count);
}
