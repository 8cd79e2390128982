import type { TokenMode, TokenOptions } from '../../client-settings.ts';
import {
  CallerError,
  type CallerErrorCode,
  errorCode,
  InternalError,
  type InternalReason,
} from '../../errors.ts';
import type { VaultOptions } from '../../options.ts';
import type { Policy } from '../../policy/policy.ts';
import type { Kind, PolicyRules, Viewer } from '../../policy/rules.ts';
import { DEFAULT_KIND, DEFAULT_SPACE, type Token, type Value } from '../../types.ts';
import type { KeySnapshot } from '../../vault/keyring-follower.ts';

/** The data that a vault thread starts with. */
export interface ThreadData {
  readonly vault: VaultOptions;
  readonly connections: number;
  readonly keys: KeySnapshot;
  /** The shared memory of a Timeline. */
  readonly timeline: SharedArrayBuffer;
}

/** A viewer, and the kinds of texts. */
export interface View {
  /** Tag of the policy. */
  readonly policy: string;
  readonly entry: string | null;
  readonly space: string;
  /**
   * One character for each text. A value: the number of its kind in the policy. A token: SCOPED
   * when its record probably has a scope, which it opens by first. A string costs far less to send
   * than a text with each text.
   */
  readonly marks: string;
}

/** Marks of tokens. */
export const SCOPED = 's';
const PLAIN = 'p';

/** @returns null for a plain viewer, whose results come without their kind */
export function viewOf(
  viewer: Viewer,
  kinds: readonly Kind[],
  operation: Question['operation'],
): View | null {
  if (viewer.isPlain) return null;
  const { rules, entry, space } = viewer;
  const isOfTokens = operation === 'detokenize' || operation === 'sizes';
  let marks = '';
  for (const kind of kinds) marks += isOfTokens ? tokenMark(kind, space) : kindMark(kind, rules);
  return { policy: rules.policy.tag, entry, space, marks };
}

function tokenMark({ settings }: Kind, space: string): string {
  return space === DEFAULT_SPACE && settings.name === DEFAULT_KIND ? PLAIN : SCOPED;
}

/** A question to a vault thread. Its texts are distinct, together with their marks. */
export interface Question {
  /** The first two take values, the next two tokens, and the last two any texts. */
  readonly operation: 'tokenize' | 'lookup' | 'detokenize' | 'sizes' | 'accept' | 'find';
  readonly texts: readonly string[];
  /** Of values; null: the texts are none. */
  readonly terms: TokenOptions | null;
  /** null: the whole vault, as without a policy. */
  readonly view: View | null;
}

/**
 * One result for each text, in order: a token, a value or its size. undefined: an unknown token;
 * null: a forgotten one, or a text that is no value.
 */
export type Results = readonly (Token | Value | number | null | undefined)[];

export interface VaultCall {
  readonly id: number;
  readonly question: Question;
  /** Upper bound of the values' bytes; 0 for `sizes`. */
  readonly bytes: number;
  /** A time of monotonicMs. Each piece of a large call gets its own deadline when it starts. */
  readonly deadlineMs: number;
}

/** A message to a thread: packed calls, newer keys, a newer policy, or the request to reconnect. */
export type ToThread = readonly MessagePart[] | KeySnapshot | NewPolicy | 'reconnect';

export interface NewPolicy {
  readonly policy: Policy;
}

/** A message from a thread besides results: failed calls, and counts for metrics. */
export type Report =
  | { readonly id: number; readonly failure: Failure }
  | { readonly batch: 'insert' | 'find'; readonly records: number }
  | { readonly damaged: number }
  | { readonly wantsKeys: true };

/**
 * Messages are flat arrays. To clone and read a call and its results takes 1.3 us each as arrays,
 * and 3.6 us as objects.
 */
export type MessagePart = string | number | null | undefined;

export function packCall(
  { id, question, bytes, deadlineMs }: VaultCall,
  parts: MessagePart[],
): void {
  const { operation, texts, terms, view } = question;
  parts.push(id, operation, bytes, deadlineMs);
  if (terms === null) parts.push(null);
  else parts.push(terms.token_mode, terms.time_to_live_s);
  if (view === null) parts.push(null);
  else parts.push(view.policy, view.entry, view.space, view.marks);
  parts.push(texts.length);
  for (const text of texts) parts.push(text);
}

export function unpackCalls(parts: readonly MessagePart[]): VaultCall[] {
  let at = 0;
  const next = <T extends MessagePart>() => parts[at++] as T;
  const calls: VaultCall[] = [];
  while (at < parts.length) {
    const id = next<number>();
    const operation = next<Question['operation']>();
    const bytes = next<number>();
    const deadlineMs = next<number>();
    const mode = next<TokenMode | null>();
    const terms = mode && { token_mode: mode, time_to_live_s: next<number | null>() };
    const policy = next<string | null>();
    const view =
      policy === null
        ? null
        : { policy, entry: next<string | null>(), space: next<string>(), marks: next<string>() };
    const count = next<number>();
    const texts = parts.slice(at, at + count) as string[];
    at += count;
    calls.push({ id, question: { operation, texts, terms, view }, bytes, deadlineMs });
  }
  return calls;
}

export function packResults(id: number, results: Results, parts: (MessagePart | Report)[]): void {
  parts.push(id, results.length);
  for (const result of results) parts.push(result);
}

