import { hash } from 'node:crypto';

/** An answer that comes later restores nothing. */
export const CALL_LIFETIME_S = 3_600;
const REPORT_INTERVAL_MS = 1_000;
const MAX_BYTES = 33_554_432;
/** Of a Map, besides key and conversation. */
const ENTRY_BYTES = 200;

/** Keeps the sealed conversation of each call of a model, until its answer has been restored. */
export interface Calls {
  put(key: string, conversation: string): void | Promise<void>;
  /** undefined: unknown, or too old. */
  get(key: string): string | undefined | Promise<string | undefined>;
  close(): void;
}

/** What the endpoint needs besides that of all. */
export class Guardrail {
  readonly calls: Calls;
  /** Whether images and files reach the model. */
  readonly passesImages: boolean;
  readonly #onUnknown: (count: number) => void;
  #unknown = 0;

  /** @param onUnknown called once a second at most, with the answers whose call was unknown */
  constructor(calls: Calls, passesImages: boolean, onUnknown: (count: number) => void) {
    this.calls = calls;
    this.passesImages = passesImages;
    this.#onUnknown = onUnknown;
  }

  countUnknown(): void {
    if (this.#unknown++ > 0) return;
    const report = () => {
      this.#onUnknown(this.#unknown);
      this.#unknown = 0;
    };
    setTimeout(report, REPORT_INTERVAL_MS).unref();
  }

  close(): void {
    this.calls.close();
  }
}

/** Nobody else who finds out the id of a call may have its values restored. */
export function callKey(...parts: readonly (string | undefined)[]): string {
  return hash('sha256', JSON.stringify(parts), 'base64url');
}

/** Calls in the memory of a node. When there are too many, it drops the oldest. */
export class MemoryCalls implements Calls {
  readonly #calls = new Map<string, { conversation: string; endsAtMs: number }>();
  readonly #maxBytes: number;
  readonly #nowMs: () => number;
  #bytes = 0;

  constructor(maxBytes = MAX_BYTES, nowMs = () => performance.now()) {
    this.#maxBytes = maxBytes;
    this.#nowMs = nowMs;
  }

  put(key: string, conversation: string): void {
    this.#drop(key);
    this.#calls.set(key, { conversation, endsAtMs: this.#nowMs() + CALL_LIFETIME_S * 1_000 });
    this.#bytes += bytesOf(key, conversation);
    for (const [oldest, { endsAtMs }] of this.#calls) {
      if (this.#bytes <= this.#maxBytes && endsAtMs > this.#nowMs()) break;
      this.#drop(oldest);
    }
  }

  get(key: string): string | undefined {
    const call = this.#calls.get(key);
    return call !== undefined && call.endsAtMs > this.#nowMs() ? call.conversation : undefined;
  }

  close(): void {
    this.#calls.clear();
  }

  #drop(key: string): void {
    const call = this.#calls.get(key);
    if (call === undefined) return;
    this.#calls.delete(key);
    this.#bytes -= bytesOf(key, call.conversation);
  }
}

function bytesOf(key: string, conversation: string): number {
  return ENTRY_BYTES + key.length + conversation.length;
}
