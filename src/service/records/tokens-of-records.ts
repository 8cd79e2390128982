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

  /** A null token: no kind draws it. The fingerprint is compared, so a token is never wrong. */
  async find(
    record: WalkedRecord,
    content: OpenedValue,
  ): Promise<{ readonly token: Token | null; readonly use: PairUse }> {
    const { keyring } = this.#vault;
    const { value, scope, imported } = content;
    const own = keyring.deterministicDraws(value, scope);
    const isRandom = own.value_fingerprint !== record.value_fingerprint;
    const { draws } = isRandom ? keyring.randomDraws(record.value_fingerprint) : own;
    const found = imported === undefined ? this.#drawn(record, content, draws) : undefined;
    const token = imported ?? found?.token;
    if (token === undefined) return { token: null, use: 'detokenize' };
    const isNewest = found !== undefined && found.kind === this.#kindNow(content);
    const isGiven = !isRandom && (isNewest || (await this.#isGiven(content, token)));
    return { token, use: isGiven ? 'both' : 'detokenize' };
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

  /** Whether the vault has no other token that tokenize now gives for the value. */
  async #isGiven(content: OpenedValue, token: Token): Promise<boolean> {
    const kind = this.#kindNow(content);
    if (kind === undefined || kind.settings.tokens === 'random') return true;
    const { value, scope } = content;
    const terms = { token_mode: 'deterministic', time_to_live_s: null, kind, scope } as const;
    try {
      const [given] = await persistently(this.#settings.stop, () =>
        this.#tokenizer.lookup([value], terms, commandDeadline()),
      );
      return given === null || given === token;
    } catch (error) {
      // The other record is damaged: tokenize cannot give its token either.
      if (error instanceof InternalError && error.reason === 'record_damaged') return true;
      throw error;
    }
  }
}
