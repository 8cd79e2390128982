import { refused } from './data.ts';
import { badAnswer, REASONS, type ServiceResponse, type Unapplied } from './failures.ts';
import type { CallOptions } from './options.ts';

/** A value in a text. Offsets are as in `text.slice(start, end)`. */
export interface Span {
  start: number;
  end: number;
  /** A kind of the policy, of shape `word` with suffix. */
  kind: string;
}

/** A text with tokens, and where they are. */
export interface TokenizedText {
  text: string;
  spans: Span[];
  /** With the option `conversation`, what the next call takes, else ''. It expires after 24 h. */
  conversation: string;
}

export interface TokenizeTextOptions extends CallOptions {
  /** true begins a conversation; a string adds these tokens to an earlier one. */
  conversation?: true | string;
  /** Words to tokenize wherever the text has them, and their kinds. */
  words?: Readonly<Record<string, string>>;
  /** With spans: find values as well, as the service does without spans. */
  detect?: boolean;
}

/** The tokens that come back. Without either, all that are known; with both, those of both. */
export interface DetokenizeTextOptions extends CallOptions {
  /** An empty list restores nothing. */
  only?: readonly string[];
  /** From `tokenizeText`. */
  conversation?: string;
}

/** A text with the values that the client may see. */
export interface DetokenizedText {
  text: string;
  /** The tokens that stay, by their offsets in the text that you passed. */
  unapplied: { start: number; end: number; reason: Unapplied['reason'] }[];
}

/** Sends a body. Rejects with a StandinError. */
export type Post = (operation: string, body: string) => Promise<ServiceResponse>;

const DETOKENIZE = 'text/detokenize';

/** The service counts in code points. @throws InvalidValueError for a span outside the text */
export async function tokenizeText(
  post: Post,
  text: string,
  spans: readonly Span[] | undefined,
  { conversation, words, detect }: TokenizeTextOptions,
): Promise<TokenizedText> {
  const points = new Map(unitsOf(text).map((unit, point) => [unit, point]));
  const counted = spans?.map(({ start, end, kind }, i) => {
    const [from, to] = [points.get(start), points.get(end)];
    if (from === undefined || to === undefined || to <= from)
      throw refused(
        `data.spans[${i}]`,
        `start must be below end, end at most ${text.length}, and neither in a surrogate pair`,
      );
    return { start: from, end: to, kind };
  });
  const request = { text, spans: counted, conversation, words, detect };
  const { answer, data } = await asked(post, 'text/tokenize', request);
  if (!Array.isArray(data.spans)) throw badAnswer(answer);
  const units = unitsOf(data.text);
  const unitsAt = ({ start, end, kind }: Span) => ({
    start: units[start]!,
    end: units[end]!,
    kind,
  });
  const { text: tokenized, spans: found, conversation: next } = data;
  return { text: tokenized, spans: found.map(unitsAt), conversation: next };
}

const PLACE = /^data\.text\[(\d+):(\d+)\]$/;

export async function detokenizeText(
  post: Post,
  text: string,
  { only, conversation }: DetokenizeTextOptions,
): Promise<DetokenizedText> {
  const request = { text, only, conversation };
  const { answer, data, unapplied } = await asked(post, DETOKENIZE, request);
  const units = unitsOf(text);
  const places = unapplied.map(({ path, reason }) => {
    const [start, end] = (PLACE.exec(path) ?? []).slice(1).map((point) => units[Number(point)]);
    if (start === undefined || end === undefined || !REASONS.includes(reason))
      throw badAnswer(answer);
    return { start, end, reason };
  });
  return { text: data.text, unapplied: places };
}

export async function* detokenizeStream(
  post: Post,
  chunks: AsyncIterable<string> | Iterable<string>,
  { only, conversation }: DetokenizeTextOptions,
): AsyncGenerator<string, void, undefined> {
  const named = { only, conversation };
  let held = '';
  for await (const chunk of chunks) {
    const piece = held + chunk;
    // Half of a surrogate pair waits for the other.
    const end = piece.length - (/[\ud800-\udbff]$/.test(piece) ? 1 : 0);
    const request = { text: piece.slice(0, end), more: true, ...named };
    const { data } = await asked(post, DETOKENIZE, request);
    held = data.rest + piece.slice(end);
    if (data.text !== '') yield data.text;
  }
  if (held !== '') yield (await asked(post, DETOKENIZE, { text: held, ...named })).data.text;
}

async function asked(post: Post, operation: string, request: object) {
  const answer = await post(operation, JSON.stringify({ data: request }));
  const { data, unapplied = [] } = answer.body;
  const { text, rest = '', spans, conversation = '' } = (data ?? {}) as Record<string, unknown>;
  const areStrings = [text, rest, conversation].every((one) => typeof one === 'string');
  if (!areStrings || !Array.isArray(unapplied)) throw badAnswer(answer);
  const strings = { text, rest, conversation } as Record<'text' | 'rest' | 'conversation', string>;
  return { answer, data: { ...strings, spans }, unapplied: unapplied as readonly Unapplied[] };
}

/** The unit where each code point begins, and the end. */
function unitsOf(text: string): number[] {
  let unit = 0;
  return [...text, ''].map((point) => {
    unit += point.length;
    return unit - point.length;
  });
}
