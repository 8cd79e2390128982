import { SHAPED_CHARACTERS } from '../shape/shape.ts';
import { DETECTORS, type DetectorName, detectorOf, type Stretch } from './detectors.ts';
import { patternDetector } from './pattern.ts';

/** The part of a policy that finds values in texts. Plain data, because it goes to the threads. */
export interface DetectSettings {
  /** A detector. */
  readonly detector: string;
  /** The name of a kind whose tokens can be found in texts. */
  readonly kind: string;
  /** Of telephone numbers without a country code; null: there are none. */
  readonly country: string | null;
}

/** Who found a stretch, for metrics. */
export const FINDERS = [...DETECTORS, 'words', 'pattern', 'presidio'] as const;
export type Finder = (typeof FINDERS)[number];

/** A stretch of a text that is to be replaced. */
export interface Found extends Stretch {
  /** Name of the kind. */
  readonly kind: string;
  readonly finder: Finder;
}

/** From, to and the index of the detector, for each stretch found in a text. */
export type FindIn = (text: string) => number[];

/** Compiles the detectors that need no other service. */
export function finderOf(settings: readonly DetectSettings[]): FindIn {
  const finders = settings.flatMap(({ detector, country }, index) => {
    if (isDetector(detector)) return [{ index, find: detectorOf(detector, country) }];
    return isPattern(detector) ? [{ index, find: patternDetector(detector) }] : [];
  });
  return (text) => {
    const all: number[] = [];
    for (const { index, find } of finders)
      for (const { from, to } of find(text)) all.push(from, to, index);
    return all;
  };
}

function isDetector(name: string): name is DetectorName {
  return (DETECTORS as readonly string[]).includes(name);
}

function finderNamed(detector: string): Finder {
  if (isDetector(detector)) return detector;
  return isPattern(detector) ? 'pattern' : 'presidio';
}

/** Whether a policy names an own pattern: `/S-[0-9]{6}/`. */
export function isPattern(detector: string): boolean {
  return detector.startsWith('/');
}

/** The detectors that are entities of Presidio. */
export function entitiesOf(settings: readonly DetectSettings[]): readonly DetectSettings[] {
  return settings.filter(({ detector }) => finderNamed(detector) === 'presidio');
}

/** A part of a text, with what is around it: a value can be on both sides of its ends. */
export interface Window {
  readonly text: string;
  /** Where this text begins in the whole. */
  readonly at: number;
  /** What begins here in the whole belongs to this part. */
  readonly from: number;
  readonly to: number;
}

/** The detectors take up to 1 µs for a character, and small requests wait for a part at most. */
const WINDOW = 8_192;
/** Longer than what a detector finds. */
export const MAX_FOUND = 2_400;

export function windowsOf(text: string): Window[] {
  return Array.from({ length: Math.ceil(text.length / WINDOW) }, (_, i) => {
    const [from, to] = [i * WINDOW, (i + 1) * WINDOW];
    const at = Math.max(0, from - MAX_FOUND);
    return { text: text.slice(at, to + MAX_FOUND), at, from, to };
  });
}

/** What was found in a window, where it is in the whole. */
export function inWhole<One extends Stretch>(
  { at, from, to }: Window,
  found: readonly One[],
): One[] {
  return found.flatMap((one) => {
    const start = one.from + at;
    return start < from || start >= to ? [] : [{ ...one, from: start, to: one.to + at }];
  });
}

/** @param numbers see FindIn */
export function foundOf(numbers: readonly number[], settings: readonly DetectSettings[]): Found[] {
  return Array.from({ length: numbers.length / 3 }, (_, i) => {
    const { detector, kind } = settings[numbers[3 * i + 2]!]!;
    const [from, to] = [numbers[3 * i]!, numbers[3 * i + 1]!];
    return { from, to, kind, finder: finderNamed(detector) };
  });
}

/**
 * The stretches to replace, in the order of the text. Those that overlap become one, of the kind of
 * the longest, or of the first one of FINDERS, so that no part of a value stays in clear.
 * @param taken no part of any stretch: tokens, and what the caller named; in order
 */
export function chosen(text: string, all: readonly Found[], taken: readonly Stretch[]): Found[] {
  const merged: Found[] = [];
  let longest: Found | undefined;
  for (const one of all.toSorted((a, b) => a.from - b.from)) {
    const last = merged.at(-1);
    if (last === undefined || one.from >= last.to) {
      merged.push(one);
      longest = one;
    } else {
      if (isBefore(one, longest!)) longest = one;
      const { kind, finder } = longest!;
      merged[merged.length - 1] = { from: last.from, to: Math.max(last.to, one.to), kind, finder };
    }
  }
  let next = 0;
  return merged.flatMap((one) => {
    while (next < taken.length && taken[next]!.to <= one.from) next++;
    const parts: Stretch[] = [];
    let { from } = one;
    for (let i = next; i < taken.length && taken[i]!.from < one.to; i++) {
      parts.push({ from, to: taken[i]!.from });
      from = Math.max(from, taken[i]!.to);
    }
    parts.push({ from, to: one.to });
    const trimmed = parts.length === 1 ? parts : parts.flatMap((part) => trim(text, part));
    return trimmed.flatMap((part) => [...short(text, part)]).map((part) => ({ ...one, ...part }));
  });
}

function isBefore(one: Found, other: Found): boolean {
  const longer = one.to - one.from - (other.to - other.from);
  return longer > 0 || (longer === 0 && rank(one.finder) < rank(other.finder));
}

function rank(finder: Finder): number {
  return FINDERS.indexOf(finder);
}

/** Without the separators at the ends; none when it has nothing else. */
function trim(text: string, { from, to }: Stretch): Stretch[] {
  const part = text.slice(from, Math.max(from, to));
  const first = part.search(ALPHANUMERIC);
  if (first === -1) return [];
  return [{ from: from + first, to: from + part.replace(TRAILING, '').length }];
}

const ALPHANUMERIC = /[\p{L}\p{M}\p{N}]/u;
const TRAILING = /[^\p{L}\p{M}\p{N}]{1,256}$/u;

/** In parts that every kind takes. */
function* short(text: string, { from, to }: Stretch): Iterable<Stretch> {
  for (let start = from; start < to; ) {
    let end = Math.min(start + SHAPED_CHARACTERS, to);
    if (end < to && SURROGATES.test(text.slice(end - 1, end + 1))) end--;
    yield { from: start, to: end };
    start = end;
  }
}

const SURROGATES = /^[\ud800-\udbff][\udc00-\udfff]$/;
