import { median } from './measure.ts';
import type { Measurement } from './measurements.ts';

/** Figures of the rounds of one contestant under one load; undefined where nothing was measured. */

/** Median of a figure. */
export function middle(rounds: readonly Measurement[], figure: Figure): number | undefined {
  return median(rounds.flatMap((one) => figure(one) ?? []));
}

type Figure = (one: Measurement) => number | undefined;

/** Median of the ratios of a figure, each round to the same round of the other: a slow machine slows both. */
export function ratio(
  rounds: readonly Measurement[],
  others: readonly Measurement[],
  figure: Figure,
): number | undefined {
  return middle(rounds, (one) => {
    const other = others.find(({ round }) => round === one.round);
    const [own, theirs] = [figure(one), other && figure(other)];
    return own === undefined || !theirs ? undefined : own / theirs;
  });
}

/** Right answers a second. */
export const rateOf: Figure = ({ rate }) => rate;

/** CPU seconds of the service for each right answer. */
export const cpuOf: Figure = ({ serviceCpuS, result }) =>
  serviceCpuS === undefined ? undefined : serviceCpuS / result.right;

/** The longest that the event loop was held up in any round. */
export function longestHeldUp(rounds: readonly Measurement[]): number | undefined {
  const allMs = rounds.flatMap(({ heldUpMs }) => heldUpMs ?? []);
  return allMs.length === 0 ? undefined : Math.max(...allMs);
}
