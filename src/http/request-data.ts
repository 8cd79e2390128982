import { setImmediate as nextTurn } from 'node:timers/promises';
import type { KindCounts } from '../metrics.ts';
import type { Kind, PathNode, PolicyRules } from '../policy/rules.ts';
import {
  kindMark,
  type MarkedView,
  NO_POLICY,
  type View,
  withMarks,
} from '../service/threads/messages.ts';
import { requestDeadline } from '../service/threads/vault-client.ts';
import { type Client, DEFAULT_KIND, DEFAULT_SPACE, type Value } from '../types.ts';
import type { ServerContext } from './context.ts';
import {
  collectFields,
  type Field,
  invalid,
  type JsonObject,
  parseBody,
  parseRecords,
  replaceFields,
} from './data.ts';
import type { Exchange } from './exchange.ts';
import { checkPrecondition } from './guards.ts';
import { jsonParts, jsonText, type NameOrder, nameOrder } from './name-order.ts';
import { pathText, Step } from './path.ts';
import { type Place, RecordWalk } from './record-walk.ts';
import { judgeCaller } from './rights.ts';

/** More bytes take a turn of their own. To parse 1 MiB of small objects takes 30 ms. */
export const MAX_TURN_BYTES = 262_144;

/** What takes the place of a text: null where nothing was found. */
export type Replacement = string | null;

/** The strings of a request that are replaced. */
export interface RequestValues {
  readonly texts: readonly string[];
  /** How the vault is asked; null: as without a policy. */
  readonly view: View | null;
  readonly rules: PolicyRules;
  /** Strings that stay in clear, beside `texts`; undefined: the policy names no fields. */
  readonly passed?: number | undefined;
  kindOf(index: number): Kind;
  /** The place of a text, for messages: `data.customer.email`. */
  pathOf(index: number): string;
  /** `data` as JSON with the replacements. */
  json(replacements: readonly Replacement[]): string;
}

/** Texts for the vault to look up. */
export type Asked = Pick<RequestValues, 'texts' | 'view' | 'rules' | 'kindOf'>;

export interface RequestData extends RequestValues {
  /**
   * For texts that are looked up in turns, because each may be one of several tokens: takes what
   * was found in a turn, and gives the next one. undefined: `texts` are looked up.
   */
  turns?<T>(): Generator<Asked, Narrowed<T | undefined>, readonly T[]>;
  /** The bytes of `pathOf` in a JSON string. Cheap: the path itself is not made. */
  pathBytes(index: number): number;
  /** `json` in parts, with each replacement as `write` gives it. */
  parts(
    replacements: readonly Replacement[],
    write: (replacement: Replacement) => string,
  ): Iterable<string>;
}

/** What is left of a request, with what was found for each of its texts. */
export interface Narrowed<T> {
  readonly request: RequestData;
  readonly found: readonly T[];
}

/** Reads the body of a request. */
export type Reader<T extends RequestValues> = (
  context: ServerContext,
  exchange: Exchange,
  body: Buffer,
) => Promise<T>;

/**
 * Without fields in the policy, and for a list of values: all strings of `data`. With fields: the
 * strings at their paths in `data`, or in each record of a list, and those elsewhere if the policy
 * says so.
 * @throws CallerError invalid_type, precondition_failed or overloaded, InternalError when the
 * policy cannot be read
 */
export async function dataOf(
  context: ServerContext,
  exchange: Exchange,
  body: Buffer,
): Promise<RequestData> {
  const rules = await rulesFor(context, exchange);
  const { client } = exchange.caller!;
  const view = viewOf(rules, client);
  const plain = (data: JsonObject) => plainData(context, exchange, body, data, rules, view);
  const { text, data } = rules.tree === undefined ? parseBody(body) : parseRecords(body);
  if (body.length > MAX_TURN_BYTES) await nextTurn();
  if (rules.tree === undefined) return plain(data as JsonObject);
  if (isListOfValues(data, rules.tree)) return plain(data);
  exchange.hold(context, body.length);
  const walk = new RecordWalk(text, rules, {
    maxPlaces: context.valuesLimit,
    onUnnamed: (node, name) => warnOfNear(context, exchange, rules, node, name),
  });
  exchange.holdFields(context, walk.places.length);
  return new RecordData(text, walk, view, rules);
}

