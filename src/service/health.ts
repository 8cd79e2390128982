import type { Pool } from '../store/pool.ts';

/** Leaves time to answer an orchestrator within 1.5 s. */
const PROBE_PATIENCE_MS = 1_000;
/**
 * Probes within this time share one answer. /health needs no API key, so it must not load the
 * database.
 */
const SHARED_FOR_MS = 100;

/** What a node needs to work, besides a database that answers. */
export interface Work {
  /** Whether the node has a current key to seal with. */
  canSeal(): boolean;
  /** Whether the disk of the database has space for records. */
  hasSpace(): boolean;
}

/** Tells whether the database answers and the node can work. */
export class Health {
  readonly #pool: Pool;
  readonly #work: Work | undefined;
  #probe: Promise<boolean> | undefined;

  /**
   * @param pool whose connection nothing else uses
   * @param work undefined: this process seals nothing
   */
  constructor(pool: Pool, work?: Work) {
    this.#pool = pool;
    this.#work = work;
  }

  /** `isDatabaseWell`: the database answers and has space. */
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
