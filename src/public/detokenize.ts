import { setImmediate as nextTurn } from 'node:timers/promises';
import { CallerError } from '../errors.ts';
import type { Admission, ClientLimits } from '../limits/client-limits.ts';
import type { Viewer } from '../policy/viewer.ts';
import {
  type FoundValue,
  type KindValue,
  requestDeadline,
  type Texts,
} from '../tokens/threads/vault-client.ts';
import { isLong, mostValueBytes } from '../tokens/value-bytes.ts';
import type { Token, Value } from '../types.ts';
import { invalid } from './body/data.ts';
import { isLenient, type Unapplied, unappliedBytes, unappliedParts } from './body/lenient.ts';
import { readBody } from './body/request-body.ts';
import {
  type Asked,
  addTo,
  kindsOf,
  MAX_TURN_BYTES,
  type Narrowed,
  type Reader,
  type RequestData,
} from './body/request-data.ts';
import type { ServerContext } from './context.ts';
import { type Answer, type Exchange, FRAME_BYTES, LINE_END } from './exchange.ts';
import { addRateLimit, admit, overLimit } from './guards.ts';
import { cutUnlessRight } from './rights.ts';
import { MAX_ANSWER_BODIES, MESSAGES } from './schema.ts';
import { successFrame } from './success-frame.ts';
import { inVault } from './tracing.ts';
import {
  type AnswerParts,
  jsonBytes,
  largeAnswer,
  MAX_WHOLE_BYTES,
  mostJsonBytes,
} from './transport/large-answer.ts';

/**
 * If more tokens than this do not bound their values' length, ask the vault for the sizes first.
 */
const MAX_UNSIZED = 4;
/** What is fetched at once for a caller who may not see every value. */
const BATCH_BYTES = 4_194_304;

/**
 * POST /api/v1/detokenize and /api/v1/text/detokenize
 * @param hasGaps whether the answer may have gaps
 */
export function detokenizeHandler(
  context: ServerContext,
  read: Reader<RequestData>,
  hasGaps: (exchange: Exchange) => boolean = isLenient,
) {
  const frame = successFrame(context.interfaceVersion, 'detokenize');
  const maxBytes = Math.min(MAX_ANSWER_BODIES * context.bodyLimit, context.budget.largest);
  return async (exchange: Exchange): Promise<Answer> => {
    await admit(context, exchange, 'detokenize');
    const sent = await readBody(context, exchange);
    const again = async (): Promise<Answer> => {
      exchange.shown = undefined;
      const asked = await read(context, exchange, sent);
      const unapplied = hasGaps(exchange) ? [] : undefined;
      const { request, found } = await lookUp(
        context,
        exchange,
        asked,
        maxBytes,
        unapplied !== undefined,
      );
      const { values, kinds, hidden } = visible(request, found, unapplied);
      const list = unapplied ? unappliedParts(request, unapplied) : [];
      const listBytes = unapplied ? unappliedBytes(request, unapplied) : 0;
      const bytes = reserve(context, exchange, values, sent.length, listBytes, maxBytes);
      // To make the paths takes as long as to count their bytes.
      if (listBytes > MAX_TURN_BYTES) await nextTurn();
      const [before, after] = frame(exchange);
      const body = bodyOf(context, exchange, request, values, { before, list, after }, bytes);
      exchange.shown = { viewer: request.viewer, kinds, hidden };
      const replaced = values.length - (unapplied?.length ?? 0);
      return { status: 200, ...body, values: replaced, passed: request.passed, kinds, again };
    };
    return again();
  };
}

/**
 * What the caller gets to see, and how many values of each kind.
 * @param unapplied gets the places that stay as they were sent; undefined: there may be none
 * @throws CallerError invalid_type for an unknown token, forbidden for a kind of no right
 */
