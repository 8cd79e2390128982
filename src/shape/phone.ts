import { createRequire } from 'node:module';
import type { CountryCode } from 'libphonenumber-js/min';
import type { Refusal } from './token.ts';

type Library = typeof import('libphonenumber-js/min');

/**
 * Loads when a kind first needs it: 30 ms and 8 MB for each thread. `min` is the smallest metadata:
 * it has the lengths of numbers, and not which of them are given out.
 */
function library(): Library {
  return createRequire(import.meta.url)('libphonenumber-js/min');
}

/** Whether this is a country of ISO 3166-1 alpha-2, in capitals, that has telephone numbers. */
export function isPhoneCountry(country: string): boolean {
  return library().isSupportedCountry(country);
}

/**
 * Normalizes telephone numbers to E.164: `+`, country code, number. Takes some 10 µs for each.
 * @param country of numbers without a country code; null: there are none
 */
export function e164Normalizer(country: string | null): (text: string) => string | Refusal {
  const { parsePhoneNumberFromString } = library();
  const options = {
    extract: false,
    ...(country === null ? {} : { defaultCountry: country as CountryCode }),
  };
  const example = country === null ? 'with + and country code' : `of ${country}, or with +`;
  return (text) => {
    const number = parsePhoneNumberFromString(text, options);
    if (number?.ext !== undefined) return { reason: 'has an extension, which E.164 cannot have' };
    const uniform = number?.isPossible() ? number.number : undefined;
    // Of some numbers that nobody has, the library takes a prefix away each time it reads them.
    const isStable =
      uniform === text || parsePhoneNumberFromString(uniform ?? '', options)?.number === uniform;
    if (uniform !== undefined && isStable) return uniform;
    return { reason: `is not a telephone number ${example}` };
  };
}
