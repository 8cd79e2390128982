import { createHash, createHmac } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

/** The encodings in which a text could be in a file. */
export function encodings(text: string): Map<string, Buffer> {
  const bytes = Buffer.from(text);
  const utf16 = Buffer.from(text, 'utf16le');
  const forms = new Map<string, Buffer>([
    ['utf8', bytes],
    ['utf16le', utf16],
    ['utf16be', Buffer.from(utf16).swap16()],
    ['hex', Buffer.from(bytes.toString('hex'))],
    ['HEX', Buffer.from(bytes.toString('hex').toUpperCase())],
    ['reversed', Buffer.from(text.split('').toReversed().join(''))],
    ['upper', Buffer.from(text.toUpperCase())],
    ['lower', Buffer.from(text.toLowerCase())],
    ['url', Buffer.from([...bytes].map((byte) => `%${byte.toString(16)}`).join(''))],
  ]);
  // Base64 of a text inside other bytes has three alignments. Only the inner characters are fixed.
  for (const before of [0, 1, 2]) {
    const whole = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64');
    forms.set(`base64 ${before}`, Buffer.from(whole.slice(before === 0 ? 0 : 4, -4)));
  }
  return forms;
}

/** Finds a whole key, or a half of it (one AES block), and returns each `path: encoding`. */
export function findKey(key: Buffer, contents: ReadonlyMap<string, Buffer>): string[] {
  const forms = new Map([
    ['first half', key.subarray(0, 16)],
    ['second half', key.subarray(16)],
    ['hex', Buffer.from(key.toString('hex'))],
    ['HEX', Buffer.from(key.toString('hex').toUpperCase())],
    ['base64', Buffer.from(key.toString('base64').slice(0, -2))],
    ['base64url', Buffer.from(key.toString('base64url').slice(0, -1))],
    ['JSON', Buffer.from([...key].join(','))],
  ]);
  return [...contents].flatMap(([path, bytes]) =>
    [...forms].filter(([, form]) => bytes.includes(form)).map(([name]) => `${path}: ${name}`),
  );
}

/** Hashes that a thief could compare: plain, or keyed or salted with stored bytes. */
export function hashes(text: string, stored: readonly Buffer[]): string[] {
  const algorithms = ['md5', 'sha1', 'sha256', 'sha512'];
  return algorithms.flatMap((algorithm) => [
    createHash(algorithm).update(text).digest('hex'),
    ...stored.flatMap((salt) => [
      createHmac(algorithm, salt).update(text).digest('hex'),
      createHash(algorithm).update(salt).update(text).digest('hex'),
      createHash(algorithm).update(text).update(salt).digest('hex'),
    ]),
  ]);
}

/** Contents of all files below a folder, by path. */
export function contentsBelow(folder: string): Map<string, Buffer> {
  const paths = readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) =>
    join(folder, name),
  );
  return new Map(
    paths.filter((path) => statSync(path).isFile()).map((path) => [path, readFileSync(path)]),
  );
}

/** Finds a text, and returns each place as `path: encoding`. */
export function findText(text: string, contents: ReadonlyMap<string, Buffer>): string[] {
  const forms = [...encodings(text)];
  return [...contents].flatMap(([path, bytes]) =>
    forms.filter(([, form]) => bytes.includes(form)).map(([name]) => `${path}: ${name}`),
  );
}
