import { type Batch, batchesOf, PLACE_IN_BATCH } from './batches.ts';
import { Call } from './call.ts';
import { type Data, pathOf, rebuilt, snapshot, utf8Bytes } from './data.ts';
import { InvalidValueError } from './errors.ts';
import { type Answer, badAnswer, parseBody } from './failures.ts';
import { Pick } from './fields.ts';
import {
  type CallOptions,
  checkOptions,
  type FieldOptions,
  type Settings,
  type StandinOptions,
} from './options.ts';
import type { Replaced, StringsOnly } from './types.ts';

/** The answer of `/health`. */
export interface Health {
  /** `error`: the database does not answer, or the service is shutting down. */
  status: 'ok' | 'error';
  /** ISO 8601, UTC. */
  timestamp: string;
  postgres: 'ok' | 'error';
  /** Version of the interface: 1.0.5 or 1.0.4. */
  version: string;
}

type Operation = 'tokenize' | 'detokenize';
type AnyOptions = CallOptions & { readonly fields?: readonly unknown[] };

/**
 * A client of one service. A whole program can share it, and it has nothing to close.
 *
 * Until `timeoutMs` is over, the client retries requests that may succeed later: no answer, 408,
 * 429, 502, 503, 504, and 500 when the database does not answer. It waits as long as Retry-After
 * says. A retry does no harm: a stored value keeps its token. In random mode a retry can leave a
 * token in the vault that nobody uses.
 *
 * The client splits lists, and inputs above `maxValues` or `maxBytes`, into several requests. A
 * failure can then leave tokens for the first part in the vault. A deterministic client gets the
 * same tokens when it repeats the call.
 */
export class Standin {
  readonly #settings: Settings;

  /** @throws TypeError for an invalid option, and in a browser */
  constructor(options: StandinOptions) {
    this.#settings = checkOptions(options);
  }

  /**
   * A copy of `data`, an object or a list, with a token in place of each string at any depth, or of
   * the strings at `fields`. With `fields`, all other values stay as they are.
   * @throws StandinError; the reason of `signal`; TypeError for an invalid option
   */
  tokenize<T extends object>(data: T, options: FieldOptions<T>): Promise<T>;
  tokenize<T extends object>(data: T & StringsOnly<T>, options?: CallOptions): Promise<Replaced<T>>;
  tokenize(data: object, options: AnyOptions = {}): Promise<unknown> {
    return options.fields === undefined
      ? this.#replace('tokenize', data, options)
      : this.#replacePicked('tokenize', data, options.fields, options);
  }

  /**
   * A copy of `data` with the value in place of each token, or of the tokens at `fields`.
   * @throws StandinError; InvalidValueError for an unknown token; the reason of `signal`; TypeError
   * for an invalid option
   */
  detokenize<T extends object>(data: T, options: FieldOptions<T>): Promise<T>;
  detokenize<T extends object>(
    data: T & StringsOnly<T>,
    options?: CallOptions,
  ): Promise<Replaced<T>>;
  detokenize(data: object, options: AnyOptions = {}): Promise<unknown> {
    return options.fields === undefined
      ? this.#replace('detokenize', data, options)
      : this.#replacePicked('detokenize', data, options.fields, options);
  }

  /** The tokens of a list of values, in the same order. Throws the errors of `tokenize`. */
  tokenizeValues(values: readonly string[], options?: CallOptions): Promise<string[]> {
    return this.#replace('tokenize', values, options) as Promise<string[]>;
  }

  /** The values of a list of tokens, in the same order. Throws the errors of `detokenize`. */
  detokenizeValues(tokens: readonly string[], options?: CallOptions): Promise<string[]> {
    return this.#replace('detokenize', tokens, options) as Promise<string[]>;
  }

  /**
   * Asks the service for its health, without retries. Status `error` does not throw.
   * @throws StandinError without an answer of the service
   */
  async health(options?: CallOptions): Promise<Health> {
    const call = new Call(this.#settings, 'health', options);
    try {
      const answer = await call.ask('/health');
      const { status, timestamp, postgres, version } = parseBody(answer.text);
      if (status !== 'ok' && status !== 'error') throw badAnswer('health', answer);
      return { status, timestamp, postgres, version } as Health;
    } finally {
      call.close();
    }
  }

  async #replacePicked(
    operation: Operation,
    data: object,
    fields: readonly unknown[],
    options: CallOptions,
  ): Promise<unknown> {
    const pick = new Pick(data, fields);
    try {
      return pick.with((await this.#replace(operation, pick.values, options)) as string[]);
    } catch (error) {
      throw pick.inTermsOf(error);
    }
  }

  async #replace(operation: Operation, data: object, options?: CallOptions): Promise<Data> {
    const { copy, values } = snapshot(data);
    const call = new Call(this.#settings, operation, options);
    try {
      const body = this.#wholeBody(copy, values);
      if (body === undefined) return await this.#replaceInBatches(call, operation, copy, values);
      const answer = await call.send(`/api/v1/${operation}`, body);
      const twins = parseBody(answer.text).data;
      return rebuilt(copy, (_, twin) => checkString(twin, operation, answer), twins);
    } finally {
      call.close();
    }
  }

  /** The caller's structure as one request; undefined: the client must split it. */
  #wholeBody(copy: Data, values: readonly string[]): string | undefined {
    const { maxValues, maxBytes } = this.#settings;
    // The service accepts no list as `data`.
    if (Array.isArray(copy) || values.length > maxValues) return undefined;
    const body = JSON.stringify({ data: copy });
    return utf8Bytes(body) > maxBytes ? undefined : body;
  }

  async #replaceInBatches(
    call: Call,
    operation: Operation,
    copy: Data,
    values: readonly string[],
  ): Promise<Data> {
    const { maxValues, maxBytes, concurrency } = this.#settings;
    const replaced = new Map<string, string>();
    const batches = batchesOf(new Set(values), maxValues, maxBytes);
    const work = async () => {
      for (const batch of batches) {
        const answer = await call.send(`/api/v1/${operation}`, batch.body).catch((error) => {
          throw inTermsOf(copy, batch, error);
        });
        const { data } = parseBody(answer.text) as { data?: { values?: unknown } };
        const twins = Array.isArray(data?.values) ? data.values : [];
        batch.values.forEach((value, i) => {
          replaced.set(value, checkString(twins[i], operation, answer));
        });
      }
    };
    await Promise.all(Array.from({ length: concurrency }, work));
    return rebuilt(copy, (value) => replaced.get(value)!);
  }
}

function checkString(given: unknown, operation: Operation, answer: Answer): string {
  if (typeof given === 'string') return given;
  throw badAnswer(operation, answer);
}

/** Translates the path in the batch into the path in the caller's data. */
function inTermsOf(copy: Data, batch: Batch, error: unknown): unknown {
  if (!(error instanceof InvalidValueError)) return error;
  const place = PLACE_IN_BATCH.exec(error.path)?.[1];
  if (place === undefined) return error;
  return new InvalidValueError(pathOf(copy, batch.values[Number(place)]!), error.reason, error);
}
