import type { Viewer } from '../../policy/viewer.ts';
import type { Exchange } from '../exchange.ts';
import { inQuotes } from '../transport/large-response.ts';
import { invalid, parseBody } from './data.ts';
import {
  type Asked,
  type Narrowed,
  type RequestData,
  RequestValues,
  viewerOf,
} from './request-data.ts';
import { TextOffsets, textIn } from './text-values.ts';
import { heldFrom, TokenFinder, type TokenPlace } from './token-finder.ts';

/**
 * The tokens in the running text of `{"data":{"text":"...","more":true}}`. With `more`, the text is
 * a piece of a longer one: its end is held back as `rest` when a token may go on in the next piece.
 * @throws CallerError invalid_type
 */
export async function textTokensOf(exchange: Exchange, body: Buffer): Promise<RequestData> {
  const viewer = await viewerOf(exchange);
  const data = parseBody(body);
  const whole = textIn(data, ['text', 'more']);
  const { more = false } = data;
  if (typeof more !== 'boolean') throw invalid('data.more: must be true or false');
  exchange.reserve(body.length);
  const { valuesLimit, tokenSuffix } = exchange.context;
  const places = new TokenFinder(tokenSuffix, viewer.rules.textKinds).find(whole, valuesLimit);
  if (places.length > valuesLimit)
    throw invalid(`data.text: may have more than ${valuesLimit} tokens; send it in pieces`);
  exchange.reserveFields(places.length);
  const end = more ? heldFrom(whole, places.at(-1)?.end ?? 0, tokenSuffix) : undefined;
  return new TextTokens(viewer, { whole, end }, places);
}

/** A text, and where the part begins that is held back; undefined: the text is complete. */
interface Text {
  readonly whole: string;
  readonly end: number | undefined;
}

/** Where something stands in a text. */
type Stretch = Pick<TokenPlace, 'start' | 'end'>;

/** What may be a token. Before the vault has answered, a place may have several candidates. */
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
    let open = [...places.keys()];
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