function visible(
  request: RequestData,
  found: readonly Found[],
  unapplied: Unapplied[] | undefined,
) {
  const { texts, viewer } = request;
  const kinds = viewer.isPlain ? undefined : new Map<string, number>();
  const hidden = kinds && new Map<string, number>();
  const unknown = (i: number) => invalid(`${request.pathOf(i)}: is not a known token`);
  const leave = (i: number, reason: Unapplied['reason'], refuse: () => CallerError): Value => {
    if (unapplied === undefined) throw refuse();
    unapplied.push({ index: i, reason });
    return texts[i] as Value;
  };
  const missing = found.findIndex((one) => one === undefined || one === null);
  // Without all values, `found` may have sizes in the places of values.
  if (missing !== -1 && unapplied === undefined) throw unknown(missing);
  const values = found.map((one, i): Value => {
    if (one === undefined || one === null) return leave(i, 'unknown', () => unknown(i));
    const { kind, value } = one as KindValue;
    if (value !== null) {
      if (kinds !== undefined) addTo(kinds, kind);
      return value;
    }
    addTo(hidden!, kind);
    return leave(
      i,
      'forbidden',
      () => new CallerError('forbidden', MESSAGES.forbidden_kind(request.pathOf(i), kind)),
    );
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
  context: ServerContext,
  exchange: Exchange,
  values: readonly Value[],
  besides: number,
  listBytes: number,
  maxBytes: number,
): number {
  const reserved = exchange.held!.bytes - besides - FRAME_BYTES;
  const most = mostJsonBytes(values) + listBytes;
  // Most responses are small: what is reserved for their tokens is enough, and nothing is measured.
  if (most <= Math.min(reserved, maxBytes, MAX_WHOLE_BYTES)) return most;
  const bytes = jsonBytes(values) + listBytes;
  if (bytes > maxBytes) throw tooLarge(maxBytes);
  if (bytes > reserved) exchange.hold(context, bytes - reserved);
  return bytes;
}

function bodyOf(
  context: ServerContext,
  exchange: Exchange,
  request: RequestData,
  values: readonly Value[],
  { before, list, after }: Omit<AnswerParts, 'data'>,
  bytes: number,
): Pick<Answer, 'body' | 'bytes'> {
  if (bytes <= MAX_WHOLE_BYTES)
    return { body: before + request.json(values) + [...list].join('') + after };
  const judge = () => cutUnlessRight(context, exchange);
  const onTaken = () => context.budget.move(exchange.held!);
  const data: AnswerParts['data'] = (write) => request.parts(values, write);
  const parts = { before, data, list, after: `${after}${LINE_END}` };
  return largeAnswer(parts, bytes, judge, onTaken);
}

/** A result of VaultClient.detokenize, or of `sizes` when some token is missing. */
type Found = FoundValue | number;

/** The distinct tokens of a request. */
type Tokens = Readonly<Record<'known' | 'unknown', Set<string>>>;

/**
 * Looks the values up, and counts unknown tokens against their limit.
 * @param hasGaps whether the answer may have gaps
 * @returns the values; if a token is missing and the answer may have no gap, possibly sizes
 */
async function lookUp(
  context: ServerContext,
  exchange: Exchange,
  asked: RequestData,
  maxBytes: number,
  hasGaps: boolean,
): Promise<Narrowed<Found>> {
  if (asked.texts.length === 0) return { request: asked, found: [] };
  const { limits } = context;
  const { client } = exchange.caller!;
  const reserved = limits.reserve(client);
  checkAllowed(context, exchange, reserved instanceof Promise ? await reserved : reserved);
  const tokens: Tokens = { known: new Set(), unknown: new Set() };
  const ending = asked.viewer.rules.hasBareTokens ? '' : `_${context.tokenSuffix}`;
  const ask = async (part: Asked): Promise<readonly Found[]> => {
    const found = await inVault(exchange, fetchValues(context, exchange, part, maxBytes, hasGaps));
    countTokens(tokens, part.texts, found, ending);
    return found;
  };
  const most = limits.mostUnknown(client);
  let looked: Narrowed<Found> | undefined;
  let settled: ReturnType<ClientLimits['settle']>;
  try {
    looked =
      asked.turns === undefined
        ? { request: asked, found: await ask(asked) }
        : await inTurns(asked.turns(), ask, () => tokens.unknown.size <= most);
  } finally {
    const counts = { known: tokens.known.size, unknown: tokens.unknown.size };
    exchange.unknownTokens = counts.unknown;
    context.metrics.unknownTokens(counts.unknown);
    settled = limits.settle(client, counts, hasGaps);
  }
  if (looked?.found.every((one) => typeof one === 'object' && one !== null)) return looked;
  // Wait for every kind of missing token, so that the time of a 400 does not tell them apart.
  checkAllowed(context, exchange, await settled);
  // The limit has refused the request whose turns had to end.
  return looked!;
}

/** @returns undefined when `mayGoOn` ended it */
async function inTurns(
  turns: Generator<Asked, Narrowed<Found>, readonly Found[]>,
  ask: (part: Asked) => Promise<readonly Found[]>,
  mayGoOn: () => boolean,
): Promise<Narrowed<Found> | undefined> {
  let turn = turns.next();
  while (!turn.done && mayGoOn()) turn = turns.next(await ask(turn.value));
  return turn.done ? turn.value : undefined;
}

/** @throws CallerError when a limit refuses */
function checkAllowed(
  context: ServerContext,
  exchange: Exchange,
  refused: Admission | undefined,
): void {
  if (refused === undefined) return;
  addRateLimit(exchange, refused);
  throw overLimit(context, refused);
}

/**
 * Reserves the bytes of the values before anything large is fetched.
 * @throws CallerError invalid_type when the answer would be too large, or overloaded
 */
async function fetchValues(
  context: ServerContext,
  exchange: Exchange,
  request: Asked,
  maxBytes: number,
  hasGaps: boolean,
): Promise<readonly Found[]> {
  const { viewer } = request;
  const texts = request.texts as readonly Token[];
  const tokens = { texts, kinds: kindsOf(request) };
  const ending = `_${context.tokenSuffix}`;
  let most = 0;
  let unsized = 0;
  for (const token of texts) {
    most += mostValueBytes(token, !viewer.isPlain, ending);
    if (isLong(token)) unsized++;
  }
  if (unsized <= MAX_UNSIZED) {
    exchange.hold(context, most);
    return context.vault.detokenize(tokens, viewer, undefined, exchange.deadlineMs);
  }
  const deadlineMs = exchange.deadlineMs ?? requestDeadline();
  const found = await context.vault.sizes(tokens, viewer, deadlineMs);
  if (!hasGaps && !areKnown(found)) return found;
  const sizes = found.map((size) => size ?? 0);
  if (!viewer.seesAll) return fetchVisible(context, exchange, tokens, viewer, sizes, maxBytes);
  if (sum(sizes) > maxBytes) throw tooLarge(maxBytes);
  // Equal tokens share one value.
  exchange.hold(context, sum(new Map(texts.map((token, i) => [token, sizes[i]!])).values()));
  return context.vault.detokenize(tokens, viewer, sizes, deadlineMs);
}

/**
 * Values of a caller who may not see all of them: no error may depend on the size of a value that
 * is hidden. So the batches reserve the same bytes whatever is in them, and then what is shown.
 */
async function fetchVisible(
  context: ServerContext,
  exchange: Exchange,
  { texts, kinds }: Texts<Token>,
  viewer: Viewer,
  sizes: readonly number[],
  maxBytes: number,
): Promise<readonly Found[]> {
  exchange.hold(context, BATCH_BYTES);
  const found = new Map<Token, Found>();
  let shownBytes = 0;
  for (const indexes of batchesOf(texts, sizes)) {
    const asked = { texts: indexes.map((i) => texts[i]!), kinds: indexes.map((i) => kinds[i]!) };
    const sizesOf = indexes.map((i) => sizes[i]!);
    const shown = await context.vault.detokenize(asked, viewer, sizesOf);
    const bytes = sum(shown.map((one) => Buffer.byteLength(one?.value ?? '')));
    shownBytes += bytes;
    if (shownBytes > maxBytes) throw tooLarge(maxBytes);
    exchange.hold(context, bytes);
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

function areKnown(sizes: readonly (number | null | undefined)[]): sizes is readonly number[] {
  return sizes.every((size) => typeof size === 'number');
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

/**
 * Counts each token once. A forgotten or expired token is no guess. Neither is a string without a
 * token's ending, because its answer reveals nothing.
 */
function countTokens(
  { known, unknown }: Tokens,
  texts: readonly string[],
  found: readonly Found[],
  ending: string,
): void {
  texts.forEach((text, i) => {
    const one = found[i];
    if (one === undefined) {
      if (text.endsWith(ending)) unknown.add(text);
    } else if (one !== null) known.add(text);
  });
}
