/** The habits of a client: rate, share of tokenize, and kind of values. */
interface Habit {
  readonly name: string;
  readonly options: readonly string[];
  readonly callers: number;
  readonly tokenizes: number;
  readonly values: number;
}

/** The typical clients of a shop. */
export const HABITS: readonly Habit[] = [
  { name: 'Checkout', options: ['--rate-limit', '400'], callers: 6, tokenizes: 0.7, values: 4 },
  { name: 'CRM sync', options: ['--rate-limit', '200'], callers: 3, tokenizes: 0.5, values: 6 },
  { name: 'Support desk', options: ['--rate-limit', '50'], callers: 1, tokenizes: 0, values: 2 },
  { name: 'Fraud screening', options: [], callers: 3, tokenizes: 0.1, values: 2 },
  {
    name: 'Data warehouse',
    options: ['--rate-limit', '30'],
    callers: 4,
    tokenizes: 1,
    values: 12,
  },
];

const WORDS = ['ann', 'bea', 'cleo', 'dora', 'emil', 'finn', 'gus', 'hana', 'ines', 'jon'];
const TOKENS_KEPT = 2_000;

/** Callers with these habits, in varying numbers, until `stop`. */
export class Business {
  readonly #url: string;
  readonly #callers: Promise<void>[];
  readonly #tokens: string[] = [];
  #isOver = false;

  /** @param apiKeys one for each habit, in the same order */
  constructor(url: string, apiKeys: readonly string[]) {
    this.#url = url;
    this.#callers = HABITS.flatMap((habit, i) =>
      Array.from({ length: habit.callers }, (_, n) => this.#run(habit, apiKeys[i]!, n)),
    );
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#callers);
  }

  async #run(habit: Habit, apiKey: string, caller: number): Promise<void> {
    while (!this.#isOver) {
      const tide = 0.5 + 0.5 * Math.sin(performance.now() / 19_000 + caller);
      await new Promise((resolve) => setTimeout(resolve, 12 + 90 * tide * Math.random()));
      if (Math.random() < habit.tokenizes || this.#tokens.length < 50) {
        const data = fields(habit.values, () => `${pick(WORDS)}.${random(1e6)}@example.com`);
        const body = await this.#call('tokenize', data, apiKey);
        this.#tokens.push(...Object.values(body.data ?? {}));
        this.#tokens.splice(0, Math.max(0, this.#tokens.length - TOKENS_KEPT));
      } else {
        // Sometimes a mistyped token.
        const isOdd = Math.random() < 0.004;
        const data = fields(habit.values, () => (isOdd ? 'nobody_tok' : pick(this.#tokens)));
        await this.#call('detokenize', data, apiKey);
      }
    }
  }

  async #call(
    operation: 'tokenize' | 'detokenize',
    data: Record<string, string>,
    apiKey: string,
  ): Promise<{ data?: Record<string, string> }> {
    const response = await fetch(`${this.#url}/api/v1/${operation}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ data }),
    });
    return (await response.json()) as { data?: Record<string, string> };
  }
}

function fields(count: number, make: () => string): Record<string, string> {
  return Object.fromEntries(Array.from({ length: count }, (_, i) => [`field_${i}`, make()]));
}

function pick<T>(from: readonly T[]): T {
  return from[random(from.length)]!;
}

function random(below: number): number {
  return Math.floor(Math.random() * below);
}
