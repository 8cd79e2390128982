import { Worker } from 'node:worker_threads';
import type { TokenOptions } from '../../client-settings.ts';
import { overloaded } from '../../errors.ts';
import type { Kind, Viewer } from '../../policy/rules.ts';
import { monotonicMs, VAULT_TIMEOUT_MS } from '../../timeouts.ts';
import { DEFAULT_KIND, type Token, type Value } from '../../types.ts';
import type { KeySnapshot } from '../../vault/keyring-follower.ts';
import { CONTROL_CONNECTIONS } from '../../vault/pools.ts';
import { mostValueBytes } from '../value-bytes.ts';
import type { WriteGuards } from '../write-guards.ts';
import {
  errorOf,
  isPiece,
  type KindValue,
  type MessagePart,
  type NewPolicy,
  Outbox,
  packCall,
  piecesOf,
  type Question,
  type Report,
  type Results,
  splitKind,
  type ThreadData,
  unpackReports,
  viewOf,
  withTexts,
} from './messages.ts';
import { QueueDelay } from './queue-delay.ts';

/**
 * Beyond either bound, calls get 503. The bounds are about 0.5 s of small requests, or 2 s of large
 * ones.
 */
const MAX_PENDING_CALLS = 5_000;
const MAX_PENDING_TEXTS = 100_000;
/** To accept a text takes as long as to seal so many bytes, at most. */
const ACCEPT_BYTES = 16_384;
const THREAD = new URL('./vault-thread.js', import.meta.url);

/** To search a character takes as long as to seal so many bytes, at most. */
const FIND_BYTES = 64;

/** Decides whether tokenize may write now, and learns of failed writes. */
type Writes = Pick<WriteGuards, 'check' | 'failed'>;

/** Events of the threads besides results. */
export interface ThreadObserver {
  batch(statement: 'insert' | 'find', records: number): void;
  damaged(records: number): void;
  /** A thread lacks a key, or its keys are old. It waits for `renew`. */
  keysWanted(): void;
}

interface Thread {
  readonly worker: Worker;
  readonly outbox: Outbox<MessagePart>;
  pendingTexts: number;
}

interface Pending {
  readonly thread: Thread;
  readonly texts: number;
  /** Not a piece of a large call. */
  readonly isSmall: boolean;
  readonly resolve: (results: Results) => void;
  readonly reject: (error: Error) => void;
}

export type { KindValue };

/** The value of a token. undefined: it is unknown; null: it is forgotten or expired. */
export type FoundValue = KindValue | null | undefined;

/** Texts with the kind of each; a plain viewer needs no kinds. */
export interface Texts<Text extends string> {
  readonly texts: readonly Text[];
  readonly kinds: readonly Kind[];
}

const lengthOf = ({ length }: string) => length;

/** For a request that starts now: a time of monotonicMs. */
export function requestDeadline(): number {
  return monotonicMs() + VAULT_TIMEOUT_MS;
}

/**
 * Runs calls in two vault threads, off the event loop that serves HTTP (docs/decisions/0008). Small
 * calls share the first thread, so that they fill its statements together. Large calls are cut into
 * pieces, and each piece goes to the less busy thread.
 */
export class VaultClient {
  readonly #first: Thread;
  readonly #second: Thread;
  readonly #writes: Writes;
  readonly #observer: ThreadObserver;
  readonly #ending: string;
  /** Measures small calls only. Large calls run beside them. */
  readonly #delay = new QueueDelay(performance.now());
  /** Calls without a result, pieces counted one by one. */
  readonly #pending = new Map<number, Pending>();
  #lastId = 0;
  #isClosing = false;

  /** @param data its connections are shared by the threads */
  constructor(
    data: Omit<ThreadData, 'connections'>,
    writes: Writes,
    observer: ThreadObserver,
    startThread = (own: ThreadData) => new Worker(THREAD, { workerData: own, execArgv: [] }),
  ) {
    this.#writes = writes;
    this.#observer = observer;
    this.#ending = `_${data.vault.token_suffix}`;
    const connections = data.vault.databaseConnections - CONTROL_CONNECTIONS;
    const ofSecond = Math.floor(connections / 2);
    this.#first = this.#watch(startThread({ ...data, connections: connections - ofSecond }));
    this.#second = this.#watch(startThread({ ...data, connections: ofSecond }));
  }

