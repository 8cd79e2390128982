import { Worker } from 'node:worker_threads';
import { CallerError } from '../errors.ts';
import type { Token, TokenMode, Value } from '../types.ts';
import type { License } from './license.ts';
import {
  type Call,
  errorOf,
  type Operation,
  Outbox,
  type Report,
  type Texts,
  type ThreadData,
} from './thread-messages.ts';

const THREAD = new URL('./vault-thread.js', import.meta.url);

/** What the thread tells besides answers. */
export interface ThreadObserver {
  batch(statement: 'insert' | 'find', records: number): void;
  damaged(records: number): void;
}

/** Beyond either, 503: about half a second of small requests, two seconds of large ones. */
const MAX_PENDING_CALLS = 5_000;
const MAX_PENDING_TEXTS = 100_000;

interface Pending {
  readonly texts: number;
  readonly resolve: (texts: Texts) => void;
  readonly reject: (error: Error) => void;
}

/**
 * Tokenize and detokenize for the HTTP side, done in a vault thread. Measured with one process on
 * two cores: the cryptography of a request (nine operations) costs twice what its HTTP does, and
 * both ran on one core before.
 */
export class VaultClient {
  readonly #thread: Worker;
  readonly #license: License;
  readonly #pending = new Map<number, Pending>();
  readonly #outbox: Outbox<Call>;
  #pending_texts = 0;
  #last_id = 0;

  constructor(data: ThreadData, license: License, observer: ThreadObserver) {
    this.#thread = new Worker(THREAD, { workerData: data, execArgv: [] });
    this.#license = license;
    this.#outbox = new Outbox((calls) => this.#thread.postMessage(calls));
    this.#thread.on('message', (reports: Report[]) => {
      for (const report of reports) this.#take(report, observer);
    });
    // Rethrown: without its thread the process is half alive, and a supervisor starts a whole one.
    this.#thread.on('error', (error) => {
      throw error;
    });
  }

  /**
   * One token a value, in order; all records are durable when it resolves.
   * @throws InternalError, or CallerError overloaded
   */
  async tokenize(values: readonly Value[], mode: TokenMode): Promise<readonly Token[]> {
    this.#license.check();
    return (await this.#call(mode, values)) as readonly Token[];
  }

  /** One value a token, in order; undefined for a token that is not known. @throws as tokenize */
  async detokenize(tokens: readonly Token[]): Promise<readonly (Value | undefined)[]> {
    return (await this.#call('detokenize', tokens)) as readonly (Value | undefined)[];
  }

  async close(): Promise<void> {
    await this.#thread.terminate();
  }

  #call(operation: Operation, texts: readonly string[]): Promise<Texts> {
    if (this.#isFull(texts.length)) return Promise.reject(new CallerError('overloaded', '', 1));
    return new Promise((resolve, reject) => {
      const id = ++this.#last_id;
      this.#pending.set(id, { texts: texts.length, resolve, reject });
      this.#pending_texts += texts.length;
      this.#outbox.put({ id, operation, texts });
    });
  }

  /** One call alone is always taken, however large: its size has a limit of its own. */
  #isFull(texts: number): boolean {
    if (this.#pending.size === 0) return false;
    const too_many_texts = this.#pending_texts + texts > MAX_PENDING_TEXTS;
    return too_many_texts || this.#pending.size >= MAX_PENDING_CALLS;
  }

  #take(report: Report, observer: ThreadObserver): void {
    if ('batch' in report) observer.batch(report.batch, report.records);
    else if ('damaged' in report) observer.damaged(report.damaged);
    else {
      const pending = this.#pending.get(report.id)!;
      this.#pending.delete(report.id);
      this.#pending_texts -= pending.texts;
      if ('texts' in report) pending.resolve(report.texts);
      else pending.reject(errorOf(report.failure));
    }
  }
}
