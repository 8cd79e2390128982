import { setImmediate as nextTurn } from 'node:timers/promises';
import { pathText } from '#paths';
import { afterwards } from '../../limits/buckets.ts';
import type { KindCounts } from '../../observe/metrics.ts';
import { type Kind, type PathNode, type PolicyRules, Viewer } from '../../policy/rules.ts';
import { requestDeadline, type Texts } from '../../tokens/threads/vault-client.ts';
import { DEFAULT_KIND, type Value } from '../../types.ts';
import type { Exchange } from '../exchange.ts';
import { checkPrecondition } from '../guards.ts';
import { judgedRules } from '../rights.ts';
import { type BodyPlace, BodyWalk } from './body-walk.ts';
import {
  aroundBlanks,
  type CheckedText,
  checkedText,
  collectFields,
  type Field,
  invalid,
  type JsonObject,
  MAX_TURN_BYTES,
  parseData,
  replaceFields,
} from './data.ts';

/** The string in the place of a text; null: nothing was found. */
export type Replacement = string | null;

/** The strings of a request that are replaced. */
export abstract class RequestValues {
  readonly texts: readonly string[];
  readonly viewer: Viewer;
  /** Strings that stay in clear, beside `texts`; undefined: the policy names no fields. */
  readonly passed: number | undefined;

  constructor(viewer: Viewer, texts: readonly string[], passed?: number) {
    this.texts = texts;
    this.viewer = viewer;
    this.passed = passed;
  }

  kindOf(_index: number): Kind {
    return this.viewer.rules.kind(DEFAULT_KIND);
  }

  /** The place of a text, for messages: `data.customer.email`. */
  abstract pathOf(index: number): string;
  /** `data` as JSON with the replacements. */
  abstract json(replacements: readonly Replacement[]): string;
}

/** Texts for the vault to look up. */
export type Asked = Pick<RequestValues, 'texts' | 'viewer' | 'kindOf'>;
/** Values for the vault to tokenize. */
type Tokenized = Asked & Pick<RequestValues, 'pathOf'>;

export interface RequestData extends RequestValues {
  /**
   * Looks texts up in turns, because each may be one of several tokens. Ends without a result when
   * `ask` does. undefined: `texts` are looked up.
   */
  narrow?<T>(ask: Ask<T>): Promise<Narrowed<T | undefined> | undefined>;
  /** Whether the request leaves this text out: it is not looked up. undefined: none. */
  isExcluded?(index: number): boolean;
  /** The text of `json` before, between and after the values, and the quotes of those strings. */
  around(): Iterable<string>;
}

/** Looks texts up; undefined: nothing more may be looked up. */
type Ask<T> = (asked: Asked) => Promise<readonly T[] | undefined>;

/** The rest of a request, and the result for each of its texts. */
export interface Narrowed<T> {
  readonly request: RequestData;
  readonly found: readonly T[];
}

/** Reads the body of a request. */
export type Reader<T extends RequestValues> = (exchange: Exchange, body: Buffer) => T | Promise<T>;

/**
 * Without fields in the policy, and for a list of values: all strings of `data`. With fields: the
 * strings at their paths in `data`, or in each record of a list, and those elsewhere if the policy
 * says so.
 * @throws CallerError invalid_type, precondition_failed or overloaded, InternalError when the
 * policy cannot be read
 */
export function dataOf(exchange: Exchange, body: Buffer): RequestData | Promise<RequestData> {
  return afterwards(viewerOf(exchange), (viewer) => {
    const checked = checkedText(body);
    const parse = () => parseData(checked, viewer.rules.tree !== undefined);
    if (body.length <= MAX_TURN_BYTES) return placesIn(exchange, viewer, checked, parse());
    return inTurns(parse, (data) => placesIn(exchange, viewer, checked, data));
  });
}