  /**
   * Returns one token for each value, in order. All records are durable when the promise resolves.
   * Equal values of a kind in a call share a token.
   * @throws InternalError, or CallerError overloaded
   */
  tokenize(
    values: Texts<Value>,
    terms: TokenOptions,
    viewer: Viewer,
    deadlineMs?: number,
  ): Promise<readonly Token[]> {
    this.#writes.check();
    const asked = this.#ask<Token>('tokenize', values, viewer, lengthOf, deadlineMs, terms);
    return asked.catch((error) => {
      this.#writes.failed(error);
      throw error;
    });
  }

  /** See Tokenizer.lookup. @throws as tokenize */
  lookup(
    values: Texts<Value>,
    terms: TokenOptions,
    viewer: Viewer,
    deadlineMs?: number,
  ): Promise<readonly (Token | null)[]> {
    return this.#ask('lookup', values, viewer, lengthOf, deadlineMs, terms);
  }

  /**
   * The values of tokens, in order: see Detokenizer.detokenize.
   * @param tokens with the kinds that they probably have
   * @param sizes byte lengths of the values, if known
   * @param deadlineMs from requestDeadline, if the request has already made a call
   * @throws as tokenize
   */
  detokenize(
    tokens: Texts<Token>,
    viewer: Viewer,
    sizes?: readonly number[],
    deadlineMs?: number,
  ): Promise<readonly FoundValue[]> {
    const byToken =
      sizes && new Map<string, number>(tokens.texts.map((token, i) => [token, sizes[i]!]));
    const weigh = (token: string) =>
      byToken ? byToken.get(token)! : mostValueBytes(token, !viewer.isPlain, this.#ending);
    const withKind = (text: Value) =>
      viewer.isPlain ? { kind: DEFAULT_KIND, value: text } : splitKind(text, viewer.rules);
    return this.#ask<Value | null | undefined>(
      'detokenize',
      tokens,
      viewer,
      weigh,
      deadlineMs,
    ).then((results) => results.map((one) => (typeof one === 'string' ? withKind(one) : one)));
  }

  /**
   * The values of texts as their kinds accept them; null: refused.
   * @throws as tokenize
   */
  accept(
    texts: Texts<string>,
    viewer: Viewer,
    deadlineMs: number,
  ): Promise<readonly (Value | null)[]> {
    return this.#ask('accept', texts, viewer, () => ACCEPT_BYTES, deadlineMs);
  }

  /**
   * What the detectors of a policy find in texts: see FindIn; null: it takes too long.
   * @throws as tokenize
   */
  async find(
    texts: readonly string[],
    viewer: Viewer,
    deadlineMs: number,
  ): Promise<readonly (readonly number[] | null)[]> {
    const weigh = ({ length }: string) => length * FIND_BYTES;
    const asked = { texts, kinds: [] };
    const found = await this.#ask<Value | null>('find', asked, viewer, weigh, deadlineMs);
    return found.map((json) => json && JSON.parse(json));
  }

  /**
   * See Detokenizer.sizes.
   * @throws as tokenize
   */
  sizes(
    tokens: Texts<Token>,
    viewer: Viewer,
    deadlineMs?: number,
  ): Promise<readonly (number | null | undefined)[]> {
    return this.#ask('sizes', tokens, viewer, () => 0, deadlineMs);
  }

