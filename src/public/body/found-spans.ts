import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Stretch } from '../../detect/detectors.ts';
import { chosen, entitiesOf, type Found, foundOf, inWhole, windowsOf } from '../../detect/found.ts';
import { analyze, PRESIDIO_TIMEOUT_MS } from '../../detect/presidio.ts';
import { MAX_WORD_PARTS, Words } from '../../detect/words.ts';
import { type CallerError, InternalError } from '../../errors.ts';
import type { Kind, PolicyRules, Viewer } from '../../policy/rules.ts';
import { requestDeadline } from '../../tokens/threads/vault-client.ts';
import type { Exchange } from '../exchange.ts';
import { MAX_WORDS } from '../schema.ts';
import { invalid, isObject, type JsonObject } from './data.ts';
import { TokenFinder } from './token-finder.ts';

/** What is looked for in texts. */
export interface Sought {
  /** Words that the caller lists, with the names of their kinds. */
  readonly words?: Words | undefined;
  /** Whether the detectors of the policy look, too. */
  readonly isDetecting: boolean;
}

/** A value in a text. */
export interface Span extends Stretch {
  readonly kind: Kind;
  /** Its place in the request; undefined: it was found. */
  readonly index?: number;
}

/** A text and its values, in order. */
export interface SpannedText {
  readonly text: string;
  readonly spans: readonly Span[];
}

/**
 * The texts with the values that were found beside their spans and tokens.
 * @throws CallerError invalid_type for too many, or overloaded; InternalError
 */
export async function findSpans(
  exchange: Exchange,
  viewer: Viewer,
  texts: readonly SpannedText[],
  { words, isDetecting }: Sought,
): Promise<SpannedText[]> {
  const { valuesLimit, tokenSuffix } = exchange.context;
  const tokens = new TokenFinder(tokenSuffix, viewer.rules.textKinds);
  const detected = isDetecting ? await detect(exchange, viewer, texts) : [];
  const all: Found[][] = [];
  for (const [i, { text, spans }] of texts.entries()) {
    const taken = inOrder([...spans, ...tokensIn(text, tokens, valuesLimit)]);
    const listed = words ? chosen(text, await listedIn(text, words), taken) : [];
    const others = chosen(text, detected[i] ?? [], inOrder([...taken, ...listed]));
    all.push([...listed, ...others]);
  }
  const found = all.flat();
  if (found.length > valuesLimit) throw tooMany(valuesLimit);
  exchange.reserveFields(found.length);
  exchange.context.metrics.detections(found);
  const { rules } = viewer;
  return texts.map(({ text, spans }, i) => {
    const its = all[i]!.map(({ from, to, kind }) => ({ from, to, kind: rules.kind(kind) }));
    return { text, spans: inOrder([...spans, ...its]) };
  });
}

function inOrder<One extends Stretch>(stretches: readonly One[]): One[] {
  return stretches.toSorted((a, b) => a.from - b.from);
}

/** More detectors hardly find the same. Three numbers are a value. */
const MAX_OVERLAPS = 3 * 4;

/** A vault thread searches: it would hold the event loop. Presidio searches beside it. */
async function detect(
  exchange: Exchange,
  viewer: Viewer,
  texts: readonly SpannedText[],
): Promise<Found[][]> {
  const { vault, valuesLimit } = exchange.context;
  exchange.deadlineMs ??= requestDeadline();
  const windows = texts.map(({ text }) => windowsOf(text));
  const parts = windows.flat().map(({ text }) => text);
  const [numbers, entities] = await Promise.all([
    vault.find(parts, viewer, exchange.deadlineMs),
    entitiesIn(exchange, viewer, texts),
  ]);
  const found = numbers.filter((ofWindow) => ofWindow !== null);
  if (found.length < numbers.length) throw invalid(TOO_SLOW);
  const all = found.reduce((sum, { length }) => sum + length, 0);
  if (all > MAX_OVERLAPS * valuesLimit) throw tooMany(valuesLimit);
  await nextTurn();
  let next = 0;
  return windows.map((ofText, i) => [
    ...ofText.flatMap((one) => inWhole(one, foundOf(found[next++]!, viewer.rules.policy.detect))),
    ...entities[i]!,
  ]);
}

const TOO_SLOW =
  'data.text: a pattern of the policy takes too long on it; send shorter texts, or an operator can shorten the pattern';

/** Texts of a request that Presidio has at a time. */
const AT_ONCE = 8;

