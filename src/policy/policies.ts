import { stepsOf } from '#paths';
import type { Client } from '../client-settings.ts';
import { randomLatin1 } from '../crypto/primitives.ts';
import { entitiesOf } from '../detect/found.ts';
import { NotFound, OperatorError, StaleVersion } from '../errors.ts';
import { kindOf } from '../shape/kind.ts';
import type { KindSettings, Shape } from '../shape/kind-settings.ts';
import { allowedOr } from '../store/database-error.ts';
import type { AppliedPolicy, PolicyStore, StoredPolicy } from '../store/policies.ts';
import { commandDeadline } from '../timeouts.ts';
import type { Durable, Token } from '../types.ts';
import type { Vault } from '../vault/vault.ts';
import { type Change, canSee, changesOf, consequencesOf, kindInWords } from './changes.ts';
import {
  type DeclaredPolicy,
  ELSEWHERE,
  kindsInUse,
  NO_POLICY,
  type Right,
  rightOf,
} from './policy.ts';
import { policyOf, UnreadablePolicy } from './policy-follower.ts';

/** Bytes of one draw, as the keyring makes them. */
const DRAW_BYTES = 48;

/** The token and the mask of a value that we made up. */
export type KindExample = { readonly kind: string; readonly value: string } & (
  | { readonly token: Token; readonly mask: string }
  /** Why the kind refuses every example. */
  | { readonly refusal: string }
);

/** Values of nobody. A kind that refuses the first may take the next. */
const VALUES: Readonly<Record<Shape, readonly string[]>> = {
  text: ['Ann Lee', '+1 415 555 2671'],
  email: ['ann.lee@example.com'],
  digits: ['4242 4242 4242 4242', '+1 415 555 2671', 'GB82 WEST 1234 5698 7654 32', '123-45-6789'],
  date: ['1985-04-12'],
  uuid: ['3f2504e0-4f89-41d3-9a0c-0305e82c3301', '+1 415 555 2671'],
  word: ['Ann Lee', '+1 415 555 2671'],
};

const draws = () => randomLatin1(DRAW_BYTES);

/** The token is from fresh random draws. */
function exampleOf(settings: KindSettings, suffix: string): KindExample {
  const kind = kindOf(settings);
  const tried = VALUES[settings.shape].map((value): KindExample => {
    const head = { kind: settings.name, value };
    const accepted = kind.accept(value);
    if ('reason' in accepted) return { ...head, refusal: accepted.reason };
    const drawn = kind.drawToken(accepted.value, suffix, draws, 0);
    if (drawn === undefined) return { ...head, refusal: 'has no token' };
    return { ...head, token: drawn.token, mask: kind.mask(accepted.value) };
  });
  return tried.find((example) => 'token' in example) ?? tried[0]!;
}

/** A made-up value for each kind in use, its token and its mask. */
export function kindExamples(policy: DeclaredPolicy, suffix: string): KindExample[] {
  return kindsInUse(policy).map((kind) => exampleOf(kind, suffix));
}

/** A policy for readers. */
export function describePolicy(policy: DeclaredPolicy, suffix: string) {
  return {
    kinds: kindsInUse(policy).map((kind) => ({
      ...{ name: kind.name, words: kindInWords(kind), example: exampleOf(kind, suffix) },
    })),
    /** null: every string is a `text`. */
    fields: policy.fields?.map((field) => ({ ...field, steps: stepsOf(field.path) })) ?? null,
    elsewhere: policy.elsewhere,
    elsewhereWords: ELSEWHERE[policy.elsewhere],
  };
}

/** The changes that a document would make to the policy in force. */
export interface PolicyPlan {
  /** The newest version; 0: there is none. */
  readonly version: number;
  /** Whether the newest version is this document, byte for byte. */
  readonly is_same: boolean;
  readonly changes: readonly Change[];
  /** See `consequencesOf`. Nobody should apply it before they have seen these. */
  readonly consequences: readonly string[];
  /** Why the newest version cannot be compared; null: it can. */
  readonly unreadable: string | null;
}

