import { setImmediate as nextTurn } from 'node:timers/promises';
import { CallerError } from '../errors.ts';
import type { ClientLimits } from '../limits/client-limits.ts';
import type { Viewer } from '../policy/rules.ts';
import {
  type FoundValue,
  type KindValue,
  requestDeadline,
  type Texts,
} from '../tokens/threads/vault-client.ts';
import { isLong, mostValueBytes } from '../tokens/value-bytes.ts';
import type { Token, Value } from '../types.ts';
import { invalid, MAX_TURN_BYTES } from './body/data.ts';
import { readBody } from './body/request-body.ts';
import {
  type Asked,
  addTo,
  kindsOf,
  type Narrowed,
  type Reader,
  type RequestData,
} from './body/request-data.ts';
import { BEFORE_DATA, type Exchange, FRAME_BYTES, type ResponseContent } from './exchange.ts';
import { admit, checkLimits } from './guards.ts';
import { cutUnlessRight } from './rights.ts';
import { LINE_END, MAX_RESPONSE_BODIES, MESSAGES } from './schema.ts';
import {
  jsonBytes,
  largeResponse,
  MAX_WHOLE_BYTES,
  mostJsonBytes,
  type ResponseParts,
} from './transport/large-response.ts';

/**
 * If more tokens than this do not bound their values' length, ask the vault for the sizes first.
 */
const MAX_UNSIZED = 4;
/** The bytes that are fetched at once for a caller who may not see every value. */
const BATCH_BYTES = 4_194_304;

/**
 * POST /api/v1/detokenize and /api/v1/text/detokenize
 * @param hasGaps whether the answer may have gaps
 */
export function detokenizer(
  read: Reader<RequestData>,
  hasGaps: (exchange: Exchange) => boolean = isLenient,
) {
  return async (exchange: Exchange): Promise<ResponseContent> => {
    const admitted = admit(exchange, 'detokenize');
    if (admitted instanceof Promise) await admitted;
    const sent = await readBody(exchange);
    const again = () => read(exchange, sent);
    return restored(exchange, { read: again, bytes: sent.length, hasGaps });
  };
}

/** What a detokenize looks up, and how it answers. */
interface Restoring {
  /** By the policy in force. */
  readonly read: () => RequestData | Promise<RequestData>;
  /** Of the body of the request. */
  readonly bytes: number;
  readonly hasGaps: (exchange: Exchange) => boolean;
  /** Whether the JSON of the request is the whole response, without a list of gaps. */
  readonly isBare?: boolean;
}

export async function restored(exchange: Exchange, of: Restoring): Promise<ResponseContent> {
  exchange.shown = undefined;
  const read = of.read();
  const asked = read instanceof Promise ? await read : read;
  const unapplied = of.hasGaps(exchange) ? [] : undefined;
  const { request, found } = await lookUp(exchange, asked, unapplied !== undefined);
  const { values, kinds, hidden } = visible(request, found, unapplied);
  const list =
    of.isBare || unapplied === undefined ? [] : await listOf(exchange, request, unapplied);
  const bytes = reserve(exchange, values, of.bytes, list);
  const [before, after] = of.isBare ? ['', ''] : [BEFORE_DATA, exchange.afterData()];
  const parts = { before, values, list, after };
  const { body, bytes: size } = bodyOf(exchange, request, parts, bytes);
  exchange.shown = { viewer: request.viewer, kinds, hidden };
  const replaced = values.length - (unapplied?.length ?? 0);
  const again = () => restored(exchange, of);
  const { passed } = request;
  return { status: 200, body, bytes: size, values: replaced, passed, kinds, again };
}

/**
 * The values that the caller may see, and how many there are of each kind.
 * @param unapplied gets the places that stay as they were sent; undefined: there may be none
 * @throws CallerError invalid_type for an unknown token, forbidden for a kind of no right
 */
