import { totalmem } from 'node:os';
import { getHeapStatistics } from 'node:v8';

/** What a process may use, in bytes. */
export interface MemoryLimits {
  /** Of the machine, or of the control group where that has less. */
  readonly memory: number;
  /** Of the heap of V8 in one thread. */
  readonly heap: number;
}

/**
 * Shares of the memory and of the heap. A byte of the budget is in memory several times on its way:
 * as text, in the message to the vault thread, and as the driver of the database has it.
 */
const MEMORY_PARTS = 8;
const HEAP_PARTS = 4;
/** More would only wait: a process needs half a minute for so much. */
const MOST_BYTES = 268_435_456;
/** A body always fits, and so does an answer that is somewhat larger. */
const LEAST_BODIES = 4;

export function memoryLimits(): MemoryLimits {
  // 0, or more than the machine has: no limit.
  const constrained = process.constrainedMemory() || Number.POSITIVE_INFINITY;
  return {
    memory: Math.min(totalmem(), constrained),
    heap: getHeapStatistics().heap_size_limit,
  };
}

/** The budget of a process where MEMORY_BUDGET is not set. */
export function defaultBudget({ memory, heap }: MemoryLimits, bodyLimit: number): number {
  const share = Math.min(memory / MEMORY_PARTS, heap / HEAP_PARTS, MOST_BYTES);
  return Math.max(Math.floor(share), leastBudget(bodyLimit));
}

export function leastBudget(bodyLimit: number): number {
  return LEAST_BODIES * bodyLimit;
}
