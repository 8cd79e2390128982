import { createServer } from 'node:net';

/** Below the ports of outgoing connections on Linux, which could take the port meanwhile. */
const FIRST = 10_000;
const LAST = 32_000;

/** A TCP port of the loopback address that was free a moment ago. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST + Math.floor(Math.random() * (LAST - FIRST));
    if (await isFree(port)) return port;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
