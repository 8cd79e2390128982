import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { digestOf } from '../crypto/primitives.ts';
import { InternalError, OperatorError, Unavailable } from '../errors.ts';
import { Refresher, whenItChanges } from '../refresher.ts';
import {
  type PolicyHead,
  type PolicyStore,
  type PolicyVersion,
  type StoredPolicy,
  versionOf,
} from '../store/policies.ts';
import { leaseMs, POLICY_LEASE_MS, STANDBY_TIMEOUT_MS, VAULT_TIMEOUT_MS } from '../timeouts.ts';
import type { Durable } from '../types.ts';
import { parsePolicy } from './parse.ts';
import { NO_POLICY, type Policy } from './policy.ts';
import { PolicyRules } from './rules.ts';

/** The policy of the vault, for all code that serves requests. */
export interface PolicySnapshot {
  /** NO_POLICY: none was applied, or `problem` says why it is not known. */
  readonly policy: Policy;
  /**
   * When standin.policies was last read (a time of leaseMs). -Infinity: it was not read yet, or
   * this program cannot read the newest document. Serve nothing with an old snapshot.
   */
  readonly asOfMs: number;
  /** Why the last read failed, or a PolicyNotDurable; undefined: it succeeded. */
  readonly problem: unknown;
}

/** Between reads of a database that refuses connections at once. */
const PAUSE_MS = 50;
/** An applied version becomes known after this time, plus one query. */
const REFRESH_INTERVAL_MS = 2_000;
const REFRESH_TIMEOUT_MS = 4_000;

/** The newest policy is in force, so without it an older one must not be used. */
export class UnreadablePolicy extends OperatorError {
  constructor(version: number, mistake: string) {
    super(
      `Version ${version} of the policy cannot be read by this program: ${mistake}. Start the release that applied it, or apply another document: standin policy apply FILE`,
    );
  }
}

/** The standby does not have the newest version. Requests go on with the one before. */
export class PolicyNotDurable extends OperatorError {
  constructor(version: number) {
    super(
      `Version ${version} of the policy is not in force: the synchronous standby does not have it. Repair the standby, then apply the document again: standin policy apply FILE`,
    );
  }
}

/** See Policy. */
export function tagOf(document: string): string {
  return `"${digestOf(document)}"`;
}

/** The policy; a text: why this program cannot read it. */
export function readPolicy({ version, document }: StoredPolicy): Policy | string {
  const { policy, mistakes } = parsePolicy(document, true);
  if (policy !== undefined) return { version, tag: tagOf(document), ...policy };
  const { line, column, text } = mistakes[0]!;
  return `line ${line}, column ${column}: ${text}`;
}

/** @throws UnreadablePolicy */
export function policyOf(stored: StoredPolicy): Policy {
  const policy = readPolicy(stored);
  if (typeof policy !== 'string') return policy;
  throw new UnreadablePolicy(stored.version, policy);
}

/** `readPolicy` of each. A process that serves does it in another thread. */
export type ReadPolicies = (
  all: readonly StoredPolicy[],
) => Promise<readonly ReturnType<typeof readPolicy>[]>;

export const readPolicies: ReadPolicies = async (all) => all.map(readPolicy);

/** The newest durable version at a read. */
interface Known {
  /** undefined: no policy was applied. */
  readonly version: PolicyVersion | undefined;
  readonly policy: Policy;
  readonly problem: UnreadablePolicy | undefined;
}

const NONE: Known = { version: undefined, policy: NO_POLICY, problem: undefined };

/**
 * Keeps the policy of this process equal to the newest durable version in standin.policies, which
 * commands on other machines add. After a failed read, the process keeps the policy that it has,
 * and `asOfMs` stays. Gives requests the policy in force, and none that is older than
 * POLICY_LEASE_MS.
 */
