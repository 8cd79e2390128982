import { setImmediate as nextTurn } from 'node:timers/promises';
import type { PolicyFollower } from '../policy/policy-follower.ts';
import { type Kind, Viewer } from '../policy/rules.ts';
import type { VaultClient } from '../tokens/threads/vault-client.ts';
import { DEFAULT_SPACE, type Token, type Value } from '../types.ts';

/** The parts that look values up. */
export interface ValueFinder {
  readonly vault: VaultClient;
  readonly policies: Pick<PolicyFollower, 'current'>;
}

/** A token that a value has, and the kind under which it has it. */
export interface FoundToken {
  readonly kind: string;
  readonly token: Token;
}

/** The kind refuses the value, or no kind has this name. */
export class NoSuchValue extends RangeError {
  /** Place of the value; undefined: the kind is the problem. */
  readonly index: number | undefined;

  constructor(message: string, index?: number) {
    super(message);
    this.index = index;
  }
}

/** Values in one question: a kind more makes one question more. */
const MAX_QUESTION_VALUES = 5_000;

/**
 * The tokens that each value has, in order. Random tokens cannot be found.
 * @param kind undefined: look under every kind that accepts the value
 * @throws NoSuchValue; InternalError or CallerError as VaultClient.lookup
 */
export async function findTokens(
  { vault, policies }: ValueFinder,
  values: readonly Value[],
  { kind: asked, space = DEFAULT_SPACE }: { readonly kind?: string; readonly space?: string },
): Promise<readonly (readonly FoundToken[])[]> {
  const rules = await policies.current();
  const kinds = rules.kinds.filter(
    ({ settings: { name, tokens } }) =>
      tokens !== 'random' && (asked === undefined || name === asked),
  );
  if (kinds.length === 0)
    throw new NoSuchValue(`must be a kind of the policy whose tokens are not random`);
  const found: FoundToken[][] = values.map(() => []);
  const questions: ReturnType<typeof acceptedBy> = [];
  for (const kind of kinds) {
    questions.push(...acceptedBy(kind, values, asked !== undefined));
    // A hundred telephone numbers take some 5 ms, and a policy may have two hundred kinds.
    await nextTurn();
  }
  for (let from = 0; from < questions.length; from += MAX_QUESTION_VALUES) {
    const part = questions.slice(from, from + MAX_QUESTION_VALUES);
    const asked = { texts: part.map(({ text }) => text), kinds: part.map(({ kind }) => kind) };
    const tokens = await vault.lookup(asked, TERMS, new Viewer(rules, null, space));
    part.forEach(({ index, kind }, i) => {
      const token = tokens[i];
      if (token != null) found[index]!.push({ kind: kind.settings.name, token });
    });
  }
  return found;
}

const TERMS = { token_mode: 'deterministic', time_to_live_s: null } as const;

/** @param isRequired whether a value that the kind refuses is an error */
function acceptedBy(kind: Kind, values: readonly Value[], isRequired: boolean) {
  return values.flatMap((value, index) => {
    const accepted = kind.accept(value);
    if ('value' in accepted) return [{ index, kind, text: accepted.value }];
    if (isRequired) throw new NoSuchValue(accepted.reason, index);
    return [];
  });
}