function visible(
  request: RequestData,
  found: readonly FoundOrSize[],
  unapplied: Unapplied[] | undefined,
) {
  const { texts, viewer } = request;
  const kinds = viewer.isPlain ? undefined : new Map<string, number>();
  const hidden = new Map<string, number>();
  const refusal = (i: number, kind?: string): CallerError => {
    const path = request.pathOf(i);
    if (kind === undefined) return invalid(`${path}: is not a known token`);
    return new CallerError('forbidden', MESSAGES.forbidden_kind(path, kind));
  };
  const missing = found.findIndex((one) => one === undefined || one === null);
  // Without all values, `found` may have sizes in the places of values.
  if (missing !== -1 && unapplied === undefined) throw refusal(missing);
  const values = found.map((one, i): Value => {
    const { kind, value = null } = (one ?? {}) as Partial<KindValue>;
    if (value !== null) {
      if (kinds !== undefined) addTo(kinds, kind!);
      return value;
    }
    if (kind !== undefined) addTo(hidden, kind);
    if (unapplied === undefined) throw refusal(i, kind);
    const missing = request.isExcluded?.(i) ? 'excluded' : 'unknown';
    unapplied.push({ index: i, reason: kind === undefined ? missing : 'forbidden' });
    return texts[i] as Value;
  });
  return { values, kinds, hidden };
}

/**
 * Reserves the bytes of the response before it is made.
 * @param besides the most bytes of `data` without the values
 * @returns an upper bound for the bytes of values and list; exact beyond MAX_WHOLE_BYTES
 * @throws CallerError invalid_type when the response would be too large, or overloaded
 */
function reserve(
  exchange: Exchange,
  values: readonly Value[],
  besides: number,
  list: readonly string[],
): number {
  const maxBytes = maxBytesOf(exchange);
  const listBytes = sum(list.map((part) => Buffer.byteLength(part)));
  const reserved = exchange.reservation!.bytes - besides - FRAME_BYTES;
  const most = mostJsonBytes(values) + listBytes;
  // Most responses are small: what is reserved for their tokens is enough, and nothing is measured.
  if (most <= Math.min(reserved, maxBytes, MAX_WHOLE_BYTES)) return most;
  const bytes = jsonBytes(values) + listBytes;
  if (bytes > maxBytes) throw tooLarge(maxBytes);
  if (bytes > reserved) exchange.reserve(bytes - reserved);
  return bytes;
}

/** @param bytes as `reserve` says */
function bodyOf(
  exchange: Exchange,
  request: RequestData,
  parts: Omit<ResponseParts, 'around'>,
  bytes: number,
): Pick<ResponseContent, 'body' | 'bytes'> {
  const { before, values, list, after } = parts;
  if (bytes <= MAX_WHOLE_BYTES)
    return { body: before + request.json(values) + list.join('') + after };
  const judge = () => cutUnlessRight(exchange);
  const onTaken = () => exchange.context.budget.move(exchange.reservation!);
  const all = { ...parts, around: () => request.around(), after: `${after}${LINE_END}` };
  return largeResponse(all, bytes, judge, onTaken);
}

/** The most bytes of all values in a response, as JSON. */
function maxBytesOf({ context: { bodyLimit, budget } }: Exchange): number {
  return Math.min(MAX_RESPONSE_BODIES * bodyLimit, budget.largest);
}

/** A result of VaultClient.detokenize, or of `sizes` when some token is missing. */
type FoundOrSize = FoundValue | number;

/**
 * Looks the values up, and counts unknown tokens against their limit.
 * @param hasGaps whether the answer may have gaps
 * @returns the values; if a token is missing and the answer may have no gap, possibly sizes
 */
