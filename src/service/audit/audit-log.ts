import { InternalError } from '../../errors.ts';
import { Batcher } from '../../store/batcher.ts';
import type { ClientOperation } from '../limits/client-limits.ts';
import { type Appended, AuditFile } from './audit-file.ts';

/** About 8 MB; beyond it a line is as one that cannot be written. */
const MAX_WAITING_LINES = 20_000;
const MAX_BATCH_LINES = 1_000;
/** A request that waits for its line longer than this is answered 500. */
const PATIENCE_MS = 4_000;

/** What a line says besides when and where. No value, no token, no field name. */
export interface AuditEntry {
  readonly event: ClientOperation;
  /** `success`, or the code of the error. */
  readonly outcome: string;
  readonly status: number;
  readonly request_id: string;
  /** undefined: not known, as of a wrong API key. */
  readonly client_id: string | undefined;
  readonly api_key_id: string | undefined;
  /** How many were given out. */
  readonly values: number;
  /** How many distinct tokens are not known; undefined: none. */
  readonly unknown_tokens: number | undefined;
  readonly remote_address: string | undefined;
}

export interface AuditLogOptions {
  /** `stdout`, or a file. */
  readonly path: string;
  /** A success waits for its line. */
  readonly is_required: boolean;
  /** Name of the machine. */
  readonly node: string;
  /** undefined: there is one process. */
  readonly worker: number | undefined;
  /** Told how many lines could not be written. */
  readonly onLost: (lines: number) => void;
  /** Told how many bytes more wait to be written; fewer, when they are negative. */
  readonly onWaiting: (bytes: number) => void;
  /** Told when writing begins to fail, with an errno name, and when it works again. */
  readonly onChange: (is_available: boolean, failure: string | undefined) => void;
}

/**
 * The audit log: a JSON line for each request to tokenize or detokenize. Lines that come while a
 * write is under way share the next one.
 */
export class AuditLog {
  readonly #options: AuditLogOptions;
  readonly #file: AuditFile;
  readonly #origin: string;
  readonly #lines: Batcher<string, boolean>;
  /** The last write that was begun: one at a time, also when one takes longer than is waited. */
  #append: Promise<unknown> = Promise.resolve();
  #last: Promise<void> = Promise.resolve();
  #is_available = true;

  constructor(options: AuditLogOptions) {
    this.#options = options;
    this.#file = new AuditFile(options.path);
    const { node, worker } = options;
    this.#origin = JSON.stringify({ node, worker }).slice(1);
    this.#lines = new Batcher({
      run: (lines, deadline_ms) => this.#write(lines, deadline_ms),
      onBatch: () => {},
      lanes: 1,
      max_batch_items: MAX_BATCH_LINES,
      max_batch_bytes: Number.POSITIVE_INFINITY,
      max_waiting_items: MAX_WAITING_LINES,
      patience_ms: PATIENCE_MS,
    });
  }

  /**
   * Writes a line.
   * @returns what the request has to wait for, if anything; it rejects with InternalError
   * audit_unavailable when the line cannot be written
   */
  record(entry: AuditEntry): Promise<void> | undefined {
    const time = new Date().toISOString();
    const rest = JSON.stringify(entry).slice(1, -1);
    const line = this.#submit(`{"time":"${time}",${rest},${this.#origin}\n`);
    this.#last = line.catch(() => {});
    return this.#options.is_required && entry.outcome === 'success' ? line : undefined;
  }

  /** Has the next line look at once whether the file was renamed; every second it does so. */
  look(): void {
    this.#file.look();
  }

  /** Resolves when all lines are written, or have failed. */
  async close(): Promise<void> {
    await this.#last;
    await this.#file.close();
  }

  async #submit(line: string): Promise<void> {
    const { onWaiting } = this.#options;
    onWaiting(line.length);
    const [is_written] = await this.#lines.submit([line]).catch(() => [false]);
    onWaiting(-line.length);
    if (is_written) return;
    this.#options.onLost(1);
    throw new InternalError('audit_unavailable');
  }

  async #write(lines: readonly string[], deadline_ms: number): Promise<readonly boolean[]> {
    const append = this.#append.then(() => this.#file.append(lines, deadline_ms));
    this.#append = append;
    const { lines: written, failure } = await answerBy(append, deadline_ms);
    const is_available = failure === undefined;
    if (is_available !== this.#is_available) {
      this.#is_available = is_available;
      this.#options.onChange(is_available, failure);
    }
    return lines.map((_, i) => i < written);
  }
}

/** A disk that hangs holds up the write, not those that wait for it. */
async function answerBy(append: Promise<Appended>, deadline_ms: number): Promise<Appended> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<Appended>((resolve) => {
    const wait_ms = deadline_ms - performance.now();
    timer = setTimeout(() => resolve({ lines: 0, failure: 'ETIMEDOUT' }), wait_ms);
  });
  const appended = await Promise.race([append, late]);
  clearTimeout(timer);
  return appended;
}
