import type { OpenedValue } from '../../crypto/keyring.ts';
import { PolicyRules } from '../../policy/rules.ts';
import { hexOf, RecordWalk, type WalkedRecord } from '../../store/record-walk.ts';
import { commandDeadline } from '../../timeouts.ts';
import { DEFAULT_KIND, DEFAULT_SPACE, type Token } from '../../types.ts';
import { policyOf, UnreadablePolicy } from '../policy-follower.ts';
import type { Vault } from '../vault.ts';
import type { PairUse } from './pairs.ts';
import { type PassEnd, passOver } from './record-pass.ts';
import { TokensOfRecords } from './tokens-of-records.ts';
import { type ReadSettings, RecordReader } from './verify.ts';

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

interface Exported extends PassEnd {
  readonly bad: number;
}

/** Opens every record, and finds its token. Leaves out expired records and aliases. */
export async function exportPairs(vault: Vault, settings: ExportSettings): Promise<Exported> {
  const { space, write } = settings;
  const reader = new RecordReader(vault, settings);
  const tokens = new TokensOfRecords(vault, settings, await everyPolicy(vault));
  const end = await passOver({
    ...settings,
    walk: new RecordWalk(vault.pool),
    work: async (portion) => {
      const opened = await reader.open(portion);
      const nowMs = Date.now();
      const pairs = opened.flatMap(({ record, content }) => {
        const isOver = record.expires_at !== undefined && record.expires_at.getTime() <= nowMs;
        if ('alias' in content || isOver) return [];
        if (space !== undefined && (content.scope?.space ?? DEFAULT_SPACE) !== space) return [];
        return [pairOf(record, content, tokens)];
      });
      await write(await Promise.all(pairs), hexOf(portion[0]!.token_fingerprint));
    },
  });
  return { bad: reader.bad, ...end };
}

async function pairOf(
  record: WalkedRecord,
  content: OpenedValue,
  tokens: TokensOfRecords,
): Promise<ExportedPair> {
  const { kind, space } = content.scope ?? { kind: DEFAULT_KIND, space: DEFAULT_SPACE };
  const { token, use } = await tokens.find(record, content);
  const expiresAt = record.expires_at?.toISOString() ?? null;
  return { token, value: content.value, kind, space, expires_at: expiresAt, use };
}

/** All versions of the policy that this program can read, the newest first: each drew tokens. */
async function everyPolicy({ policies }: Vault): Promise<PolicyRules[]> {
  const all: PolicyRules[] = [];
  for (const { version } of await policies.list(commandDeadline())) {
    const stored = await policies.get(version, commandDeadline());
    try {
      all.push(new PolicyRules(policyOf(stored!)));
    } catch (error) {
      if (!(error instanceof UnreadablePolicy)) throw error;
    }
  }
  return [...all, new PolicyRules(undefined)];
}
