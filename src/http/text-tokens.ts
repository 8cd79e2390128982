import type { Kind, PolicyRules } from '../policy/rules.ts';
import type { View } from '../service/threads/messages.ts';
import { DEFAULT_KIND } from '../types.ts';
import type { ServerContext } from './context.ts';
import { invalid, parseBody } from './data.ts';
import type { Exchange } from './exchange.ts';
import {
  type Narrowed,
  type Replacement,
  type RequestData,
  rulesFor,
  viewOf,
} from './request-data.ts';
import { TextOffsets } from './text-offsets.ts';
import { textIn } from './text-values.ts';
import { type Candidate, heldFrom, type Place, TokenFinder } from './token-finder.ts';

/**
 * The tokens in the running text of `{"data":{"text":"...","more":true}}`. With `more`, the text is
 * a piece of a longer one: its end is held back as `rest` when a token may go on in the next piece.
 * @throws CallerError invalid_type
 */
export async function textTokensOf(
  context: ServerContext,
  exchange: Exchange,
  body: Buffer,
): Promise<RequestData> {
  const rules = await rulesFor(context, exchange);
  const { data } = parseBody(body);
  const whole = textIn(data, ['text', 'more']);
  const { more = false } = data;
  if (typeof more !== 'boolean') throw invalid('data.more: must be true or false');
  exchange.hold(context, body.length);
  const places = new TokenFinder(context.tokenSuffix, rules.textKinds).find(
    whole,
    context.valuesLimit,
  );
  const count = places.reduce((sum, { candidates }) => sum + candidates.length, 0);
  if (count > context.valuesLimit)
    throw invalid(`data.text: may have more than ${context.valuesLimit} tokens; send it in pieces`);
  exchange.holdFields(context, count);
  const end = more ? heldFrom(whole, places.at(-1)?.end ?? 0, context.tokenSuffix) : undefined;
  const view = viewOf(rules, exchange.caller!.client);
  return new TextCandidates({ whole, end }, places, view, rules);
}

/** A text, and where the part begins that is held back; undefined: the text is complete. */
interface Text {
  readonly whole: string;
  readonly end: number | undefined;
}

/** A candidate with the end of its place. */
type Chosen = Candidate & { readonly end: number };

/** What may be a token, each with where it begins and ends. */
class TextTokens implements RequestData {
  readonly texts: readonly string[];
  readonly view: View | null;
  readonly rules: PolicyRules;
  protected readonly text: Text;
  readonly #found: readonly Chosen[];
  #offsets: TextOffsets | undefined;

  constructor(text: Text, found: readonly Chosen[], view: View | null, rules: PolicyRules) {
    this.texts = found.map(({ token }) => token);
    this.view = view;
    this.rules = rules;
    this.text = text;
    this.#found = found;
  }

  kindOf(index: number): Kind {
    return this.#found[index]!.kind ?? this.rules.kind(DEFAULT_KIND);
  }

  /** As a slice, in code points: `data.text[5:19]`. */
  pathOf(index: number): string {
    const { start, end } = this.#found[index]!;
    this.#offsets ??= new TextOffsets(this.text.whole);
    const offsets = this.#offsets;
    return `data.text[${offsets.pointOf(start)}:${offsets.pointOf(end)}]`;
  }

  pathBytes(index: number): number {
    return this.pathOf(index).length;
  }

  json(values: readonly Replacement[]): string {
    return [...this.parts(values, JSON.stringify)].join('');
  }

  *parts(values: readonly Replacement[], write: (value: Replacement) => string): Generator<string> {
    const { whole, end = whole.length } = this.text;
    let from = 0;
    yield '{"text":"';
    for (const [i, { start, end: next }] of this.#found.entries()) {
      yield inside(JSON.stringify(whole.slice(from, start)));
      yield inside(write(values[i]!));
      from = next;
    }
    yield `${inside(JSON.stringify(whole.slice(from, end)))}"`;
    if (this.text.end !== undefined) yield `,"rest":${JSON.stringify(whole.slice(end))}`;
    yield '}';
  }
}

/** Before the vault has answered, a place may have several candidates. */
class TextCandidates extends TextTokens {
  readonly #places: readonly Place[];

  constructor(text: Text, places: readonly Place[], view: View | null, rules: PolicyRules) {
    const all = places.flatMap(({ candidates, end }) =>
      candidates.map((candidate) => ({ ...candidate, end })),
    );
    super(text, all, view, rules);
    this.#places = places;
  }

  /** One candidate for each place: the one that the vault knows, else the first. */
  narrow<T>(found: readonly T[]): Narrowed<T> {
    let at = 0;
    const chosen: Chosen[] = [];
    const its: T[] = [];
    for (const { candidates, end } of this.#places) {
      const known = candidates.findIndex((_, i) => found[at + i] !== undefined);
      const i = Math.max(0, known);
      chosen.push({ ...candidates[i]!, end });
      its.push(found[at + i]!);
      at += candidates.length;
    }
    return { request: new TextTokens(this.text, chosen, this.view, this.rules), found: its };
  }
}

function inside(json: string): string {
  return json.slice(1, -1);
}
