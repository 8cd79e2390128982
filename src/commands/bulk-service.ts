import {
  type Ask,
  leastRecord,
  type PolicyFields,
  RefusedValue,
  type ReplaceJob,
  valueIn,
} from '#bulk';
import {
  ForbiddenError,
  InvalidValueError,
  LimitError,
  type PolicyInForce,
  Standin,
  StandinError,
  TimeoutError,
  UnauthorizedError,
} from '#client';
import type { ServiceSettings } from '../config/config.ts';
import { OperatorError } from '../errors.ts';
import { MAX_DOCUMENT_BYTES } from '../policy/schema.ts';
import { readText } from './text-file.ts';

/** The service is shown as silent after this time without any answer. */
const SILENCE_MS = 5_000;

/** The service as `standin tokenize FILE` uses it, and its failures in the words of the command. */
export class BulkService {
  readonly #operation: ReplaceJob['operation'];
  readonly #url: string;
  /** For one request with all its attempts. */
  readonly #timeoutS: number;
  readonly #standin: Standin<true>;
  /** The policy that all requests must be served by; undefined: any. */
  #policy: PolicyInForce | undefined;
  /** Requests that are open. */
  #open = 0;
  /** When the first of them was sent, or one was answered. */
  #silentSinceMs = 0;
  /** Of the latest retry, until a request succeeds. */
  #reason: string | undefined;

  /** @param onWait called when a new reason to wait may be there */
  constructor(
    operation: ReplaceJob['operation'],
    service: ServiceSettings,
    timeoutS: number,
    onWait: () => void = () => {},
  ) {
    this.#operation = operation;
    this.#url = service.url;
    this.#timeoutS = timeoutS;
    this.#standin = new Standin({
      url: service.url,
      apiKey: service.api_key,
      policy: true,
      fetch: (to, init) => {
        const match = this.#policy && { 'if-match': this.#policy.tag };
        return fetch(to, { ...init, headers: { ...init.headers, ...match } });
      },
      timeoutMs: timeoutS * 1000,
      onRetry: ({ error }) => {
        this.#reason = reasonToWait(error);
        onWait();
      },
    });
  }

  /** The reason why all work waits; undefined: none. */
  get waitsFor(): string | undefined {
    if (this.#open === 0 || this.#reason !== undefined) return this.#reason;
    const isLate = performance.now() - this.#silentSinceMs > SILENCE_MS;
    return isLate ? 'the service has not answered yet' : undefined;
  }

  /**
   * Reads the policy in force. All requests after it are served by this policy, or not at all.
   * @throws StandinError
   */
  async usePolicy(): Promise<PolicyInForce> {
    this.#policy = await this.#waiting(() => this.#standin.policyInForce());
    return this.#policy;
  }

  /**
   * The fields of the policy in force, which serves all further requests.
   * @param file a document that must be this policy, byte for byte; true: any policy
   * @throws OperatorError
   */
  async policyFields(file: string | true): Promise<PolicyFields> {
    const { version, tag, fields } = await this.usePolicy().catch((error) => {
      throw error instanceof StandinError ? new OperatorError(`${this.problem(error)}.`) : error;
    });
    if (file !== true) await checkDocument(file, version, tag);
    if (fields.length === 0)
      throw new OperatorError(
        `Version ${version} of the policy names no fields: name those of the file with --fields.`,
      );
    const digits = tag.slice(1, 13);
    return { policy: `version ${version}, ${digits}`, paths: fields.map(({ path }) => path) };
  }

  readonly ask: Ask = async (values, signal, fields) => {
    try {
      return await this.#waiting(async () => {
        if (this.#policy === undefined)
          return this.#standin[`${this.#operation}Values` as const](values, { signal });
        // Each value is in a record of its own, at its path of the policy.
        const records = values.map((value, i) => leastRecord(fields[i]!, value));
        const done = await (this.#operation === 'tokenize'
          ? this.#standin.tokenize(records, { signal })
          : this.#standin.detokenize(records, { signal }));
        return done.map((record, i) => valueIn(record, fields[i]!) as string);
      });
    } catch (error) {
      if (error instanceof InvalidValueError) throw new RefusedValue(error.index, error.reason);
      if (error instanceof StandinError && error.code === 'payload_too_large')
        throw new RefusedValue(undefined, 'is larger than a body that the service takes');
      throw error;
    }
  };

  async #waiting<T>(work: () => Promise<T>): Promise<T> {
    if (this.#open++ === 0) this.#silentSinceMs = performance.now();
    try {
      const answer = await work();
      this.#reason = undefined;
      this.#silentSinceMs = performance.now();
      return answer;
    } finally {
      this.#open--;
    }
  }

  /** A failure with its remedy. The client's own message names options of the client. */
  problem(error: StandinError): string {
    const { status, detail } = error;
    const service = `The service at ${this.#url}`;
    if (error instanceof LimitError)
      return `A limit of the client is exceeded (429) for ${Math.ceil(error.retryAfterMs / 1000)} s more, and --timeout is ${this.#timeoutS} s`;
    if (error instanceof UnauthorizedError)
      return `${service} refuses the API key (401): it is unknown, expired or revoked. Make another with standin api-key issue --client NAME`;
    if (error instanceof ForbiddenError && error.kind !== undefined)
      return `The client of this API key may not see values of kind ${error.kind}${inField(error.path)} (403). An operator can allow it in the policy`;
    if (error instanceof ForbiddenError)
      return `The client of this API key may not ${this.#operation} (403). An operator decides whether it may: standin client update NAME --can tokenize,detokenize`;
    if (error instanceof TimeoutError)
      return `${service} gave no result within ${this.#timeoutS} s${inBrackets(detail)}. --timeout sets how long to try`;
    if (error.code === 'not_found')
      return `${service} has no policy (404): apply one with standin policy apply, or name the fields with --fields`;
    if (status === 412)
      return `${service} does not use version ${this.#policy?.version} of the policy any more (412): it changed, or not all nodes have it yet. Start again, with --force, so that all tokens are of one policy`;
    if (error.code === 'network_error')
      return `${service} does not answer ${networkRemedy(detail)}`;
    if (error.code === 'bad_answer')
      return `What answers at ${this.#url} is not Standin (${status}). Set STANDIN_URL to the address of the service`;
    return `${service} cannot ${this.#operation}: ${status} ${detail ?? error.code}`;
  }
}