/** @throws InternalError presidio_missing or presidio_unavailable */
async function entitiesIn(
  exchange: Exchange,
  { rules }: Viewer,
  texts: readonly SpannedText[],
): Promise<Found[][]> {
  const settings = entitiesOf(rules.policy.detect);
  if (settings.length === 0) return texts.map(() => []);
  const { presidio } = exchange.context;
  if (presidio === undefined) throw new InternalError('presidio_missing');
  const kinds = new Map(settings.map(({ detector, kind }) => [detector, kind]));
  const signal = AbortSignal.timeout(PRESIDIO_TIMEOUT_MS);
  const ask = async ({ text }: SpannedText): Promise<Found[]> => {
    if (text.trim() === '') return [];
    const found = await analyze(presidio, text, [...kinds.keys()], signal);
    return found.map(({ from, to, entity }) => ({
      ...{ from, to, kind: kinds.get(entity)!, finder: 'presidio' as const },
    }));
  };
  const all: Found[][] = [];
  for (let i = 0; i < texts.length; i += AT_ONCE)
    all.push(...(await Promise.all(texts.slice(i, i + AT_ONCE).map(ask))));
  // The time until its answers is not the vault's.
  exchange.deadlineMs = requestDeadline();
  return all;
}

/**
 * Tokens of the shape word: nothing tells others from what they look like.
 * @throws CallerError invalid_type
 */
function tokensIn(text: string, tokens: TokenFinder, max: number): Stretch[] {
  const places = tokens.find(text, max);
  if (places.length > max) throw tooMany(max);
  return places.flatMap(({ to, candidate }) => {
    const token = [candidate(0), candidate(1)].find((one) => one?.kind !== undefined);
    return token === undefined ? [] : [{ from: token.from, to }];
  });
}

function tooMany(max: number): CallerError {
  return invalid(`data.text: has more than ${max} values or tokens; send shorter texts`);
}

async function listedIn(text: string, words: Words): Promise<Found[]> {
  const all: Found[] = [];
  for (const window of windowsOf(text)) {
    all.push(...inWhole(window, words.find(window.text)));
    await nextTurn();
  }
  return all;
}

/**
 * What to look for; undefined: the caller says where the values are.
 * @throws CallerError invalid_type
 */
export function soughtIn(
  { spans, words, detect }: JsonObject,
  rules: PolicyRules,
): Sought | undefined {
  if (detect !== undefined && typeof detect !== 'boolean')
    throw invalid('data.detect: must be true or false');
  const listed = wordsIn(words, rules);
  const isDetecting = detect ?? spans === undefined;
  if (rules.policy.detect.length === 0 && (detect === true || (isDetecting && words === undefined)))
    throw invalid(
      'data.text: the policy has no detect, so nothing is found by itself; send spans or words, or an operator can add detect to the policy',
    );
  if (!isDetecting && listed === undefined) return undefined;
  return { words: listed, isDetecting: isDetecting && rules.policy.detect.length > 0 };
}

const MAX_WORD_CHARACTERS = 200;

/** The words of the caller. @throws CallerError invalid_type; the message names no word */
function wordsIn(json: unknown, rules: PolicyRules): Words | undefined {
  if (json === undefined) return undefined;
  if (!isObject(json)) throw invalid('data.words: must be an object of words and their kinds');
  const entries = Object.entries(json);
  if (entries.length > MAX_WORDS)
    throw invalid(`data.words: has more than ${MAX_WORDS} words; list those of this text`);
  const words = new Words();
  for (const [i, [word, kind]] of entries.entries()) {
    const path = `data.words, word ${i + 1}`;
    const { name } = kindIn(kind, path, rules).settings;
    if (word.length > MAX_WORD_CHARACTERS || !words.add(word, name))
      throw invalid(
        `${path}: must have a letter or digit, and at most ${MAX_WORD_CHARACTERS} characters in ${MAX_WORD_PARTS} parts`,
      );
  }
  return words;
}

/** @throws CallerError invalid_type */
export function kindIn(name: unknown, path: string, rules: PolicyRules): Kind {
  if (rules.policy.version === 0)
    throw invalid(
      `${path}: this vault has no policy, so it has no kinds of word tokens; an operator can apply one: standin policy apply`,
    );
  const kind = rules.textKinds.find(({ settings }) => settings.name === name);
  if (kind !== undefined) return kind;
  const known = rules.textKinds.map(({ settings }) => settings.name);
  throw invalid(
    `${path}: must be a kind of shape word with suffix, which a text can have; the policy has ${known.join(', ') || 'none'}`,
  );
}
