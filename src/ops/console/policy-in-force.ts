import type { PolicyDetail, PolicyState, SeenKind, SeenKinds } from '#console';
import type { Client } from '../../client-settings.ts';
import { operatorError } from '../../errors.ts';
import { describePolicy, seenBy } from '../../policy/policies.ts';
import { ELSEWHERE } from '../../policy/policy.ts';
import type { PolicyFollower } from '../../policy/policy-follower.ts';
import { leaseMs, POLICY_LEASE_MS } from '../../timeouts.ts';

/** Names of kinds in a list of clients, for each right. */
const MAX_NAMED = 6;
const RIGHTS = ['full', 'masked', 'none'] as const;

/** The policy of this node, for readers. */
export class PolicyInForce {
  readonly #follower: PolicyFollower;
  readonly #suffix: string;
  #detail: Omit<PolicyDetail, 'document'> = {
    ...{ version: 0, tag: null, kinds: [], fields: null },
    ...{ elsewhere: 'tokenize', elsewhereWords: ELSEWHERE.tokenize },
  };

  constructor(follower: PolicyFollower, suffix: string) {
    this.#follower = follower;
    this.#suffix = suffix;
  }

  get state(): PolicyState {
    const { policy, problem, asOfMs } = this.#follower.latest;
    const isOld = leaseMs() - asOfMs >= POLICY_LEASE_MS;
    const words = operatorError(problem)?.message ?? 'The database does not answer.';
    const { version = 0, tag = null } = policy ?? {};
    return { version, tag, problem: isOld ? words : null };
  }

  /** The tokens of the examples stay the same as long as the policy does. */
  get detail(): Omit<PolicyDetail, 'document'> {
    const { policy } = this.#follower.latest;
    const { version, tag } = this.#detail;
    if (policy !== undefined && (policy.version !== version || policy.tag !== tag)) {
      const described = describePolicy(policy, this.#suffix);
      this.#detail = { version: policy.version, tag: policy.tag, ...described };
    }
    return this.#detail;
  }

  /** null: there is no policy, or the client may not detokenize. */
  seenBy(client: Client): readonly SeenKind[] | null {
    const { policy } = this.#follower.latest;
    if (policy === undefined || !client.can_detokenize) return null;
    const rights = seenBy(policy, client);
    return this.detail.kinds.map(({ name, example }): SeenKind => {
      const right = rights[name]!;
      const mask = 'mask' in example ? example.mask : null;
      const shown = { full: example.value, masked: mask, none: null };
      return { kind: name, right, example: shown[right] };
    });
  }

  /** In short, for a list of clients. */
  seenInShort(client: Client): readonly SeenKinds[] | null {
    const seen = this.seenBy(client);
    if (seen === null) return null;
    return RIGHTS.flatMap((right) => {
      const kinds = seen.filter((one) => one.right === right).map(({ kind }) => kind);
      const named = kinds.slice(0, MAX_NAMED);
      return kinds.length === 0
        ? []
        : [{ right, kinds: named, others: kinds.length - named.length }];
    });
  }
}
