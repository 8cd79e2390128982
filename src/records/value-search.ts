import { setImmediate as nextTurn } from 'node:timers/promises';
import type { DrawSource } from '../crypto/keyring.ts';
import { type Scope, scopeOf } from '../crypto/scope.ts';
import type { Kind } from '../policy/rules.ts';
import { RecordStore } from '../store/records.ts';
import { commandDeadline } from '../timeouts.ts';
import type { EveryKind } from '../tokens/every-kind.ts';
import type { SealedRecord, TokenFingerprint, Value } from '../types.ts';
import type { KeyringFollower } from '../vault/keyring-follower.ts';
import type { Vault } from '../vault/vault.ts';
import { knowKeysOf } from './verify.ts';

/** The parts that find values and forget them. */
export interface Forgetting {
  readonly vault: Vault;
  readonly follower: KeyringFollower;
  readonly kinds: EveryKind;
}

export interface ValuePlace {
  /** undefined: under every kind. */
  readonly kind?: string | undefined;
  readonly space: string;
}

/** A token that a value may have. */
interface Candidate {
  /** Place of the value. */
  readonly index: number;
  readonly kind: Kind;
  readonly value: Value;
  readonly scope: Scope | undefined;
  readonly source: DrawSource;
  readonly draw: number;
  readonly fingerprint: TokenFingerprint;
}

/** Tokens in one question. */
const BATCH_TOKENS = 250;
/** How long tokens are drawn before other work gets its turn. */
const TURN_MS = 5;

/**
 * Finds the records that values lead to, with and without their values: those of all tokens that
 * any version of the policy drew, and of the imported tokens that aliases lead to.
 */
export class ValueSearch {
  /** Records that do not open, so that nobody can tell whether they led to an imported token. */
  readonly damaged = new Set<TokenFingerprint>();
  readonly #parts: Forgetting;
  readonly #records: RecordStore;

  constructor(parts: Forgetting) {
    this.#parts = parts;
    this.#records = new RecordStore(parts.vault.pool);
  }

  /** In order of the values. */
  async find(
    values: readonly Value[],
    place: ValuePlace,
  ): Promise<readonly Set<TokenFingerprint>[]> {
    const found = values.map(() => new Set<TokenFingerprint>());
    let batch: Candidate[] = [];
    let untilMs = performance.now() + TURN_MS;
    for (const drawn of this.#drawnOf(values, place)) {
      batch.push(...drawn);
      if (batch.length < BATCH_TOKENS && performance.now() < untilMs) continue;
      await this.#follow(batch, found);
      await nextTurn();
      batch = [];
      untilMs = performance.now() + TURN_MS;
    }
    await this.#follow(batch, found);
    return found;
  }

  /** The first draws of each value under each version of a kind. */
  *#drawnOf(values: readonly Value[], { kind, space }: ValuePlace): Generator<Candidate[]> {
    const { kinds, vault } = this.#parts;
    const names = kind === undefined ? kinds.names : [kind];
    for (const [index, text] of values.entries()) {
      for (const name of names) {
        const scope = scopeOf(name, space);
        const spellings = kinds.spellings(name, text);
        for (const one of kinds.deterministic(name))
          yield [...acceptedBy(one, spellings)].flatMap((value) => {
            const source = vault.keyring.deterministicDraws(value, scope);
            return this.#drawn({ index, kind: one, value, scope, source }, 0);
          });
      }
    }
  }

  /** Goes from draw to draw, and from an alias to its token, as tokenize does. */
  async #follow(
    batch: readonly Candidate[],
    found: readonly Set<TokenFingerprint>[],
  ): Promise<void> {
    for (let pending = batch; pending.length > 0; ) {
      const fingerprints = pending.map(({ fingerprint }) => fingerprint);
      const rows = await this.#records.findDurable(fingerprints, commandDeadline());
      const { vault, follower } = this.#parts;
      const sealed = rows.flatMap((row) => (row?.record.sealed.length ? [row.record] : []));
      await knowKeysOf(vault, follower, sealed);
      pending = pending.flatMap((candidate, i) => {
        const record = rows[i]?.record;
        return record === undefined ? [] : this.#next(candidate, record, found);
      });
    }
  }

  #next(
    candidate: Candidate,
    record: SealedRecord,
    found: readonly Set<TokenFingerprint>[],
  ): Candidate[] {
    const { index, source, draw, scope } = candidate;
    // The token of another value: this value may have a later draw.
    if (record.value_fingerprint !== source.value_fingerprint)
      return this.#drawn(candidate, draw + 1);
    const { keyring } = this.#parts.vault;
    const opened = record.sealed.length === 0 ? undefined : keyring.open(record);
    if (opened !== undefined && 'alias' in opened) {
      const fingerprint = keyring.tokenFingerprint(opened.alias, scope?.spaceBytes);
      return [{ ...candidate, fingerprint }];
    }
    if (opened !== undefined && 'failure' in opened) this.damaged.add(record.token_fingerprint);
    found[index]!.add(record.token_fingerprint);
    return [];
  }

  /** Empty when no draw is left. */
  #drawn(candidate: Omit<Candidate, 'draw' | 'fingerprint'>, from: number): Candidate[] {
    const { kind, value, source, scope } = candidate;
    const { kinds, vault } = this.#parts;
    const drawn = kind.drawToken(value, kinds.suffix, source.draws, from);
    if (drawn === undefined) return [];
    const fingerprint = vault.keyring.tokenFingerprint(drawn.token, scope?.spaceBytes);
    return [{ ...candidate, draw: drawn.draw, fingerprint }];
  }
}

function acceptedBy(kind: Kind, spellings: ReadonlySet<string>): ReadonlySet<Value> {
  const all = [...spellings].map((text) => kind.accept(text));
  return new Set(all.flatMap((one) => ('value' in one ? [one.value] : [])));
}
