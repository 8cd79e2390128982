import { setTimeout as sleep } from 'node:timers/promises';
import { InternalError } from '../errors.ts';
import { leaseMs, POLICY_LEASE_MS, VAULT_TIMEOUT_MS } from '../timeouts.ts';
import type { Policy } from './policy.ts';
import { type PolicyFollower, UnreadablePolicy } from './policy-follower.ts';
import { PolicyRules } from './rules.ts';

/** Between reads of a database that refuses connections at once. */
const PAUSE_MS = 50;

/** Gives requests the policy in force, and none that is older than POLICY_LEASE_MS. */
export class PolicyGate {
  readonly #follower: PolicyFollower;
  readonly #onPolicy: (policy: Policy) => void;
  #rules = new PolicyRules(undefined);

  /** @param onPolicy called before the first request with a newer policy */
  constructor(follower: PolicyFollower, onPolicy: (policy: Policy) => void) {
    this.#follower = follower;
    this.#onPolicy = onPolicy;
    follower.subscribe(() => this.#take());
    this.#take();
  }

  /**
   * Synchronous when the policy was read lately. A process that stood still reads it again.
   * @throws InternalError database_unavailable or policy_unreadable
   */
  current(): PolicyRules | Promise<PolicyRules> {
    return this.#isFresh() ? this.#rules : this.#renewed();
  }

  async #renewed(): Promise<PolicyRules> {
    const untilMs = leaseMs() + VAULT_TIMEOUT_MS;
    for (; leaseMs() < untilMs; await sleep(PAUSE_MS)) {
      const { problem } = await this.#follower.refresh();
      if (this.#isFresh()) return this.#rules;
      if (problem instanceof UnreadablePolicy)
        throw new InternalError('policy_unreadable', { cause: problem });
    }
    throw new InternalError('database_unavailable', { cause: this.#follower.latest.problem });
  }

  #isFresh(): boolean {
    return leaseMs() - this.#follower.latest.asOfMs < POLICY_LEASE_MS;
  }

  #take(): void {
    const { policy, hasBareTokens, asOfMs } = this.#follower.latest;
    if (asOfMs === -Infinity) return;
    const { version, tag } = this.#rules;
    // The tag, too: a failover can give the number to another document, or leave no policy.
    const isNew = policy?.tag !== tag || (policy?.version ?? 0) !== version;
    if (isNew && policy !== undefined) this.#onPolicy(policy);
    if (isNew || (hasBareTokens && !this.#rules.hasBareTokens))
      this.#rules = new PolicyRules(policy, hasBareTokens);
  }
}
