import type { Kind, PolicyRules } from '../policy/rules.ts';
import type { Viewer } from '../policy/viewer.ts';
import type { ServerContext } from './context.ts';
import { checkText, invalid, isObject, type JsonObject, parseBody } from './data.ts';
import type { Exchange } from './exchange.ts';
import { type Replacement, type RequestValues, viewerOf } from './request-data.ts';
import { TextOffsets } from './text-offsets.ts';

const SPANS = 'data.spans';
const NEEDED = 'a list of objects with start, end and kind';

interface Span {
  /** Offsets in UTF-16 units. */
  readonly from: number;
  readonly to: number;
  /** Offset in code points, and its place in the request. */
  readonly start: number;
  readonly index: number;
  readonly kind: Kind;
}

/**
 * The values of `{"data":{"text":"...","spans":[{"start":0,"end":3,"kind":"person"}]}}`. Offsets
 * count code points. A kind must have word tokens with suffix: others cannot be found in a text.
 * @throws CallerError invalid_type
 */
export async function textValuesOf(
  context: ServerContext,
  exchange: Exchange,
  body: Buffer,
): Promise<RequestValues> {
  const viewer = await viewerOf(context, exchange);
  const { data } = parseBody(body);
  const text = textIn(data, ['text', 'spans']);
  const { spans } = data;
  if (!Array.isArray(spans)) throw invalid(`${SPANS}: must be ${NEEDED}`);
  if (spans.length > context.valuesLimit)
    throw invalid(`${SPANS}: has more than ${context.valuesLimit} spans; send shorter texts`);
  exchange.hold(context, body.length);
  exchange.holdFields(context, spans.length);
  return new TextValues(text, readSpans(spans, new TextOffsets(text), viewer.rules), viewer);
}

/**
 * The text of a request about a text.
 * @throws CallerError invalid_type, also for a name that is not one of these
 */
export function textIn(data: JsonObject, names: readonly string[]): string {
  for (const name of Object.keys(data)) {
    if (!names.includes(name))
      throw invalid(`data: has a field that is none of ${names.join(', ')}; remove it`);
  }
  const { text } = data;
  if (typeof text !== 'string') throw invalid('data.text: must be a string');
  if (!text.isWellFormed())
    throw invalid('data.text: must be well-formed Unicode; it has half of a surrogate pair');
  return text;
}

/** The spans in the order of the text. */
function readSpans(
  spans: readonly unknown[],
  offsets: TextOffsets,
  rules: PolicyRules,
): readonly Span[] {
  const read = spans.map((span, index) => readSpan(span, index, offsets, rules));
  read.sort((a, b) => a.from - b.from);
  read.forEach(({ from, index }, i) => {
    if (i > 0 && from < read[i - 1]!.to)
      throw invalid(
        `${SPANS}[${index}]: overlaps ${SPANS}[${read[i - 1]!.index}]; keep one of them`,
      );
  });
  return read;
}

function readSpan(span: unknown, index: number, offsets: TextOffsets, rules: PolicyRules): Span {
  const path = `${SPANS}[${index}]`;
  if (!isObject(span)) throw invalid(`${path}: must be an object; spans is ${NEEDED}`);
  const { start, end, kind } = span;
  if (!isOffset(start) || !isOffset(end) || start >= end || end > offsets.length)
    throw invalid(
      `${path}: start and end must be offsets in code points, start below end, and end at most ${offsets.length}, the length of the text`,
    );
  const from = offsets.unitOf(start);
  return { from, to: offsets.unitOf(end), start, index, kind: kindIn(kind, path, rules) };
}

function isOffset(json: unknown): json is number {
  return Number.isSafeInteger(json) && (json as number) >= 0;
}

function kindIn(name: unknown, path: string, rules: PolicyRules): Kind {
  if (rules.version === 0)
    throw invalid(
      `${path}.kind: this vault has no policy, so it has no kinds of word tokens; an operator can apply one: standin policy apply`,
    );
  const kind = rules.textKinds.find(({ settings }) => settings.name === name);
  if (kind !== undefined) return kind;
  const known = rules.textKinds.map(({ settings }) => settings.name);
  throw invalid(
    `${path}.kind: must be a kind of shape word with suffix, which a text can have; the policy has ${known.join(', ') || 'none'}`,
  );
}

class TextValues implements RequestValues {
  readonly texts: readonly string[];
  readonly viewer: Viewer;
  readonly #text: string;
  readonly #spans: readonly Span[];

  constructor(text: string, spans: readonly Span[], viewer: Viewer) {
    this.texts = spans.map(({ from, to, index }) => {
      const value = text.slice(from, to);
      checkText(value, ['data', 'spans', index]);
      return value;
    });
    this.viewer = viewer;
    this.#text = text;
    this.#spans = spans;
  }

  kindOf(index: number): Kind {
    return this.#spans[index]!.kind;
  }

  pathOf(index: number): string {
    return `${SPANS}[${this.#spans[index]!.index}]`;
  }

  /** The text with the tokens, and where they are now. */
  json(tokens: readonly Replacement[]): string {
    let text = '';
    let from = 0;
    let longer = 0;
    const spans = this.#spans.map((span, i) => {
      const token = tokens[i]!;
      text += this.#text.slice(from, span.from) + token;
      from = span.to;
      const start = span.start + longer;
      longer += token.length - [...this.texts[i]!].length;
      return { start, end: start + token.length, kind: span.kind.settings.name };
    });
    return JSON.stringify({ text: text + this.#text.slice(from), spans });
  }
}
