import type { AddressInfo, Server } from 'node:net';
import { OperatorError } from '../errors.ts';

/**
 * @param setting the one that names the port: PORT or OPS_PORT
 * @returns the URL it listens on
 * @throws OperatorError that names the setting when it cannot
 */
export async function listen(
  server: Server,
  host: string,
  port: number,
  setting: string,
  start: () => unknown = () => server.listen(port, host),
  scheme: 'http' | 'https' = 'http',
): Promise<string> {
  await new Promise<void>((resolve, reject) => {
    const fail = (error: NodeJS.ErrnoException) =>
      reject(
        new OperatorError(
          `Cannot listen on ${host}:${port} (${error.code}). ${remedy(error.code, setting)}`,
        ),
      );
    server.once('listening', resolve);
    server.once('error', fail);
    Promise.resolve(start()).catch(fail);
  });
  const { address, family, port: bound } = server.address() as AddressInfo;
  return `${scheme}://${family === 'IPv6' ? `[${address}]` : address}:${bound}`;
}

function remedy(code: string | undefined, setting: string): string {
  if (code === 'EADDRINUSE') return `Stop what listens there, or set ${setting} to another port.`;
  if (code === 'EACCES')
    return `This user may not take that port: set ${setting} to one above 1023.`;
  return `Set ${setting.replace('PORT', 'HOST')} to an address of this machine.`;
}
