import {
  CallerError,
  type CallerErrorCode,
  errorCode,
  InternalError,
  type InternalReason,
} from '../../errors.ts';
import type { KeyNews } from '../keys/key-feed.ts';
import type { EngineData, Operation, Results } from './vault-engine.ts';

/** What a vault thread is started with. */
export interface ThreadData {
  readonly engine: EngineData;
  readonly connections: number;
}

/**
 * One call on its way to a thread: values, or tokens. Messages are cloned as they are: packing the
 * texts into one string took 2.4 us a call, JSON 1.7, the plain objects 1.4.
 */
export interface Call {
  readonly id: number;
  readonly operation: Operation;
  readonly texts: readonly string[];
  /** Of the values of the call, at most; 0 for `sizes`. */
  readonly bytes: number;
}

/** What comes to a thread: calls, news of the keys, or that its connections are to be new. */
export type ToThread = readonly Call[] | KeyNews | 'reconnect';

/** A call of more texts or bytes is a piece of a large one: it takes 0.5 ms and more. */
export const MAX_SMALL_TEXTS = 64;
export const MAX_SMALL_BYTES = 262_144;

export function isPiece({ texts, bytes }: Pick<Call, 'texts' | 'bytes'>): boolean {
  return texts.length > MAX_SMALL_TEXTS || bytes > MAX_SMALL_BYTES;
}

/** What comes back of one call, and what metrics count. */
export type Report =
  | { readonly id: number; readonly results: Results }
  | { readonly id: number; readonly failure: Failure }
  | { readonly batch: 'insert' | 'find'; readonly records: number }
  | { readonly damaged: number }
  | { readonly wants_keys: true };

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
