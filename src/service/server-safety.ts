import { InternalError } from '../errors.ts';
import type { Pool } from '../store/pool.ts';
import { serverFacts } from '../store/server.ts';

const LOOK_INTERVAL_MS = 2_000;
const LOOK_PATIENCE_MS = 4_000;

export interface ServerSafetyOptions {
  readonly pool: Pool;
  /** Tokenize goes on all the same. */
  readonly isUnsafeAllowed: boolean;
  /** Told the settings that lose acknowledged tokens, as `name=value`, when they change. */
  readonly onChange: (unsafeSettings: readonly string[]) => void;
}

/** Whether the server keeps what it acknowledges: its settings can be changed while it runs. */
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

  /** @throws InternalError while what is written could be lost */
  check(): void {
    if (!this.isSafe && !this.#options.isUnsafeAllowed) throw new InternalError('database_unsafe');
  }

  /** A database that does not answer leaves it at what was seen last. */
  async #look(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    const { pool, onChange } = this.#options;
    try {
      const { unsafeSettings } = await serverFacts(pool, performance.now() + LOOK_PATIENCE_MS);
      // A session keeps what its role had when it began: the next look is to have a new one.
      if (unsafeSettings.length > 0) pool.reconnect();
      if (unsafeSettings.join() === this.#unsafeSettings.join()) return;
      this.#unsafeSettings = unsafeSettings;
      onChange(unsafeSettings);
    } catch {
      // Requests tell of a database that is away.
    } finally {
      this.#isLooking = false;
    }
  }
}
