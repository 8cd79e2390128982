import { Standin, StandinError } from '#client';
import type { Replace } from './request.ts';
import { Tokens } from './restorer.ts';

/** Requests to Standin at a time, for one request of a caller. */
const CONCURRENCY = 8;

/** What Standin does for one request, with the API key of its caller. */
export class Vault {
  readonly #standin: Standin;
  readonly #signal: AbortSignal;

  constructor(url: string, apiKey: string, timeoutMs: number, signal: AbortSignal) {
    this.#standin = new Standin({ url, apiKey, timeoutMs });
    this.#signal = signal;
  }

  /** @throws StandinError unless Standin knows the caller */
  async check(): Promise<void> {
    try {
      await this.#standin.policyInForce({ signal: this.#signal });
    } catch (error) {
      if (!(error instanceof StandinError) || error.code !== 'not_found') throw error;
    }
  }

  /**
   * The texts that a model may read, and the tokens in them.
   * @throws StandinError, and then none of the texts may leave
   */
  async tokenize(texts: ReadonlySet<string>): Promise<{ replace: Replace; tokens: Tokens }> {
    const made = new Map<string, string>();
    const tokens = new Set<string>();
    const left = [...texts];
    const work = async () => {
      for (let text = left.pop(); text !== undefined; text = left.pop()) {
        const options = { signal: this.#signal };
        const { text: safe, spans } = await this.#standin.tokenizeText(text, undefined, options);
        made.set(text, safe);
        for (const { start, end } of spans) tokens.add(safe.slice(start, end));
      }
    };
    await Promise.all(Array.from({ length: CONCURRENCY }, work));
    // A text that is not there would be a defect: it must not pass as it is.
    return { replace: (text) => made.get(text)!, tokens: new Tokens(tokens) };
  }

  /** The value of a token, if the caller may see it now; otherwise the token. */
  async restore(token: string): Promise<string> {
    const options = { only: [token], signal: this.#signal };
    return (await this.#standin.detokenizeText(token, options)).text;
  }
}
