import type { Log } from './log.ts';

const POLL_MS = 10_000;
const INTERVAL_MS = 86_400_000;

/**
 * Logs a warning when it changes, and again every day.
 * @param poll undefined: no warning
 */
export function remind(
  log: Pick<Log, 'warn'>,
  poll: () => string | undefined,
  fields: () => object,
): void {
  let last: string | undefined;
  let lastAtMs = -Infinity;
  const warn = () => {
    const warning = poll();
    const nowMs = performance.now();
    if (warning === last && nowMs - lastAtMs < INTERVAL_MS) return;
    last = warning;
    lastAtMs = nowMs;
    if (warning !== undefined) log.warn(fields(), warning);
  };
  warn();
  setInterval(warn, POLL_MS).unref();
}