/** Unpacks what packResults packed, and the reports between the results. */
export function unpackReports(
  parts: readonly (MessagePart | Report)[],
  onResults: (id: number, results: Results) => void,
  onReport: (report: Report) => void,
): void {
  for (let at = 0; at < parts.length; ) {
    const id = parts[at++];
    if (typeof id !== 'number') {
      onReport(id as Report);
      continue;
    }
    const count = parts[at++] as number;
    onResults(id, parts.slice(at, at + count) as Results);
    at += count;
  }
}

/** The mark of a value. */
export function kindMark(kind: Kind, { kinds }: PolicyRules): string {
  return String.fromCharCode(kinds.indexOf(kind) + 1);
}

/** The kind with this mark. */
export function markedKind(marks: string, index: number, { kinds }: PolicyRules): Kind {
  return kinds[marks.charCodeAt(index) - 1]!;
}

/** No mark: the name of the kind follows, up to NAME_END. No name contains that. */
const NAMED = '\0';
const NAME_END = '\n';

/** The mark before a value for its kind, so that both are one text. */
export function kindPrefix(name: string, rules: PolicyRules): string {
  const kind = rules.byName.get(name);
  return kind ? kindMark(kind, rules) : NAMED + name + NAME_END;
}

/** The text in the place of a value that the caller may not see. */
export function hiddenKind(name: string): Value {
  return (NAMED + name) as Value;
}

/** A value with its kind; null: the viewer may not see it. */
export interface KindValue {
  readonly kind: string;
  readonly value: Value | null;
}

export function splitKind(text: string, rules: PolicyRules): KindValue {
  const code = text.charCodeAt(0);
  if (code !== 0)
    return { kind: markedKind(text, 0, rules).settings.name, value: text.slice(1) as Value };
  const end = text.indexOf(NAME_END);
  if (end === -1) return { kind: text.slice(1), value: null };
  return { kind: text.slice(1, end), value: text.slice(end + 1) as Value };
}

/** An error in a form that can be cloned between threads. */
export interface Failure {
  readonly callerCode?: CallerErrorCode;
  readonly retryAfterS?: number | undefined;
  readonly reason?: InternalReason;
  /** SQLSTATE or errno name of the cause, for the log. */
  readonly causeCode?: string | undefined;
}

export function failureOf(error: unknown): Failure {
  if (error instanceof CallerError) {
    return { callerCode: error.code, retryAfterS: error.retryAfterS };
  }
  const causeCode = errorCode(error) ?? errorCode((error as Error).cause);
  return { reason: error instanceof InternalError ? error.reason : 'unexpected', causeCode };
}

export function errorOf(failure: Failure): Error {
  const { callerCode, retryAfterS, reason = 'unexpected', causeCode } = failure;
  if (callerCode !== undefined) return new CallerError(callerCode, '', retryAfterS);
  const cause = Object.assign(new Error('in the vault thread'), { code: causeCode });
  return new InternalError(reason, { cause });
}

/** About 32 small calls. */
const MESSAGE_PARTS = 350;

/**
 * Sends the parts of one turn of the event loop together, because a message costs more than a call.
 * A long turn sends several messages, so that the other thread works meanwhile. With one message a
 * turn, the threads wait for each other: 256 connections got 0.8 of the responses.
 */
export class Outbox<T> {
  readonly #post: (parts: T[]) => void;
  #parts: T[] = [];

  constructor(post: (parts: T[]) => void) {
    this.#post = post;
  }

  put(part: T): void {
    this.due().push(part);
  }

  /** The message to send at the end of this turn, or earlier when it is full. */
  due(): T[] {
    if (this.#parts.length >= MESSAGE_PARTS) this.#send();
    if (this.#parts.length === 0) setImmediate(this.#send);
    return this.#parts;
  }

  readonly #send = (): void => {
    if (this.#parts.length === 0) return;
    const parts = this.#parts;
    this.#parts = [];
    this.#post(parts);
  };
}

/** A call with more texts or bytes is a piece of a large call, and takes at least 0.5 ms. */
const MAX_SMALL_TEXTS = 64;
const MAX_SMALL_BYTES = 262_144;

export function isPiece(texts: number, bytes: number): boolean {
  return texts > MAX_SMALL_TEXTS || bytes > MAX_SMALL_BYTES;
}

/** Cryptography takes about 10 us a text, so a small call waits at most 2.5 ms for a piece. */
const PIECE_TEXTS = 250;
/** Each thread works on eight pieces at once, each in memory as bytes, text and message. */
const PIECE_BYTES = 1_048_576;

/** The question about the texts at these indexes. */
export function withTexts(question: Question, indexes: readonly number[]): Question {
  const { view } = question;
  const texts = indexes.map((i) => question.texts[i]!);
  if (view === null) return { ...question, texts };
  const { policy, entry, space } = view;
  const marks = indexes.map((i) => view.marks[i]).join('');
  // A spread of the view would cost 3 us.
  return { ...question, texts, view: { policy, entry, space, marks } };
}

/** A large question in pieces, with the bytes of each. */
export function piecesOf(
  question: Question,
  weigh: (text: string) => number,
): (readonly [piece: Question, bytes: number])[] {
  const pieces: (readonly [Question, number])[] = [];
  let indexes: number[] = [];
  let bytes = 0;
  const end = () => {
    pieces.push([withTexts(question, indexes), bytes]);
    indexes = [];
    bytes = 0;
  };
  question.texts.forEach((text, i) => {
    const weight = weigh(text);
    const isFull = indexes.length === PIECE_TEXTS || bytes + weight > PIECE_BYTES;
    if (isFull && indexes.length > 0) end();
    indexes.push(i);
    bytes += weight;
  });
  end();
  return pieces;
}
