import { TimeoutError } from './errors.ts';
import { type Answer, type Failure, failureOf, networkFailure } from './failures.ts';
import { onAbort } from './on-abort.ts';
import { type CallOptions, checkNumber, type Settings } from './options.ts';

/** Of the random pause before an attempt, which doubles with each up to the longest. */
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;
/**
 * An attempt without an answer is given up after this, or a third of the call where that is longer:
 * the way may lead to a machine that is gone. The service itself answers within 5 s.
 */
const SHORTEST_ATTEMPT_MS = 10_000;
const SILENCE = { code: 'ETIMEDOUT' };
const GET = { method: 'GET', headers: {} };

/** One call of the caller's: the requests it takes, with one deadline. */
export class Call {
  readonly #settings: Settings;
  readonly #operation: string;
  readonly #timeoutMs: number;
  readonly #deadlineMs: number;
  readonly #end = new AbortController();
  readonly #timer: ReturnType<typeof setTimeout>;
  readonly #caller: AbortSignal | undefined;
  /** Listens no more to the signal of the caller. */
  readonly #leave: (() => void) | undefined;
  /** The last failure that a request was sent again after. */
  #last: Failure | undefined;

  /** @throws TypeError of a wrong timeoutMs, and the reason of a signal that is aborted already */
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

  /** Stops requests that are still under way. */
  close(): void {
    clearTimeout(this.#timer);
    this.#leave?.();
    this.#end.abort();
  }

  /**
   * POSTs until it succeeds, or cannot any more.
   * @throws StandinError; the reason of the caller's signal
   */
  async send(path: string, body: string): Promise<Answer> {
    for (let attempts = 1; ; attempts++) {
      const given = await this.#attempt(path, body, attempts);
      const failure = 'status' in given ? failureOf(this.#operation, given) : given;
      if (failure === undefined) return given as Answer;
      const pauseMs = failure.retryAfterMs + Math.random() * longestPause(attempts);
      // Rather what is wrong now than, at the deadline, that it has passed.
      if (!failure.isPassing || performance.now() + pauseMs >= this.#deadlineMs)
        throw failure.error;
      this.#last = failure;
      await this.#pause(pauseMs, attempts);
    }
  }

  /**
   * GETs once, without the API key; the answer may have any status.
   * @throws StandinError where there is none; the reason of the caller's signal
   */
  async ask(path: string): Promise<Answer> {
    const given = await this.#attempt(path, undefined, 1);
    if ('status' in given) return given;
    throw given.error;
  }

  async #attempt(
    path: string,
    body: string | undefined,
    attempts: number,
  ): Promise<Answer | Failure> {
    if (this.#end.signal.aborted) throw this.#ended(attempts - 1);
    const end = new AbortController();
    const leave = onAbort(this.#end.signal, () => end.abort());
    const patienceMs = Math.max(SHORTEST_ATTEMPT_MS, this.#timeoutMs / 3);
    const timer = setTimeout(() => end.abort(SILENCE), patienceMs);
    try {
      const response = await this.#settings.fetch(this.#settings.url + path, {
        ...(body === undefined ? GET : this.#post(body)),
        signal: end.signal,
        redirect: 'manual',
      });
      return {
        status: response.status,
        text: await response.text(),
        request_id: response.headers.get('x-request-id') ?? undefined,
        retry_after: response.headers.get('retry-after') ?? undefined,
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

  #post(body: string) {
    const authorization = `Bearer ${this.#settings.apiKey}`;
    return {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/json' },
      body,
    };
  }

  async #pause(pauseMs: number, attempts: number): Promise<void> {
    const { signal } = this.#end;
    // Another request of the call may have ended it meanwhile.
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
    const before = this.#last === undefined ? '' : `; before, ${this.#last.error.message}`;
    const message = `${this.#operation}: no answer within ${this.#timeoutMs} ms${before}`;
    return new TimeoutError(message, { code: 'timeout', attempts });
  }
}

/** Full jitter: callers that failed together do not come back together. */
function longestPause(attempts: number): number {
  return Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (attempts - 1));
}
