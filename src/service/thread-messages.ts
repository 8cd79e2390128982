import type { PlainKey } from '../crypto/keyring.ts';
import {
  CallerError,
  type CallerErrorCode,
  InternalError,
  type InternalReason,
} from '../errors.ts';
import { errorCode } from '../store/failure.ts';
import type { TokenMode } from '../types.ts';
import type { VaultOptions } from './vault.ts';

/** What a vault thread is started with. */
export interface ThreadData {
  readonly vault: VaultOptions;
  readonly keys: readonly PlainKey[];
}

export type Texts = readonly (string | undefined)[];

/** What is asked of the thread: tokenize in one of the modes, or detokenize. */
export const OPERATIONS = ['deterministic', 'random', 'detokenize'] as const;
export type Operation = TokenMode | 'detokenize';

/** One call on its way to the thread: values, or tokens. */
export interface Call {
  readonly id: number;
  readonly operation: Operation;
  readonly texts: readonly string[];
}

/** What comes back of one call, and what metrics count. */
export type Report =
  | { readonly id: number; readonly texts: Texts }
  | { readonly id: number; readonly failure: Failure }
  | { readonly batch: 'insert' | 'find'; readonly records: number }
  | { readonly damaged: number };

/**
 * Lists of texts as one string and its lengths: cloning them one by one costs six times as much.
 */
interface Packed {
  readonly counts: readonly number[];
  /** UTF-16 units; -1: undefined. */
  readonly lengths: readonly number[];
  readonly text: string;
}

export interface CallMessage extends Packed {
  readonly ids: readonly number[];
  readonly operations: readonly number[];
}

export interface ReportMessage extends Packed {
  readonly ids: readonly number[];
  /** The reports that are not texts. */
  readonly others: readonly Report[];
}

export function packCalls(calls: readonly Call[]): CallMessage {
  return {
    ids: calls.map((call) => call.id),
    operations: calls.map((call) => OPERATIONS.indexOf(call.operation)),
    ...pack(calls.map((call) => call.texts)),
  };
}

export function unpackCalls(message: CallMessage): Call[] {
  const lists = unpack(message);
  return message.ids.map((id, i) => ({
    id,
    operation: OPERATIONS[message.operations[i]!]!,
    texts: lists[i] as string[],
  }));
}

export function packReports(reports: readonly Report[]): ReportMessage {
  const answers = reports.filter((report) => 'texts' in report);
  return {
    ids: answers.map((report) => report.id),
    others: reports.filter((report) => !('texts' in report)),
    ...pack(answers.map((report) => report.texts)),
  };
}

export function unpackReports(message: ReportMessage): Report[] {
  const lists = unpack(message);
  return [...message.ids.map((id, i) => ({ id, texts: lists[i]! })), ...message.others];
}

function pack(lists: readonly Texts[]): Packed {
  const lengths: number[] = [];
  let text = '';
  for (const list of lists) {
    for (const one of list) {
      lengths.push(one === undefined ? -1 : one.length);
      if (one !== undefined) text += one;
    }
  }
  return { counts: lists.map((list) => list.length), lengths, text };
}

function unpack({ counts, lengths, text }: Packed): (string | undefined)[][] {
  let next = 0;
  let at = 0;
  return counts.map((count) => {
    const list: (string | undefined)[] = [];
    for (const end = next + count; next < end; next++) {
      const length = lengths[next]!;
      list.push(length === -1 ? undefined : text.slice(at, at + length));
      if (length > 0) at += length;
    }
    return list;
  });
}

/** An error in a form that crosses threads. */
export interface Failure {
  readonly caller_code?: CallerErrorCode;
  readonly retry_after_s?: number | undefined;
  readonly reason?: InternalReason;
  /** SQLSTATE or errno name of the cause, for the log. */
  readonly cause_code?: string | undefined;
}

export function failureOf(error: unknown): Failure {
  if (error instanceof CallerError) {
    return { caller_code: error.code, retry_after_s: error.retry_after_s };
  }
  const cause_code = errorCode(error) ?? errorCode((error as Error).cause);
  return { reason: error instanceof InternalError ? error.reason : 'unexpected', cause_code };
}

export function errorOf(failure: Failure): Error {
  const { caller_code, retry_after_s, reason = 'unexpected', cause_code } = failure;
  if (caller_code !== undefined) return new CallerError(caller_code, '', retry_after_s);
  const cause = Object.assign(new Error('in the vault thread'), { code: cause_code });
  return new InternalError(reason, { cause });
}

/**
 * Sends what is put in during one turn of the event loop as one message: a message costs more than
 * a call.
 */
export class Outbox<T> {
  readonly #post: (entries: T[]) => void;
  #entries: T[] = [];

  constructor(post: (entries: T[]) => void) {
    this.#post = post;
  }

  put(entry: T): void {
    if (this.#entries.push(entry) > 1) return;
    setImmediate(() => {
      const entries = this.#entries;
      this.#entries = [];
      this.#post(entries);
    });
  }
}
