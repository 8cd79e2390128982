import { createHash, createHmac } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Checks C02 and C03 for every test file. All texts that go through `call` must be absent from every
 * error answer and, after the tests, from both output streams of the file's services.
 */

/** Far above the values of any test file. A file with more fails, because the search is bounded. */
const MAX_CHARACTERS = 400_000_000;
/** A shorter text could be in a line by chance. */
const MIN_CHARACTERS = 8;
const TOKEN = /[0-9A-Za-z]_tok\b/;
const API_KEY = /stk_[0-9A-Za-z]{34}/;

const outputs: (() => string)[] = [];
const secrets = new Set<string>();
let characters = 0;

export function watchOutput(output: () => string): void {
  outputs.push(output);
}

/** Notes the strings of a request or an answer. */
export function noteSecrets(data: unknown): void {
  for (const text of textsIn(data)) {
    if (text.length < MIN_CHARACTERS || secrets.has(text)) continue;
    characters += text.length;
    if (characters > MAX_CHARACTERS) throw new Error('too many secrets to look for all of them');
    secrets.add(text);
  }
}

/** The body and the headers of an error contain no text of the request. */
export function expectNoSecretIn(answer: string, sent: unknown): void {
  const found = toldBy(answer, textsIn(sent));
  if (found.length > 0) throw new Error(`an error tells ${found.join(', ')}: ${answer}`);
}

/** The lines of the log. Other lines are for a person, or come from a library. */
export function linesOfLog(output: string): string[] {
  return output.split('\n').filter((line) => line.startsWith('{'));
}

function* textsIn(data: unknown): Generator<string> {
  if (typeof data === 'string') yield data;
  else if (typeof data === 'object' && data !== null)
    for (const one of Object.values(data)) yield* textsIn(one);
}

/** The secret texts that an output contains. */
export function toldBy(output: string, lookedFor: Iterable<string>): string[] {
  const forms = [TOKEN, API_KEY].flatMap((form) => form.exec(output)?.[0] ?? []);
  return forms.concat(found(output, lookedFor));
}

const BUCKETS = 1 << 20;

/** Walks only once over the output, because test files send up to 100,000 values. */
function found(text: string, lookedFor: Iterable<string>): string[] {
  const byStart = new Map<string, string[]>();
  const starts = new Uint8Array(BUCKETS);
  for (const secret of lookedFor) {
    if (secret.length < MIN_CHARACTERS) continue;
    // The plain text, and the text as escaped in JSON.
    for (const form of new Set([secret, JSON.stringify(secret).slice(1, -1)])) {
      const start = form.slice(0, MIN_CHARACTERS);
      const same = byStart.get(start);
      if (same === undefined) byStart.set(start, [form]);
      else same.push(form);
      starts[bucketOf(form, 0)] = 1;
    }
  }
  const there = new Set<string>();
  for (let i = 0; i + MIN_CHARACTERS <= text.length; i++) {
    if (starts[bucketOf(text, i)] === 0) continue;
    for (const form of byStart.get(text.slice(i, i + MIN_CHARACTERS)) ?? [])
      if (text.startsWith(form, i)) there.add(form);
  }
  return [...there];
}

function bucketOf(text: string, at: number): number {
  let hash = 0;
  for (let i = at; i < at + 4; i++) hash = Math.imul(hash, 1021) + text.charCodeAt(i);
  return hash & (BUCKETS - 1);
}

/** Checks C02 for the test file, after its tests. */
export function expectNothingTold(): void {
  const told = outputs.splice(0).flatMap((output) => toldBy(output(), secrets));
  secrets.clear();
  characters = 0;
  if (told.length > 0) throw new Error(`services wrote ${told.slice(0, 10).join('\n')}`);
}

/** The encodings in which a text could be in a file. */
function encodings(text: string): Map<string, Buffer> {
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
