import { CallerError } from '../../errors.ts';
import type { Viewer } from '../../policy/rules.ts';
import { checkedText, invalid, type JsonObject, parseObject } from '../body/data.ts';
import { FoundValues } from '../body/joined-texts.ts';
import { readBody } from '../body/request-body.ts';
import { kindsIn, valuesOf, viewerOf } from '../body/request-data.ts';
import { tokensOfTexts } from '../body/texts.ts';
import { openConversation, sealConversation } from '../conversation.ts';
import { restored } from '../detokenize.ts';
import type { Exchange, ResponseContent } from '../exchange.ts';
import { admitBody, admitOperation } from '../guards.ts';
import { idIn } from '../tracing.ts';
import { callKey } from './calls.ts';
import { RequestStrings } from './strings.ts';

const BODY = 'a JSON object, as LiteLLM sends it';
const MAX_ID_LENGTH = 256;
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
  const guarded = read(await readBody(exchange));
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
function read(body: Buffer): Guarded {
  const json = parseObject(checkedText(body, BODY), BODY);
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
  return { json, bytes: body.length, texts: list, callId: id };
}

/** Before the model is called: values become tokens, and the call's conversation is kept. */
async function protect(exchange: Exchange, guarded: Guarded): Promise<ResponseContent> {
  const viewer = await viewerOf(exchange);
  // Of the strings, the text that is searched, and the response.
  exchange.reserve(3 * guarded.bytes);
  const { json } = guarded;
  const texts = [...guarded.texts];
  const { tools, structured_messages: rows, tool_calls: calls, images } = json;
  const strings = new RequestStrings();
  const changed = { tools: false, rows: false, calls: false };
  for (const [i, text] of texts.entries())
    strings.add(text, `texts[${i}]`, (replacement) => {
      texts[i] = replacement;
    });
  strings.addAll(tools, 'tools', () => {
    changed.tools = true;
  });
  const shown = new Set(guarded.texts);
  strings.addAll(rows, 'structured_messages', (name, text) => {
    // LiteLLM puts `texts` into the messages itself, without a detour over the form of OpenAI.
    changed.rows ||= !((name === 'content' || name === 'text') && shown.has(text));
  });
  if (!Array.isArray(rows))
    strings.addAll(calls, 'tool_calls', () => {
      changed.calls = true;
    });
  const hasImages = strings.hasFiles || (Array.isArray(images) && images.length > 0);
  if (hasImages && !exchange.context.guardrail!.passesImages)
    return blocked('images and files may have personal data that Standin cannot replace');
  const values = await FoundValues.in(exchange, viewer, strings.texts);
  const accepted = await valuesOf(exchange, values);
  const { vault } = exchange.context;
  const asked = vault.tokenize(accepted, exchange.caller!.client, viewer, exchange.deadlineMs);
  const tokens = (await exchange.inVault(asked)) as readonly string[];
  strings.replace(values.replaced(tokens));
  if (changed.calls) return blocked('LiteLLM cannot replace the arguments of these tool calls');
  await keep(exchange, viewer, guarded, tokens);
  const body = JSON.stringify({
    action: tokens.length > 0 ? 'GUARDRAIL_INTERVENED' : 'NONE',
    texts,
    ...(changed.tools && { tools }),
    ...(changed.rows && { structured_messages: rows }),
  });
  return { status: 200, body, values: tokens.length, kinds: kindsIn(values) };
}

function blocked(reason: string): ResponseContent {
  return { status: 200, body: JSON.stringify({ action: 'BLOCKED', blocked_reason: reason }) };
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
