import type { OpenedValue } from '../crypto/keyring.ts';
import { InternalError } from '../errors.ts';
import type { Kind } from '../policy/rules.ts';
import { hexOf, type WalkedRecord } from '../store/record-walk.ts';
import { RecordStore } from '../store/records.ts';
import { commandDeadline } from '../timeouts.ts';
import { EveryKind } from '../tokens/every-kind.ts';
import { Tokenizer } from '../tokens/tokenizer.ts';
import { DEFAULT_KIND, DEFAULT_SPACE, type Token } from '../types.ts';
import { LeasedKeyring } from '../vault/leased-keyring.ts';
import type { Vault } from '../vault/vault.ts';
import type { PairUse } from './pairs.ts';
import { persistently } from './record-scan.ts';
import { type ReadSettings, scanOpened } from './verify.ts';

/** A line of an export, in this order. */
export interface ExportedPair {
  /** null: an older program drew it at random, and the vault cannot know it. */
  readonly token: Token | null;
  readonly value: string;
  readonly kind: string;
  readonly space: string;
  /** null: never. */
  readonly expires_at: string | null;
  /** `detokenize`: a random token, or tokenize gives the value another one now. */
  readonly use: PairUse;
}

interface ExportSettings extends ReadSettings {
  /** undefined: all spaces. */
  readonly space: string | undefined;
  /**
   * Takes pairs.
   * @param at the first record behind them, 32 hex digits: another run can begin there instead
   */
  readonly write: (pairs: readonly ExportedPair[], at: string) => Promise<void>;
}

/** Opens every record, and finds its token. Leaves out expired records and aliases. */
export async function exportPairs(vault: Vault, settings: ExportSettings) {
  const { space, write } = settings;
  const kinds = await EveryKind.read(vault, vault.options.token_suffix);
  const tokens = new TokensOfRecords(vault, settings, kinds);
  return scanOpened(vault, settings, async (opened, batch) => {
    const exported = opened.flatMap(({ record, content }): OpenedValueRecord[] => {
      if ('alias' in content || record.isExpired) return [];
      const isAsked = space === undefined || (content.scope?.space ?? DEFAULT_SPACE) === space;
      return isAsked ? [{ record, content }] : [];
    });
    const found = await tokens.find(exported);
    const pairs = exported.map((one, i) => pairOf(one, found[i]!));
    await write(pairs, hexOf(batch[0]!.token_fingerprint));
  });
}

function pairOf({ record, content }: OpenedValueRecord, { token, use }: TokenOfRecord) {
  const { kind, space } = content.scope ?? { kind: DEFAULT_KIND, space: DEFAULT_SPACE };
  const expiresAt = record.expires_at?.toISOString() ?? null;
  return { token, value: content.value, kind, space, expires_at: expiresAt, use };
}

/** A record that is no alias. */
interface OpenedValueRecord {
  readonly record: WalkedRecord;
  readonly content: OpenedValue;
}

type TokenOfRecord = Pick<ExportedPair, 'token' | 'use'>;

/** Finds the tokens of opened records: imported ones in them, the others by drawing them again. */
class TokensOfRecords {
  readonly #vault: Vault;
  readonly #settings: ExportSettings;
  readonly #kinds: EveryKind;
  readonly #tokenizer: Tokenizer;

  constructor(vault: Vault, settings: ExportSettings, kinds: EveryKind) {
    const { follower } = settings;
    this.#vault = vault;
    this.#settings = settings;
    this.#kinds = kinds;
    const keys = new LeasedKeyring(follower.latest, () => void follower.refresh());
    follower.subscribe((snapshot) => keys.take(snapshot));
    this.#tokenizer = new Tokenizer(new RecordStore(vault.pool), keys, kinds.suffix, () => {});
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
  #found({ record, content }: OpenedValueRecord): Omit<TokenOfRecord, 'use'> & { use?: PairUse } {
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
    if (!this.#kinds.newest.byName.has(name)) return { token, use: 'both' };
    const now = this.#kindNow(content);
    if (now === undefined) return { token, use: 'detokenize' };
    const isSure = now === found?.kind || now.settings.tokens === 'random';
    return isSure ? { token, use: 'both' } : { token };
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
