import { createHash } from 'node:crypto';

/**
 * Pseudorandom bytes from a seed, as a latin1 string: SHA-256 of the seed and a counter, repeated.
 */
export function seededBytes(seed: string, length: number): string {
  let bytes = '';
  for (let block = 0; bytes.length < length; block++) {
    bytes += createHash('sha256').update(`${seed} ${block}`).digest('binary');
  }
  return bytes.slice(0, length);
}

/** Draws from a seed, instead of a keyring. */
export function seededDraws(seed: string): (draw: number, block: number) => string {
  return (draw, block) => seededBytes(`${seed} ${draw} ${block}`, 48);
}

/** The bytes that draw these letters and digits. Other characters take no byte. */
export function bytesThatDraw(text: string): string {
  return text.replace(/[^a-z0-9]/g, '').replace(/./g, (character) => {
    const digit = Number.parseInt(character, 36);
    return String.fromCharCode(digit < 10 ? digit : digit - 10);
  });
}

/** The 16 bytes of a UUID in PostgreSQL's notation. */
export function bytesOfUuid(uuid: string): Buffer {
  return Buffer.from(uuid.replaceAll('-', ''), 'hex');
}
