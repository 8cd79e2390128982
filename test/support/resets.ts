import { once } from 'node:events';
import { connect } from 'node:net';

const VALUES = 50;

/**
 * Sends a tokenize request, or a part of it, on a new connection, and resets the connection at once
 * or a little later.
 * @param fraction 0 to 1: how much of a partial request is sent, and how late the reset comes
 */
export async function resetMidRequest(
  service: { readonly url: string; readonly api_key: string },
  n: number,
  fraction: number,
): Promise<void> {
  const { hostname, port } = new URL(service.url);
  const values = Array.from({ length: VALUES }, (_, i) => `cut ${n} ${i}`);
  const body = JSON.stringify({ data: { values } });
  const whole = [
    'POST /api/v1/tokenize HTTP/1.1',
    'host: x',
    `authorization: Bearer ${service.api_key}`,
    'content-type: application/json',
    `content-length: ${body.length}`,
    '',
    body,
  ].join('\r\n');
  const isWhole = n % 2 === 0;
  const socket = connect(Number(port), hostname);
  socket.on('error', () => {});
  await Promise.race([once(socket, 'connect'), once(socket, 'close')]);
  socket.write(isWhole ? whole : whole.slice(0, Math.floor(fraction * whole.length)));
  // The service works on the request for a few milliseconds, and the reset comes in between.
  await new Promise((resolve) => setTimeout(resolve, fraction * 8));
  socket.resetAndDestroy();
}
