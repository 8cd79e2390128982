import { readFileSync } from 'node:fs';

/** Beyond it, a connection is closed as soon as it is made. */
const MOST_CONNECTIONS = 20_000;
/** Kept free for files, libraries, Redis and the ops listener; the database comes on top. */
const RESERVE = 128;
/** A process with hardly any descriptors still answers some callers. */
const LEAST_CONNECTIONS = 16;
const OPEN_FILES = /^Max open files +(\d+|unlimited) /m;

/**
 * How many callers may be connected, as the limit of file descriptors has it. A limit can change
 * while the process runs; where it cannot be read, the last one holds.
 */
export class Descriptors {
  readonly #reserve: number;
  #connections = MOST_CONNECTIONS;

  constructor(databaseConnections: number) {
    this.#reserve = RESERVE + databaseConnections;
    this.look();
  }

  get connections(): number {
    return this.#connections;
  }

  look(): void {
    let limits: string;
    try {
      limits = readFileSync('/proc/self/limits', 'latin1');
    } catch {
      // Not Linux, or no descriptor is left to read it with.
      return;
    }
    this.#connections = connectionsWithin(limits, this.#reserve);
  }
}

/** @param limits the text of /proc/self/limits */
export function connectionsWithin(limits: string, reserve: number): number {
  const files = OPEN_FILES.exec(limits)?.[1];
  if (files === undefined || files === 'unlimited') return MOST_CONNECTIONS;
  return Math.min(MOST_CONNECTIONS, Math.max(LEAST_CONNECTIONS, Number(files) - reserve));
}
