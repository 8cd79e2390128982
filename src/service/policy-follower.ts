import { isDeepStrictEqual } from 'node:util';
import { digestOf } from '../crypto/primitives.ts';
import { OperatorError, operatorError } from '../errors.ts';
import { parsePolicy } from '../policy/parse.ts';
import type { Policy } from '../policy/policy.ts';
import type { PolicyStore, PolicyVersion, StoredPolicy } from '../store/policies.ts';
import { monotonicMs } from '../timeouts.ts';

/** The policy of the vault, for all code that serves requests. */
export interface PolicySnapshot {
  /** undefined: no policy was applied, or `problem` says why it is not known. */
  readonly policy: Policy | undefined;
  /** Whether tokens without the suffix of the vault were imported. Stays true. */
  readonly hasBareTokens: boolean;
  /**
   * When standin.policies was last read (a time of monotonicMs). -Infinity: it was not read yet, or
   * this program cannot read the newest document. Serve nothing with an old snapshot.
   */
  readonly asOfMs: number;
  /** Why the last read failed; undefined: it succeeded. */
  readonly problem: unknown;
}

/** A request that uses an older policy could break the promise of 5 s. */
export const POLICY_LEASE_MS = 5_000;
/** An applied version becomes known after this time, plus one query. */
const LOOK_INTERVAL_MS = 2_000;
const LOOK_PATIENCE_MS = 4_000;
/** The shortest time between reads that requests wait for. */
const DEMAND_INTERVAL_MS = 50;
/** A read that began before this may be of a process that stood still since. */
const SHARED_FOR_MS = 1_000;

/** The newest policy is in force, so without it an older one must not be used. */
export class UnreadablePolicy extends OperatorError {
  constructor(version: number, mistake: string) {
    super(
      `Version ${version} of the policy cannot be read by this program: ${mistake}. Start the release that applied it, or apply another document: standin policy apply FILE`,
    );
  }
}

/** See Policy. */
export function tagOf(document: string): string {
  return `"${digestOf(document)}"`;
}

/** @throws UnreadablePolicy */
export function policyOf({ version, document }: StoredPolicy): Policy {
  const { policy, mistakes } = parsePolicy(document, true);
  if (policy !== undefined) return { version, tag: tagOf(document), ...policy };
  const { line, column, text } = mistakes[0]!;
  throw new UnreadablePolicy(version, `line ${line}, column ${column}: ${text}`);
}

/** What standin.policies had at a read that the standby had, too. */
interface Known {
  /** undefined: no policy was applied. */
  readonly version: PolicyVersion | undefined;
  readonly policy: Policy | undefined;
  readonly problem: UnreadablePolicy | undefined;
}

/**
 * Keeps the policy of this process equal to the newest version in standin.policies, which commands
 * on other machines add. After a failed read, the process keeps the policy that it has, and
 * `asOfMs` stays.
 */
export class PolicyFollower {
  readonly #store: PolicyStore;
  readonly #onChange: (problem: unknown) => void;
  readonly #listeners: ((snapshot: PolicySnapshot) => void)[] = [];
  #known: Known | undefined;
  #hasBareTokens = false;
  #latest: PolicySnapshot = {
    policy: undefined,
    hasBareTokens: false,
    asOfMs: -Infinity,
    problem: undefined,
  };
  #timer: NodeJS.Timeout | undefined;
  #startedAtMs = -Infinity;
  #looking: Promise<void> | undefined;
  /** When the latest read that ended had begun. */
  #endedStartMs = -Infinity;
  #hasStopped = false;

  /**
   * @param store on a pool that housekeeping never uses
   * @param onChange called with the problem when it changes; undefined: no problem any more
   */
  constructor(store: PolicyStore, onChange: (problem: unknown) => void = () => {}) {
    this.#store = store;
    this.#onChange = onChange;
  }

  get latest(): PolicySnapshot {
    return this.#latest;
  }

  /** Called after every read. */
  subscribe(listener: (snapshot: PolicySnapshot) => void): void {
    this.#listeners.push(listener);
  }

  /** Reads the policy once, then every 2 s. Never fails. */
  async start(): Promise<void> {
    this.#timer = setInterval(() => void this.demand(), LOOK_INTERVAL_MS).unref();
    await this.demand();
  }

  stop(): void {
    this.#hasStopped = true;
    clearInterval(this.#timer);
  }

  /**
   * Reads the policy at once, and resolves when all listeners have the result. Never fails. Calls
   * at the same time share a read: look at `asOfMs`.
   */
  async demand(): Promise<PolicySnapshot> {
    const isUnderWay = this.#endedStartMs < this.#startedAtMs;
    const shareMs = isUnderWay ? SHARED_FOR_MS : DEMAND_INTERVAL_MS;
    // Not more than four reads are under way: they begin a second apart, and each ends after 4 s.
    if (this.#startedAtMs + shareMs <= monotonicMs()) this.#looking = this.#look();
    await this.#looking;
    return this.#latest;
  }

  async #look(): Promise<void> {
    const asOfMs = monotonicMs();
    this.#startedAtMs = asOfMs;
    try {
      const deadlineMs = performance.now() + LOOK_PATIENCE_MS;
      this.#hasBareTokens ||= await this.#store.hasBareTokens(deadlineMs);
      this.#tell(asOfMs, await this.#read(deadlineMs), undefined);
    } catch (error) {
      this.#tell(asOfMs, undefined, error);
    }
  }

  /**
   * Waits for the standby when the newest version is another one: a version that a failover loses
   * must not be in force.
   */
  async #read(deadlineMs: number): Promise<Known> {
    const known = this.#known;
    if (known !== undefined) {
      const newest = await this.#store.newestVersion(deadlineMs);
      if (isDeepStrictEqual(newest, known.version)) return known;
    }
    const stored = await this.#store.newestDurable(deadlineMs);
    if (stored === undefined) return { version: undefined, policy: undefined, problem: undefined };
    const { document: _, ...version } = stored;
    try {
      return { version, policy: policyOf(stored), problem: undefined };
    } catch (error) {
      if (!(error instanceof UnreadablePolicy)) throw error;
      return { version, policy: undefined, problem: error };
    }
  }

  /** Drops the result of a slow read when a later read has already ended. */
  #tell(startMs: number, known: Known | undefined, failure: unknown): void {
    if (startMs < this.#endedStartMs || this.#hasStopped) return;
    this.#endedStartMs = startMs;
    const before = this.#latest.problem;
    const problem = known === undefined ? failure : known.problem;
    if (known === undefined) this.#latest = { ...this.#latest, problem };
    else {
      const asOfMs = problem === undefined ? startMs : -Infinity;
      this.#known = known;
      const { policy } = known;
      this.#latest = { policy, hasBareTokens: this.#hasBareTokens, asOfMs, problem };
    }
    for (const listener of this.#listeners) listener(this.#latest);
    if (inWords(before) !== inWords(problem)) this.#onChange(problem);
  }
}

/** Reasons for an unavailable database differ only in their cause, so their texts are compared. */
function inWords(problem: unknown): string {
  return String(operatorError(problem) ?? problem);
}
