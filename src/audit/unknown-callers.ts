/** Sums for a second. Requests from further addresses share a sum. */
const MAX_SUMS = 100;
const OTHER_ADDRESSES = 'other';

/** A request of somebody unknown. */
export interface StrangerEntry {
  /** An AuditEvent, or `admin`. */
  readonly event: string;
  /** Code of the error. */
  readonly outcome: string;
  readonly status: number;
  readonly remote_address: string | undefined;
}

/** Requests with the same outcome from the same address. */
interface Sum extends StrangerEntry {
  requests: number;
  readonly firstAtMs: number;
  lastAtMs: number;
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

  add({ event, outcome, status, remote_address: remoteAddress }: StrangerEntry): void {
    const nowMs = Date.now();
    const keyOf = (address: string | undefined) => `${event} ${outcome} ${address}`;
    const key = keyOf(remoteAddress);
    const isOther = this.#sums.size >= MAX_SUMS && !this.#sums.has(key);
    const address = isOther ? OTHER_ADDRESSES : remoteAddress;
    const sum = this.#sums.get(isOther ? keyOf(address) : key);
    if (sum !== undefined) {
      sum.requests++;
      sum.lastAtMs = nowMs;
      return;
    }
    this.#sums.set(keyOf(address), {
      ...{ event, outcome, status, remote_address: address },
      ...{ requests: 1, firstAtMs: nowMs, lastAtMs: nowMs },
    });
  }

  /** The content of a line for each sum. Resets the sums. */
  take(): object[] {
    const sums = [...this.#sums.values()];
    this.#sums = new Map();
    return sums.map(({ remote_address: remoteAddress, firstAtMs, lastAtMs, ...sum }) => ({
      ...sum,
      first_at: new Date(firstAtMs).toISOString(),
      last_at: new Date(lastAtMs).toISOString(),
      remote_address: remoteAddress,
    }));
  }
}
