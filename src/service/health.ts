import type { Pool } from '../store/pool.ts';
import { ping } from '../store/server.ts';

/** Within 1.5 s an orchestrator gets its answer. */
const PROBE_PATIENCE_MS = 1_000;
/**
 * Probes closer together than this share an answer: /health needs no API key, and must not load the
 * database.
 */
const SHARED_FOR_MS = 100;

/** Whether the database answers. */
export class Health {
  readonly #pool: Pool;
  #probe: Promise<boolean> | undefined;

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  isDatabaseUp(): Promise<boolean> {
    this.#probe ??= this.#ask();
    return this.#probe;
  }

  async #ask(): Promise<boolean> {
    const is_up = await ping(this.#pool, performance.now() + PROBE_PATIENCE_MS).then(
      () => true,
      () => false,
    );
    setTimeout(() => {
      this.#probe = undefined;
    }, SHARED_FOR_MS).unref();
    return is_up;
  }
}
