import { el } from './dom.ts';
import type { Feed } from './feed.ts';
import { leavesOf } from './playground-input.ts';
import { ApiKeyRights } from './playground-key.ts';
import { kindsIn, recordOf } from './playground-kinds.ts';
import { PolicySource } from './policy-source.ts';
import type { Right } from './protocol.ts';

type Kinds = ReadonlyMap<string, string>;

/** What the playground knows of the policy and of the rights of the API key. */
export class PlaygroundPolicy {
  readonly lenience: HTMLElement;
  readonly #lenient = el('input', { type: 'checkbox' });
  readonly #source = new PolicySource();
  readonly #key = new ApiKeyRights();
  /** Of the tokens that the page got last. */
  #kindOfToken = new Map<unknown, string>();

  constructor() {
    this.lenience = el(
      'label',
      { class: 'lenient', hidden: true },
      this.#lenient,
      'Lenient: leave what is unknown or forbidden',
    );
  }

  get rightsElement(): HTMLElement {
    return this.#key.element;
  }

  /** What the API key sees, by kind; empty if that is not known. */
  get rights(): ReadonlyMap<string, Right> {
    return this.#key.rights;
  }

  get isLenient(): boolean {
    return !this.lenience.hidden && this.#lenient.checked;
  }

  /** Whether the service takes whole records. */
  get hasFields(): boolean {
    return Boolean(this.#source.detail?.fields);
  }

  /** undefined: any strings are an example. */
  get example(): object | undefined {
    return this.#source.detail && recordOf(this.#source.detail);
  }

  update(feed: Feed, apiKey: string): void {
    const before = this.#source.detail;
    this.#source.update(feed);
    this.lenience.hidden = this.#source.detail === undefined;
    if (this.#source.detail !== before) void this.showRights(apiKey);
  }

  showRights(apiKey: string): Promise<void> {
    return this.#key.show(apiKey, this.#source.detail?.tag ?? null);
  }

  /** The kinds of these values; undefined: there is no policy. */
  tokenized(values: unknown, tokens: unknown): Kinds | undefined {
    const kinds = this.#source.detail && kindsIn(values, this.#source.detail);
    const made = leavesOf(tokens).filter(({ path }) => kinds?.has(path));
    this.#kindOfToken = new Map(made.map(({ path, value }) => [value, kinds!.get(path)!]));
    return kinds;
  }

  /** A token keeps its kind wherever it is put. Of others, the field says what is likely. */
  kindsOf(tokens: unknown): Kinds | undefined {
    const kinds = this.#source.detail && kindsIn(tokens, this.#source.detail);
    if (kinds === undefined) return undefined;
    const placed = leavesOf(tokens).filter(({ path }) => kinds.has(path));
    return new Map(
      placed.map(({ path, value }) => [path, this.#kindOfToken.get(value) ?? kinds.get(path)!]),
    );
  }

  /** `2 masked, 1 forbidden`; '' if every value was restored whole. */
  gapsIn(kinds: Kinds | undefined, unapplied: ReadonlyMap<string, string>): string {
    const whys = [...(kinds ?? [])].map(
      ([path, kind]) => unapplied.get(path) ?? this.rights.get(kind),
    );
    return ['masked', 'forbidden', 'unknown']
      .map((why) => [whys.filter((one) => one === why).length, why] as const)
      .filter(([count]) => count > 0)
      .map(([count, why]) => `${count} ${why}`)
      .join(', ');
  }
}
