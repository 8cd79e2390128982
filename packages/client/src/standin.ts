import { Call } from './call.ts';
import { copyAt, placesAt, refused, rootOf } from './data.ts';
import { badAnswer, type Unapplied } from './failures.ts';
import {
  type CallOptions,
  checkOptions,
  type FieldOptions,
  type LenientOptions,
  type Settings,
  type StandinOptions,
} from './options.ts';
import { type Operation, type Outcome, replaceRecords, replaceStrings } from './replacement.ts';
import {
  type DetokenizedText,
  type DetokenizeTextOptions,
  detokenizeStream,
  detokenizeText,
  type Post,
  type Span,
  type TokenizedText,
  type TokenizeTextOptions,
  tokenizeText,
} from './text.ts';
import type { Accepted, Answered, FieldOf, Found } from './types.ts';

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

/** The answer of a lenient call. */
export interface Lenient<T> {
  data: T;
  /** The places that stay as they were, in order. */
  unapplied: readonly Unapplied[];
}

/** The policy in force. */
export interface PolicyInForce {
  version: number;
  /** Identifies the policy: requests with the header If-Match are served by this one only. */
  tag: string;
  /** Empty: every string is a `text`. */
  fields: readonly { path: string; kind: string }[];
}

const LENIENT = { prefer: 'handling=lenient' };
/** Without a policy, the service would replace every string of a record. */
const ANY_POLICY = { 'if-match': '*' };

type AnyOptions = CallOptions & {
  readonly fields?: readonly unknown[];
  readonly lenient?: boolean;
};

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
export class Standin<Policy extends boolean = false> {
  readonly #settings: Settings;

  /** @throws TypeError for an invalid option, and in a browser */
  constructor(options: StandinOptions<Policy>) {
    this.#settings = checkOptions(options);
  }

  /** Whether the client sends whole records: see StandinOptions. */
  get policy(): Policy {
    return this.#settings.policy as Policy;
  }