/** The log names no field of a request, except one that a field of the policy nearly names. */
function warnOfNear(
  { log }: ServerContext,
  { id, caller, startedAtMs }: Exchange,
  rules: PolicyRules,
  node: PathNode,
  name: string,
): void {
  const near = rules.nearNames.find(node, name, startedAtMs);
  if (near === undefined) return;
  const { client_id: clientId } = caller!.client;
  const about = { request_id: id, client_id: clientId, policy: rules.version, ...near };
  log.warn(about, 'a request has a field that is nearly one of the policy: is it misspelt?');
}

function plainData(
  context: ServerContext,
  exchange: Exchange,
  body: Buffer,
  data: JsonObject,
  rules: PolicyRules,
  view: View | null,
): RequestData {
  const { fields, isReordered } = collectFields(data, context.valuesLimit);
  exchange.holdFields(context, fields.length);
  if (!isReordered) return new PlainData(data, fields, view, rules, undefined);
  exchange.hold(context, body.length);
  return new PlainData(data, fields, view, rules, nameOrder(body, data));
}

/**
 * The policy in force, for a caller who is still admitted now that the body has come.
 * @throws CallerError as judgeCaller, or precondition_failed; InternalError when rights cannot be
 * read
 */
export async function rulesFor(context: ServerContext, exchange: Exchange): Promise<PolicyRules> {
  const judged = judgeCaller(context, exchange);
  const current = context.policies.current();
  let rules = current as PolicyRules;
  if (judged instanceof Promise || current instanceof Promise) {
    // The wait is part of the time that the request has.
    exchange.deadlineMs = requestDeadline();
    [rules] = await Promise.all([current, judged]);
  }
  checkPrecondition(exchange, rules);
  return rules;
}

/** The values of a tokenize or look-up, ready for the vault. */
interface Accepted {
  readonly values: readonly Value[];
  readonly view: MarkedView | null;
}

/**
 * Synchronous unless a kind is slow.
 * @throws CallerError invalid_type for a value that its kind refuses
 */
export function valuesOf(
  context: ServerContext,
  exchange: Exchange,
  request: RequestValues,
): Accepted | Promise<Accepted> {
  const { texts, view, rules } = request;
  if (view === null) return { values: texts as readonly Value[], view };
  let marks = '';
  const values: Value[] = [];
  const slow: number[] = [];
  for (let i = 0; i < texts.length; i++) {
    const kind = request.kindOf(i);
    marks += kindMark(kind, rules);
    if (kind.isSlow) slow.push(i);
    values.push(kind.isSlow ? ('' as Value) : acceptedAt(request, i));
  }
  const accepted = { values, view: withMarks(view, marks) };
  if (slow.length === 0) return accepted;
  return acceptInVault(context, exchange, request, accepted, slow);
}

/** @throws CallerError invalid_type */
function acceptedAt(request: RequestValues, index: number): Value {
  const accepted = request.kindOf(index).accept(request.texts[index]!);
  if ('reason' in accepted) throw invalid(`${request.pathOf(index)}: ${accepted.reason}`);
  return accepted.value;
}

/** A vault thread accepts what would hold the event loop. */
async function acceptInVault(
  { vault }: ServerContext,
  exchange: Exchange,
  request: RequestValues,
  { values, view }: { readonly values: Value[]; readonly view: MarkedView },
  slow: readonly number[],
): Promise<Accepted> {
  exchange.deadlineMs ??= requestDeadline();
  const texts = slow.map((i) => request.texts[i]!);
  const marks = slow.map((i) => view.marks[i]).join('');
  const found = await vault.accept(texts, withMarks(view, marks), exchange.deadlineMs);
  // Of one that is refused, `acceptedAt` says why.
  for (const [at, i] of slow.entries()) values[i] = found[at] ?? acceptedAt(request, i);
  return { values, view };
}

