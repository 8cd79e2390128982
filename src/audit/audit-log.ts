import { Batcher } from '../batcher.ts';
import { InternalError } from '../errors.ts';
import type { ClientOperation } from '../limits/client-limits.ts';
import type { Right } from '../policy/policy.ts';
import { type Appended, AuditFile } from './audit-file.ts';
import { type LinkMac, linkText } from './audit-link.ts';

/** About 8 MB. Further lines count as lost. */
const MAX_WAITING_LINES = 20_000;
/** The part of these for refused requests. The rest is for lines about values. */
const MAX_WAITING_REFUSALS = 5_000;
const MAX_BATCH_LINES = 1_000;
/** A request that waits longer for its line gets a 500. */
const TIMEOUT_MS = 4_000;
const SUM_INTERVAL_MS = 1_000;
/** How often the last link is told while there are new lines. */
const HEAD_INTERVAL_MS = 60_000;
/** Without a loss for this time, the log says that lines are written again. */
const CALM_MS = 1_000;

/** Sums for a second. Requests from further addresses share a sum. */
const MAX_SUMS = 100;
const OTHER_ADDRESSES = 'other';

/** What a request does, in its line. */
export type AuditEvent = ClientOperation | 'policy' | 'guardrail';

/** Numbers of values, by kind and right. */
export type Seen = Record<string, Partial<Record<Right, number>>>;

/** The content of a line besides its time and node: no value, no token, no field name. */
export interface AuditEntry {
  readonly event: AuditEvent;
  /** `success`, or the code of the error. */
  readonly outcome: string;
  readonly status: number;
  readonly request_id: string;
  /** Ids that the caller sent. */
  readonly trace_id?: string;
  readonly parent_id?: string;
  readonly caller_request_id?: string;
  readonly litellm_call_id?: string;
  /** The span of the request, where it has one. */
  readonly span_id?: string;
  /** undefined: unknown, for example after a wrong API key. */
  readonly client_id: string | undefined;
  readonly api_key_id: string | undefined;
  /** Of the JWT, which has no `api_key_id`. */
  readonly subject: string | undefined;
  /** Number of values in the answer. */
  readonly values: number;
  /** Number of distinct unknown tokens; undefined: none. */
  readonly unknown_tokens: number | undefined;
  /** Number of values that the caller has no right to, in an answer with gaps; undefined: none. */
  readonly forbidden: number | undefined;
  /** Values by kind and right, as the caller saw them; undefined: without a policy. */
  readonly seen: Seen | undefined;
  readonly remote_address: string | undefined;
}

/** The content of a line about a request to the admin API: no value, no token. */
export interface AdminEntry extends Pick<AuditEntry, 'request_id' | 'remote_address'> {
  readonly event: 'admin';
  /** Such as `client.update`. */
  readonly act: string;
  /** What it was done to: an id, a name or a version; null: the vault. */
  readonly target: string | null;
  /** `attempt` before an act that can change something; then as AuditEntry. */
  readonly outcome: string;
  /** undefined: an attempt. */
  readonly status: number | undefined;
  /** Name of the token, as in ADMIN_TOKEN. */
  readonly admin: string;
  /** Number of values that the act was about; undefined: it was about none. */
  readonly values: number | undefined;
}

/** A request of somebody unknown. */
export interface StrangerEntry {
  /** An AuditEvent, or `admin`. */
  readonly event: string;
  /** Code of the error. */
  readonly outcome: string;
  readonly status: number;
  readonly remote_address: string | undefined;
}

interface AuditLogOptions {
  /** `stdout`, or a file. */
  readonly path: string;
  /** Whether a success waits for its line. */
  readonly isRequired: boolean;
  /** Name of the machine. */
  readonly node: string;
  readonly macOf: LinkMac;
  /**
   * Called at the end, and once a minute while there are new lines, with the last link. Kept apart
   * from the audit log, it shows that lines after it are missing.
   */
  readonly onHead: (head: string) => void;
  /** Called with the number of lines that could not be written. */
  readonly onLost: (lines: number) => void;
  /** Called with the change in bytes that wait to be written; negative when there are fewer. */
  readonly onWaiting: (bytes: number) => void;
  /**
   * Called when lines start to be lost, with an errno name, and when none was lost for a second.
   */
  readonly onChange: (isAvailable: boolean, failure: string | undefined) => void;
}