  /**
   * A copy of `data`, an object or a list, with a token in place of each string at any depth, or of
   * the strings at `fields`. With `fields`, all other values stay as they are.
   *
   * With a policy, `data` is a record or a list of records. The service replaces what the policy
   * names, and all other values stay as they are.
   * @throws StandinError; the reason of `signal`; TypeError for an invalid option
   */
  tokenize<T extends object, Field extends FieldOf<T> = never>(
    data: T & Accepted<T, Field, Policy>,
    options?: FieldOptions<Field, Policy>,
  ): Promise<Answered<T, Field, Policy>>;
  async tokenize(data: object, options: AnyOptions = {}): Promise<unknown> {
    return (await this.#replace('tokenize', data, options)).data;
  }

  /**
   * A copy of `data` with the value in place of each token, or of the tokens at `fields`. With a
   * policy, as `tokenize`.
   * @throws StandinError; InvalidValueError for an unknown token, and ForbiddenError for a value
   * that the client may not see, unless `lenient`; the reason of `signal`; TypeError for an invalid
   * option
   */
  detokenize<T extends object, Field extends FieldOf<T> = never, Leniently extends boolean = false>(
    data: T & Accepted<T, Field, Policy>,
    options?: FieldOptions<Field, Policy> & LenientOptions<Leniently>,
  ): Promise<
    Leniently extends true ? Lenient<Answered<T, Field, Policy>> : Answered<T, Field, Policy>
  >;
  async detokenize(data: object, options: AnyOptions = {}): Promise<unknown> {
    const { data: values, unapplied } = await this.#replace('detokenize', data, options);
    return options.lenient ? { data: values, unapplied } : values;
  }

  /**
   * A copy of `data` with the token that each value has, or null. The service stores nothing.
   * @throws the errors of `tokenize`
   */
  async lookup<T extends object>(
    data: T & Accepted<T, never, Policy>,
    options: CallOptions = {},
  ): Promise<Found<T>> {
    return (await this.#replace('lookup', data, options)).data as Found<T>;
  }

  /**
   * The tokens of a list of values, in the same order. With a policy, they are of the kind `text`.
   * Throws the errors of `tokenize`.
   */
  async tokenizeValues(values: readonly string[], options?: CallOptions): Promise<string[]> {
    return (await this.#replace('tokenize', values, options, false)).data as string[];
  }

  /** The values of a list of tokens, in the same order. Throws the errors of `detokenize`. */
  async detokenizeValues(tokens: readonly string[], options?: CallOptions): Promise<string[]> {
    return (await this.#replace('detokenize', tokens, options, false)).data as string[];
  }

  /**
   * A text with a token in place of each span, in one request. Without spans, the service finds the
   * values as its policy says. The vault needs a policy.
   * @throws the errors of `tokenize`
   */
  tokenizeText(
    text: string,
    spans: readonly Span[] | undefined,
    options: TokenizeTextOptions = {},
  ): Promise<TokenizedText> {
    return tokenizeText(this.#post(options), text, spans, options);
  }

  /**
   * A text with the value in place of each token, in one request. Unknown tokens, and values that
   * the client may not see, stay. If the text may hold what strangers wrote, as the answer of a
   * language model may, name what comes back. Throws the errors of `tokenize`.
   */
  detokenizeText(text: string, options: DetokenizeTextOptions = {}): Promise<DetokenizedText> {
    return detokenizeText(this.#post(options), text, options);
  }

  /**
   * As `detokenizeText`, for a text that comes in chunks, such as the answer of a language model or
   * a ReadableStream of strings. What may be a part of a token waits for the next chunk. Each chunk
   * is one request, with `timeoutMs` of its own. Throws also the errors of `chunks`.
   */
  detokenizeStream(
    chunks: AsyncIterable<string> | Iterable<string>,
    options: DetokenizeTextOptions = {},
  ): AsyncGenerator<string, void, undefined> {
    return detokenizeStream(this.#post(options), chunks, options);
  }

  /**
   * Asks the service for its health, without retries. Status `error` does not throw.
   * @throws StandinError without an answer of the service
   */
  health(options?: CallOptions): Promise<Health> {
    return this.#during('health', options, async (call) => {
      const answer = await call.ask('/health');
      const { status, timestamp, postgres, version } = answer.body;
      if (status !== 'ok' && status !== 'error') throw badAnswer(answer);
      return { status, timestamp, postgres, version } as Health;
    });
  }

  /**
   * The fields of the policy in force.
   * @throws StandinError: with the code `not_found`, the vault has no policy
   */
  policyInForce(options?: CallOptions): Promise<PolicyInForce> {
    return this.#during('policy', options, async (call) => {
      const answer = await call.send();
      const { version, fields } = answer.body;
      const tag = answer.headers.get('etag');
      const isField = (one: { path?: unknown; kind?: unknown } | null) =>
        typeof one?.path === 'string' && typeof one.kind === 'string';
      const isPolicy =
        typeof version === 'number' && Array.isArray(fields) && fields.every(isField);
      if (!isPolicy || tag === null) throw badAnswer(answer);
      return { version, tag, fields: fields.map(({ path, kind }) => ({ path, kind })) };
    });
  }

  #post(options?: CallOptions): Post {
    return (operation, body) => this.#during(operation, options, (call) => call.send(body));
  }

  #replace(
    operation: Operation,
    data: object,
    options: AnyOptions = {},
    policy: boolean = this.policy,
  ): Promise<Outcome> {
    const { fields, lenient } = options;
    const headers = { ...(policy && ANY_POLICY), ...(lenient === true && LENIENT) };
    const work = (call: Call) => {
      if (typeof data !== 'object' || data === null)
        throw refused('data', 'must be an object or a list');
      if (policy && fields !== undefined)
        throw new TypeError('fields: leave them out, because the policy names the fields');
      if (policy) return replaceRecords(call, data);
      const root = rootOf(data);
      const places = fields === undefined ? copyAt(root) : placesAt(root, fields);
      return replaceStrings(call, root, places);
    };
    return this.#during(operation, options, work, headers);
  }

  async #during<T>(
    operation: string,
    options: CallOptions | undefined,
    work: (call: Call) => Promise<T>,
    headers: Record<string, string> = {},
  ): Promise<T> {
    const call = new Call(this.#settings, operation, options, headers);
    try {
      return await work(call);
    } finally {
      call.close();
    }
  }
}
