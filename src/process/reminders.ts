import type { Log } from '../log.ts';

const LOOK_INTERVAL_MS = 10_000;
const REMINDER_INTERVAL_MS = 86_400_000;

/** Says what is wrong when that changes, and again every day. @param look undefined: all is well */
export function remind(
  log: Log,
  look: () => string | undefined,
  fields: () => Record<string, unknown>,
): void {
  let last: string | undefined;
  let last_at_ms = -Infinity;
  const warn = () => {
    const warning = look();
    const now_ms = performance.now();
    if (warning === last && now_ms - last_at_ms < REMINDER_INTERVAL_MS) return;
    last = warning;
    last_at_ms = now_ms;
    if (warning !== undefined) log.warn(fields(), warning);
  };
  warn();
  setInterval(warn, LOOK_INTERVAL_MS).unref();
}