async function lookUp(
  exchange: Exchange,
  asked: RequestData,
  hasGaps: boolean,
): Promise<Narrowed<FoundOrSize>> {
  if (asked.texts.length === 0) return { request: asked, found: [] };
  const { limits, metrics, tokenSuffix } = exchange.context;
  const { client } = exchange.caller!;
  const reserved = limits.reserve(client);
  const refused = reserved instanceof Promise ? await reserved : reserved;
  if (refused !== undefined) checkLimits(exchange, refused);
  const known = new Set<string>();
  const unknown = new Set<string>();
  const ending = asked.viewer.rules.hasBareTokens ? '' : `_${tokenSuffix}`;
  const ask = (part: Asked): Promise<readonly FoundOrSize[]> =>
    exchange.inVault(fetchValues(exchange, part, hasGaps)).then((found) => {
      part.texts.forEach((text, i) => {
        if (found[i] !== undefined) {
          // A forgotten or expired token is no guess.
          if (found[i] !== null) known.add(text);
          // Neither is a string without a token's ending, because its response reveals nothing.
        } else if (text.endsWith(ending)) unknown.add(text);
      });
      return found;
    });
  const most = limits.mostUnknown(client);
  let looked: Narrowed<FoundOrSize> | undefined;
  let charged: ReturnType<ClientLimits['charge']>;
  try {
    looked =
      asked.narrow === undefined
        ? { request: asked, found: await ask(asked) }
        : await asked.narrow(async (part) => (unknown.size > most ? undefined : ask(part)));
  } finally {
    const counts = { known: known.size, unknown: unknown.size };
    exchange.unknownTokens = counts.unknown;
    metrics.unknownTokens(counts.unknown);
    charged = limits.charge(client, counts, hasGaps);
  }
  if (looked?.found.every((one) => typeof one === 'object' && one !== null)) return looked;
  // Wait for every kind of missing token, so that the time of a 400 does not tell them apart.
  const overrun = await charged;
  if (overrun !== undefined) checkLimits(exchange, overrun);
  // The limit has refused the request whose turns had to end.
  return looked!;
}

/**
 * Reserves the bytes of the values before anything large is fetched.
 * @throws CallerError invalid_type when the answer would be too large, or overloaded
 */
function fetchValues(
  exchange: Exchange,
  request: Asked,
  hasGaps: boolean,
): Promise<readonly FoundOrSize[]> {
  const { vault, tokenSuffix } = exchange.context;
  const { viewer } = request;
  const texts = request.texts as readonly Token[];
  const tokens = { texts, kinds: kindsOf(request) };
  const ending = `_${tokenSuffix}`;
  let most = 0;
  let unsized = 0;
  for (const token of texts) {
    most += mostValueBytes(token, !viewer.isPlain, ending);
    if (isLong(token)) unsized++;
  }
  if (unsized <= MAX_UNSIZED) {
    exchange.reserve(most);
    return vault.detokenize(tokens, viewer, undefined, exchange.deadlineMs);
  }
  return fetchSized(exchange, tokens, viewer, hasGaps);
}

/** Asks for the sizes first: the tokens do not bound the length of their values. */
async function fetchSized(
  exchange: Exchange,
  tokens: Texts<Token>,
  viewer: Viewer,
  hasGaps: boolean,
): Promise<readonly FoundOrSize[]> {
  const { vault } = exchange.context;
  const { texts } = tokens;
  const deadlineMs = exchange.deadlineMs ?? requestDeadline();
  const found = await vault.sizes(tokens, viewer, deadlineMs);
  if (!hasGaps && found.some((size) => typeof size !== 'number')) return found;
  const sizes = found.map((size) => size ?? 0);
  if (!viewer.seesAll) return fetchVisible(exchange, tokens, viewer, sizes);
  const maxBytes = maxBytesOf(exchange);
  if (sum(sizes) > maxBytes) throw tooLarge(maxBytes);
  // Equal tokens share one value.
  exchange.reserve(sum(new Map(texts.map((token, i) => [token, sizes[i]!])).values()));
  return vault.detokenize(tokens, viewer, sizes, deadlineMs);
}

/**
 * Values of a caller who may not see all of them: no error may depend on the size of a value that
 * is hidden. So the batches reserve the same bytes whatever is in them, and then what is shown.
 */
