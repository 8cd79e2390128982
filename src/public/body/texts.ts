import { TextOffsets } from '../../detect/text-offsets.ts';
import type { Kind, PolicyRules, Viewer } from '../../policy/rules.ts';
import { namedIn, type Seal, sealIn } from '../conversation.ts';
import type { Exchange } from '../exchange.ts';
import { inQuotes } from '../transport/large-response.ts';
import { checkText, invalid, isObject, type JsonObject, parseBody } from './data.ts';
import { findSpans, kindIn, soughtIn } from './found-spans.ts';
import { SEPARATOR } from './joined-texts.ts';
import {
  type Asked,
  type Narrowed,
  type Replacement,
  type RequestData,
  RequestValues,
  viewerOf,
} from './request-data.ts';
import {
  heldFrom,
  type Named,
  placesOfNamed,
  TokenFinder,
  type TokenPlace,
} from './token-finder.ts';

const SPANS = 'data.spans';
const NEEDED = 'a list of objects with start, end and kind';

interface Span {
  /** Offsets in UTF-16 units. */
  readonly from: number;
  readonly to: number;
  /** Offset in code points. */
  readonly start: number;
  /** Its place in the request; undefined: it was found. */
  readonly index: number | undefined;
  readonly kind: Kind;
}

/**
 * The values of `{"data":{"text":"...","spans":[{"start":0,"end":3,"kind":"person"}]}}`. Offsets
 * count code points. A kind must have word tokens with suffix: others cannot be found in a text.
 * Without spans, or with `"detect": true`, values are found by the policy; listed `words` always.
 * With `"conversation": true`, or an earlier one, the answer has a `conversation`.
 * @throws CallerError invalid_type
 */
export async function textValuesOf(exchange: Exchange, body: Buffer): Promise<RequestValues> {
  const viewer = await viewerOf(exchange);
  const data = parseBody(body);
  const text = textIn(data, ['text', 'spans', 'words', 'detect', 'conversation']);
  const { spans = [] } = data;
  if (!Array.isArray(spans)) throw invalid(`${SPANS}: must be ${NEEDED}`);
  const { valuesLimit } = exchange.context;
  if (spans.length > valuesLimit)
    throw invalid(`${SPANS}: has more than ${valuesLimit} spans; send shorter texts`);
  exchange.reserve(body.length);
  exchange.reserveFields(spans.length);
  const seal = sealIn(exchange, viewer, data);
  const offsets = new TextOffsets(text);
  const named = readSpans(spans, offsets, viewer.rules);
  const sought = soughtIn(data, viewer.rules);
  if (sought === undefined) return new TextValues(viewer, text, named, seal);
  const [found = []] = await findSpans(exchange, viewer, [{ text, spans: named }], sought);
  const spansOf = found.map(({ from, to, kind }) => {
    const start = offsets.pointOf(from);
    return { from, to, start, index: undefined, kind: viewer.rules.kind(kind) };
  });
  const all = [...named, ...spansOf].sort((a, b) => a.from - b.from);
  return new TextValues(viewer, text, all, seal);
}

/**
 * The text of a request about a text.
 * @throws CallerError invalid_type, also for a name that is not one of these
 */
function textIn(data: JsonObject, names: readonly string[]): string {
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
  return { from, to: offsets.unitOf(end), start, index, kind: kindIn(kind, `${path}.kind`, rules) };
}

function isOffset(json: unknown): json is number {
  return Number.isSafeInteger(json) && (json as number) >= 0;
}

class TextValues extends RequestValues {
  readonly #text: string;
  readonly #spans: readonly Span[];
  readonly #seal: Seal | undefined;

  /** @param seal makes the conversation of the answer */
  constructor(viewer: Viewer, text: string, spans: readonly Span[], seal: Seal | undefined) {
    const texts = spans.map(({ from, to }) => text.slice(from, to));
    super(viewer, texts);
    for (const [i, { index }] of spans.entries())
      if (index !== undefined) checkText(texts[i]!, ['data', 'spans', index]);
    this.#text = text;
    this.#spans = spans;
    this.#seal = seal;
  }

