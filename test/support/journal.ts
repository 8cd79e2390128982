import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { call, type Place, type Service, until } from './service.ts';

/** A tokenized value whose 200 has arrived. */
export interface Acknowledged {
  readonly value: string;
  readonly token: string;
}

const WRITERS = 6;
const VALUES = 5;

/**
 * Concurrent clients that write without pause, and note every acknowledged token on disk before their next request.
 * They go on over failures: the service may be gone, and come back elsewhere.
 */
export class JournalledWriters {
  readonly #file: string;
  readonly #fd: number;
  readonly #service: () => Service;
  readonly #done: Promise<unknown>;
  #is_over = false;
  acknowledged = 0;
  readonly failures = new Set<string>();

  constructor(place: Place, service: () => Service, api_key: string) {
    this.#file = join(place.folder, 'journal');
    this.#fd = openSync(this.#file, 'a');
    this.#service = service;
    this.#done = Promise.all(
      Array.from({ length: WRITERS }, (_, i) => this.#write(`${i}`, api_key)),
    );
  }

  /** Resolves when `count` more tokens were acknowledged. */
  async progress(count: number): Promise<void> {
    const goal = this.acknowledged + count;
    await until(() => this.acknowledged >= goal, `${count} more acknowledged tokens`, 60_000);
  }

  async stop(): Promise<void> {
    this.#is_over = true;
    await this.#done;
    closeSync(this.#fd);
  }

  /** What was acknowledged until now. */
  all(): Acknowledged[] {
    const lines = readFileSync(this.#file, 'utf8').trimEnd().split('\n');
    return lines.map((line) => JSON.parse(line) as Acknowledged);
  }

  /** Every acknowledged token gives its value back. Returns how many there are. */
  async verify(service: Service, api_key: string): Promise<number> {
    const all = this.all();
    for (let i = 0; i < all.length; i += 5_000) {
      const part = all.slice(i, i + 5_000);
      const answer = await call(
        service,
        'detokenize',
        { a: part.map((one) => one.token) },
        api_key,
      );
      expect(answer.status, JSON.stringify(answer.body).slice(0, 200)).toBe(200);
      expect(answer.body.data.a).toEqual(part.map((one) => one.value));
    }
    return all.length;
  }

  async #write(name: string, api_key: string): Promise<void> {
    for (let n = 0; !this.#is_over; n++) {
      const values = Array.from({ length: VALUES }, (_, i) => `writer ${name} value ${n}.${i}`);
      try {
        const answer = await call(this.#service(), 'tokenize', { values }, api_key);
        if (answer.status === 200) this.#note(values, answer.body.data.values);
        else this.failures.add(`${answer.status} ${JSON.stringify(answer.body)}`);
      } catch {
        // The connection was cut: the outcome is not known, and nothing was promised. The next one may do.
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
  }

  #note(values: readonly string[], tokens: readonly string[]): void {
    const lines = values.map((value, i) => `${JSON.stringify({ value, token: tokens[i] })}\n`);
    writeSync(this.#fd, lines.join(''));
    fsyncSync(this.#fd);
    this.acknowledged += values.length;
  }
}