/** How many texts of a tokenize or look-up each kind has; undefined: without kinds. */
export function kindsIn(request: RequestValues): KindCounts | undefined {
  if (request.view === null) return undefined;
  const counts = new Map<string, number>();
  request.texts.forEach((_, i) => {
    addTo(counts, request.kindOf(i).settings.name);
  });
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

export function viewOf(rules: PolicyRules, client: Client): View | null {
  if (rules.tag === undefined && client.space === DEFAULT_SPACE) return null;
  return { policy: rules.tag ?? NO_POLICY, line: rules.lineOf(client), space: client.space };
}

/** All strings of `data`, as texts without a path in a policy. */
class PlainData implements RequestData {
  readonly texts: readonly string[];
  readonly view: View | null;
  readonly rules: PolicyRules;
  readonly passed: number | undefined;
  readonly #data: JsonObject;
  readonly #fields: readonly Field[];
  readonly #order: NameOrder | undefined;

  /** @param order undefined: that of Object.keys, as for nearly every body */
  constructor(
    data: JsonObject,
    fields: readonly Field[],
    view: View | null,
    rules: PolicyRules,
    order: NameOrder | undefined,
  ) {
    this.texts = fields.map((field) => field.text);
    this.view = view;
    this.rules = rules;
    this.passed = rules.tree === undefined ? undefined : 0;
    this.#data = data;
    this.#fields = fields;
    this.#order = order;
  }

  kindOf(): Kind {
    return this.rules.kind(DEFAULT_KIND);
  }

  pathOf(index: number): string {
    return pathText(this.#stepTo(index));
  }

  pathBytes(index: number): number {
    return this.#stepTo(index).jsonBytes;
  }

  json(replacements: readonly Replacement[]): string {
    replaceFields(this.#fields, replacements);
    return jsonText(this.#data, this.#order);
  }

  parts(
    replacements: readonly Replacement[],
    write: (replacement: Replacement) => string,
  ): Iterable<string> {
    replaceFields(this.#fields, replacements);
    return jsonParts(this.#data, write, this.#order);
  }

  #stepTo(index: number): Step {
    const { within, name } = this.#fields[index]!;
    return new Step(within, name);
  }
}

/** The strings that a policy replaces. Everything between them is copied byte for byte. */
class RecordData implements RequestData {
  readonly texts: readonly string[];
  readonly view: View | null;
  readonly rules: PolicyRules;
  readonly passed: number;
  readonly #text: string;
  readonly #walk: RecordWalk;

  constructor(text: string, walk: RecordWalk, view: View | null, rules: PolicyRules) {
    this.texts = walk.places.map((place: Place) => place.text);
    this.view = view;
    this.rules = rules;
    this.passed = walk.passed;
    this.#text = text;
    this.#walk = walk;
  }

  kindOf(index: number): Kind {
    return this.rules.kindAt(this.#walk.places[index]!.path);
  }

  pathOf(index: number): string {
    return pathText(this.#walk.places[index]!.step);
  }

  pathBytes(index: number): number {
    return this.#walk.places[index]!.step.jsonBytes;
  }

  json(replacements: readonly Replacement[]): string {
    // As `parts`, but a generator costs as much as the rest.
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

  *parts(
    replacements: readonly Replacement[],
    write: (replacement: Replacement) => string,
  ): Generator<string> {
    const { places, start, end } = this.#walk;
    let from = start;
    for (const [i, place] of places.entries()) {
      yield this.#text.slice(from, place.start);
      yield write(replacements[i]!);
      from = place.end;
    }
    yield this.#text.slice(from, end);
  }
}
