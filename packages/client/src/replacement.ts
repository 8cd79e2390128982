import { type Batch, batchesOf, PLACE_IN_BATCH, RECORDS, VALUES } from './batches.ts';
import type { Call } from './call.ts';
import {
  type Data,
  jsonOf,
  pathOf,
  rebuilt,
  snapshot,
  snapshotOfRecord,
  stringsIn,
} from './data.ts';
import { inTermsOf } from './errors.ts';
import {
  type Answer,
  badAnswer,
  checkPassed,
  parseBody,
  type Unapplied,
  unappliedIn,
} from './failures.ts';
import type { Settings } from './options.ts';
import { pathText } from './path.ts';

export type Operation = 'tokenize' | 'detokenize' | 'lookup';

/** The service's limit: each look-up confirms a guess. */
const MAX_LOOKED_UP = 100;

const LENIENT = { prefer: 'handling=lenient' };
/** Without a policy, the service would replace every string of a record. */
const ANY_POLICY = { 'if-match': '*' };

/** A copy of the data with its strings replaced. */
export interface Outcome {
  readonly data: Data;
  /** What a lenient call leaves as it was. */
  readonly unapplied: readonly Unapplied[];
}

/** An answer of the service. */
interface Reply {
  readonly twins: unknown;
  readonly unapplied: readonly Unapplied[];
  readonly answer: Answer;
}

/** How a call replaces strings, in one request or several. */
export class Replacement {
  readonly #call: Call;
  readonly #operation: Operation;
  readonly #isLenient: boolean;
  readonly #concurrency: number;
  readonly #bounds: { readonly maxValues: number; readonly maxBytes: number };

  constructor(call: Call, operation: Operation, settings: Settings, isLenient: boolean) {
    const { maxValues, maxBytes, concurrency } = settings;
    const isLookup = operation === 'lookup';
    this.#call = call;
    this.#operation = operation;
    this.#isLenient = isLenient;
    this.#concurrency = concurrency;
    this.#bounds = {
      maxValues: isLookup ? Math.min(maxValues, MAX_LOOKED_UP) : maxValues,
      maxBytes,
    };
  }

  /**
   * Replaces all strings. They go as lists of values, which the service replaces under any policy;
   * of a record, it would replace only what a policy names.
   */
  async ofStrings(data: unknown): Promise<Outcome> {
    const { copy, values } = snapshot(data);
    const replaced = new Map<string, string | null>();
    const reasons = new Map<string | undefined, Unapplied['reason']>();
    const batches = batchesOf(new Set(values), VALUES, this.#bounds);
    await this.#inTurn(batches, async ({ items, body }) => {
      const valueAt = (path: string) => items[Number(PLACE_IN_BATCH.exec(path)?.[1])];
      const pathFor = (path: string) => {
        const value = valueAt(path);
        return value === undefined ? undefined : pathOf(copy, value);
      };
      const { twins, unapplied, answer } = await this.#send(body, {}, pathFor);
      checkPassed(this.#operation, answer);
      const list = (twins as { values?: unknown } | undefined)?.values;
      items.forEach((value, i) => {
        replaced.set(value, this.#checked(Array.isArray(list) ? list[i] : undefined, answer));
      });
      for (const { path, reason } of unapplied) reasons.set(valueAt(path), reason);
    });
    const unapplied = Array.from(stringsIn(copy, ['data'])).flatMap(([value, path]) => {
      const reason = reasons.get(value);
      return reason === undefined ? [] : { path: pathText(path), reason };
    });
    return { data: rebuilt(copy, (value) => replaced.get(value)!), unapplied };
  }

  /** Replaces what the policy names in a record, or in a list of records, which can be split. */
  async ofRecords(data: unknown): Promise<Outcome> {
    if (!Array.isArray(data)) {
      const { copy } = snapshotOfRecord(data, ['data']);
      return this.#rebuilt(copy, await this.#send(`{"data":${jsonOf(copy)}}`, ANY_POLICY));
    }
    // Array.map would skip the holes of a sparse list.
    const records = Array.from(data, (one, i) => snapshotOfRecord(one, ['data', i]));
    const outcomes: Outcome[] = [];
    const batches = batchesOf(records, RECORDS, this.#bounds);
    await this.#inTurn(batches, async ({ items, from, body }) => {
      const pathFor = (path: string) =>
        path.replace(/^data\[(\d+)\]/, (_, i) => `data[${from + Number(i)}]`);
      const { twins, unapplied, answer } = await this.#send(body, ANY_POLICY, pathFor);
      const list = Array.isArray(twins) ? twins : [];
      items.forEach(({ copy }, i) => {
        outcomes[from + i] = this.#rebuilt(copy, { twins: list[i], unapplied: [], answer });
      });
      const inList = unapplied.map((one) => ({ ...one, path: pathFor(one.path) }));
      outcomes[from] = { ...outcomes[from]!, unapplied: inList };
    });
    return {
      data: outcomes.map(({ data }) => data),
      unapplied: outcomes.flatMap(({ unapplied }) => unapplied),
    };
  }

  /** Works on several batches at once. */
  async #inTurn<T>(
    batches: Iterable<Batch<T>>,
    work: (batch: Batch<T>) => Promise<void>,
  ): Promise<void> {
    const worker = async () => {
      for (const batch of batches) await work(batch);
    };
    await Promise.all(Array.from({ length: this.#concurrency }, worker));
  }

  /** @param pathFor translates the path of an error: see `inTermsOf` */
  async #send(
    body: string,
    more: Readonly<Record<string, string>> = {},
    pathFor: (path: string) => string | undefined = () => undefined,
  ): Promise<Reply> {
    const headers = this.#isLenient ? { ...more, ...LENIENT } : more;
    const answer = await this.#call
      .send(`/api/v1/${this.#operation}`, body, headers)
      .catch((error) => {
        throw inTermsOf(error, pathFor);
      });
    const { data: twins, unapplied } = parseBody(answer.text);
    return { twins, unapplied: unappliedIn(this.#operation, answer, unapplied), answer };
  }

  #rebuilt(copy: Data, { twins, unapplied, answer }: Reply): Outcome {
    return { data: rebuilt(copy, (_, twin) => this.#checked(twin, answer), twins), unapplied };
  }

  #checked(given: unknown, answer: Answer): string | null {
    if (typeof given === 'string' || (given === null && this.#operation === 'lookup')) return given;
    throw badAnswer(this.#operation, answer);
  }
}
