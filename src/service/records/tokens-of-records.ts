import type { OpenedValue } from '../../crypto/keyring.ts';
import { InternalError } from '../../errors.ts';
import type { Kind, PolicyRules } from '../../policy/rules.ts';
import type { Draws } from '../../shape/token.ts';
import type { WalkedRecord } from '../../store/record-walk.ts';
import { RecordStore } from '../../store/records.ts';
import { COMMAND_PATIENCE_MS, commandDeadline } from '../../timeouts.ts';
import { DEFAULT_KIND, type Token } from '../../types.ts';
import { LeasedKeyring } from '../keys/leased-keyring.ts';
import { Tokenizer } from '../tokenizer.ts';
import type { Vault } from '../vault.ts';
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
  readonly #newest: PolicyRules;
  readonly #tokenizer: Tokenizer;
  readonly #byName = new Map<string, Map<string, Kind>>();

  /** @param policies all versions, the newest first: each drew tokens */
  constructor(vault: Vault, settings: Settings, policies: readonly PolicyRules[]) {
    const { follower, suffix } = settings;
    this.#vault = vault;
    this.#settings = settings;
    this.#newest = policies[0]!;
    const keys = new LeasedKeyring(follower.latest, () => void follower.look());
    follower.subscribe((snapshot) => keys.take(snapshot));
    const options = { patienceMs: COMMAND_PATIENCE_MS, onBatch: () => {} };
    this.#tokenizer = new Tokenizer(new RecordStore(vault.pool, options), keys, suffix, () => {});
    for (const kind of policies.flatMap(({ kinds }) => kinds)) {
      const { name } = kind.settings;
      const sameName = this.#byName.get(name) ?? new Map<string, Kind>();
      this.#byName.set(name, sameName);
      const text = JSON.stringify(kind.settings);
      if (!sameName.has(text)) sameName.set(text, kind);
    }
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
    const drawn = imported === undefined ? this.#drawn(record, content, draws) : undefined;
    const token = imported ?? drawn?.token ?? null;
    if (token === null || isRandom) return { token, use: 'detokenize' };
    const now = this.#kindNow(content);
    const isSure = now === undefined || now === drawn?.kind || now.settings.tokens === 'random';
    return { token, use: isSure ? 'both' : undefined };
  }

  #drawn(
    record: WalkedRecord,
    content: OpenedValue,
    draws: Draws,
  ): { readonly token: Token; readonly kind: Kind } | undefined {
    for (const kind of this.#byName.get(content.scope?.kind ?? DEFAULT_KIND)?.values() ?? []) {
      const token = this.#drawnBy(kind, record, content, draws);
      if (token !== undefined) return { token, kind };
    }
    return undefined;
  }

  #drawnBy(
    kind: Kind,
    record: WalkedRecord,
    { value, scope }: OpenedValue,
    draws: Draws,
  ): Token | undefined {
    // What this version of the kind refuses, it did not draw.
    if ('reason' in kind.accept(value)) return undefined;
    const draw = (from: number) => kind.drawToken(value, this.#settings.suffix, draws, from);
    for (let drawn = draw(0); drawn !== undefined; drawn = draw(drawn.draw + 1)) {
      const fingerprint = this.#vault.keyring.tokenFingerprint(drawn.token, scope?.spaceBytes);
      if (fingerprint === record.token_fingerprint) return drawn.token;
    }
    return undefined;
  }

  /** The kind as the newest policy has it, if that accepts the value. */
  #kindNow({ value, scope }: OpenedValue): Kind | undefined {
    const name = scope?.kind ?? DEFAULT_KIND;
    const kind = this.#newest.has(name) ? this.#newest.kind(name) : undefined;
    return kind !== undefined && 'value' in kind.accept(value) ? kind : undefined;
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
