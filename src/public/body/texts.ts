import type { Stretch } from '../../detect/detectors.ts';
import { TextOffsets } from '../../detect/text-offsets.ts';
import type { Kind, PolicyRules, Viewer } from '../../policy/rules.ts';
import { namedIn, type Seal, sealIn } from '../conversation.ts';
import type { Exchange } from '../exchange.ts';
import { inQuotes } from '../transport/large-response.ts';
import { invalid, isObject, type JsonObject, parseBody } from './data.ts';
import { findSpans, kindIn, type SpannedText, soughtIn } from './found-spans.ts';
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

/** The values in texts. */
export abstract class TextValues extends RequestValues {
  protected readonly spans: SpannedText['spans'];
  readonly #texts: readonly SpannedText[];

  constructor(viewer: Viewer, texts: readonly SpannedText[]) {
    const values = texts.flatMap(({ text, spans }) =>
      spans.map(({ from, to }) => text.slice(from, to)),
    );
    super(viewer, values);
    this.spans = texts.flatMap(({ spans }) => spans);
    this.#texts = texts;
  }

  override kindOf(index: number): Kind {
    return this.spans[index]!.kind;
  }

  /** By text, the text with the tokens. */
  protected replaced(tokens: readonly Replacement[]): ReadonlyMap<string, string> {
    let next = 0;
    const replace = ({ text, spans }: SpannedText) => {
      let from = 0;
      const parts = spans.map((span) => {
        const before = text.slice(from, span.from);
        from = span.to;
        return before + tokens[next++];
      });
      return [text, parts.join('') + text.slice(from)] as const;
    };
    return new Map(this.#texts.map(replace));
  }
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
  const named = readSpans(spans, text, viewer.rules);
  const sought = soughtIn(data, viewer.rules);
  const texts = [{ text, spans: named }];
  const found = sought ? await findSpans(exchange, viewer, texts, sought) : texts;
  return new OneTextValues(viewer, found[0]!, seal);
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
function readSpans(spans: readonly unknown[], text: string, rules: PolicyRules) {
  const offsets = new TextOffsets(text);
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

function readSpan(span: unknown, index: number, offsets: TextOffsets, rules: PolicyRules) {
  const path = `${SPANS}[${index}]`;
  if (!isObject(span)) throw invalid(`${path}: must be an object; spans is ${NEEDED}`);
  const { start, end, kind } = span;
  if (!offsets.has(start) || !offsets.has(end) || start >= end)
    throw invalid(
      `${path}: start and end must be offsets in code points, start below end, and end at most ${offsets.length}, the length of the text`,
    );
  const [from, to] = [offsets.unitOf(start), offsets.unitOf(end)];
  return { from, to, index, kind: kindIn(kind, `${path}.kind`, rules) };
}

class OneTextValues extends TextValues {
  readonly #text: string;
  readonly #seal: Seal | undefined;

  /** @param seal makes the conversation of the answer */
  constructor(viewer: Viewer, one: SpannedText, seal: Seal | undefined) {
    super(viewer, [one]);
    this.#text = one.text;
    this.#seal = seal;
  }

  pathOf(index: number): string {
    const { index: named, from, to } = this.spans[index]!;
    return named === undefined ? pathsIn(this.#text)(from, to) : `${SPANS}[${named}]`;
  }

  /** The text with the tokens, and where they are now. */
  json(tokens: readonly Replacement[]): string {
    const offsets = new TextOffsets(this.#text);
    let longer = 0;
    const spans = this.spans.map(({ from, to, kind, index }, i) => {
      const original = { start: offsets.pointOf(from), end: offsets.pointOf(to) };
      const start = original.start + longer;
      const end = start + tokens[i]!.length;
      longer = end - original.end;
      const span = { start, end, kind: kind.settings.name };
      // The caller knows where its own spans were.
      return index === undefined ? { ...span, original } : span;
    });
    const text = this.replaced(tokens).get(this.#text);
    const conversation = this.#seal?.(tokens as readonly string[]);
    return JSON.stringify({ text, spans, conversation });
  }
}

/** Names stretches of a text as slices, in code points: `data.text[5:19]`. */
function pathsIn(text: string): (from: number, to: number) => string {
  const offsets = new TextOffsets(text);
  return (from, to) => `data.text[${offsets.pointOf(from)}:${offsets.pointOf(to)}]`;
}

/**
 * The tokens in the running text of `{"data":{"text":"...","more":true}}`. With `more`, the text is
 * a piece of a longer one: its end is held back as `rest` when a token may go on in the next piece.
 * With `only` or `conversation`, tokens that neither names stay.
 * @throws CallerError invalid_type for too many, too, or overloaded
 */
export async function textTokensOf(exchange: Exchange, body: Buffer): Promise<RequestData> {
  const viewer = await viewerOf(exchange);
  const data = parseBody(body);
  const text = textIn(data, ['text', 'more', 'only', 'conversation']);
  const { more = false } = data;
  if (typeof more !== 'boolean') throw invalid('data.more: must be true or false');
  exchange.reserve(body.length);
  const named = namedIn(exchange, viewer, data);
  const places = placesIn(exchange, viewer, text);
  const { tokenSuffix } = exchange.context;
  const end = more ? heldFrom(text, places.at(-1)?.to ?? 0, tokenSuffix) : text.length;
  const rest = more ? `","rest":"${inQuotes(text.slice(end))}` : '';
  const frame = { before: '{"text":"', quoted: inQuotes, after: `${rest}"}` };
  const asked = named === undefined ? places : await placesOfNamed(places, named);
  return new TextTokens(viewer, text.slice(0, end), frame, asked);
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
 * Between texts that are read as one. It is half of a surrogate pair, which no text contains, and
 * no part of a token.
 */
const SEPARATOR = '\ud800';

/**
 * The tokens in the texts of a guardrail's response. Its JSON is the whole answer, and says how
 * many code points at the end of each text may be the beginning of a token.
 * @throws CallerError as textTokensOf
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
    while (next < places.length && places[next]!.to <= end) next++;
    const from = Math.max(0, (places[next - 1]?.to ?? 0) - at);
    at = end + SEPARATOR.length;
    return [...text.slice(heldFrom(text, from, tokenSuffix))].length;
  });
  const asked = await placesOfNamed(places, named);
  const action = asked.some(({ candidate }) => candidate(0)) ? 'GUARDRAIL_INTERVENED' : 'NONE';
  const frame = {
    before: `{"action":"${action}","texts":["`,
    quoted: (text: string) => text.split(SEPARATOR).map(inQuotes).join('","'),
    after: `"],"stream_holdback_chars":[${held}]}`,
  };
  return new TextTokens(viewer, whole, frame, asked);
}

/** The JSON of an answer around a text, and of its parts. */
interface Frame {
  readonly before: string;
  readonly quoted: (text: string) => string;
  readonly after: string;
}

/** Possible tokens of a text. Before the vault answers, a place may have several candidates. */
class TextTokens extends RequestValues implements RequestData {
  readonly #whole: string;
  readonly #frame: Frame;
  readonly #places: readonly TokenPlace[];
  readonly #stretches: readonly Stretch[];
  #pathOf: ReturnType<typeof pathsIn> | undefined;

  /** @param stretches where the token of each place stands */
  constructor(
    viewer: Viewer,
    whole: string,
    frame: Frame,
    places: readonly TokenPlace[],
    stretches: readonly Stretch[] = places,
  ) {
    const texts = stretches.map(({ from, to }) => whole.slice(from, to));
    super(viewer, texts);
    this.#whole = whole;
    this.#frame = frame;
    this.#places = places;
    this.#stretches = stretches;
  }

  pathOf(index: number): string {
    const { from, to } = this.#stretches[index]!;
    this.#pathOf ??= pathsIn(this.#whole);
    return this.#pathOf(from, to);
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
    const { quoted, after } = this.#frame;
    let { before } = this.#frame;
    let next = 0;
    for (const { from, to } of this.#stretches) {
      yield before + quoted(this.#whole.slice(next, from));
      before = '';
      next = to;
    }
    yield before + quoted(this.#whole.slice(next)) + after;
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
        const { to, candidate } = places[place]!;
        if (its[i] === undefined) return candidate(turn + 1) !== undefined;
        stretches[place] = { from: candidates[i]!.from, to };
        found[place] = its[i];
        return false;
      });
    }
    const request = new TextTokens(viewer, this.#whole, this.#frame, places, stretches);
    return { request, found };
  }
}
