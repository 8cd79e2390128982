import { NONE, whole } from './markdown.ts';
import { median } from './measure.ts';
import type { Measurement } from './measurements.ts';

/** Cells of tables: the medians of one contestant's rounds, as text. */

export function spread(numbers: readonly number[]): string {
  const middle = median(numbers);
  if (middle === undefined) return NONE;
  if (numbers.length === 1) return whole(middle);
  return `${whole(middle)} (${whole(Math.min(...numbers))}–${whole(Math.max(...numbers))})`;
}

export function latency(numbers: readonly number[]): string {
  const middle = median(numbers);
  return middle === undefined ? NONE : milliseconds(middle);
}

export function milliseconds(number: number | undefined): string {
  if (number === undefined) return NONE;
  return number.toFixed(number < 100 ? 1 : 0);
}

/** @param unit requests or values for which the seconds count */
export function cpu(
  rounds: readonly Measurement[],
  seconds: (one: Measurement) => number | undefined,
  unit: number,
): string {
  const costs = rounds.flatMap((one) => {
    const spentS = seconds(one);
    return spentS === undefined || one.result.right === 0 ? [] : [spentS / one.result.right];
  });
  const middle = median(costs);
  return middle === undefined ? NONE : (middle * unit).toPrecision(2);
}
