import { SETTINGS } from './settings.ts';

/**
 * Starts of names that only Standin uses. Others, such as AWS_ or LOG_, are settings of other
 * programs too.
 */
const PREFIXES = [
  'STANDIN_',
  'KEK_',
  'OPS_',
  'AUDIT_',
  'TLS_',
  'LICENSE_',
  'DATABASE_',
  'RATE_',
  'DETOKENIZE_',
  'UNKNOWN_TOKEN_',
  'BOOTSTRAP_',
  'INTERFACE_',
  'DRAIN_',
];
/** Kubernetes and Docker set such variables for a service, for example STANDIN_PORT. */
const SERVICE_LINK = /_(SERVICE_(HOST|PORT)|PORT)(_|$)/;

/** Names that were probably meant as settings, in words. A misspelt limit must not be silent. */
export function unknownSettings(environment: NodeJS.Dict<string>): string[] {
  return Object.keys(environment).flatMap((name) => {
    if (Object.hasOwn(SETTINGS, name)) return [];
    const upper = name.toUpperCase();
    const meant = Object.keys(SETTINGS).find((setting) => isOneLetterOff(upper, setting));
    if (meant !== undefined) return [`${name} is not a setting. Did you mean ${meant}?`];
    const isOurs = PREFIXES.some((prefix) => name.startsWith(prefix)) && !SERVICE_LINK.test(name);
    return isOurs ? [`${name} is not a setting. List the settings with: standin config`] : [];
  });
}

/** Equal, or one letter more, less or different, or two neighbours swapped. */
function isOneLetterOff(one: string, other: string): boolean {
  let start = 0;
  while (start < one.length && one[start] === other[start]) start++;
  let [end, otherEnd] = [one.length, other.length];
  while (end > start && otherEnd > start && one[end - 1] === other[otherEnd - 1]) {
    end--;
    otherEnd--;
  }
  const [left, right] = [one.slice(start, end), other.slice(start, otherEnd)];
  const isSwapped = left.length === 2 && left === `${right[1]}${right[0]}`;
  return (left.length <= 1 && right.length <= 1) || isSwapped;
}
