import type { Kind, PolicyRules, Viewer } from '../../policy/rules.ts';
import { namedIn, type Seal, sealIn } from '../conversation.ts';
import type { Exchange } from '../exchange.ts';
import { inQuotes } from '../transport/large-response.ts';
import { checkText, invalid, isObject, type JsonObject, parseBody } from './data.ts';
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
  /** Offset in code points, and its place in the request. */
  readonly start: number;
  readonly index: number;
  readonly kind: Kind;
}

/**
 * The values of `{"data":{"text":"...","spans":[{"start":0,"end":3,"kind":"person"}]}}`. Offsets
 * count code points. A kind must have word tokens with suffix: others cannot be found in a text.
 * With `"conversation": true`, or an earlier one, the answer has a `conversation`.
 * @throws CallerError invalid_type
 */
export async function textValuesOf(exchange: Exchange, body: Buffer): Promise<RequestValues> {
  const viewer = await viewerOf(exchange);
  const data = parseBody(body);
  const text = textIn(data, ['text', 'spans', 'conversation']);
  const { spans } = data;
  if (!Array.isArray(spans)) throw invalid(`${SPANS}: must be ${NEEDED}`);
  const { valuesLimit } = exchange.context;
  if (spans.length > valuesLimit)
    throw invalid(`${SPANS}: has more than ${valuesLimit} spans; send shorter texts`);
  exchange.reserve(body.length);
  exchange.reserveFields(spans.length);
  const seal = sealIn(exchange, viewer, data);
  return new TextValues(viewer, text, readSpans(spans, new TextOffsets(text), viewer.rules), seal);
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

class TextValues extends RequestValues {
  readonly #text: string;
  readonly #spans: readonly Span[];
  readonly #seal: Seal | undefined;

  /** @param seal makes the conversation of the answer */
  constructor(viewer: Viewer, text: string, spans: readonly Span[], seal: Seal | undefined) {
    const texts = spans.map(({ from, to }) => text.slice(from, to));
    super(viewer, texts);
    for (const [i, { index }] of spans.entries()) checkText(texts[i]!, ['data', 'spans', index]);
    this.#text = text;
    this.#spans = spans;
    this.#seal = seal;
  }

  override kindOf(index: number): Kind {
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
    const conversation = this.#seal?.(tokens as readonly string[]);
    return JSON.stringify({ text: text + this.#text.slice(from), spans, conversation });
  }
}

/**
 * Offsets of a text in code points, as most languages and finders of personal data count them, and
 * in UTF-16 units, as JavaScript does.
 */
export class TextOffsets {
  /** Number of code points. */
  readonly length: number;
  /** The unit where each code point begins, and the end; undefined: each has one unit. */
  readonly #units: Uint32Array | undefined;

  constructor(text: string) {
    if (!SURROGATE.test(text)) {
      this.length = text.length;
      return;
    }
    const units = new Uint32Array(text.length + 1);
    let length = 0;
    for (let unit = 0; unit < text.length; unit += text.codePointAt(unit)! > 0xffff ? 2 : 1)
      units[length++] = unit;
    units[length] = text.length;
    this.length = length;
    this.#units = units.subarray(0, length + 1);
  }

  /** @param point 0 to `length` */
  unitOf(point: number): number {
    return this.#units === undefined ? point : this.#units[point]!;
  }

  /** @param unit where a code point begins or the text ends */
  pointOf(unit: number): number {
    const units = this.#units;
    if (units === undefined) return unit;
    let low = 0;
    for (let high = this.length; low < high; ) {
      const middle = (low + high) >> 1;
      if (units[middle]! < unit) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

const SURROGATE = /[\ud800-\udfff]/;

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
  const { valuesLimit, tokenSuffix } = exchange.context;
  const places = new TokenFinder(tokenSuffix, viewer.rules.textKinds).find(whole, valuesLimit);
  if (places.length > valuesLimit)
    throw invalid(`data.text: may have more than ${valuesLimit} tokens; send it in pieces`);
  exchange.reserveFields(places.length);
  const end = more ? heldFrom(whole, places.at(-1)?.end ?? 0, tokenSuffix) : undefined;
  const asked = named === undefined ? places : await placesOfNamed(places, named);
  return new TextTokens(viewer, { whole, end }, asked);
}

/** A text, and where the part begins that is held back; undefined: the text is complete. */
interface Text {
  readonly whole: string;
  readonly end: number | undefined;
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
    const { whole, end = whole.length } = this.#text;
    let before = '{"text":"';
    let from = 0;
    for (const { start, end: next } of this.#stretches) {
      yield before + inQuotes(whole.slice(from, start));
      before = '';
      from = next;
    }
    const rest = this.#text.end === undefined ? '' : `,"rest":${JSON.stringify(whole.slice(end))}`;
    yield `${before}${inQuotes(whole.slice(from, end))}"${rest}}`;
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