/** Each step of a large body has a turn of the event loop. */
async function inTurns<T, U>(first: () => T, second: (made: T) => U): Promise<U> {
  await nextTurn();
  const made = first();
  await nextTurn();
  return second(made);
}

function placesIn(
  exchange: Exchange,
  viewer: Viewer,
  { text, bytes }: CheckedText,
  data: JsonObject | JsonObject[],
): RequestData {
  const { rules } = viewer;
  const { valuesLimit } = exchange.context;
  if (rules.tree === undefined || isListOfValues(data, rules.tree)) {
    const { fields, isReordered } = collectFields(data as JsonObject, valuesLimit);
    exchange.reserveFields(fields.length);
    if (!isReordered) return new PlainData(viewer, data as JsonObject, fields);
    exchange.reserve(bytes);
    return new RecordData(viewer, text, new BodyWalk(text, ALL_STRINGS, KEPT_ORDER));
  }
  exchange.reserve(bytes);
  const walked = { tree: rules.tree, elsewhere: rules.policy.elsewhere };
  const walk = new BodyWalk(text, walked, {
    maxPlaces: valuesLimit,
    onUnnamed: (node, name) => warnOfNear(exchange, rules, node, name),
  });
  exchange.reserveFields(walk.places.length);
  return new RecordData(viewer, text, walk);
}

/** The log names no field of a request, except one that a field of the policy nearly names. */
function warnOfNear(
  { context: { log }, id, caller, startedAtMs }: Exchange,
  rules: PolicyRules,
  node: PathNode,
  name: string,
): void {
  const near = rules.nearNames.find(node, name, startedAtMs);
  if (near === undefined) return;
  const { client_id: clientId } = caller!.client;
  const about = { request_id: id, client_id: clientId, policy: rules.policy.version, ...near };
  log.warn(about, 'a request has a field that is nearly one of the policy: is it misspelt?');
}

/** `collectFields` has checked the strings of such a body, but JSON.parse has moved names. */
const ALL_STRINGS = { tree: undefined, elsewhere: 'tokenize' } as const;
const KEPT_ORDER = { maxPlaces: Infinity, keepsBlank: true };

/**
 * The caller by the policy in force, if it is still admitted now that the body has come.
 * @throws CallerError as judgeCaller, or precondition_failed; InternalError when rights cannot be
 * read
 */
export function viewerOf(exchange: Exchange): Viewer | Promise<Viewer> {
  const judged = judgedRules(exchange);
  // The wait is part of the time that the request has.
  if (judged instanceof Promise) exchange.deadlineMs = requestDeadline();
  return afterwards(judged, (rules) => {
    checkPrecondition(exchange, rules);
    return Viewer.of(rules, exchange.caller!.client);
  });
}

/**
 * The values of a tokenize or look-up, ready for the vault. Synchronous unless a kind is slow.
 * @throws CallerError invalid_type for a value that its kind refuses
 */
export function valuesOf(
  exchange: Exchange,
  request: Tokenized,
): Texts<Value> | Promise<Texts<Value>> {
  if (request.viewer.isPlain) return { texts: request.texts as readonly Value[], kinds: [] };
  const kinds = kindsOf(request);
  const slow: number[] = [];
  const texts = kinds.map((kind, i) => {
    if (!kind.isSlow) return acceptedAt(request, i);
    slow.push(i);
    return '' as Value;
  });
  if (slow.length === 0) return { texts, kinds };
  return acceptInVault(exchange, request, { texts, kinds }, slow);
}

/** @throws CallerError invalid_type */
function acceptedAt(request: Tokenized, index: number): Value {
  const accepted = request.kindOf(index).accept(request.texts[index]!);
  if ('reason' in accepted) throw invalid(`${request.pathOf(index)}: ${accepted.reason}`);
  return accepted.value;
}

