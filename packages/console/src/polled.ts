import type { Feed } from './feed.ts';
import { send } from './send.ts';

/** An answer of the service that a view asks for again after every sample, while it is visible. */
export class Polled<T> {
  readonly #take: (answer: T) => void;
  readonly #fail: (status: number) => void;
  #path = '';
  #askedFor: string | undefined;
  #isAsking = false;

  /** @param fail called with the status of an answer that is not a success */
  constructor(take: (answer: T) => void, fail: (status: number) => void = () => {}) {
    this.#take = take;
    this.#fail = fail;
  }

  update(path: string, { samples, link }: Feed): void {
    this.#path = path;
    const asked = `${path} ${samples.last?.atMs ?? link}`;
    if (asked === this.#askedFor || this.#isAsking || document.hidden) return;
    this.#askedFor = asked;
    void this.#ask(path);
  }

  /** A service that is away needs no words here: the header says so. */
  async #ask(path: string): Promise<void> {
    this.#isAsking = true;
    try {
      const response = await send(path);
      const answer = response.ok ? ((await response.json()) as T) : undefined;
      // An answer for an earlier path.
      if (path !== this.#path) return;
      if (answer !== undefined) this.#take(answer);
      else this.#fail(response.status);
    } catch {
      this.#askedFor = undefined;
    } finally {
      this.#isAsking = false;
    }
  }
}
