import { call, type Service, until } from './service.ts';

const PAUSE_MS = 10;

interface Kept {
  readonly value: string;
  readonly token: string;
}

/** Callers that tokenize new values and detokenize old tokens on several nodes, until `stop`. */
export class MixedLoad {
  readonly #nodes: readonly Service[];
  readonly #apiKey: string;
  readonly #callers: Promise<void>[];
  #isOver = false;
  answered = 0;
  readonly kept: Kept[] = [];
  /** Answers other than 200, and wrong values. */
  readonly failures: unknown[] = [];

  constructor(nodes: readonly Service[], apiKey: string, callers = 4) {
    this.#nodes = nodes;
    this.#apiKey = apiKey;
    this.#callers = Array.from({ length: callers }, (_, i) => this.#run(i));
  }

  /** Resolves after `count` more answers. */
  async progress(count: number): Promise<void> {
    const goal = this.answered + count;
    await until(() => this.answered >= goal, `${count} more answers`, 60_000);
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#callers);
  }

  async #run(caller: number): Promise<void> {
    for (let n = 0; !this.#isOver; n++) {
      const node = this.#nodes[(caller + n) % this.#nodes.length]!;
      try {
        if (n % 2 === 0) await this.#tokenize(node, `caller ${caller} value ${n}`);
        else await this.#detokenize(node);
      } catch (error) {
        this.failures.push((error as Error).cause ?? error);
      }
      // Limits the load to about 300 requests a second, so that the nodes get the processors.
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }

  async #tokenize(node: Service, value: string): Promise<void> {
    const { status, body } = await call(node, 'tokenize', { value }, this.#apiKey);
    if (status === 200) this.kept.push({ value, token: body.data.value });
    else this.failures.push(body);
    this.answered++;
  }

  /** Asks for the newest token, which another node may have just sealed, and for an old token. */
  async #detokenize(node: Service): Promise<void> {
    const newest = this.kept.at(-1);
    if (newest === undefined) return;
    const old = this.kept[Math.floor(this.kept.length / 2)]!;
    const { status, body } = await call(
      node,
      'detokenize',
      { a: newest.token, b: old.token },
      this.#apiKey,
    );
    const isRight = body.data?.a === newest.value && body.data?.b === old.value;
    if (status !== 200 || !isRight) this.failures.push(body);
    this.answered++;
  }
}
