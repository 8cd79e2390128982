import { kekOf } from '../crypto/kek.ts';
import type { PlainKey } from '../crypto/keyring.ts';
import { InternalError, type InternalReason, OperatorError, Unavailable } from '../errors.ts';
import type { KekSource } from '../kek/source.ts';
import { Refresher, whenItChanges } from '../refresher.ts';
import type { WrappedKeyStore } from '../store/wrapped-keys.ts';
import { monotonicMs, STANDBY_TIMEOUT_MS } from '../timeouts.ts';
import type { WrappedKey } from '../types.ts';
import { type OpenedKey, primaryVersionOf, unwrap } from './open-keys.ts';

/** The state of the vault's keys, for all code that seals and opens records. */
export interface KeySnapshot {
  readonly keys: readonly PlainKey[];
  /**
   * When standin.keyring was last read and every DEK unwrapped (a time of monotonicMs). `keys` has
   * every key that is older.
   */
  readonly asOfMs: number;
  /** Whether the standby has `keys`. A key that a failover loses must not seal. */
  readonly isDurable: boolean;
  /** Why the last read failed; undefined: it succeeded. */
  readonly failure: InternalReason | undefined;
}

/** An added or retired key version becomes known after this time, plus one query. */
const REFRESH_INTERVAL_MS = 2_000;
const REFRESH_TIMEOUT_MS = 4_000;
/** Rows that do not unwrap are tried again after this pause, which doubles each time. */
const FIRST_PAUSE_MS = 2_000;
const LONGEST_PAUSE_MS = 10_000;

/** The keys of this process are not those of the vault, so it must not seal. */
class KeysDiffer extends OperatorError {}

/**
 * The primary is never retired, so its row was lost: deleted, or missing on a promoted standby. Its
 * records cannot be opened once the last process that has the key ends.
 */
const primaryGone = (version: number) =>
  new KeysDiffer(
    `Version ${version} of the dek key, the primary, is gone from standin.keyring. Restore its row from a backup. Until then this process does not tokenize, and it may be the last one that can open the records of that version. If you restored an older database on purpose, restart the service.`,
  );

/** A version has one key for ever: this database is a different vault, or an older copy of it. */
const keyReplaced = (version: number) =>
  new KeysDiffer(
    `Version ${version} of the dek key in standin.keyring is not the key that this process has for it. Until a restart this process does not tokenize. Before you restart it, make sure that DATABASE_URL leads to the right database: this process may be the last one that can open the records of that key.`,
  );

/** A failed unwrap. It is not repeated before `untilMs` unless the rows change. */
interface Backoff {
  readonly rows: string;
  readonly error: unknown;
  readonly pauseMs: number;
  readonly untilMs: number;
}

/**
 * Keeps the DEKs of an open vault equal to standin.keyring, which commands on other machines
 * change. After a failed read or unwrap, the process keeps the keys that it has.
 */