/** The newest version and the clients, which a plan is made of. */
export async function planningFacts({ policies, clients }: Vault) {
  const newest = await policies.newest(commandDeadline());
  return [newest, await clients.list(commandDeadline())] as const;
}

/** @param policy the parsed document */
export async function planPolicy(
  vault: Vault,
  document: string,
  policy: DeclaredPolicy,
): Promise<PolicyPlan> {
  return planOf(...(await planningFacts(vault)), document, policy);
}

export function planOf(
  newest: StoredPolicy | undefined,
  all: readonly Client[],
  document: string,
  policy: DeclaredPolicy,
): PolicyPlan {
  const plan = (before: DeclaredPolicy, unreadable: string | null) => ({
    version: newest?.version ?? 0,
    is_same: newest?.document === document,
    changes: changesOf(before, policy),
    consequences: consequencesOf(before, policy, all),
    unreadable,
  });
  try {
    return plan(newest === undefined ? NO_POLICY : policyOf(newest), null);
  } catch (error) {
    if (!(error instanceof UnreadablePolicy)) throw error;
    return plan(NO_POLICY, error.message);
  }
}

/**
 * Makes the document the next version, unless the newest is the same document.
 * @param after the version that it follows; 0: none
 * @throws Changed when another document is the newest; nothing was changed
 */
export async function applyPolicy(
  store: PolicyStore,
  document: string,
  after: number,
): Promise<Durable<AppliedPolicy>> {
  const applied = await allowedOr(
    "The user of DATABASE_URL may not change the policy. Run the command as the owner of the vault's tables.",
    store.apply(document, after, commandDeadline()),
  );
  if (applied !== undefined) return applied;
  const newest = (await store.newest(commandDeadline()))?.version ?? 0;
  throw new StaleVersion(
    `The newest version of the policy is ${newest}, not ${after}: nothing was changed. Compare it with your document: standin policy diff FILE`,
  );
}

/** @param version undefined: the newest */
export async function findPolicy(
  store: PolicyStore,
  version: number | undefined,
): Promise<StoredPolicy> {
  const deadlineMs = commandDeadline();
  const newest = () => store.newest(deadlineMs);
  const found = await (version === undefined ? newest() : store.get(version, deadlineMs));
  if (found !== undefined) return found;
  throw new NotFound(
    version === undefined
      ? 'This vault has no policy: every string is tokenized as text. Apply one with: standin policy apply FILE'
      : `There is no version ${version} of the policy. List the versions with: standin policy show --versions`,
  );
}

/**
 * The policy in force, in words.
 * @throws UnreadablePolicy when this program cannot read it; OperatorError when it needs Presidio
 */
export async function policyState(store: PolicyStore, hasPresidio: boolean): Promise<string> {
  const newest = await store.newest(commandDeadline());
  if (newest === undefined) return 'none';
  const { version, detect } = policyOf(newest);
  const [entity] = entitiesOf(detect);
  if (entity !== undefined && !hasPresidio)
    throw new OperatorError(
      `Version ${version} detects ${entity.detector}, an entity of Presidio, but PRESIDIO_URL is not set, so texts are refused. Set it, or remove the entity from detect.`,
    );
  return `version ${version}`;
}

/** The right of a client to each kind in use. */
export function seenBy(policy: DeclaredPolicy, client: Client): Record<string, Right> {
  const kinds = kindsInUse(policy).map(({ name }) => name);
  return Object.fromEntries(kinds.map((kind) => [kind, rightOf(policy, client, kind)]));
}

export type ClientView = ReturnType<typeof clientViews>[number];

/** The rights of the clients that can detokenize. */
export function clientViews(policy: DeclaredPolicy, clients: readonly Client[]) {
  return clients.filter(canSee).map((client) => {
    const { client_id, name } = client;
    return { client_id, name, sees: seenBy(policy, client) };
  });
}
