import type { Pool } from '../../src/store/pool.ts';
import type { RecordStore } from '../../src/store/records.ts';
import { forgetTokens, removeExpired } from '../../src/store/removal.ts';
import { Detokenizer } from '../../src/tokens/detokenizer.ts';
import { Tokenizer } from '../../src/tokens/tokenizer.ts';
import type { Token, Value } from '../../src/types.ts';
import { testKeyring, testLeasedKeyring } from './keys.ts';
import type { Random } from './random.ts';
import { soon } from './vault.ts';

/** The calls of one kind for a token or a value. */
class Calls {
  active = 0;
  lastStartMs = -Infinity;
  /** Of the last answered call. */
  lastEndMs = -Infinity;

  async during<T>(work: () => Promise<T>): Promise<T> {
    const startedAtMs = performance.now();
    this.active++;
    const result = await work();
    this.active--;
    this.lastEndMs = performance.now();
    this.lastStartMs = Math.max(this.lastStartMs, startedAtMs);
    return result;
  }
}

/** A token that was given out: each time, when it was asked for, and until when it is known. */
interface Given {
  readonly value: Value;
  readonly promises: { readonly askedAtMs: number; readonly untilMs: number }[];
  readonly forgets: Calls;
}

const VALUES = Array.from({ length: 30 }, (_, i) => `some value ${i}` as Value);
const TIMES_TO_LIVE_S = [1, 1, 1, 2, 60, null];

/** Concurrent workers that tokenize, forget, detokenize, and remove expired records. */
export async function runRetention(
  random: Random,
  newStore: () => RecordStore,
  pool: Pool,
  steps: number,
) {
  const problems: string[] = [];
  /** How many answers had to be a value, and how many had to be unknown. */
  const counts = { known: 0, unknown: 0 };
  const keyring = testKeyring();
  const onDamaged = () => problems.push('a damaged record');
  const newTokenizer = () => new Tokenizer(newStore(), testLeasedKeyring(), 'tok', onDamaged);
  const tokenizers = [newTokenizer(), newTokenizer()];
  const detokenizer = new Detokenizer(newStore(), testLeasedKeyring(), onDamaged);
  const given = new Map<Token, Given>();
  const uses = new Map(VALUES.map((value) => [value, new Calls()]));

  async function tokenize(): Promise<void> {
    const values = [...new Set(Array.from({ length: 5 }, () => random.pick(VALUES)))];
    const timeToLiveS = random.pick(TIMES_TO_LIVE_S);
    const mode = random.below(8) === 0 ? 'random' : 'deterministic';
    const terms = { token_mode: mode, time_to_live_s: timeToLiveS } as const;
    const tokenizer = random.pick(tokenizers);
    const askedAtMs = performance.now();
    const work = async () => {
      const tokens = await tokenizer.tokenize(values, terms);
      const untilMs = askedAtMs + (timeToLiveS ?? Infinity) * 1_000;
      for (const [i, token] of tokens.entries()) {
        const value = values[i]!;
        const one = given.get(token) ?? { value, promises: [], forgets: new Calls() };
        if (one.value !== value) problems.push('one token, two values');
        one.promises.push({ askedAtMs, untilMs });
        given.set(token, one);
      }
    };
    await values.reduce((inner, value) => () => uses.get(value)!.during(inner), work)();
  }

  async function detokenize(token: Token): Promise<void> {
    const { value, promises, forgets } = given.get(token)!;
    // As they are before the question.
    const promised = [...promises];
    const forgottenAtMs = forgets.lastStartMs;
    const [found] = await detokenizer.detokenize([token]);
    const nowMs = performance.now();
    if (found === undefined) problems.push('as if it had never been');
    if (found && found !== value) problems.push('another value');
    const isPromised = promised.some(
      (one) => one.askedAtMs > forgets.lastEndMs && one.untilMs > nowMs,
    );
    const { active, lastEndMs } = uses.get(value)!;
    if (forgets.active === 0 && isPromised) {
      counts.known++;
      if (found === null) problems.push('lost within its time to live');
    }
    if (active === 0 && lastEndMs < forgottenAtMs) {
      counts.unknown++;
      if (found !== null) problems.push('known though forgotten');
    }
  }

  async function step(): Promise<void> {
    const kind = random.below(10);
    if (kind < 2 || given.size === 0) return tokenize();
    const token = random.pick([...given.keys()]);
    const fingerprint = keyring.tokenFingerprint(token);
    const forget = () => forgetTokens(pool, [fingerprint], soon());
    if (kind < 4) await given.get(token)!.forgets.during(forget);
    return detokenize(token);
  }

  let isOver = false;
  const repeat = async (work: () => Promise<unknown>, isEnough: (done: number) => boolean) => {
    for (let done = 0; !isEnough(done); done++) await work();
  };
  const remove = () => removeExpired(pool, 50, soon());
  const removing = [0, 1].map(() => repeat(remove, () => isOver));
  const working = Array.from({ length: 8 }, () => repeat(step, (done) => done === steps));
  await Promise.all(working).finally(() => {
    isOver = true;
  });
  await Promise.all(removing);
  return { problems, ...counts };
}
