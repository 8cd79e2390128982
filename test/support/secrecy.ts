import { expect } from 'vitest';

/**
 * C02 and C03 for every test file: what goes through `call` is looked for in all that the services of
 * the file wrote, when its tests are over, and in every error that they answered.
 */
const MAX_SECRETS = 500;
/** Shorter texts could be in a line by chance. */
const MIN_CHARACTERS = 8;
const TOKEN = /[0-9A-Za-z]_tok\b/;
const API_KEY = /stk_[0-9A-Za-z]{34}/;

const outputs: (() => string)[] = [];
const secrets = new Set<string>();

export function watchOutput(output: () => string): void {
  outputs.push(output);
}

/** Notes the texts in what was sent or received. */
export function noteSecrets(data: unknown): void {
  for (const text of textsIn(data)) {
    if (secrets.size >= MAX_SECRETS) return;
    if (text.length >= MIN_CHARACTERS) secrets.add(text);
  }
}

/** The body and the headers of an error have nothing of what was sent. */
export function expectNoSecretIn(answer: string, sent: unknown): void {
  expect(answer).not.toMatch(TOKEN);
  expect(answer).not.toMatch(API_KEY);
  for (const text of textsIn(sent)) {
    if (text.length >= MIN_CHARACTERS) expect(answer).not.toContain(text);
  }
}

/** Each line of the log as JSON. */
export function linesOfLog(output: string): string[] {
  return output.split('\n').filter((line) => line.startsWith('{'));
}

function* textsIn(data: unknown): Generator<string> {
  if (typeof data === 'string') yield data;
  else if (typeof data === 'object' && data !== null)
    for (const one of Object.values(data)) yield* textsIn(one);
}

/** What is in the log of an output and must not be. */
export function toldBy(output: string, looked_for: Iterable<string>): string[] {
  const log = linesOfLog(output).join('\n');
  const found = [...looked_for].filter((text) => log.includes(text));
  return [TOKEN, API_KEY].flatMap((form) => form.exec(log)?.[0] ?? []).concat(found);
}

/** C02, for the file whose tests have ended. */
export function expectNothingTold(): void {
  for (const output of outputs.splice(0)) expect(toldBy(output(), secrets)).toEqual([]);
  secrets.clear();
}
