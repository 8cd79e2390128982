import { refused } from './data.ts';
import { badAnswer, REASONS, type ServiceResponse, type Unapplied } from './failures.ts';

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
export type Post = (operation: string, body: string) => Promise<ServiceResponse>;

const DETOKENIZE = 'text/detokenize';

/** The service counts in code points. @throws InvalidValueError for a span outside the text */
export async function tokenizeText(
  post: Post,
  text: string,
  spans: readonly Span[],
): Promise<TokenizedText> {
  const points = new Map(unitsOf(text).map((unit, point) => [unit, point]));
  const counted = spans.map(({ start, end, kind }, i) => {
    const [from, to] = [points.get(start), points.get(end)];
    if (from === undefined || to === undefined || to <= from)
      throw refused(
        `data.spans[${i}]`,
        `start must be below end, end at most ${text.length}, and neither in a surrogate pair`,
      );
    return { start: from, end: to, kind };
  });
  const { answer, data } = await asked(post, 'text/tokenize', { text, spans: counted });
  if (!Array.isArray(data.spans)) throw badAnswer(answer);
  const units = unitsOf(data.text);
  const unitsAt = ({ start, end, kind }: Span) => ({
    start: units[start]!,
    end: units[end]!,
    kind,
  });
  return { text: data.text, spans: data.spans.map(unitsAt) };
}

const PLACE = /^data\.text\[(\d+):(\d+)\]$/;

export async function detokenizeText(post: Post, text: string): Promise<DetokenizedText> {
  const { answer, data, unapplied } = await asked(post, DETOKENIZE, { text });
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
): AsyncGenerator<string, void, undefined> {
  let held = '';
  for await (const chunk of chunks) {
    const piece = held + chunk;
    // Half of a surrogate pair waits for the other.
    const end = piece.length - (/[\ud800-\udbff]$/.test(piece) ? 1 : 0);
    const request = { text: piece.slice(0, end), more: true };
    const { data } = await asked(post, DETOKENIZE, request);
    held = data.rest + piece.slice(end);
    if (data.text !== '') yield data.text;
  }
  if (held !== '') yield (await asked(post, DETOKENIZE, { text: held })).data.text;
}

async function asked(post: Post, operation: string, request: object) {
  const answer = await post(operation, JSON.stringify({ data: request }));
  const { data, unapplied = [] } = answer.body;
  const { text, rest = '', spans } = (data ?? {}) as Record<string, unknown>;
  if (typeof text !== 'string' || typeof rest !== 'string' || !Array.isArray(unapplied))
    throw badAnswer(answer);
  return { answer, data: { text, rest, spans }, unapplied: unapplied as readonly Unapplied[] };
}

/** The unit where each code point begins, and the end. */
function unitsOf(text: string): number[] {
  let unit = 0;
  return [...text, ''].map((point) => {
    unit += point.length;
    return unit - point.length;
  });
}