export class KeyringFollower {
  readonly #store: WrappedKeyStore;
  readonly #source: KekSource;
  readonly #notify: (problem: unknown) => void;
  readonly #refresher = new Refresher((startedAtMs) => this.#read(startedAtMs), {
    intervalMs: REFRESH_INTERVAL_MS,
    nowMs: monotonicMs,
  });
  readonly #listeners: ((snapshot: KeySnapshot) => void)[] = [];
  /** By version, with the wrapped bytes of their rows at the last read. */
  readonly #known: Map<number, OpenedKey>;
  #latest: KeySnapshot;
  /** The highest version that the standby had. A failover may lose or replace later ones. */
  #durableVersion = 0;
  #backoff: Backoff | undefined;

  /**
   * @param keys the keys that the vault was opened with
   * @param onChange called with the problem when it changes; undefined: no problem any more
   */
  constructor(
    store: WrappedKeyStore,
    source: KekSource,
    keys: readonly OpenedKey[],
    onChange: (problem: unknown) => void = () => {},
  ) {
    this.#store = store;
    this.#source = source;
    this.#notify = whenItChanges(onChange);
    this.#latest = { keys, asOfMs: -Infinity, isDurable: false, failure: undefined };
    const deks = keys.filter(({ purpose }) => purpose === 'dek');
    this.#known = new Map(deks.map((key) => [key.version, key]));
  }

  get latest(): KeySnapshot {
    return this.#latest;
  }

  /** The highest DEK version, which seals new records. */
  get primaryVersion(): number {
    return primaryVersionOf(this.#latest.keys);
  }

  /** Reads the keyring once, then every 2 s. Never fails. */
  start(): Promise<void> {
    return this.#refresher.start();
  }

  stop(): void {
    this.#refresher.stop();
  }

  subscribe(listener: (snapshot: KeySnapshot) => void): void {
    this.#listeners.push(listener);
  }

  /** Resolves when all listeners have the result of a read after this call. Never fails. */
  refresh(): Promise<void> {
    return this.#refresher.refresh();
  }

  async #read(asOfMs: number): Promise<() => void> {
    try {
      const { deks, problem } = await this.#rows(performance.now() + REFRESH_TIMEOUT_MS);
      const keys = await this.#keysOf(deks);
      const isDurable = problem === undefined;
      if (isDurable) this.#durableVersion = primaryVersionOf(keys);
      const snapshot = { keys, asOfMs, isDurable, failure: problem?.reason };
      return () => this.#take(snapshot, problem ?? this.#backoff?.error);
    } catch (error) {
      const failure = error instanceof InternalError ? error.reason : 'key_missing';
      return () => {
        const lastAsOfMs = error instanceof KeysDiffer ? -Infinity : this.#latest.asOfMs;
        this.#take({ ...this.#latest, asOfMs: lastAsOfMs, failure }, error);
      };
    }
  }

  #take(snapshot: KeySnapshot, problem: unknown): void {
    this.#latest = snapshot;
    for (const listener of this.#listeners) listener(snapshot);
    this.#notify(problem);
  }

  /**
   * The rows of the DEKs. Waits for the standby when they changed, for a moment: a key that a
   * failover loses must not seal, because another key then gets its version.
   * @returns a problem when the standby does not answer: the keys may only open
   */
  async #rows(deadlineMs: number) {
    const ofDeks = (rows: readonly WrappedKey[]) => rows.filter(({ purpose }) => purpose === 'dek');
    const deks = ofDeks(await this.#store.list(deadlineMs));
    if (this.#latest.isDurable && this.#changed(deks).length === 0) return { deks };
    try {
      const byMs = performance.now() + STANDBY_TIMEOUT_MS;
      return { deks: ofDeks(await this.#store.listDurable(byMs)) };
    } catch (problem) {
      if (problem instanceof Unavailable) return { deks, problem };
      throw problem;
    }
  }

  #changed(deks: readonly WrappedKey[]): WrappedKey[] {
    return deks.filter(({ id, version, wrapped }) => {
      const known = this.#known.get(version);
      return known?.id !== id || !known.wrapped.equals(wrapped);
    });
  }

  /** @throws OperatorError when the key of a row is unknown and cannot be unwrapped */
  async #keysOf(deks: readonly WrappedKey[]): Promise<readonly PlainKey[]> {
    const primary = this.#durableVersion;
    if (deks.every(({ version }) => version < primary)) throw primaryGone(primary);
    const changed = this.#changed(deks);
    if (changed.length > 0) await this.#unwrap(changed);
    else this.#backoff = undefined;
    const missing = deks.find(({ version }) => !this.#known.has(version));
    if (missing !== undefined) throw this.#backoff!.error;
    const versions = new Set(deks.map(({ version }) => version));
    for (const version of this.#known.keys()) {
      if (!versions.has(version)) this.#known.delete(version);
    }
    const others = this.#latest.keys.filter(({ purpose }) => purpose !== 'dek');
    return [...others, ...deks.map(({ version }) => this.#known.get(version)!)];
  }

  /** Unwraps new and rewrapped rows. Keeps a failure as the backoff. */
  async #unwrap(changed: readonly WrappedKey[]): Promise<void> {
    const rows = changed.map(({ wrapped }) => wrapped.toString('base64')).join();
    const last = this.#backoff?.rows === rows ? this.#backoff : undefined;
    if (last !== undefined && monotonicMs() < last.untilMs) return;
    try {
      const kek = kekOf(await this.#source.read());
      for (const row of changed) {
        const [key] = unwrap([row], kek, this.#source);
        const known = this.#known.get(row.version);
        const isOther = known?.bytes.equals(key!.bytes) === false;
        if (isOther && row.version <= this.#durableVersion) throw keyReplaced(row.version);
        this.#known.set(row.version, key!);
      }
      this.#backoff = undefined;
    } catch (error) {
      if (error instanceof KeysDiffer) throw error;
      const pauseMs = Math.min(LONGEST_PAUSE_MS, last ? 2 * last.pauseMs : FIRST_PAUSE_MS);
      this.#backoff = { rows, error, pauseMs, untilMs: monotonicMs() + pauseMs };
    }
  }
}
