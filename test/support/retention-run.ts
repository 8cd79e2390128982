import type { Keyring } from '../../src/crypto/keyring.ts';
import type { Pool } from '../../src/store/pool.ts';
import type { RecordStore } from '../../src/store/records.ts';
import { forgetTokens, removeExpired } from '../../src/store/removal.ts';
import { Detokenizer } from '../../src/tokens/detokenizer.ts';
import { Tokenizer } from '../../src/tokens/tokenizer.ts';
import type { Token, Value } from '../../src/types.ts';
import { testLeasedKeyring } from './keys.ts';
import type { Random } from './random.ts';
import { soon } from './vault.ts';

/** An acknowledged token, with its expiry. */
interface Promised {
  readonly askedAtMs: number;
  readonly untilMs: number;
}

/** Calls that forget a token, or tokenize a value. */
const NO_CALLS = {
  active: 0,
  /** The end of the last answered call. */
  lastEndMs: -Infinity,
  lastStartMs: -Infinity,
};

const VALUES = 30;
const TIMES_TO_LIVE_S = [1, 1, 1, 2, 60, null];

/** Concurrent workers that tokenize, forget, detokenize, and remove expired records. */
export class RetentionRun {
  readonly problems: string[] = [];
  /** How many answers had to be a value, and how many had to be unknown. */
  known = 0;
  unknown = 0;
  readonly #random: Random;
  readonly #keyring: Keyring;
  readonly #tokenizers: readonly Tokenizer[];
  readonly #detokenizer: Detokenizer;
  readonly #pool: Pool;
  /** All acknowledged tokens. */
  readonly #values = new Map<Token, Value>();
  readonly #promises = new Map<Token, Promised[]>();
  /** By token those that forget it, and by value those that tokenize it. */
  readonly #calls = new Map<string, typeof NO_CALLS>();

  constructor(random: Random, newStore: () => RecordStore, pool: Pool) {
    this.#random = random;
    const keys = testLeasedKeyring();
    this.#keyring = keys.keyring;
    const onDamaged = () => this.problems.push('a damaged record');
    this.#tokenizers = [0, 1].map(() => new Tokenizer(newStore(), keys, 'tok', onDamaged));
    this.#detokenizer = new Detokenizer(newStore(), keys, onDamaged);
    this.#pool = pool;
  }

  async run(workers: number, steps: number): Promise<void> {
    let isOver = false;
    const remove = async () => {
      while (!isOver) await removeExpired(this.#pool, 50, soon());
    };
    const work = async () => {
      for (let step = 0; step < steps; step++) await this.#step();
    };
    const removing = [remove(), remove()];
    try {
      await Promise.all(Array.from({ length: workers }, work));
    } finally {
      isOver = true;
      await Promise.all(removing);
    }
  }

  #step(): Promise<void> {
    const kind = this.#random.below(10);
    if (kind < 2 || this.#values.size === 0) return this.#tokenize();
    const token = this.#random.pick([...this.#values.keys()]);
    return kind < 4 ? this.#forget(token) : this.#detokenize(token);
  }

  async #tokenize(): Promise<void> {
    const drawn = Array.from({ length: 5 }, () => `some value ${this.#random.below(VALUES)}`);
    const values = [...new Set(drawn)] as Value[];
    const timeToLiveS = this.#random.pick(TIMES_TO_LIVE_S);
    const tokenMode = this.#random.below(8) === 0 ? 'random' : 'deterministic';
    const tokenizer = this.#random.pick(this.#tokenizers);
    for (const value of values) this.#callsOf(value).active++;
    const askedAtMs = performance.now();
    const tokens = await tokenizer.tokenize(values, {
      token_mode: tokenMode,
      time_to_live_s: timeToLiveS,
    });
    const untilMs = askedAtMs + (timeToLiveS ?? Infinity) * 1000;
    tokens.forEach((token, i) => {
      const value = values[i]!;
      if ((this.#values.get(token) ?? value) !== value) this.problems.push('one token, two values');
      this.#values.set(token, value);
      this.#promises.set(token, [...(this.#promises.get(token) ?? []), { askedAtMs, untilMs }]);
      const uses = this.#callsOf(value);
      uses.active--;
      uses.lastEndMs = performance.now();
    });
  }

  async #forget(token: Token): Promise<void> {
    const forgets = this.#callsOf(token);
    const startedAtMs = performance.now();
    forgets.active++;
    await forgetTokens(this.#pool, [this.#keyring.tokenFingerprint(token)], soon());
    forgets.active--;
    forgets.lastEndMs = performance.now();
    forgets.lastStartMs = Math.max(forgets.lastStartMs, startedAtMs);
    await this.#detokenize(token);
  }

  async #detokenize(token: Token): Promise<void> {
    const promises = this.#promises.get(token)!;
    const value = this.#values.get(token)!;
    const forgets = this.#callsOf(token);
    const forgottenAtMs = forgets.lastStartMs;
    const [found] = await this.#detokenizer.detokenize([token]);
    const nowMs = performance.now();
    if (found === undefined) this.problems.push('as if it had never been');
    if (found && found !== value) this.problems.push('another value');
    const mustBeKnown =
      forgets.active === 0 &&
      promises.some((one) => one.askedAtMs > forgets.lastEndMs && one.untilMs > nowMs);
    const uses = this.#callsOf(value);
    const mustBeUnknown = uses.active === 0 && uses.lastEndMs < forgottenAtMs;
    if (mustBeKnown) this.known++;
    if (mustBeUnknown) this.unknown++;
    if (mustBeKnown && found === null) this.problems.push('lost within its time to live');
    if (mustBeUnknown && found !== null) this.problems.push('known though forgotten');
  }

  #callsOf(of: Token | Value): typeof NO_CALLS {
    const calls = this.#calls.get(of) ?? { ...NO_CALLS };
    this.#calls.set(of, calls);
    return calls;
  }
}