  override kindOf(index: number): Kind {
    return this.#spans[index]!.kind;
  }

  pathOf(index: number): string {
    const { index: named, start } = this.#spans[index]!;
    if (named !== undefined) return `${SPANS}[${named}]`;
    return `data.text[${start}:${start + [...this.texts[index]!].length}]`;
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
      const { length } = [...this.texts[i]!];
      const start = span.start + longer;
      longer += token.length - length;
      const original = { start: span.start, end: span.start + length };
      return {
        ...{ start, end: start + token.length, kind: span.kind.settings.name },
        // The caller knows where its own spans were.
        ...(span.index === undefined && { original }),
      };
    });
    const conversation = this.#seal?.(tokens as readonly string[]);
    return JSON.stringify({ text: text + this.#text.slice(from), spans, conversation });
  }
}

/**
 * The tokens in the running text of `{"data":{"text":"...","more":true}}`. With `more`, the text is
 * a piece of a longer one: its end is held back as `rest` when a token may go on in the next piece.
 * With `only` or `conversation`, tokens that neither names stay.
 * @throws CallerError invalid_type
 */
export async function textTokensOf(exchange: Exchange, body: Buffer): Promise<RequestData> {
  const viewer = await viewerOf(exchange);
  const data = parseBody(body);
  const whole = textIn(data, ['text', 'more', 'only', 'conversation']);
  const { more = false } = data;
  if (typeof more !== 'boolean') throw invalid('data.more: must be true or false');
  exchange.reserve(body.length);
  return textTokens(exchange, viewer, { whole, more }, namedIn(exchange, viewer, data));
}

/**
 * The tokens in a text.
 * @param named undefined: all
 * @throws CallerError invalid_type for too many, or overloaded
 */
export async function textTokens(
  exchange: Exchange,
  viewer: Viewer,
  { whole, more }: { readonly whole: string; readonly more: boolean },
  named: Named | undefined,
): Promise<RequestData> {
  const places = placesIn(exchange, viewer, whole);
  const { tokenSuffix } = exchange.context;
  const end = more ? heldFrom(whole, places.at(-1)?.end ?? 0, tokenSuffix) : undefined;
  const asked = named === undefined ? places : await placesOfNamed(places, named);
  return new TextTokens(viewer, { whole, end }, asked);
}

function placesIn(exchange: Exchange, viewer: Viewer, whole: string): TokenPlace[] {
  const { valuesLimit, tokenSuffix } = exchange.context;
  const places = new TokenFinder(tokenSuffix, viewer.rules.textKinds).find(whole, valuesLimit);
  if (places.length > valuesLimit)
    throw invalid(`data.text: may have more than ${valuesLimit} tokens; send it in pieces`);
  exchange.reserveFields(places.length);
  return places;
}

/**
 * The tokens in the texts of a guardrail's response. Its JSON is the whole answer, and says how
 * many code points at the end of each text may be the beginning of a token.
 * @throws CallerError as textTokens
 */
export async function tokensOfTexts(
  exchange: Exchange,
  viewer: Viewer,
  texts: readonly string[],
  named: Named,
): Promise<RequestData> {
  const whole = texts.join(SEPARATOR);
  const places = placesIn(exchange, viewer, whole);
  const { tokenSuffix } = exchange.context;
  let at = 0;
  let next = 0;
  const held = texts.map((text) => {
    const end = at + text.length;
    while (next < places.length && places[next]!.end <= end) next++;
    const from = Math.max(0, (places[next - 1]?.end ?? 0) - at);
    at = end + SEPARATOR.length;
    return [...text.slice(heldFrom(text, from, tokenSuffix))].length;
  });
  const asked = await placesOfNamed(places, named);
  const action = asked.some(({ candidate }) => candidate(0)) ? 'GUARDRAIL_INTERVENED' : 'NONE';
  const frame = {
    before: `{"action":"${action}","texts":["`,
    after: `"],"stream_holdback_chars":[${held}]}`,
    quoted: (text: string) => text.split(SEPARATOR).map(inQuotes).join('","'),
  };
  return new TextTokens(viewer, { whole, end: undefined, frame }, asked);
}

