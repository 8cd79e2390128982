import type { AuditEntry } from './audit-log.ts';

/** Of one second; the requests from further addresses are summed up together. */
const MAX_SUMS = 100;
const OTHER_ADDRESSES = 'other';

/** Requests with one outcome from one address. */
interface Sum extends Pick<AuditEntry, 'event' | 'outcome' | 'status' | 'remote_address'> {
  requests: number;
  readonly firstAtMs: number;
  lastAtMs: number;
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

  add({ event, outcome, status, remote_address: remoteAddress }: AuditEntry): void {
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

  /** What a line says of each sum; they begin again. */
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
