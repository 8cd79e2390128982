import { createRequire } from 'node:module';
import type { RE2JS } from 're2js';
import type { Stretch } from './detectors.ts';

/** Instructions of a compiled pattern. For each, a character takes up to 25 ns. */
const MAX_SIZE = 100;
/** In UTF-16 units, with the slashes. */
const MAX_CHARACTERS = 200;
/**
 * One search takes linear time, and a text can make the next one begin where it began. After so
 * long, the text is refused.
 */
const MAX_MS = 50;

/** An own pattern takes too long on a text. */
export class TooSlow extends Error {}

/** Loads with the first pattern: 10 ms for each thread. */
function compiled(pattern: string): RE2JS {
  const library: typeof import('re2js') = createRequire(import.meta.url)('re2js');
  return library.RE2JS.compile(pattern.slice(1, -1));
}

/** Why `/.../` is no pattern; undefined: it is one. Ends a sentence about it. */
export function patternProblem(pattern: string): string | undefined {
  if (pattern.length > MAX_CHARACTERS) return `has more than ${MAX_CHARACTERS} characters`;
  if (!/^\/.+\/$/s.test(pattern)) return 'must end with a slash, too, such as "/S-[0-9]{6}/"';
  try {
    const { size, isBlank } = factsOf(compiled(pattern));
    if (isBlank) return 'matches the empty text: make a part of it required';
    return size > MAX_SIZE ? `is too large: shorten its counts ({1,50}) and lists` : undefined;
  } catch (error) {
    return `is not RE2 syntax: ${(error as Error).message.replace(/^error parsing regexp: /, '')}`;
  }
}

function factsOf(pattern: RE2JS) {
  return { size: pattern.programSize(), isBlank: pattern.matcher('').find() };
}

/** @throws TooSlow while the stretches are read */
export function patternDetector(pattern: string) {
  const re2 = compiled(pattern);
  return function* matches(text: string): Iterable<Stretch> {
    const matcher = re2.matcher(text);
    for (const endMs = performance.now() + MAX_MS; matcher.find(); ) {
      if (performance.now() > endMs) throw new TooSlow();
      yield { from: matcher.start(), to: matcher.end() };
    }
  };
}
