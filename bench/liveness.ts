import { Connection } from './connection.ts';

const INTERVAL_MS = 5;
const END_TIMEOUT_MS = 10_000;
const REQUEST = 'GET /health/live HTTP/1.1\r\nHost: bench\r\n\r\n';

/**
 * Asks GET /health/live again and again, from this process. The time of the answers shows how long
 * the event loop is blocked, from a caller's view. nodejsEventloopLagMaxSeconds is no substitute,
 * because it includes the 10 ms interval of its timer.
 * @returns a function that ends the questions, and returns the longest time in ms
 */
export function watchLiveness(url: string): () => Promise<number> {
  const { hostname, port } = new URL(url);
  let longestMs = 0;
  let isEnding = false;
  let settle: (error?: string) => void = () => {};
  const over = new Promise<string | undefined>((resolve) => {
    settle = resolve;
  });
  let sentMs = 0;
  const connection = new Connection(
    hostname,
    Number(port),
    ({ status }) => {
      longestMs = Math.max(longestMs, performance.now() - sentMs);
      if (status !== 200) settle(`answered ${status}`);
      else if (isEnding) settle();
      else setTimeout(send, INTERVAL_MS);
    },
    (reason) => settle(`lost the connection (${reason})`),
  );
  const send = () => {
    sentMs = performance.now();
    connection.send(REQUEST);
  };
  send();
  return async () => {
    isEnding = true;
    const tooLate = setTimeout(
      () => settle(`no answer within ${END_TIMEOUT_MS} ms`),
      END_TIMEOUT_MS,
    );
    const trouble = await over;
    clearTimeout(tooLate);
    connection.close();
    if (trouble !== undefined) throw new Error(`GET /health/live: ${trouble}`);
    return longestMs;
  };
}
