import { totalmem } from 'node:os';
import { getHeapStatistics } from 'node:v8';

/**
 * Divisors of the memory and the heap. One byte of the budget is in memory several times: as text,
 * in the message to the vault thread, and in the database driver.
 */
const MEMORY_PARTS = 8;
const HEAP_PARTS = 4;
/**
 * A larger budget would only make requests wait: a process works on this much for half a minute.
 */
const MOST_BYTES = 268_435_456;
/** A body and a somewhat larger answer always fit. */
const LEAST_BODIES = 4;

/** Memory of the machine, or the limit of the control group if that is lower. */
function memoryLimit(): number {
  // 0, or more than the machine has, means no limit.
  return Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY);
}

/**
 * The budget of a process without MEMORY_BUDGET.
 * @param heap limit of V8 in one thread
 */
export function defaultBudget(
  bodyLimit: number,
  memory = memoryLimit(),
  heap = getHeapStatistics().heap_size_limit,
): number {
  const share = Math.min(memory / MEMORY_PARTS, heap / HEAP_PARTS, MOST_BYTES);
  return Math.max(Math.floor(share), leastBudget(bodyLimit));
}

export function leastBudget(bodyLimit: number): number {
  return LEAST_BODIES * bodyLimit;
}
