import { totalmem } from 'node:os';
import { getHeapStatistics } from 'node:v8';

/** The memory that a process may use, in bytes. */
interface MemoryLimits {
  /** Memory of the machine, or the limit of the control group if that is lower. */
  readonly memory: number;
  /** Heap limit of V8 in one thread. */
  readonly heap: number;
}

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

export function memoryLimits(): MemoryLimits {
  // 0, or more than the machine has, means no limit.
  const constrained = process.constrainedMemory() || Number.POSITIVE_INFINITY;
  return {
    memory: Math.min(totalmem(), constrained),
    heap: getHeapStatistics().heap_size_limit,
  };
}

/** The budget of a process without MEMORY_BUDGET. */
export function defaultBudget({ memory, heap }: MemoryLimits, bodyLimit: number): number {
  const share = Math.min(memory / MEMORY_PARTS, heap / HEAP_PARTS, MOST_BYTES);
  return Math.max(Math.floor(share), leastBudget(bodyLimit));
}

export function leastBudget(bodyLimit: number): number {
  return LEAST_BODIES * bodyLimit;
}
