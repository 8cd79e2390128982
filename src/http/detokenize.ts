import { CallerError } from '../errors.ts';
import type { Admission, ClientLimits } from '../service/limits/client-limits.ts';
import { PLAIN, SCOPED, splitKind, withMarks } from '../service/threads/messages.ts';
import { requestDeadline } from '../service/threads/vault-client.ts';
import { isLong, mostValueBytes } from '../service/value-bytes.ts';
import { DEFAULT_KIND, DEFAULT_SPACE, type Token, type Value } from '../types.ts';
import type { ServerContext } from './context.ts';
import { invalid } from './data.ts';
import { type Answer, type Exchange, LINE_END } from './exchange.ts';
import { addRateLimit, admit, overLimit } from './guards.ts';
import { jsonBytes, largeAnswer, MAX_WHOLE_BYTES, mostJsonBytes } from './large-answer.ts';
import { isLenient, type Unapplied, unappliedText } from './lenient.ts';
import { readBody } from './request-body.ts';
import { type Asked, addTo, type Narrowed, type Reader, type RequestData } from './request-data.ts';
import { cutUnlessRight } from './rights.ts';
import { MAX_ANSWER_BODIES, MESSAGES } from './schema.ts';
import { successFrame } from './success-frame.ts';
import { inVault } from './tracing.ts';

/**
 * If more tokens than this do not bound their values' length, ask the vault for the sizes first.
 */
const MAX_UNSIZED = 4;

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
  const needsNoMeasure = Math.min(maxBytes, MAX_WHOLE_BYTES);
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
      const { values, kinds } = visible(request, found, unapplied);
      const most = mostJsonBytes(values);
      const bytes = most <= needsNoMeasure ? most : jsonBytes(values);
      if (bytes > maxBytes) throw tooLarge(maxBytes);
      const [before, after] = frame(exchange);
      const ends = [before, unapplied ? unappliedText(unapplied) + after : after] as const;
      const body = bodyOf(context, exchange, request, values, ends, bytes);
      exchange.shown = { rules: request.rules, view: request.view, kinds };
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
  const { texts, view, rules } = request;
  const kinds = view === null ? undefined : new Map<string, number>();
  const unknown = (i: number) => invalid(`${request.pathOf(i)}: is not a known token`);
  const leave = (i: number, reason: Unapplied['reason'], refuse: () => CallerError): Value => {
    if (unapplied === undefined) throw refuse();
    unapplied.push({ path: request.pathOf(i), reason });
    return texts[i] as Value;
  };
  const missing = found.findIndex((one) => one === undefined || one === null);
  // Without all values, `found` may have sizes in the places of values.
  if (missing !== -1 && unapplied === undefined) throw unknown(missing);
  const values = found.map((one, i): Value => {
    if (one === undefined || one === null) return leave(i, 'unknown', () => unknown(i));
    if (view === null) return one as Value;
    const { kind, value } = splitKind(one as string, rules);
    if (value !== null) {
      addTo(kinds!, kind);
      return value;
    }
    return leave(
      i,
      'forbidden',
      () => new CallerError('forbidden', MESSAGES.forbidden_kind(request.pathOf(i), kind)),
    );
  });
  return { values, kinds };
}

function bodyOf(
  context: ServerContext,
  exchange: Exchange,
  request: RequestData,
  values: readonly Value[],
  ends: readonly [string, string],
  valueBytes: number,
): Pick<Answer, 'body' | 'bytes'> {
  if (valueBytes <= MAX_WHOLE_BYTES) return { body: ends[0] + request.json(values) + ends[1] };
  const judge = () => cutUnlessRight(context, exchange);
  const onTaken = () => context.budget.move(exchange.held!);
  const parts = (write: (value: string | null) => string) => request.parts(values, write);
  const line = [ends[0], `${ends[1]}${LINE_END}`] as const;
  return largeAnswer(parts, line, valueBytes, judge, onTaken);
}

/** A result of VaultClient.detokenize, or of `sizes` when some token is missing. */
type Found = Value | number | null | undefined;

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
  const ending = asked.rules.hasBareTokens ? '' : `_${context.tokenSuffix}`;
  const ask = async (part: Asked): Promise<readonly Found[]> => {
    const found = await inVault(exchange, fetchValues(context, exchange, part, maxBytes, hasGaps));
    countTokens(tokens, part.texts, found, ending);
    return found;
  };
  const most = limits.mostUnknown(client);
  let looked: Narrowed<Found> | undefined;
  let settled: ReturnType<ClientLimits['settle']>;
  try {
    const turns = asked.turns?.<Found>() ?? oneTurn(asked);
    let turn = turns.next();
    while (!turn.done && tokens.unknown.size <= most) turn = turns.next(await ask(turn.value));
    if (turn.done) looked = turn.value;
  } finally {
    const counts = { known: tokens.known.size, unknown: tokens.unknown.size };
    exchange.unknownTokens = counts.unknown;
    context.metrics.unknownTokens(counts.unknown);
    settled = limits.settle(client, counts, hasGaps);
  }
  if (looked?.found.every((one) => typeof one === 'string')) return looked;
  // Wait for every kind of missing token, so that the time of a 400 does not tell them apart.
  checkAllowed(context, exchange, await settled);
  // The limit has refused the request whose turns had to end.
  return looked!;
}

function* oneTurn(request: RequestData): Generator<Asked, Narrowed<Found>, readonly Found[]> {
  return { request, found: yield request };
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
  const { view } = request;
  const texts = request.texts as readonly Token[];
  const ending = `_${context.tokenSuffix}`;
  let most = 0;
  let unsized = 0;
  let marks = '';
  for (let i = 0; i < texts.length; i++) {
    const token = texts[i]!;
    most += mostValueBytes(token, view !== null, ending);
    if (isLong(token)) unsized++;
    if (view !== null) marks += markOf(request, i);
  }
  const marked = view && withMarks(view, marks);
  if (unsized <= MAX_UNSIZED) {
    exchange.hold(context, most);
    return context.vault.detokenize(texts, marked, undefined, exchange.deadlineMs);
  }
  const deadlineMs = exchange.deadlineMs ?? requestDeadline();
  const found = await context.vault.sizes(texts, marked, deadlineMs);
  if (!hasGaps && !areKnown(found)) return found;
  const sizes = found.map((size) => size ?? 0);
  if (sum(sizes) > maxBytes) throw tooLarge(maxBytes);
  // Equal tokens share one value.
  exchange.hold(context, sum(new Map(texts.map((token, i) => [token, sizes[i]!])).values()));
  return context.vault.detokenize(texts, marked, sizes, deadlineMs);
}

/** The mark of the token at this place: see MarkedView. */
function markOf(request: Asked, index: number): string {
  const isPlain =
    request.view!.space === DEFAULT_SPACE && request.kindOf(index).settings.name === DEFAULT_KIND;
  return isPlain ? PLAIN : SCOPED;
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
    `data: the values of these tokens have more than ${maxBytes} bytes as JSON; send them in several requests`,
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
