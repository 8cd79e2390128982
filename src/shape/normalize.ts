import { MAX_VALUE_BYTES } from '../types.ts';
import type { KindSettings } from './kind-settings.ts';
import { e164Normalizer } from './phone.ts';
import type { Refusal } from './token.ts';

/** A UTF-16 unit needs at most so many bytes of UTF-8. */
const MAX_BYTES_A_UNIT = 3;
const WHITE_SPACE = /\p{White_Space}/u;

/** Makes texts uniform: trims, then lower case, then E.164, as far as the kind asks for it. */
export function normalizerOf({
  normalize,
  country,
}: KindSettings): (text: string) => string | Refusal {
  if (normalize.length === 0) return (text) => text;
  const trims = normalize.includes('trim');
  const lowers = normalize.includes('lower_case');
  const e164 = normalize.includes('e164') ? e164Normalizer(country) : (text: string) => text;
  return (text) => {
    const trimmed = trims ? trim(text) : text;
    const lowered = lowers ? trimmed.toLowerCase() : trimmed;
    const mayBeLarge = lowered.length * MAX_BYTES_A_UNIT > MAX_VALUE_BYTES;
    if (mayBeLarge && Buffer.byteLength(lowered) > MAX_VALUE_BYTES) {
      return { reason: `has more than ${MAX_VALUE_BYTES} bytes when it is in lower case` };
    }
    return e164(lowered);
  };
}

/** Without the Unicode white space at both ends. A regular expression would try each inner run. */
function trim(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && WHITE_SPACE.test(text.charAt(start))) start++;
  while (end > start && WHITE_SPACE.test(text.charAt(end - 1))) end--;
  return text.slice(start, end);
}
