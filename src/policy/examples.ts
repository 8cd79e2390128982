import { kindOf } from '../shape/kind.ts';
import type { KindSettings, Shape } from '../shape/kind-settings.ts';
import type { Draws } from '../shape/token.ts';
import type { Token } from '../types.ts';

/** What a kind does to a value that we made up. */
export type KindExample = { readonly kind: string; readonly value: string } & (
  | { readonly token: Token; readonly mask: string }
  /** Why the kind refuses every example. */
  | { readonly refusal: string }
);

/** Values of nobody. A kind that refuses the first may take the next. */
const VALUES: Readonly<Record<Shape, readonly string[]>> = {
  text: ['Ann Lee', '+1 415 555 2671'],
  email: ['ann.lee@example.com'],
  digits: ['4242 4242 4242 4242', '+1 415 555 2671', 'GB82 WEST 1234 5698 7654 32', '123-45-6789'],
  date: ['1985-04-12'],
  uuid: ['3f2504e0-4f89-41d3-9a0c-0305e82c3301', '+1 415 555 2671'],
  word: ['Ann Lee', '+1 415 555 2671'],
};

/** @param draws fresh for each token */
export function exampleOf(settings: KindSettings, suffix: string, draws: Draws): KindExample {
  const kind = kindOf(settings);
  const tried = VALUES[settings.shape].map((value): KindExample => {
    const head = { kind: settings.name, value };
    const accepted = kind.accept(value);
    if ('reason' in accepted) return { ...head, refusal: accepted.reason };
    const drawn = kind.drawToken(accepted.value, suffix, draws, 0);
    if (drawn === undefined) return { ...head, refusal: 'has no token' };
    return { ...head, token: drawn.token, mask: kind.mask(accepted.value) };
  });
  return tried.find((example) => 'token' in example) ?? tried[0]!;
}
