import { setImmediate as nextTurn } from 'node:timers/promises';
import { countParts, replaceText } from '#paths';
import { CallerError } from '../../errors.ts';
import type { Viewer } from '../../policy/rules.ts';
import {
  checkedText,
  invalid,
  type JsonObject,
  MAX_TURN_BYTES,
  parseObject,
} from '../body/data.ts';
import { findSpans, type SpannedText } from '../body/found-spans.ts';
import { readBody } from '../body/request-body.ts';
import { kindsIn, type Replacement, valuesOf, viewerOf } from '../body/request-data.ts';
import { TextValues, tokensOfTexts } from '../body/texts.ts';
import { openConversation, sealConversation } from '../conversation.ts';
import { restored } from '../detokenize.ts';
import type { Exchange, ResponseContent } from '../exchange.ts';
import { admitBody, admitOperation } from '../guards.ts';
import { idIn } from '../tracing.ts';
import { callKey } from './calls.ts';
import { replaceStrings } from './strings.ts';

const BODY = 'a JSON object, as LiteLLM sends it';
const MAX_ID_LENGTH = 256;
/** Of a body, each as often as it occurs. */
const MAX_STRINGS = 20_000;
const NOTHING = { has: () => false };

/** A request of LiteLLM. */
interface Guarded {
  readonly json: JsonObject;
  readonly bytes: number;
  readonly texts: readonly string[];
  /** undefined: the call has no id. */
  readonly callId: string | undefined;
}

/**
 * POST /beta/litellm_basic_guardrail_api, the Generic Guardrail API of LiteLLM. Answers have all
 * texts, or are no 2xx: LiteLLM would send a missing text in clear.
 */
export async function guard(exchange: Exchange): Promise<ResponseContent> {
  takeApiKey(exchange);
  await admitBody(exchange, 'guardrail');
  const guarded = await read(await readBody(exchange));
  const { input_type: type } = guarded.json;
  if (type !== 'request' && type !== 'response')
    throw invalid('input_type: must be request or response');
  const litellm = idIn(guarded.callId, exchange.context.tokenSuffix);
  if (litellm !== undefined)
    exchange.correlation = { ...exchange.correlation, litellm_call_id: litellm };
  const operation = type === 'request' ? 'tokenize' : 'detokenize';
  await admitOperation(exchange, operation);
  return type === 'request' ? protect(exchange, guarded) : restore(exchange, guarded);
}

/** LiteLLM sends its `api_key` as x-api-key. @throws CallerError unauthorized */
function takeApiKey({ request: { headers } }: Exchange): void {
  const { 'x-api-key': apiKey, authorization } = headers;
  if (apiKey === undefined) return;
  const bearer = `Bearer ${apiKey}`;
  if (authorization !== undefined && authorization !== bearer)
    throw new CallerError('unauthorized', 'x-api-key and Authorization differ; send one of them');
  headers.authorization = bearer;
}

/** @throws CallerError invalid_type */
async function read(body: Buffer): Promise<Guarded> {
  const checked = checkedText(body, BODY);
  if (body.length > MAX_TURN_BYTES) await nextTurn();
  const json = parseObject(checked, BODY);
  const { litellm_call_id: callId, texts } = json;
  const id = callId ?? undefined;
  if (id !== undefined && (typeof id !== 'string' || id.length > MAX_ID_LENGTH))
    throw invalid(`litellm_call_id: must be a string of at most ${MAX_ID_LENGTH} characters`);
  const list = texts ?? [];
  if (
    !Array.isArray(list) ||
    !list.every((text) => typeof text === 'string' && text.isWellFormed())
  )
    throw invalid('texts: must be a list of strings, in well-formed Unicode');
  if (list.length > MAX_STRINGS) throw tooMany('texts');
  return { json, bytes: body.length, texts: list, callId: id };
}

/** Before the model is called: values become tokens, and the call's conversation is kept. */
async function protect(exchange: Exchange, guarded: Guarded): Promise<ResponseContent> {
  const viewer = await viewerOf(exchange);
  // Of the strings, the text that is searched, and the response.
  exchange.reserve(3 * guarded.bytes);
  const { strings, hasFiles } = stringsOf(guarded);
  if (hasFiles && !exchange.context.guardrail!.passesImages)
    return { status: 200, body: blocked(FILES) };
  if (viewer.rules.policy.detect.length === 0)
    throw invalid('texts: the policy has no detect, so nothing is found; an operator can add it');
  const searched = strings.map((text) => ({ text, spans: [] }));
  const found = await findSpans(exchange, viewer, searched, { isDetecting: true });
  const values = new CallValues(viewer, found, guarded);
  const accepted = await valuesOf(exchange, values);
  const { vault } = exchange.context;
  const asked = vault.tokenize(accepted, exchange.caller!.client, viewer, exchange.deadlineMs);
  const tokens = (await exchange.inVault(asked)) as readonly string[];
  const body = values.json(tokens);
  if (values.isBlocked) return { status: 200, body };
  await keep(exchange, viewer, guarded, tokens);
  return { status: 200, body, values: tokens.length, kinds: kindsIn(values) };
}

