import { TimeoutError } from './errors.ts';
import { type Answer, type Failure, failureOf, networkFailure } from './failures.ts';
import {
  type CallOptions,
  checkApiKey,
  checkNumber,
  type Fetch,
  type Settings,
} from './options.ts';

/** Bounds of the random pause before an attempt: the bound doubles with each attempt. */
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;
/**
 * The client abandons an attempt without an answer after this time, or after a third of `timeoutMs`
 * if that is longer: the connection may lead to a dead machine. The service answers within 5 s.
 */
const SHORTEST_ATTEMPT_MS = 10_000;
const SILENCE = { code: 'ETIMEDOUT' };
const GET: Sent = { method: 'GET', headers: {} };

type Headers = Readonly<Record<string, string>>;
type Sent = Pick<Parameters<Fetch>[1], 'method' | 'headers' | 'body'>;

/** One call of the application: all its requests, with one deadline. */
export class Call {
  readonly #settings: Settings;
  readonly #operation: string;
  readonly #timeoutMs: number;
  readonly #deadlineMs: number;
  readonly #end = new AbortController();
  readonly #timer: ReturnType<typeof setTimeout>;
  readonly #caller: AbortSignal | undefined;
  /** Stops listening to the caller's signal. */
  readonly #leave: (() => void) | undefined;
  /** The failure that caused the latest retry. */
  #last: Failure | undefined;

  /** @throws TypeError for an invalid timeoutMs; the signal's reason if it is already aborted */
  constructor(settings: Settings, operation: string, options: CallOptions = {}) {
    const { signal, timeoutMs = settings.timeoutMs } = options;
    this.#timeoutMs = checkNumber('timeoutMs', timeoutMs);
    signal?.throwIfAborted();
    this.#settings = settings;
    this.#operation = operation;
    this.#deadlineMs = performance.now() + this.#timeoutMs;
    this.#timer = setTimeout(() => this.#end.abort(), this.#timeoutMs);
    this.#caller = signal;
    this.#leave = signal && onAbort(signal, () => this.#end.abort());
  }

  /** Also stops requests that are still running. */
  close(): void {
    clearTimeout(this.#timer);
    this.#leave?.();
    this.#end.abort();
  }

  /**
   * POSTs, or GETs without a body, until a request succeeds, or no retry can.
   * @throws StandinError; the reason of the caller's signal; what the function `apiKey` throws
   */
  async send(path: string, body?: string, headers: Headers = {}): Promise<Answer> {
    for (let attempts = 1; ; attempts++) {
      const { apiKey } = this.#settings;
      const key = typeof apiKey === 'string' ? apiKey : await this.#asked(apiKey, attempts);
      const given = await this.#attempt(path, withKey(key, body, headers), attempts);
      const failure = 'status' in given ? failureOf(this.#operation, given) : given;
      if (failure === undefined) return given as Answer;
      // With full jitter: callers that failed together do not retry together.
      const pauseMs = failure.retryAfterMs + Math.random() * longestPause(attempts);
      // The failure tells more than a time-out at the deadline would.
      if (!failure.isPassing || performance.now() + pauseMs >= this.#deadlineMs)
        throw failure.error;
      this.#last = failure;
      this.#settings.onRetry({ error: failure.error, pauseMs });
      await this.#pause(pauseMs, attempts);
    }
  }

  /**
   * GETs once, without the API key. The answer may have any status.
   * @throws StandinError without an answer; the reason of the caller's signal
   */
  async ask(path: string): Promise<Answer> {
    const given = await this.#attempt(path, GET, 1);
    if ('status' in given) return given;
    throw given.error;
  }

  async #attempt(path: string, request: Sent, attempts: number): Promise<Answer | Failure> {
    if (this.#end.signal.aborted) throw this.#ended(attempts - 1);
    const end = new AbortController();
    const leave = onAbort(this.#end.signal, () => end.abort());
    const patienceMs = Math.max(SHORTEST_ATTEMPT_MS, this.#timeoutMs / 3);
    const timer = setTimeout(() => end.abort(SILENCE), patienceMs);
    try {
      const response = await this.#settings.fetch(this.#settings.url + path, {
        ...request,
        signal: end.signal,
        redirect: 'manual',
      });
      return {
        status: response.status,
        text: await response.text(),
        request_id: response.headers.get('x-request-id') ?? undefined,
        retry_after: response.headers.get('retry-after') ?? undefined,
        etag: response.headers.get('etag') ?? undefined,
        strings: response.headers.get('standin-strings') ?? undefined,
        attempts,
      };
    } catch (error) {
      if (this.#end.signal.aborted) throw this.#ended(attempts);
      return networkFailure(this.#operation, error, attempts);
    } finally {
      clearTimeout(timer);
      leave();
    }
  }

  /** Asks the application for a JWT, until the call ends. */
  async #asked(apiKey: () => string | Promise<string>, attempts: number): Promise<string> {
    const { signal } = this.#end;
    let leave = () => {};
    const ended = new Promise<never>((_, reject) => {
      leave = onAbort(signal, () => reject(this.#ended(attempts - 1)));
    });
    try {
      return checkApiKey(await Promise.race([apiKey(), ended]));
    } finally {
      leave();
    }
  }

  async #pause(pauseMs: number, attempts: number): Promise<void> {
    const { signal } = this.#end;
    // Another request of this call may have ended the call.
    if (signal.aborted) throw this.#ended(attempts);
    await new Promise<void>((resolve) => {
      const done = () => {
        clearTimeout(timer);
        leave();
        resolve();
      };
      const timer = setTimeout(done, pauseMs);
      const leave = onAbort(signal, done);
    });
    if (signal.aborted) throw this.#ended(attempts);
  }

  /** Why the call was over before an answer came. */
  #ended(attempts: number): unknown {
    if (this.#caller?.aborted) return this.#caller.reason;
    const before = this.#last === undefined ? '' : `; last failure: ${this.#last.error.message}`;
    const message = `${this.#operation}: no answer within ${this.#timeoutMs} ms${before}`;
    return new TimeoutError(message, {
      code: 'timeout',
      attempts,
      detail: this.#last?.error.detail,
    });
  }
}

function withKey(key: string, body: string | undefined, headers: Headers): Sent {
  const authorization = `Bearer ${key}`;
  if (body === undefined) return { method: 'GET', headers: { authorization, ...headers } };
  return {
    method: 'POST',
    headers: { authorization, 'content-type': 'application/json', ...headers },
    body,
  };
}

function longestPause(attempts: number): number {
  return Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (attempts - 1));
}

const stops = new WeakMap<AbortSignal, Set<() => void>>();

/**
 * Calls `stop` when the signal is aborted. All calls share one listener for each signal, because
 * runtimes report more than ten listeners as a leak, and a program may use one signal throughout.
 * @returns stops listening
 */
function onAbort(signal: AbortSignal, stop: () => void): () => void {
  const known = stops.get(signal);
  const all = known ?? new Set();
  if (known === undefined) {
    stops.set(signal, all);
    signal.addEventListener('abort', () => {
      for (const one of all) one();
    });
  }
  all.add(stop);
  return () => all.delete(stop);
}
