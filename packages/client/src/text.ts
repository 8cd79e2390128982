import { refused } from './data.ts';
import { type Answer, badAnswer, parseBody, REASONS, type Unapplied } from './failures.ts';

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
}

/** A text with the values that the client may see. */
export interface DetokenizedText {
  text: string;
  /** The tokens that stay, by their offsets in the text that you passed. */
  unapplied: { start: number; end: number; reason: Unapplied['reason'] }[];
}

/** Sends a body. Rejects with a StandinError. */
export type Post = (operation: string, body: string) => Promise<Answer>;

const TOKENIZE = 'text/tokenize';
const DETOKENIZE = 'text/detokenize';

/** The service counts in code points. @throws InvalidValueError for a span outside the text */
export async function tokenizeText(
  post: Post,
  text: string,
  spans: readonly Span[],
): Promise<TokenizedText> {
  const points = pointsOf(text);
  const counted = spans.map(({ start, end, kind }, i) => {
    const [from = -1, to = -1] = [points[start], points[end]];
    if (from < 0 || to <= from)
      throw refused(
        ['data', 'spans', i],
        `start must be below end, end at most ${text.length}, and neither in a surrogate pair`,
      );
    return { start: from, end: to, kind };
  });
  const answer = await post(TOKENIZE, JSON.stringify({ data: { text, spans: counted } }));
  const { data } = parseBody(answer.text) as { data?: Partial<TokenizedText> };
  if (typeof data?.text !== 'string' || !Array.isArray(data.spans))
    throw badAnswer(TOKENIZE, answer);
  const units = unitsOf(data.text);
  const found = data.spans.map(({ start, end, kind }) => ({
    start: units[start]!,
    end: units[end]!,
    kind,
  }));
  return { text: data.text, spans: found };
}

const PLACE = /^data\.text\[(\d+):(\d+)\]$/;

export async function detokenizeText(post: Post, text: string): Promise<DetokenizedText> {
  const { answer, data, unapplied } = await restored(post, { text });
  const units = unitsOf(text);
  const places = unapplied.map(({ path, reason }) => {
    const [start, end] = (PLACE.exec(path) ?? []).slice(1).map((point) => units[Number(point)]);
    if (start === undefined || end === undefined || !REASONS.includes(reason))
      throw badAnswer(DETOKENIZE, answer);
    return { start, end, reason };
  });
  return { text: data.text, unapplied: places };
}

export async function* detokenizeStream(
  post: Post,
  chunks: AsyncIterable<string> | Iterable<string>,
): AsyncGenerator<string, void, undefined> {
  let held = '';
  for await (const chunk of chunks) {
    const piece = held + chunk;
    const end = wholeLength(piece);
    const { data } = await restored(post, { text: piece.slice(0, end), more: true });
    held = data.rest + piece.slice(end);
    if (data.text !== '') yield data.text;
  }
  if (held !== '') yield (await restored(post, { text: held })).data.text;
}

async function restored(post: Post, request: { text: string; more?: true }) {
  const answer = await post(DETOKENIZE, JSON.stringify({ data: request }));
  const { data, unapplied = [] } = parseBody(answer.text) as {
    data?: { text?: unknown; rest?: unknown };
    unapplied?: readonly Unapplied[];
  };
  const { text, rest = '' } = data ?? {};
  if (typeof text !== 'string' || typeof rest !== 'string' || !Array.isArray(unapplied))
    throw badAnswer(DETOKENIZE, answer);
  return { answer, data: { text, rest }, unapplied: unapplied as readonly Unapplied[] };
}

/** Where half of a surrogate pair begins at the end of a piece, else the end. */
function wholeLength(piece: string): number {
  return piece.length - (/[\ud800-\udbff]$/.test(piece) ? 1 : 0);
}

/** The code point at each unit, and the end; -1: in a surrogate pair. */
function pointsOf(text: string): Int32Array {
  const points = new Int32Array(text.length + 1).fill(-1);
  unitsOf(text).forEach((unit, point) => {
    points[unit] = point;
  });
  return points;
}

/** The unit where each code point begins, and the end. */
function unitsOf(text: string): number[] {
  const units: number[] = [];
  let unit = 0;
  for (const point of text) {
    units.push(unit);
    unit += point.length;
  }
  units.push(unit);
  return units;
}
