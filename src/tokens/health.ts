import type { Pool } from '../store/pool.ts';
import type { WriteGuards } from './write-guards.ts';

type Guards = Pick<WriteGuards, 'canSeal' | 'hasSpace'>;

/** Leaves time to answer an orchestrator within 1.5 s. */
const PROBE_TIMEOUT_MS = 1_000;
/**
 * Probes within this time share one answer. /health needs no API key, so it must not load the
 * database.
 */
const SHARED_FOR_MS = 100;

/** Tells whether the database answers and the node can work. */
export class Health {
  readonly #pool: Pool;
  readonly #guards: Guards | undefined;
  #probe: Promise<boolean> | undefined;

  /**
   * @param pool whose connection nothing else uses
   * @param guards undefined: this process seals nothing
   */
  constructor(pool: Pool, guards?: Guards) {
    this.#pool = pool;
    this.#guards = guards;
  }

  /** `isDatabaseWell`: the database answers and has space. */
  async read(): Promise<{ readonly isDatabaseWell: boolean; readonly isAble: boolean }> {
    const isUp = await this.isDatabaseUp();
    const isDatabaseWell = isUp && this.#guards?.hasSpace() !== false;
    return { isDatabaseWell, isAble: isDatabaseWell && this.#guards?.canSeal() !== false };
  }

  isDatabaseUp(): Promise<boolean> {
    this.#probe ??= this.#ask();
    return this.#probe;
  }

  async #ask(): Promise<boolean> {
    const isUp = await this.#pool.ping(performance.now() + PROBE_TIMEOUT_MS).then(
      () => true,
      () => false,
    );
    setTimeout(() => {
      this.#probe = undefined;
    }, SHARED_FOR_MS).unref();
    return isUp;
  }
}