export class PolicyFollower {
  readonly #store: PolicyStore;
  readonly #notify: (problem: unknown) => void;
  readonly #readPolicies: ReadPolicies;
  readonly #refresher = new Refresher((startedAtMs) => this.#refreshed(startedAtMs), {
    intervalMs: REFRESH_INTERVAL_MS,
    nowMs: leaseMs,
  });
  #onPolicy: (policy: Policy) => void = () => {};
  #rules = new PolicyRules(NO_POLICY);
  #known: Known | undefined;
  /** The latest document that was read, or still is: it may take longer than one refresh. */
  #reading: { readonly of: StoredPolicy; readonly known: Promise<Known> } | undefined;
  /** Whether tokens without the suffix of the vault were imported. Stays true. */
  #hasBareTokens = false;
  #latest: PolicySnapshot = { policy: NO_POLICY, asOfMs: -Infinity, problem: undefined };

  /**
   * @param store on a pool that housekeeping never uses
   * @param onChange called with the problem when it changes; undefined: no problem any more
   */
  constructor(
    store: PolicyStore,
    onChange: (problem: unknown) => void = () => {},
    read: ReadPolicies = readPolicies,
  ) {
    this.#store = store;
    this.#notify = whenItChanges(onChange);
    this.#readPolicies = read;
  }

  get latest(): PolicySnapshot {
    return this.#latest;
  }

  /**
   * Reads the policy once, then every 2 s. Never fails.
   * @param onPolicy called before the first request with a newer policy
   */
  start(onPolicy: (policy: Policy) => void = () => {}): Promise<void> {
    this.#onPolicy = onPolicy;
    return this.#refresher.start();
  }

  stop(): void {
    this.#refresher.stop();
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
      const { problem } = await this.refresh();
      if (this.#isFresh()) return this.#rules;
      if (problem instanceof UnreadablePolicy)
        throw new InternalError('policy_unreadable', { cause: problem });
    }
    throw new InternalError('database_unavailable', { cause: this.#latest.problem });
  }

  #isFresh(): boolean {
    return leaseMs() - this.#latest.asOfMs < POLICY_LEASE_MS;
  }

  /** Resolves to the result of a read after this call. Never fails. */
  async refresh(): Promise<PolicySnapshot> {
    await this.#refresher.refresh();
    return this.#latest;
  }

  async #refreshed(asOfMs: number): Promise<() => void> {
    try {
      const deadlineMs = performance.now() + REFRESH_TIMEOUT_MS;
      this.#hasBareTokens ||= await this.#store.hasBareTokens(deadlineMs);
      const { known, problem } = await this.#read(deadlineMs);
      return () => this.#take(asOfMs, known, problem);
    } catch (error) {
      return () => this.#take(asOfMs, undefined, error);
    }
  }

  /**
   * A version that a failover loses must not be in force. So a version that is not known to be
   * durable waits for the standby, for a moment. Without it, the one before stays in force: nobody
   * was told that the version is done, unless an older program applied it.
   */
  async #read(
    deadlineMs: number,
  ): Promise<{ readonly known: Known; readonly problem: PolicyNotDurable | undefined }> {
    const version = this.#known?.version;
    const heads = await this.#store.candidates(version?.version ?? 0, deadlineMs);
    const last = heads.find((head) => head.is_durable || isVersion(head, version));
    const newer = last === undefined ? heads : heads.slice(0, heads.indexOf(last));
    const durable = newer.length === 0 ? undefined : await this.#newestDurable(newer, deadlineMs);
    if (durable !== undefined) return { known: durable, problem: undefined };
    const problem = newer[0] && new PolicyNotDurable(newer[0].version);
    return { known: await this.#knownOf(last, deadlineMs), problem };
  }

  /** undefined: the standby does not answer, and all of these are noted when they are durable. */
  async #newestDurable(
    newer: readonly PolicyHead[],
    deadlineMs: number,
  ): Promise<Known | undefined> {
    try {
      const stored = await this.#store.newestDurable(performance.now() + STANDBY_TIMEOUT_MS);
      if (stored === undefined) return NONE;
      this.#note(stored);
      return await this.#readKnown(stored, deadlineMs);
    } catch (error) {
      if (error instanceof Unavailable && newer.every((head) => head.is_noted)) return undefined;
      throw error;
    }
  }

  /** So that no start of a node waits for the standby. Another node may, if this one fails. */
  #note(stored: Durable<StoredPolicy>): void {
    const deadlineMs = performance.now() + STANDBY_TIMEOUT_MS;
    this.#store.note(stored, stored.document, deadlineMs).catch(() => {});
  }

  async #knownOf(head: PolicyHead | undefined, deadlineMs: number): Promise<Known> {
    if (head === undefined) return NONE;
    if (isVersion(head, this.#known?.version)) return this.#known!;
    const stored = await this.#store.get(head.version, deadlineMs);
    if (isVersion(head, stored)) return this.#readKnown(stored!, deadlineMs);
    throw new Unavailable(new Error('the policies changed between two reads'));
  }

  /** A read that takes longer goes on, for the next refresh. */
  async #readKnown(stored: StoredPolicy, deadlineMs: number): Promise<Known> {
    if (this.#reading === undefined || !isVersion(stored, this.#reading.of)) {
      const reading = { of: stored, known: this.#knownAs(stored) };
      this.#reading = reading;
      reading.known.catch(() => {
        if (this.#reading === reading) this.#reading = undefined;
      });
    }
    const late = sleep(deadlineMs - performance.now(), undefined, { ref: false }).then(() => {
      throw new Error('the policy is still being read');
    });
    return Promise.race([this.#reading.known, late]);
  }

  async #knownAs(stored: StoredPolicy): Promise<Known> {
    const version = versionOf(stored);
    const [policy] = await this.#readPolicies([stored]);
    if (typeof policy !== 'string') return { version, policy: policy!, problem: undefined };
    return { version, policy: NO_POLICY, problem: new UnreadablePolicy(version.version, policy) };
  }

  #take(asOfMs: number, known: Known | undefined, otherwise: unknown): void {
    const problem = known?.problem ?? otherwise;
    if (known === undefined) this.#latest = { ...this.#latest, problem };
    else {
      this.#known = known;
      const isReadable = known.problem === undefined;
      this.#latest = { policy: known.policy, asOfMs: isReadable ? asOfMs : -Infinity, problem };
      if (isReadable) this.#takePolicy(known.policy);
    }
    this.#notify(problem);
  }

  #takePolicy(policy: Policy): void {
    const { policy: before, hasBareTokens } = this.#rules;
    // The tag, too: a failover can give the number to another document, or leave no policy.
    const isNew = policy.tag !== before.tag || policy.version !== before.version;
    if (isNew && policy.version > 0) this.#onPolicy(policy);
    if (isNew || (this.#hasBareTokens && !hasBareTokens))
      this.#rules = new PolicyRules(policy, this.#hasBareTokens);
  }
}

/** By its time, too: a failover can give its number to another document. */
function isVersion(head: PolicyVersion, version: PolicyVersion | undefined): boolean {
  return version !== undefined && isDeepStrictEqual(versionOf(head), versionOf(version));
}
