import { Connection } from './connection.ts';

const INTERVAL_MS = 5;
const REQUEST = 'GET /health/live HTTP/1.1\r\nHost: bench\r\n\r\n';

/**
 * Asks GET /health/live again and again, from this process. The time of the answers shows how long
 * the event loop is blocked, from a caller's view. nodejsEventloopLagMaxSeconds is no substitute,
 * because it includes the 10 ms interval of its timer.
 * @returns a function that ends the questions, and returns the longest time in ms
 */
export function watchLiveness(url: string): () => Promise<number> {
  let isOver = false;
  const watch = async () => {
    const connection = new Connection(url);
    let longestMs = 0;
    while (!isOver) {
      const sentMs = performance.now();
      const { status } = await connection.ask(REQUEST);
      longestMs = Math.max(longestMs, performance.now() - sentMs);
      if (status !== 200) throw new Error(`GET /health/live answered ${status}`);
      await new Promise((resolve) => setTimeout(resolve, INTERVAL_MS));
    }
    connection.close();
    return longestMs;
  };
  const longest = watch();
  // The caller hears of a failure at the end.
  longest.catch(() => {});
  return () => {
    isOver = true;
    return longest;
  };
}
