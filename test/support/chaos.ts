import { Random } from './random.ts';

/** The kinds of fault, with their rows in the catalogue. */
export const FAULTS = [
  /** F02 */
  'postgres killed',
  /** F04 */
  'postgres stopped',
  /** F06 */
  'replies lost',
  /** F08 */
  'callers reset',
  /** F16 */
  'node renewed',
] as const;

export interface Step {
  readonly fault: (typeof FAULTS)[number];
  /** Acknowledged tokens before the fault. */
  readonly after: number;
  /** Which of the two nodes the fault hits, if it hits a node. */
  readonly node: number;
  /** The length or the number of the fault, as a share of the maximum, 0 to 1. */
  readonly measure: number;
}

/** CHAOS_SEED, SEED or a random seed. */
export function chaosSeed(): number {
  const given = process.env.CHAOS_SEED ?? process.env.SEED;
  return Number(given ?? Math.floor(Math.random() * 2 ** 31));
}

/** The same seed gives the same faults, in the same order, after the same numbers of tokens. */
export function* schedule(seed: number): Generator<Step> {
  const random = new Random(seed);
  for (;;) {
    yield {
      fault: random.pick(FAULTS),
      after: 20 + random.below(100),
      node: random.below(2),
      measure: random.below(1_000) / 1_000,
    };
  }
}