/**
 * The audit log. Each tokenize or detokenize request of a known caller gets a JSON line. Once a
 * second, unknown callers get one line for each address and outcome. Lines that arrive during a
 * write share the next one.
 */
export class AuditLog {
  readonly #options: AuditLogOptions;
  readonly #file: AuditFile;
  readonly #origin: string;
  readonly #lines: Batcher<string, boolean>;
  /** The last write that was started. Writes never overlap, even after a time-out. */
  #append: Promise<unknown> = Promise.resolve();
  #last: Promise<void> = Promise.resolve();
  #waitingRefusals = 0;
  readonly #unknownCallers = new UnknownCallers();
  #sumTimer: NodeJS.Timeout | undefined;
  #sums: Promise<void> = Promise.resolve();
  #headTimer: NodeJS.Timeout | undefined;
  #isAvailable = true;
  #calmTimer: NodeJS.Timeout | undefined;

  constructor(options: AuditLogOptions) {
    this.#options = options;
    this.#file = new AuditFile(options.path, options.macOf);
    this.#origin = JSON.stringify({ node: options.node }).slice(1);
    this.#lines = new Batcher({
      run: (lines, deadlineMs) => this.#write(lines, deadlineMs),
      onBatch: () => {},
      slots: 1,
      maxBatchItems: MAX_BATCH_LINES,
      maxBatchBytes: Number.POSITIVE_INFINITY,
      maxWaitingItems: MAX_WAITING_LINES,
      timeoutMs: TIMEOUT_MS,
    });
  }

  /**
   * Writes a line.
   * @returns the promise that the request must wait for, if any; rejects with InternalError
   * audit_unavailable when the line cannot be written
   */
  record(entry: AuditEntry): Promise<void> | undefined {
    if (entry.client_id === undefined) {
      this.recordStranger(entry);
      return undefined;
    }
    if (entry.outcome !== 'success') {
      this.#recordRefusal(entry);
      return undefined;
    }
    return this.recordAct(entry);
  }

  /** As `record`. The requests of an administrator are few, so none is left out. */
  recordAct(entry: AuditEntry | AdminEntry): Promise<void> | undefined {
    const line = this.#submit(this.#lineOf(entry));
    this.#last = line.catch(() => {});
    return this.#options.isRequired ? line : undefined;
  }

  recordStranger(entry: StrangerEntry): void {
    this.#unknownCallers.add(entry);
    this.#sumTimer ??= this.#sumUpLater();
  }

  #recordRefusal(entry: AuditEntry): void {
    if (this.#waitingRefusals >= MAX_WAITING_REFUSALS) {
      this.#options.onLost(1);
      return;
    }
    this.#waitingRefusals++;
    this.#last = this.#submit(this.#lineOf(entry))
      .catch(() => {})
      .finally(() => this.#waitingRefusals--);
  }

  #lineOf(about: object): string {
    const rest = JSON.stringify(about).slice(1, -1);
    return `{"time":"${new Date().toISOString()}",${rest},${this.#origin}\n`;
  }

  #sumUpLater(): NodeJS.Timeout {
    return setTimeout(() => {
      this.#sums = this.#writeSums();
    }, SUM_INTERVAL_MS);
  }

  /** One write at a time: a slow write makes the next sums cover a longer period. */
  async #writeSums(): Promise<void> {
    const lines = this.#unknownCallers.take().map((sum) => this.#lineOf(sum));
    const written = await this.#write(lines, performance.now() + TIMEOUT_MS);
    const lost = written.filter((isWritten) => !isWritten).length;
    if (lost > 0) this.#options.onLost(lost);
    this.#sumTimer = this.#unknownCallers.isEmpty ? undefined : this.#sumUpLater();
  }

  /** Makes the next line check for a rename at once; otherwise that happens every second. */
  refresh(): void {
    this.#file.refresh();
  }

  /** Resolves when all lines are written or have failed. */
  async close(): Promise<void> {
    await this.#sums;
    clearTimeout(this.#sumTimer);
    if (!this.#unknownCallers.isEmpty) await this.#writeSums();
    await this.#last;
    if (this.#headTimer !== undefined) this.#notifyHead();
    await this.#file.close();
  }

  async #submit(line: string): Promise<void> {
    const { onWaiting } = this.#options;
    onWaiting(line.length);
    const [isWritten] = await this.#lines.submit([line]).catch(() => {
      // The file takes lines more slowly than they come.
      this.#noteLoss('ETIMEDOUT');
      return [false];
    });
    onWaiting(-line.length);
    if (isWritten) return;
    this.#options.onLost(1);
    throw new InternalError('audit_unavailable');
  }

  async #write(lines: readonly string[], deadlineMs: number): Promise<readonly boolean[]> {
    const append = this.#append.then(() => this.#file.append(lines, deadlineMs));
    this.#append = append;
    const { lines: written, failure } = await answerBy(append, deadlineMs);
    if (written > 0)
      this.#headTimer ??= setTimeout(() => this.#notifyHead(), HEAD_INTERVAL_MS).unref();
    if (failure !== undefined) this.#noteLoss(failure);
    else if (!this.#isAvailable) this.#calmTimer ??= this.#calmLater();
    return lines.map((_, i) => i < written);
  }

  #noteLoss(failure: string): void {
    clearTimeout(this.#calmTimer);
    this.#calmTimer = undefined;
    if (!this.#isAvailable) return;
    this.#isAvailable = false;
    this.#options.onChange(false, failure);
  }

  #calmLater(): NodeJS.Timeout {
    return setTimeout(() => {
      this.#calmTimer = undefined;
      this.#isAvailable = true;
      this.#options.onChange(true, undefined);
    }, CALM_MS).unref();
  }

  #notifyHead(): void {
    clearTimeout(this.#headTimer);
    this.#headTimer = undefined;
    this.#options.onHead(linkText(this.#file.head));
  }
}

