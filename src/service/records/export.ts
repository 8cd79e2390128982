import type { Keyring, OpenedValue } from '../../crypto/keyring.ts';
import { type Kind, PolicyRules } from '../../policy/rules.ts';
import { hexOf, RecordWalk, type WalkedRecord } from '../../store/record-walk.ts';
import { commandDeadline } from '../../timeouts.ts';
import { DEFAULT_KIND, DEFAULT_SPACE, type Token } from '../../types.ts';
import { policyOf, UnreadablePolicy } from '../policy-follower.ts';
import type { Vault } from '../vault.ts';
import { type PassEnd, passOver } from './record-pass.ts';
import { type ReadSettings, RecordReader } from './verify.ts';

/** A line of an export, in this order. */
export interface ExportedPair {
  /** null: a random token, which the vault cannot know. */
  readonly token: Token | null;
  readonly value: string;
  readonly kind: string;
  readonly space: string;
  /** null: never. */
  readonly expires_at: string | null;
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
  const { space, suffix, write } = settings;
  const reader = new RecordReader(vault, settings);
  const tokens = new TokenFinder(vault.keyring, suffix, await everyKind(vault));
  const end = await passOver({
    ...settings,
    walk: new RecordWalk(vault.pool),
    work: async (portion) => {
      const opened = await reader.open(portion);
      const nowMs = Date.now();
      const pairs = opened.flatMap(({ record, content }) => {
        const isOver = record.expires_at !== undefined && record.expires_at.getTime() <= nowMs;
        if ('alias' in content || isOver) return [];
        const pair = pairOf(record, content, tokens);
        return space === undefined || pair.space === space ? [pair] : [];
      });
      await write(pairs, hexOf(portion[0]!.token_fingerprint));
    },
  });
  return { bad: reader.bad, ...end };
}

function pairOf(record: WalkedRecord, content: OpenedValue, tokens: TokenFinder): ExportedPair {
  const { kind, space } = content.scope ?? { kind: DEFAULT_KIND, space: DEFAULT_SPACE };
  const expiresAt = record.expires_at?.toISOString() ?? null;
  const token = tokens.find(record, content) ?? null;
  return { token, value: content.value, kind, space, expires_at: expiresAt };
}

/** The kinds of all versions of the policy, the newest first: each drew tokens. */
async function everyKind({ policies }: Vault): Promise<Kind[]> {
  const kinds: Kind[] = [];
  for (const { version } of await policies.list(commandDeadline())) {
    const stored = await policies.get(version, commandDeadline());
    try {
      kinds.push(...new PolicyRules(policyOf(stored!)).kinds);
    } catch (error) {
      if (!(error instanceof UnreadablePolicy)) throw error;
    }
  }
  return [...kinds, ...new PolicyRules(undefined).kinds];
}

/** Finds the tokens of opened records: imported ones in them, deterministic ones by drawing. */
class TokenFinder {
  readonly #keyring: Keyring;
  readonly #suffix: string;
  readonly #byName = new Map<string, Map<string, Kind>>();

  constructor(keyring: Keyring, suffix: string, kinds: readonly Kind[]) {
    this.#keyring = keyring;
    this.#suffix = suffix;
    for (const kind of kinds) {
      const { name } = kind.settings;
      const sameName = this.#byName.get(name) ?? new Map<string, Kind>();
      this.#byName.set(name, sameName);
      const settings = JSON.stringify(kind.settings);
      if (!sameName.has(settings)) sameName.set(settings, kind);
    }
  }

  find(record: WalkedRecord, { value, scope, imported }: OpenedValue): Token | undefined {
    if (imported !== undefined) return imported;
    const source = this.#keyring.deterministicDraws(value, scope);
    if (source.value_fingerprint !== record.value_fingerprint) return undefined;
    for (const kind of this.#byName.get(scope?.kind ?? DEFAULT_KIND)?.values() ?? []) {
      // What this version of the kind refuses, it did not draw.
      if ('reason' in kind.accept(value)) continue;
      const draw = (from: number) => kind.drawToken(value, this.#suffix, source.draws, from);
      for (let drawn = draw(0); drawn !== undefined; drawn = draw(drawn.draw + 1)) {
        const fingerprint = this.#keyring.tokenFingerprint(drawn.token, scope?.spaceBytes);
        if (fingerprint === record.token_fingerprint) return drawn.token;
      }
    }
    return undefined;
  }
}
