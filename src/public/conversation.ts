import { hash } from 'node:crypto';
import type { Viewer } from '../policy/rules.ts';
import { invalid, type JsonObject } from './body/data.ts';
import type { Named } from './body/token-finder.ts';
import type { ConversationKeys, Exchange } from './exchange.ts';

const FORMAT = 1;
const EXPIRY_BYTES = 4;
const TAG_BYTES = 8;
const MAX_AGE_S = 86_400;
const MAX_TOKENS = 10_000;
const BEGIN = 'begin a new one with "conversation": true in text/tokenize';

/** The tokens that a conversation had. */
export interface Conversation extends Named {
  /** The first TAG_BYTES bytes of SHA-256(token), as latin1 strings. */
  readonly tags: ReadonlySet<string>;
}

/**
 * Seals the tokens of a conversation into a string that its caller keeps, so that every node knows
 * it: base64url(FORMAT, nonce, ciphertext, authentication tag), of the seconds at which it expires
 * and the tags. It expires MAX_AGE_S after it was last sealed.
 * @param space of the caller: in another one, it does not open
 * @param earlier its tokens stay
 * @throws CallerError invalid_type for more than MAX_TOKENS
 */
export function sealConversation(
  keys: ConversationKeys,
  space: string,
  tokens: Iterable<string>,
  earlier?: Conversation,
  nowMs = Date.now(),
): string {
  const tags = new Set(earlier?.tags);
  for (const token of tokens) tags.add(tagOf(token));
  if (tags.size > MAX_TOKENS)
    throw invalid(`data.conversation: would have more than ${MAX_TOKENS} tokens; ${BEGIN}`);
  const content = Buffer.alloc(EXPIRY_BYTES + TAG_BYTES * tags.size);
  content.writeUInt32BE(Math.floor(nowMs / 1_000) + MAX_AGE_S);
  content.write([...tags].join(''), EXPIRY_BYTES, 'latin1');
  const sealed = keys.sealConversation(content, space);
  return Buffer.concat([Buffer.of(FORMAT), sealed]).toString('base64url');
}

/** undefined: it has expired, or was not sealed by this vault for this space. */
export function openConversation(
  keys: ConversationKeys,
  space: string,
  sealed: string,
  nowMs = Date.now(),
): Conversation | undefined {
  const bytes = Buffer.from(sealed, 'base64url');
  if (bytes[0] !== FORMAT) return undefined;
  const content = keys.openConversation(bytes.subarray(1), space);
  if (content === undefined || content.readUInt32BE() * 1_000 <= nowMs) return undefined;
  const tags = new Set<string>();
  for (let at = EXPIRY_BYTES; at < content.length; at += TAG_BYTES)
    tags.add(content.toString('latin1', at, at + TAG_BYTES));
  return { tags, has: (token) => tags.has(tagOf(token)) };
}

function tagOf(token: string): string {
  return hash('sha256', token, 'binary').slice(0, TAG_BYTES);
}

/** Makes the conversation of an answer with these tokens. */
export type Seal = (tokens: readonly string[]) => string;

/**
 * By `data.conversation` of a tokenize: true, or an earlier one. undefined: the answer has none.
 * @throws CallerError invalid_type
 */
export function sealIn(exchange: Exchange, viewer: Viewer, data: JsonObject): Seal | undefined {
  const { conversation } = data;
  if (conversation === undefined) return undefined;
  const earlier = conversation === true ? undefined : opened(exchange, viewer, conversation);
  const { conversationKeys } = exchange.context;
  return (tokens) => sealConversation(conversationKeys, viewer.space, tokens, earlier);
}

/**
 * The tokens that `data.only` or `data.conversation` of a detokenize names. undefined: all.
 * @throws CallerError invalid_type
 */
export function namedIn(exchange: Exchange, viewer: Viewer, data: JsonObject): Named | undefined {
  const { only = [], conversation } = data;
  const { valuesLimit } = exchange.context;
  if (!Array.isArray(only) || !only.every((token) => typeof token === 'string'))
    throw invalid('data.only: must be a list of tokens');
  if (only.length > valuesLimit)
    throw invalid(`data.only: has more than ${valuesLimit} tokens; send a conversation instead`);
  exchange.reserveFields(only.length);
  const listed = new Set(only.flatMap(writtenForms));
  if (conversation === undefined) return data.only === undefined ? undefined : listed;
  const its = opened(exchange, viewer, conversation);
  return { has: (token) => listed.has(token) || its.has(token) };
}

/** A token as it stands in a text may be in capitals, and have its underscore escaped. */
function writtenForms(token: string): string[] {
  const unescaped = token.replace('\\_', '_');
  return [unescaped, unescaped.toLowerCase()];
}

function opened(exchange: Exchange, { space }: Viewer, json: unknown): Conversation {
  if (typeof json !== 'string')
    throw invalid(`data.conversation: must be what text/tokenize answered; ${BEGIN}`);
  const conversation = openConversation(exchange.context.conversationKeys, space, json);
  if (conversation === undefined)
    throw invalid(
      `data.conversation: has expired, is damaged, or is of another vault or space; ${BEGIN}`,
    );
  exchange.reserveFields(conversation.tags.size);
  return conversation;
}
