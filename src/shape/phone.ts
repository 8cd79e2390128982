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

/** Between the groups of a number, in print. The library knows the other blanks. */
const THIN_BLANKS = /[\u2009\u202f]/g;

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
    const number = parsePhoneNumberFromString(text.replace(THIN_BLANKS, ' '), options);
    if (number?.ext !== undefined) return { reason: 'has an extension, which E.164 cannot have' };
    const uniform = number?.isPossible() ? number.number : undefined;
    // Of some numbers that nobody has, the library takes a prefix away each time it reads them.
    const isStable =
      uniform === text || parsePhoneNumberFromString(uniform ?? '', options)?.number === uniform;
    if (uniform !== undefined && isStable) return uniform;
    return { reason: `is not a telephone number ${example}` };
  };
}

/** Numbers with a country code. */
const INTERNATIONAL = /^\(?(?:\+|00)/;
const MAX_CODE_DIGITS = 3;

/**
 * Tells telephone numbers from other numbers of a text. Takes half a µs, because the patterns of
 * the library are tried without its parser. What it returns takes a text that begins with a number,
 * and the digits of the number.
 * @param country of numbers without a country code, which then begin with its national prefix if
 * that is 0; null: there are none
 */
export function phoneFinder(country: string | null): (text: string, digits: string) => boolean {
  const { getCountries, getCountryCallingCode } = library();
  const byCode = new Map<string, string>();
  for (const one of getCountries()) {
    const code = getCountryCallingCode(one);
    const { pattern, prefix } = planOf(one);
    const known = byCode.get(code);
    byCode.set(code, `${known === undefined ? '' : `${known}|`}(?:${prefix})?(?:${pattern})`);
  }
  const plans = new Map([...byCode].map(([code, pattern]) => [code, exactly(pattern)]));
  const own = country === null ? undefined : planOf(country as CountryCode);
  const isOptional = own?.prefix === '0' ? '' : '?';
  const national = own && exactly(`(?:${own.prefix})${isOptional}(?:${own.pattern})`);
  return (text, digits) => {
    if (!INTERNATIONAL.test(text)) return national?.test(digits) === true;
    const number = text.includes('+') ? digits : digits.slice(2);
    for (let length = 1; length <= MAX_CODE_DIGITS; length++)
      if (plans.get(number.slice(0, length))?.test(number.slice(length))) return true;
    return false;
  };
}

/** Parts of the library that its types leave out. */
interface PlanOfLibrary {
  nationalNumberPattern(): string;
  nationalPrefix(): string | undefined;
}

/** The national numbers of a country. */
function planOf(country: CountryCode) {
  const metadata = new (library().Metadata)();
  metadata.selectNumberingPlan(country);
  const plan = metadata.numberingPlan as unknown as PlanOfLibrary;
  return { pattern: plan.nationalNumberPattern(), prefix: plan.nationalPrefix() ?? '' };
}

function exactly(pattern: string): RegExp {
  return new RegExp(`^(?:${pattern})$`);
}