async function checkDocument(file: string, version: number, tag: string): Promise<void> {
  const document = await readText(file, MAX_DOCUMENT_BYTES);
  const { tagOf } = await import('../policy/policy-follower.ts');
  if (tagOf(document) === tag) return;
  throw new OperatorError(
    `${file} is not the policy in force, which is version ${version}. Compare them with standin policy diff ${file}; all nodes have a version 5 s after standin policy apply. To use the policy in force, give --policy without a file.`,
  );
}

function reasonToWait(error: StandinError): string {
  if (error instanceof LimitError) return 'a limit of the client (429)';
  const { status, detail } = error;
  if (status === undefined) return `the service does not answer${inBrackets(detail)}`;
  return `the service answers ${status}${detail === undefined ? '' : `, ${detail}`}`;
}

function networkRemedy(code = 'no reason given'): string {
  if (code === 'ERR_SSL_WRONG_VERSION_NUMBER')
    return `over TLS (${code}). Does it speak HTTP? Then write http: in STANDIN_URL`;
  if (/CERT|SIGNED|SIGNATURE|ISSUER/.test(code))
    return `with a certificate that is trusted here (${code}). Set NODE_EXTRA_CA_CERTS`;
  return `(${code}). Start the service, or correct STANDIN_URL`;
}

/** The field of `data[3].card`. */
function inField(path = ''): string {
  const field = path.replace(/^data(\.values)?\[\d+\]\.?/, '');
  return field === '' ? '' : `, in the field ${field}`;
}

function inBrackets(detail: string | undefined): string {
  return detail === undefined ? '' : ` (${detail})`;
}
