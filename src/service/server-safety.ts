import { InternalError } from '../errors.ts';
import type { Pool } from '../store/pool.ts';
import { serverFacts } from '../store/server.ts';

const LOOK_INTERVAL_MS = 2_000;
const LOOK_PATIENCE_MS = 4_000;

export interface ServerSafetyOptions {
  readonly pool: Pool;
  /** If true, tokenize continues on an unsafe server. */
  readonly isUnsafeAllowed: boolean;
  /** Called when the unsafe settings change, with each as `name=value`. */
  readonly onChange: (unsafeSettings: readonly string[]) => void;
}

/**
 * Watches whether the server keeps what it acknowledges, because its settings can change while it
 * runs.
 */
export class ServerSafety {
  readonly #options: ServerSafetyOptions;
  #unsafeSettings: readonly string[] = [];
  #isLooking = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: ServerSafetyOptions) {
    this.#options = options;
  }

  start(): void {
    this.#timer = setInterval(() => void this.#look(), LOOK_INTERVAL_MS);
    this.#timer.unref();
    void this.#look();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  get isSafe(): boolean {
    return this.#unsafeSettings.length === 0;
  }

  /** @throws InternalError while the server could lose writes */
  check(): void {
    if (!this.isSafe && !this.#options.isUnsafeAllowed) throw new InternalError('database_unsafe');
  }

  /** If the database does not answer, the last result stays. */
  async #look(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    const { pool, onChange } = this.#options;
    try {
      const { unsafeSettings } = await serverFacts(pool, performance.now() + LOOK_PATIENCE_MS);
      // A session keeps the settings of its role from its start, so the next look needs a new one.
      if (unsafeSettings.length > 0) pool.reconnect();
      if (unsafeSettings.join() === this.#unsafeSettings.join()) return;
      this.#unsafeSettings = unsafeSettings;
      onChange(unsafeSettings);
    } catch {
      // Requests report a database that is away.
    } finally {
      this.#isLooking = false;
    }
  }
}
