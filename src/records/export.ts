import { hexOf } from '../store/record-walk.ts';
import { EveryKind } from '../tokens/every-kind.ts';
import { DEFAULT_KIND, DEFAULT_SPACE, type Token } from '../types.ts';
import type { Vault } from '../vault/vault.ts';
import type { PairUse } from './pairs.ts';
import {
  type OpenedValueRecord,
  type TokenOfRecord,
  TokensOfRecords,
} from './tokens-of-records.ts';
import { passOpened, type ReadSettings } from './verify.ts';

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
  readonly suffix: string;
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
  const tokens = new TokensOfRecords(vault, settings, await EveryKind.read(vault, settings.suffix));
  return passOpened(vault, settings, async (opened, portion) => {
    const exported = opened.flatMap(({ record, content }): OpenedValueRecord[] => {
      if ('alias' in content || record.isExpired) return [];
      const isAsked = space === undefined || (content.scope?.space ?? DEFAULT_SPACE) === space;
      return isAsked ? [{ record, content }] : [];
    });
    const found = await tokens.find(exported);
    const pairs = exported.map((one, i) => pairOf(one, found[i]!));
    await write(pairs, hexOf(portion[0]!.token_fingerprint));
  });
}

function pairOf({ record, content }: OpenedValueRecord, { token, use }: TokenOfRecord) {
  const { kind, space } = content.scope ?? { kind: DEFAULT_KIND, space: DEFAULT_SPACE };
  const expiresAt = record.expires_at?.toISOString() ?? null;
  return { token, value: content.value, kind, space, expires_at: expiresAt, use };
}