/** A disk that hangs delays the write, but not the requests that wait for it. */
async function answerBy(append: Promise<Appended>, deadlineMs: number): Promise<Appended> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<Appended>((resolve) => {
    const waitMs = deadlineMs - performance.now();
    timer = setTimeout(() => resolve({ lines: 0, failure: 'ETIMEDOUT' }), waitMs);
  });
  const appended = await Promise.race([append, late]);
  clearTimeout(timer);
  return appended;
}

/** The content of a line: requests with the same outcome from the same address. */
interface Sum extends StrangerEntry {
  requests: number;
  readonly first_at: string;
  last_at: string;
}

/**
 * Sums up requests of unknown callers. Anybody can send any number of them, and a line for each
 * would crowd out lines about values.
 */
export class UnknownCallers {
  #sums = new Map<string, Sum>();

  get isEmpty(): boolean {
    return this.#sums.size === 0;
  }

  add({ event, outcome, status, remote_address: given }: StrangerEntry): void {
    const keyOf = (address: string | undefined) => `${event} ${outcome} ${address}`;
    const isOther = this.#sums.size >= MAX_SUMS && !this.#sums.has(keyOf(given));
    const address = isOther ? OTHER_ADDRESSES : given;
    const now = new Date().toISOString();
    const times = { first_at: now, last_at: now };
    const fresh = { event, outcome, status, requests: 0, ...times, remote_address: address };
    const sum: Sum = this.#sums.get(keyOf(address)) ?? fresh;
    sum.requests++;
    sum.last_at = now;
    this.#sums.set(keyOf(address), sum);
  }

  /** Resets the sums. */
  take(): readonly Sum[] {
    const sums = [...this.#sums.values()];
    this.#sums.clear();
    return sums;
  }
}
