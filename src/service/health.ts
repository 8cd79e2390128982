import type { Pool } from '../store/pool.ts';

/** Within 1.5 s an orchestrator gets its answer. */
const PROBE_PATIENCE_MS = 1_000;
/**
 * Probes closer together than this share an answer: /health needs no API key, and must not load the
 * database.
 */
const SHARED_FOR_MS = 100;

/** What a node needs for its work besides an answer of the database. */
export interface Work {
  /** Whether it has a live key version to seal with. */
  canSeal(): boolean;
  /** Whether the database has space for more records. */
  hasSpace(): boolean;
}

/** Whether the database answers, and the node can do its work. */
export class Health {
  readonly #pool: Pool;
  readonly #work: Work | undefined;
  #probe: Promise<boolean> | undefined;

  /**
   * @param pool with a connection that nothing else holds
   * @param work undefined: the process seals nothing
   */
  constructor(pool: Pool, work?: Work) {
    this.#pool = pool;
    this.#work = work;
  }

  /** `isDatabaseWell`: it answers, and takes records. */
  async look(): Promise<{ readonly isDatabaseWell: boolean; readonly isAble: boolean }> {
    const isUp = await this.isDatabaseUp();
    const isDatabaseWell = isUp && this.#work?.hasSpace() !== false;
    return { isDatabaseWell, isAble: isDatabaseWell && this.#work?.canSeal() !== false };
  }

  isDatabaseUp(): Promise<boolean> {
    this.#probe ??= this.#ask();
    return this.#probe;
  }

  async #ask(): Promise<boolean> {
    const isUp = await this.#pool.ping(performance.now() + PROBE_PATIENCE_MS).then(
      () => true,
      () => false,
    );
    setTimeout(() => {
      this.#probe = undefined;
    }, SHARED_FOR_MS).unref();
    return isUp;
  }
}
