import { readFileSync } from 'node:fs';

/** Further connections are closed as soon as they are made. */
const MOST_CONNECTIONS = 20_000;
/**
 * Descriptors kept for files, libraries, Redis and the ops listener. Database connections are
 * added.
 */
const RESERVE = 128;
/** Even with very few descriptors, a process answers some callers. */
const LEAST_CONNECTIONS = 16;
const OPEN_FILES = /^Max open files +(\d+|unlimited) /m;

/**
 * Derives the number of callers from the limit of file descriptors. The limit can change while the
 * process runs. If it cannot be read, the last one stays.
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
      // Not Linux, or no descriptor is free to read the file.
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
