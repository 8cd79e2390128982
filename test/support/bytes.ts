import { createHash } from 'node:crypto';

/**
 * Bytes that a seed decides, as a latin1 string: SHA-256 of
 * the seed and a counter, again and again.
 */
export function seededBytes(seed: string, length: number): string {
  let bytes = '';
  for (let block = 0; bytes.length < length; block++) {
    bytes += createHash('sha256').update(`${seed} ${block}`).digest('binary');
  }
  return bytes.slice(0, length);
}

/** Draws that a seed decides, in place of those of a keyring. */
export function seededDraws(seed: string): (draw: number, block: number) => string {
  return (draw, block) => seededBytes(`${seed} ${draw} ${block}`, 48);
}

/** The bytes from which these letters and digits are drawn; what is neither takes none. */
export function bytesThatDraw(text: string): string {
  return text.replace(/[^a-z0-9]/g, '').replace(/./g, (character) => {
    const digit = Number.parseInt(character, 36);
    return String.fromCharCode(digit < 10 ? digit : digit - 10);
  });
}

/** The 16 bytes of a uuid as PostgreSQL writes it. */
export function bytesOfUuid(uuid: string): Buffer {
  return Buffer.from(uuid.replaceAll('-', ''), 'hex');
}
