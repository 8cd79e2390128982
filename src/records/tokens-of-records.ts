import type { OpenedValue } from '../crypto/keyring.ts';
import { InternalError } from '../errors.ts';
import type { Kind } from '../policy/rules.ts';
import type { WalkedRecord } from '../store/record-walk.ts';
import { RecordStore } from '../store/records.ts';
import { commandDeadline } from '../timeouts.ts';
import type { EveryKind } from '../tokens/every-kind.ts';
import { Tokenizer } from '../tokens/tokenizer.ts';
import { DEFAULT_KIND, type Token } from '../types.ts';
import { LeasedKeyring } from '../vault/leased-keyring.ts';
import type { Vault } from '../vault/vault.ts';
import type { PairUse } from './pairs.ts';
import { persistently } from './record-pass.ts';
import type { ReadSettings } from './verify.ts';

interface Settings extends ReadSettings {
  readonly suffix: string;
}

/** A record that is no alias. */
export interface OpenedValueRecord {
  readonly record: WalkedRecord;
  readonly content: OpenedValue;
}

export interface TokenOfRecord {
  /** null: no kind draws it. */
  readonly token: Token | null;
  readonly use: PairUse;
}

/** Finds the tokens of opened records: imported ones in them, the others by drawing them again. */
export class TokensOfRecords {
  readonly #vault: Vault;
  readonly #settings: Settings;
  readonly #kinds: EveryKind;
  readonly #tokenizer: Tokenizer;

  constructor(vault: Vault, settings: Settings, kinds: EveryKind) {
    const { follower, suffix } = settings;
    this.#vault = vault;
    this.#settings = settings;
    this.#kinds = kinds;
    const keys = new LeasedKeyring(follower.latest, () => void follower.refresh());
    follower.subscribe((snapshot) => keys.take(snapshot));
    this.#tokenizer = new Tokenizer(new RecordStore(vault.pool), keys, suffix, () => {});
  }

  /** In order. The fingerprint is compared, so a token is never wrong. */
  async find(records: readonly OpenedValueRecord[]): Promise<readonly TokenOfRecord[]> {
    const found = records.map((one) => this.#found(one));
    const unsure = records.filter((_, i) => found[i]!.use === undefined);
    const given = await this.#givenNow(unsure.map(({ content }) => content));
    return found.map(({ token, use }) => {
      if (use !== undefined) return { token, use };
      const other = given.shift();
      return { token, use: other === null || other === token ? 'both' : 'detokenize' };
    });
  }

  /** use undefined: the vault may have another token of the value. */
  #found({ record, content }: OpenedValueRecord): {
    readonly token: Token | null;
    readonly use: PairUse | undefined;
  } {
    const { keyring } = this.#vault;
    const { value, scope, imported } = content;
    const own = keyring.deterministicDraws(value, scope);
    const isRandom = own.value_fingerprint !== record.value_fingerprint;
    const { draws } = isRandom ? keyring.randomDraws(record.value_fingerprint) : own;
    const name = scope?.kind ?? DEFAULT_KIND;
    const isIts = (token: Token) =>
      keyring.tokenFingerprint(token, scope?.spaceBytes) === record.token_fingerprint;
    const [found] = imported === undefined ? this.#kinds.draws(name, value, draws, isIts) : [];
    const token = imported ?? found?.drawn.token ?? null;
    if (token === null || isRandom) return { token, use: 'detokenize' };
    // A vault whose policy has the kind can give the token.
    if (!this.#kinds.newest.has(name)) return { token, use: 'both' };
    const now = this.#kindNow(content);
    if (now === undefined) return { token, use: 'detokenize' };
    const isSure = now === found?.kind || now.settings.tokens === 'random';
    return { token, use: isSure ? 'both' : undefined };
  }

  /** The kind as the newest policy has it; undefined: it refuses the value, or spells another. */
  #kindNow({ value, scope }: OpenedValue): Kind | undefined {
    const kind = this.#kinds.kindNow(scope?.kind ?? DEFAULT_KIND);
    const accepted = kind.accept(value);
    return 'value' in accepted && accepted.value === value ? kind : undefined;
  }

  /** The tokens that tokenize now gives the values; null: none is stored yet. */
  async #givenNow(contents: readonly OpenedValue[]): Promise<(Token | null)[]> {
    if (contents.length === 0) return [];
    const terms = contents.map((content) => ({
      ...DETERMINISTIC,
      kind: this.#kindNow(content)!,
      scope: content.scope,
    }));
    const values = contents.map(({ value }) => value);
    try {
      return await persistently(this.#settings.stop, async () => [
        ...(await this.#tokenizer.lookup(values, terms, commandDeadline())),
      ]);
    } catch (error) {
      if (!(error instanceof InternalError) || error.reason !== 'record_damaged') throw error;
      // Tokenize does not give the token of a damaged record either.
      if (contents.length === 1) return [null];
      const each = await Promise.all(contents.map((content) => this.#givenNow([content])));
      return each.flat();
    }
  }
}

const DETERMINISTIC = { token_mode: 'deterministic', time_to_live_s: null } as const;
