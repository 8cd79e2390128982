import type { AuditEntry } from './audit-log.ts';

/** Of one second; the requests from further addresses are summed up together. */
const MAX_SUMS = 100;
const OTHER_ADDRESSES = 'other';

/** Requests with one outcome from one address. */
interface Sum extends Pick<AuditEntry, 'event' | 'outcome' | 'status' | 'remote_address'> {
  requests: number;
  readonly first_at_ms: number;
  last_at_ms: number;
}

/**
 * Requests of nobody who is known, summed up. Anybody can send any number of them: a line for each
 * would take the place of lines about values.
 */
export class UnknownCallers {
  #sums = new Map<string, Sum>();

  get isEmpty(): boolean {
    return this.#sums.size === 0;
  }

  add({ event, outcome, status, remote_address }: AuditEntry): void {
    const now_ms = Date.now();
    const keyOf = (address: string | undefined) => `${event} ${outcome} ${address}`;
    const key = keyOf(remote_address);
    const is_other = this.#sums.size >= MAX_SUMS && !this.#sums.has(key);
    const address = is_other ? OTHER_ADDRESSES : remote_address;
    const sum = this.#sums.get(is_other ? keyOf(address) : key);
    if (sum !== undefined) {
      sum.requests++;
      sum.last_at_ms = now_ms;
      return;
    }
    this.#sums.set(keyOf(address), {
      ...{ event, outcome, status, remote_address: address },
      ...{ requests: 1, first_at_ms: now_ms, last_at_ms: now_ms },
    });
  }

  /** What a line says of each sum; they begin again. */
  take(): object[] {
    const sums = [...this.#sums.values()];
    this.#sums = new Map();
    return sums.map(({ remote_address, first_at_ms, last_at_ms, ...sum }) => ({
      ...sum,
      first_at: new Date(first_at_ms).toISOString(),
      last_at: new Date(last_at_ms).toISOString(),
      remote_address,
    }));
  }
}