async function fetchVisible(
  exchange: Exchange,
  { texts, kinds }: Texts<Token>,
  viewer: Viewer,
  sizes: readonly number[],
): Promise<readonly FoundOrSize[]> {
  const maxBytes = maxBytesOf(exchange);
  exchange.reserve(BATCH_BYTES);
  const found = new Map<Token, FoundOrSize>();
  let shownBytes = 0;
  for (const indexes of batchesOf(texts, sizes)) {
    const asked = { texts: indexes.map((i) => texts[i]!), kinds: indexes.map((i) => kinds[i]!) };
    const sizesOf = indexes.map((i) => sizes[i]!);
    const shown = await exchange.context.vault.detokenize(asked, viewer, sizesOf);
    const bytes = sum(shown.map((one) => Buffer.byteLength(one?.value ?? '')));
    shownBytes += bytes;
    if (shownBytes > maxBytes) throw tooLarge(maxBytes);
    exchange.reserve(bytes);
    for (const [i, token] of asked.texts.entries()) found.set(token, shown[i]);
  }
  return texts.map((token) => found.get(token));
}

/** The indexes of distinct tokens, in batches of BATCH_BYTES. */
function* batchesOf(texts: readonly Token[], sizes: readonly number[]): Generator<number[]> {
  let batch: number[] = [];
  let bytes = 0;
  for (const i of new Map(texts.map((token, i) => [token, i])).values()) {
    if (bytes + sizes[i]! > BATCH_BYTES) {
      yield batch;
      batch = [];
      bytes = 0;
    }
    batch.push(i);
    bytes += sizes[i]!;
  }
  yield batch;
}

function sum(sizes: Iterable<number>): number {
  let total = 0;
  for (const bytes of sizes) total += bytes;
  return total;
}

function tooLarge(maxBytes: number): CallerError {
  return invalid(
    `data: the response would have more than ${maxBytes} bytes as JSON; send the tokens in several requests`,
  );
}

/** A text of a request that stays as it was sent. */
interface Unapplied {
  readonly index: number;
  readonly reason: 'unknown' | 'forbidden' | 'excluded';
}

/** RFC 7240 section 2: a list of preferences, whose values may be quoted. */
const PREFERENCES = /(?:[^",]|"(?:[^"\\]|\\.)*"?)+/g;
/** The first one of a name counts. */
const HANDLING = /^\s*handling\s*(?:[=;]|$)/i;
const LENIENT = /^\s*handling\s*=\s*(?:lenient|"lenient")\s*(?:;|$)/i;

/**
 * Whether the caller prefers an answer with gaps to an error (RFC 7240 section 4.4). If so, the
 * answer says that it has them.
 */
function isLenient({ request, headers }: Exchange): boolean {
  const { prefer } = request.headers;
  if (prefer === undefined) return false;
  const handling = String(prefer)
    .match(PREFERENCES)
    ?.find((preference) => HANDLING.test(preference));
  if (handling === undefined || !LENIENT.test(handling)) return false;
  headers['Preference-Applied'] = 'handling=lenient';
  return true;
}

/**
 * The text after `data` in the response, in parts. One path can have 30 kB, so each reserves its
 * bytes.
 * @throws CallerError as reserve
 */
async function listOf(
  exchange: Exchange,
  request: RequestData,
  all: readonly Unapplied[],
): Promise<string[]> {
  const maxBytes = maxBytesOf(exchange);
  const list = [',"unapplied":['];
  let bytes = 0;
  let turnBytes = 0;
  for (const [i, { index, reason }] of all.entries()) {
    const path = JSON.stringify(request.pathOf(index));
    const part = `${i > 0 ? ',' : ''}{"path":${path},"reason":"${reason}"}`;
    const partBytes = Buffer.byteLength(part);
    bytes += partBytes;
    if (bytes > maxBytes) throw tooLarge(maxBytes);
    exchange.reserve(partBytes);
    list.push(part);
    turnBytes += partBytes;
    if (turnBytes < MAX_TURN_BYTES) continue;
    turnBytes = 0;
    await nextTurn();
  }
  list.push(']');
  return list;
}
