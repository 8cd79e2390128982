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
