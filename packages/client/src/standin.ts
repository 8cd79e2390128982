import { type Batch, batchesOf, PLACE_IN_BATCH } from './batches.ts';
import { Call } from './call.ts';
import { type Data, pathOf, rebuilt, snapshot, utf8Bytes } from './data.ts';
import { InvalidValueError } from './errors.ts';
import { type Answer, badAnswer, parseBody } from './failures.ts';
import { type CallOptions, checkOptions, type Settings, type StandinOptions } from './options.ts';
import type { Replaced, StringsOnly } from './types.ts';

/** What `/health` says. */
export interface Health {
  /** `error`: the database does not answer, or the service is about to end. */
  status: 'ok' | 'error';
  /** ISO 8601, UTC. */
  timestamp: string;
  postgres: 'ok' | 'error';
  /** Of the interface: 1.0.5 or 1.0.4. */
  version: string;
}

type Operation = 'tokenize' | 'detokenize';

/**
 * A client of one service. It may be shared by all of a program, and has nothing to close.
 *
 * What may succeed later is sent again until `timeoutMs` is over: without an answer, 408, 429 and
 * 503 when their time has come, 502, 504, and 500 where the database is away. That does no harm: a
 * value that was stored already keeps its token; in random mode a token may be left that nobody
 * uses.
 *
 * An input of more than `maxValues` or `maxBytes`, and any list, goes in requests of their own:
 * then a failure can leave tokens of its first part in the vault. Given again, they are the same.
 */
export class Standin {
  readonly #settings: Settings;

  /** @throws TypeError of a wrong option, and in a browser */
  constructor(options: StandinOptions) {
    this.#settings = checkOptions(options);
  }

  /**
   * A copy of `data`, an object or a list, with a token in place of each string at any depth.
   * @throws StandinError; the reason of `signal`; TypeError of a wrong option
   */
  tokenize<T extends object>(
    data: T & StringsOnly<T>,
    options?: CallOptions,
  ): Promise<Replaced<T>> {
    return this.#replace('tokenize', data, options) as Promise<Replaced<T>>;
  }

  /**
   * A copy of `data` with the value in place of each token.
   * @throws StandinError, InvalidValueError where a token is not known; the reason of `signal`;
   * TypeError of a wrong option
   */
  detokenize<T extends object>(
    data: T & StringsOnly<T>,
    options?: CallOptions,
  ): Promise<Replaced<T>> {
    return this.#replace('detokenize', data, options) as Promise<Replaced<T>>;
  }

  /** The tokens of a list of values, in their order. Throws as tokenize. */
  tokenizeValues(values: readonly string[], options?: CallOptions): Promise<string[]> {
    return this.#replace('tokenize', values, options) as Promise<string[]>;
  }

  /** The values of a list of tokens, in their order. Throws as detokenize. */
  detokenizeValues(tokens: readonly string[], options?: CallOptions): Promise<string[]> {
    return this.#replace('detokenize', tokens, options) as Promise<string[]>;
  }

  /**
   * How the service is, asked once; `error` is an answer too.
   * @throws StandinError where it gives none
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

  /** In the form of the caller, where that goes in one request. */
  #wholeBody(copy: Data, values: readonly string[]): string | undefined {
    const { maxValues, maxBytes } = this.#settings;
    // The service takes no list there.
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

/** The error names the place that the caller knows. */
function inTermsOf(copy: Data, batch: Batch, error: unknown): unknown {
  if (!(error instanceof InvalidValueError)) return error;
  const place = PLACE_IN_BATCH.exec(error.path)?.[1];
  if (place === undefined) return error;
  return new InvalidValueError(pathOf(copy, batch.values[Number(place)]!), error.reason, error);
}