const FILES = 'images and files may have personal data that Standin cannot replace';
const ARGUMENTS = 'LiteLLM cannot replace the arguments of these tool calls';

function blocked(reason: string): string {
  return JSON.stringify({ action: 'BLOCKED', blocked_reason: reason });
}

/**
 * The strings of a request, each once, and whether it has images or files.
 * @throws CallerError invalid_type for too many
 */
function stringsOf({ json, texts }: Guarded) {
  const { images, structured_messages: rows } = json;
  const strings = new Set<string>();
  let hasFiles = Array.isArray(images) && images.length > 0;
  let count = 0;
  const take = (text: string, path: string): string => {
    if (++count > MAX_STRINGS) throw tooMany(path);
    if (!text.isWellFormed())
      throw invalid(`${path}: must be well-formed Unicode; it has half of a surrogate pair`);
    strings.add(text);
    return text;
  };
  const admit = (json: string, path: string) => {
    const { names, containers } = countParts(json, MAX_STRINGS - count);
    count += names + containers;
    if (count > MAX_STRINGS) throw tooMany(path);
  };
  const onFile = () => {
    hasFiles = true;
  };
  // The messages have the calls, too.
  const calls = Array.isArray(rows) ? undefined : json.tool_calls;
  const parts = { texts, tools: json.tools, structured_messages: rows, tool_calls: calls };
  for (const [path, part] of Object.entries(parts)) {
    const takeOne = (text: string) => take(text, path);
    const replace = (text: string) => replaceText(text, takeOne, (json) => admit(json, path));
    replaceStrings(part, { path, replace, onFile });
  }
  return { strings: [...strings], hasFiles };
}

function tooMany(path: string): CallerError {
  return invalid(
    `${path}: must have at most ${MAX_STRINGS} strings, with those before it; send fewer or shorter messages`,
  );
}

/** The values in the strings of a request. */
class CallValues extends TextValues {
  /** Whether the arguments of calls would change. */
  isBlocked = false;
  readonly #guarded: Guarded;

  constructor(viewer: Viewer, strings: readonly SpannedText[], guarded: Guarded) {
    super(viewer, strings);
    this.#guarded = guarded;
  }

  pathOf(): string {
    return 'texts';
  }

  json(tokens: readonly Replacement[]): string {
    const { json, texts } = this.#guarded;
    const { tools, structured_messages: rows, tool_calls: calls } = json;
    const replaced = this.replaced(tokens);
    const safe = (text: string) => replaceText(text, (one) => replaced.get(one)!);
    /** undefined: nothing changes, but what `texts` have. */
    const changed = (part: unknown, others?: ReadonlySet<string>): unknown => {
      let isChanged = false;
      const replace = (text: string, name: string): string => {
        const isElsewhere = (name === 'content' || name === 'text') && others?.has(text);
        const made = safe(text);
        if (made !== text && !isElsewhere) isChanged = true;
        return made;
      };
      const walked = replaceStrings(part, { path: '', replace });
      return isChanged ? walked : undefined;
    };
    this.isBlocked = !Array.isArray(rows) && changed(calls) !== undefined;
    if (this.isBlocked) return blocked(ARGUMENTS);
    return JSON.stringify({
      action: tokens.length > 0 ? 'GUARDRAIL_INTERVENED' : 'NONE',
      texts: texts.map(safe),
      tools: changed(tools),
      // LiteLLM puts `texts` into the messages itself, without a detour over the form of OpenAI.
      structured_messages: changed(rows, new Set(texts)),
    });
  }
}

function keyOf({ caller }: Exchange, { json, callId }: Guarded): string {
  const about = json.request_data as JsonObject | null | undefined;
  return callKey(caller!.client.client_id, String(about?.user_api_key_hash), callId);
}

async function keep(
  exchange: Exchange,
  { space }: Viewer,
  guarded: Guarded,
  tokens: readonly string[],
): Promise<void> {
  if (guarded.callId === undefined) return;
  const { conversationKeys, guardrail } = exchange.context;
  const sealed = sealConversation(conversationKeys, space, tokens);
  await guardrail!.calls.put(keyOf(exchange, guarded), sealed);
}

/** After the model has answered: the tokens of the same call become values. */
function restore(exchange: Exchange, guarded: Guarded): ResponseContent | Promise<ResponseContent> {
  const { callId, texts } = guarded;
  if (texts.length === 0) return { status: 200, body: '{"action":"NONE","texts":[]}' };
  const { conversationKeys, guardrail } = exchange.context;
  const read = async () => {
    const viewer = await viewerOf(exchange);
    exchange.reserve(guarded.bytes);
    const sealed =
      callId === undefined ? undefined : await guardrail!.calls.get(keyOf(exchange, guarded));
    const named = sealed && openConversation(conversationKeys, viewer.space, sealed);
    if (!named) guardrail!.countUnknown();
    return tokensOfTexts(exchange, viewer, texts, named || NOTHING);
  };
  return restored(exchange, { read, bytes: guarded.bytes, hasGaps: () => true, isBare: true });
}