  /** Passes newer keys, or the policy that later calls name, to the threads. */
  renew(news: KeySnapshot | NewPolicy): void {
    for (const { worker } of [this.#first, this.#second]) worker.postMessage(news);
  }

  /**
   * Replaces the connections of the threads. After the database was unsafe, sessions keep the
   * unsafe settings that they began with.
   */
  reconnect(): void {
    for (const { worker } of [this.#first, this.#second]) worker.postMessage('reconnect');
  }

  /** Whether a call that arrives now would wait so long that refusing it is better. */
  isOverloaded(nowMs: number): boolean {
    return this.#delay.isTooLong(nowMs);
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    await Promise.all([this.#first.worker.terminate(), this.#second.worker.terminate()]);
  }

  #watch(worker: Worker): Thread {
    const onResults = (id: number, results: Results) => this.#end(id).resolve(results);
    const onReport = (report: Report) => this.#take(report);
    worker.on('message', (parts: (MessagePart | Report)[]) =>
      unpackReports(parts, onResults, onReport),
    );
    // Rethrown to end the process: it is useless now, and a supervisor can restart it.
    worker.on('error', (error) => {
      throw error;
    });
    worker.on('exit', () => {
      if (!this.#isClosing) throw new Error('a vault thread ended');
    });
    return { worker, outbox: new Outbox((parts) => worker.postMessage(parts)), pendingTexts: 0 };
  }

  /** @param weigh the most bytes that the value of a text can have */
  #ask<Result extends Results[number]>(
    operation: Question['operation'],
    { texts, kinds }: Texts<string>,
    viewer: Viewer,
    weigh: (text: string) => number,
    deadlineMs = requestDeadline(),
    terms: TokenOptions | null = null,
  ): Promise<readonly Result[]> {
    const view = viewOf(viewer, kinds, operation);
    const question = { operation, texts, terms, view };
    // Not async: a promise that resolves to a promise costs two more turns of the queue.
    if (this.#isFull(texts.length)) return Promise.reject(overloaded());
    if (areDistinct(texts))
      return this.#askDistinct(question, weigh, deadlineMs) as Promise<Result[]>;
    const keys = view === null ? texts : texts.map((text, i) => view.marks[i] + text);
    const indexes = new Map(keys.map((key, i) => [key, i]));
    const asked = withTexts(question, [...indexes.values()]);
    return this.#askDistinct(asked, weigh, deadlineMs).then((results) => {
      const byKey = new Map([...indexes.keys()].map((key, i) => [key, results[i]]));
      return keys.map((key) => byKey.get(key) as Result);
    });
  }

  #askDistinct(
    question: Question,
    weigh: (text: string) => number,
    deadlineMs: number,
  ): Promise<Results> {
    let bytes = 0;
    for (const text of question.texts) bytes += weigh(text);
    if (!isPiece(question.texts.length, bytes)) {
      this.#delay.begin(performance.now());
      return this.#call(this.#first, question, bytes, deadlineMs, true);
    }
    const results = piecesOf(question, weigh).map(([piece, bytesOfPiece]) =>
      this.#call(this.#lessBusy(), piece, bytesOfPiece, deadlineMs, false),
    );
    return Promise.all(results).then((all) => all.flat());
  }

  #call(
    thread: Thread,
    question: Question,
    bytes: number,
    deadlineMs: number,
    isSmall: boolean,
  ): Promise<Results> {
    return new Promise((resolve, reject) => {
      const id = ++this.#lastId;
      const texts = question.texts.length;
      this.#pending.set(id, { thread, texts, isSmall, resolve, reject });
      thread.pendingTexts += texts;
      packCall({ id, question, bytes, deadlineMs }, thread.outbox.due());
    });
  }

  #take(report: Report): void {
    if ('batch' in report) this.#observer.batch(report.batch, report.records);
    else if ('damaged' in report) this.#observer.damaged(report.damaged);
    else if ('wantsKeys' in report) this.#observer.keysWanted();
    else this.#end(report.id).reject(errorOf(report.failure));
  }

  #end(id: number): Pending {
    const pending = this.#pending.get(id)!;
    this.#pending.delete(id);
    pending.thread.pendingTexts -= pending.texts;
    if (pending.isSmall) this.#delay.end(performance.now());
    return pending;
  }

  #lessBusy(): Thread {
    return this.#first.pendingTexts < this.#second.pendingTexts ? this.#first : this.#second;
  }

  /** A call is accepted when no other is pending, however large: its size has its own limit. */
  #isFull(texts: number): boolean {
    if (this.#pending.size === 0) return false;
    const pendingTexts = this.#first.pendingTexts + this.#second.pendingTexts;
    return pendingTexts + texts > MAX_PENDING_TEXTS || this.#pending.size >= MAX_PENDING_CALLS;
  }
}

/** Fewer texts are compared with each other, which costs less than a set. */
const MANY_TEXTS = 8;

function areDistinct(texts: readonly string[]): boolean {
  if (texts.length < MANY_TEXTS) return texts.every((text, i) => texts.indexOf(text) === i);
  return new Set(texts).size === texts.length;
}
