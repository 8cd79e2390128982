import type { ByteBlocks } from './token.ts';

/** Why a kind refuses a text. */
export interface Refusal {
  /** The end of a sentence about the text, which it never contains: `is not an e-mail address`. */
  readonly reason: string;
}

export function isRefusal(plan: unknown): plan is Refusal {
  return typeof plan === 'object' && plan !== null && 'reason' in plan;
}

/** How a shape makes stems. */
export interface Form<Plan> {
  /** What all draws of a value share. At least MIN_STEMS stems fit it. */
  plan(value: string): Plan | Refusal;
  /**
   * Draws a stem.
   * @param extra characters to add, because shorter stems were taken
   */
  stem(plan: Plan, extra: number, blocks: ByteBlocks): string;
}