/** Of `{"text":"..."}`. */
const ONE_TEXT = { before: '{"text":"', after: '"}', quoted: inQuotes };

/** A text, and where the part begins that is held back; undefined: the text is complete. */
interface Text {
  readonly whole: string;
  readonly end: number | undefined;
  /** Its JSON; undefined: `{"text":"..."}`, with the rest. */
  readonly frame?: typeof ONE_TEXT;
}

/** Where something stands in a text. */
type Stretch = Pick<TokenPlace, 'start' | 'end'>;

/** Possible tokens of a text. Before the vault answers, a place may have several candidates. */
class TextTokens extends RequestValues implements RequestData {
  readonly #text: Text;
  readonly #places: readonly TokenPlace[];
  readonly #stretches: readonly Stretch[];
  #offsets: TextOffsets | undefined;

  /** @param stretches where the token of each place stands */
  constructor(
    viewer: Viewer,
    text: Text,
    places: readonly TokenPlace[],
    stretches: readonly Stretch[] = places,
  ) {
    const texts = stretches.map(({ start, end }) => text.whole.slice(start, end));
    super(viewer, texts);
    this.#text = text;
    this.#places = places;
    this.#stretches = stretches;
  }

  /** As a slice, in code points: `data.text[5:19]`. */
  pathOf(index: number): string {
    const { start, end } = this.#stretches[index]!;
    this.#offsets ??= new TextOffsets(this.#text.whole);
    return `data.text[${this.#offsets.pointOf(start)}:${this.#offsets.pointOf(end)}]`;
  }

  pathBytes(index: number): number {
    return this.pathOf(index).length;
  }

  isExcluded(index: number): boolean {
    return this.#places[index]!.candidate(0) === undefined;
  }

  json(values: readonly string[]): string {
    let json = '';
    let i = 0;
    for (const text of this.around())
      json += text + (i < values.length ? inQuotes(values[i++]!) : '');
    return json;
  }

  *around(): Generator<string> {
    const { whole, end = whole.length, frame = ONE_TEXT } = this.#text;
    const { after, quoted } = frame;
    let { before } = frame;
    let from = 0;
    for (const { start, end: next } of this.#stretches) {
      yield before + quoted(whole.slice(from, start));
      before = '';
      from = next;
    }
    const rest = this.#text.end === undefined ? '' : `","rest":"${inQuotes(whole.slice(end))}`;
    yield before + quoted(whole.slice(from, end)) + rest + after;
  }

  /** Asks for one candidate of each place, then for the next one of those that are unknown. */
  async narrow<T>(
    ask: (asked: Asked) => Promise<readonly T[] | undefined>,
  ): Promise<Narrowed<T | undefined> | undefined> {
    const { viewer } = this;
    const places = this.#places;
    const stretches: Stretch[] = [...places];
    const found = new Array<T | undefined>(places.length).fill(undefined);
    let open = [...places.keys()].filter((place) => !this.isExcluded(place));
    for (let turn = 0; open.length > 0; turn++) {
      const candidates = open.map((place) => places[place]!.candidate(turn)!);
      const texts = candidates.map(({ token }) => token);
      const kindOf = (index: number) => candidates[index]!.kind ?? this.kindOf(index);
      const its = await ask({ texts, viewer, kindOf });
      if (its === undefined) return undefined;
      open = open.filter((place, i) => {
        const { end, candidate } = places[place]!;
        if (its[i] === undefined) return candidate(turn + 1) !== undefined;
        stretches[place] = { start: candidates[i]!.start, end };
        found[place] = its[i];
        return false;
      });
    }
    return { request: new TextTokens(viewer, this.#text, places, stretches), found };
  }
}
