import { median } from './measure.ts';
import type { Measurement } from './measurements.ts';

/** Figures of one contestant's rounds under one load; undefined: nothing was measured. */

/** Median of a figure. */
export function middle(
  rounds: readonly Measurement[],
  figure: (one: Measurement) => number | undefined,
): number | undefined {
  return median(rounds.flatMap((one) => figure(one) ?? []));
}

/** Median of the ratios of rates, round by round, because a slow machine slows both contestants. */
export function rateRatio(
  rounds: readonly Measurement[],
  others: readonly Measurement[],
): number | undefined {
  return middle(rounds, ({ round, rate }) => {
    const other = others.find((one) => one.round === round);
    return other === undefined || other.rate === 0 ? undefined : rate / other.rate;
  });
}

/** The longest block of the event loop in any round. */
export function longestHeldUp(rounds: readonly Measurement[]): number | undefined {
  const allMs = rounds.flatMap(({ heldUpMs }) => heldUpMs ?? []);
  return allMs.length === 0 ? undefined : Math.max(...allMs);
}