/** A vault thread accepts what would hold the event loop. */
async function acceptInVault(
  exchange: Exchange,
  request: Tokenized,
  { texts, kinds }: { readonly texts: Value[]; readonly kinds: readonly Kind[] },
  slow: readonly number[],
): Promise<Texts<Value>> {
  exchange.deadlineMs ??= requestDeadline();
  const asked = { texts: slow.map((i) => request.texts[i]!), kinds: slow.map((i) => kinds[i]!) };
  const found = await exchange.context.vault.accept(asked, request.viewer, exchange.deadlineMs);
  // Of one that is refused, `acceptedAt` says why.
  for (const [at, i] of slow.entries()) texts[i] = found[at] ?? acceptedAt(request, i);
  return { texts, kinds };
}

/** Empty for a plain viewer: there is one kind. */
export function kindsOf(asked: Asked): readonly Kind[] {
  return asked.viewer.isPlain ? [] : asked.texts.map((_, i) => asked.kindOf(i));
}

/** How many texts of a tokenize or look-up each kind has; undefined: without kinds. */
export function kindsIn(request: Asked): KindCounts | undefined {
  if (request.viewer.isPlain) return undefined;
  const counts = new Map<string, number>();
  for (const { settings } of kindsOf(request)) addTo(counts, settings.name);
  return counts;
}

export function addTo(counts: Map<string, number>, kind: string): void {
  counts.set(kind, (counts.get(kind) ?? 0) + 1);
}

/**
 * Whether the request has the form in which our client and the bulk commands send values:
 * `{"values":[...]}`. No path of the policy leads into it, so its values would stay in clear.
 */
export function isListOfValues(
  data: JsonObject | JsonObject[],
  { names }: PathNode,
): data is JsonObject {
  if (Array.isArray(data)) return false;
  return Object.keys(data).length === 1 && Array.isArray(data.values) && !names.has('values');
}

/** All strings of `data`, as texts without a path in a policy. */
class PlainData extends RequestValues implements RequestData {
  readonly #data: JsonObject;
  readonly #fields: readonly Field[];

  constructor(viewer: Viewer, data: JsonObject, fields: readonly Field[]) {
    const texts = fields.map((field) => field.text);
    super(viewer, texts, viewer.rules.tree && 0);
    this.#data = data;
    this.#fields = fields;
  }

  pathOf(index: number): string {
    const { within, name } = this.#fields[index]!;
    return pathText([...within, name]);
  }

  json(replacements: readonly Replacement[]): string {
    replaceFields(this.#fields, replacements);
    return JSON.stringify(this.#data);
  }

  around(): Iterable<string> {
    return aroundBlanks(this.json(this.texts.map(() => '')));
  }
}

/** Strings at their places in the text. Everything between them is copied byte for byte. */
class RecordData extends RequestValues implements RequestData {
  readonly #text: string;
  readonly #walk: BodyWalk;

  constructor(viewer: Viewer, text: string, walk: BodyWalk) {
    const texts = walk.places.map((place: BodyPlace) => place.text);
    super(viewer, texts, viewer.rules.tree && walk.passed);
    this.#text = text;
    this.#walk = walk;
  }

  override kindOf(index: number): Kind {
    return this.viewer.rules.kindAt(this.#walk.places[index]!.path);
  }

  pathOf(index: number): string {
    return pathText(this.#walk.places[index]!.step);
  }

  json(replacements: readonly Replacement[]): string {
    // As `around`, but a generator costs as much as the rest.
    const { places, start, end } = this.#walk;
    let json = '';
    let from = start;
    for (let i = 0; i < places.length; i++) {
      const place = places[i]!;
      json += this.#text.slice(from, place.start) + JSON.stringify(replacements[i]);
      from = place.end;
    }
    return json + this.#text.slice(from, end);
  }

  *around(): Generator<string> {
    const { places, start, end } = this.#walk;
    let from = start;
    for (const place of places) {
      yield this.#text.slice(from, place.start + 1);
      from = place.end - 1;
    }
    yield this.#text.slice(from, end);
  }
}
