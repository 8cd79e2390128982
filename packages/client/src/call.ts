import { type StandinError, TimeoutError } from './errors.ts';
import {
  type Failure,
  failureOf,
  networkFailure,
  type PathFor,
  parseBody,
  type ServiceResponse,
} from './failures.ts';
import { type CallOptions, checkApiKey, checkNumber, type Settings } from './options.ts';

/** Bounds of the random pause before an attempt: the bound doubles with each attempt. */
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;
/**
 * The client abandons an attempt without an answer after this time, or after a third of `timeoutMs`
 * if that is longer: the connection may lead to a dead machine. The service answers within 5 s.
 */
const SHORTEST_ATTEMPT_MS = 10_000;
const SILENCE = { code: 'ETIMEDOUT' };

type Headers = Readonly<Record<string, string>>;
type Sent = Omit<Parameters<Settings['fetch']>[1], 'signal' | 'redirect'>;

/** One call of the application: all its requests, with one deadline. */
export class Call {
  readonly settings: Settings;
  readonly operation: string;
  /** Of each request, besides those of all calls. */
  readonly #headers: Headers;
  readonly #timeoutMs: number;
  readonly #deadlineMs: number;
  readonly #end = new AbortController();
  readonly #timer: ReturnType<typeof setTimeout>;
  readonly #caller: AbortSignal | undefined;
  /** Stops listening to the caller's signal. */
  readonly #leave: (() => void) | undefined;
  /** The cause of the latest retry. */
  #last: StandinError | undefined;

  /** @throws TypeError for an invalid timeoutMs; the signal's reason if it is already aborted */
  constructor(
    settings: Settings,
    operation: string,
    options: CallOptions = {},
    headers: Headers = {},
  ) {
    const { signal, timeoutMs = settings.timeoutMs } = options;
    this.#timeoutMs = checkNumber('timeoutMs', timeoutMs);
    signal?.throwIfAborted();
    this.settings = settings;
    this.#headers = headers;
    this.operation = operation;
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
   * @param pathFor translates the path that a refusal names
   * @throws StandinError; the reason of the caller's signal; what the function `apiKey` throws
   */
  async send(body?: string, pathFor: PathFor = (path) => path): Promise<ServiceResponse> {
    const { apiKey, onRetry } = this.settings;
    for (let attempts = 1; ; attempts++) {
      const key = checkApiKey(await this.#unlessEnded(attempts - 1, apiKey()));
      const authorization = `Bearer ${key}`;
      const headers = { authorization, 'content-type': 'application/json', ...this.#headers };
      const request =
        body === undefined ? { method: 'GET', headers } : { method: 'POST', headers, body };
      const given = await this.#attempt(`/api/v1/${this.operation}`, request, attempts);
      const failure = 'status' in given ? failureOf(given, pathFor) : given;
      if (failure === undefined) return given as ServiceResponse;
      const longestMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (attempts - 1));
      // With full jitter: callers that failed together do not retry together.
      const pauseMs = failure.retryAfterMs + Math.random() * longestMs;
      // The failure tells more than a time-out at the deadline would.
      if (!failure.isPassing || performance.now() + pauseMs >= this.#deadlineMs)
        throw failure.error;
      this.#last = failure.error;
      onRetry({ error: failure.error, pauseMs });
      await this.#pause(attempts, pauseMs);
    }
  }

  /**
   * GETs once, without the API key. The answer may have any status.
   * @throws StandinError without an answer; the reason of the caller's signal
   */
  async ask(path: string): Promise<ServiceResponse> {
    const given = await this.#attempt(path, { method: 'GET', headers: {} }, 1);
    if ('status' in given) return given;
    throw given.error;
  }

  async #attempt(
    path: string,
    request: Sent,
    attempts: number,
  ): Promise<ServiceResponse | Failure> {
    if (this.#end.signal.aborted) throw this.#ended(attempts - 1);
    const end = new AbortController();
    const leave = onAbort(this.#end.signal, () => end.abort());
    const timeoutMs = Math.max(SHORTEST_ATTEMPT_MS, this.#timeoutMs / 3);
    const timer = setTimeout(() => end.abort(SILENCE), timeoutMs);
    try {
      const response = await this.settings.fetch(this.settings.url + path, {
        ...request,
        signal: end.signal,
        redirect: 'manual',
      });
      const { status, headers } = response;
      const body = parseBody(await response.text());
      return { operation: this.operation, status, body, headers, attempts };
    } catch (error) {
      if (this.#end.signal.aborted) throw this.#ended(attempts);
      return networkFailure(this.operation, error, attempts);
    } finally {
      clearTimeout(timer);
      leave();
    }
  }

  /** The result of work, unless the call ends before. */
  #unlessEnded<T>(attempts: number, work: T | Promise<T>): Promise<T> {
    const ended = new Promise<never>((_, reject) => {
      onAbort(this.#end.signal, () => reject(this.#ended(attempts)));
    });
    return Promise.race([work, ended]);
  }

  async #pause(attempts: number, pauseMs: number): Promise<void> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const pause = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, pauseMs);
    });
    await this.#unlessEnded(attempts, pause).finally(() => clearTimeout(timer));
  }

  /** Why the call was over before an answer came. */
  #ended(attempts: number): unknown {
    if (this.#caller?.aborted) return this.#caller.reason;
    const before = this.#last === undefined ? '' : `; last failure: ${this.#last.message}`;
    const message = `${this.operation}: no answer within ${this.#timeoutMs} ms${before}`;
    return new TimeoutError(message, { code: 'timeout', attempts, detail: this.#last?.detail });
  }
}

const stops = new WeakMap<AbortSignal, Set<() => void>>();

/**
 * Calls `stop` when the signal is aborted. All calls share one listener for each signal, because
 * runtimes report more than ten listeners as a leak, and a program may use one signal throughout.
 * @returns stops listening
 */
function onAbort(signal: AbortSignal, stop: () => void): () => void {
  if (signal.aborted) stop();
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
