import { randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';

const PREFIX = 'stk_';
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
/** 28 digits of base 62 carry 166 random bits. */
const RANDOM_DIGITS = 28;
/** 62^6 > 2^32. */
const CHECK_DIGITS = 6;
const API_KEY = new RegExp(`^${PREFIX}[0-9A-Za-z]{${RANDOM_DIGITS + CHECK_DIGITS}}$`);

/** `stk_`, 28 random base62 digits, and 6 digits of the CRC-32 of everything before them. */
export function newApiKey(): string {
  const body = PREFIX + randomBase62(RANDOM_DIGITS);
  return body + checkDigits(body);
}

/** Whether the text has the form of an API key. Most typos fail here, without a look-up. */
export function isApiKey(text: string): boolean {
  return (
    API_KEY.test(text) && checkDigits(text.slice(0, -CHECK_DIGITS)) === text.slice(-CHECK_DIGITS)
  );
}

/** Random bytes in hex, for `client_id` and the ids of API keys. */
export function randomHex(bytes: number): string {
  return randomBytes(bytes).toString('hex');
}

function randomBase62(length: number): string {
  let digits = '';
  while (digits.length < length) {
    for (const byte of randomBytes(length)) {
      if (byte < 248 && digits.length < length) digits += BASE62.charAt(byte % 62);
    }
  }
  return digits;
}

function checkDigits(body: string): string {
  let digits = '';
  for (let rest = crc32(body); digits.length < CHECK_DIGITS; rest = Math.floor(rest / 62))
    digits = BASE62.charAt(rest % 62) + digits;
  return digits;
}
