type End = (delayMs: number) => Promise<void>;

/**
 * Handles SIGTERM, SIGINT and SIGHUP from the start of the service. Without a handler, each of them
 * would kill the process, even while it answers its first requests.
 */
export class Signals {
  #end: End = async () => process.exit(0);
  #onHangUp = () => {};
  #ended: Promise<void> | undefined;

  /** @param drainDelayMs delay before a stop by SIGTERM */
  constructor(drainDelayMs: number) {
    // Remove the handlers that the command line uses while the program loads.
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.removeAllListeners(signal);
    process.on('SIGTERM', () => this.#stop(drainDelayMs));
    process.on('SIGINT', () => this.#stop(0));
    process.on('SIGHUP', () => this.#onHangUp());
  }

  /**
   * Sets what the signals do. Until then there is nothing to finish, so a signal ends the process
   * at once.
   */
  handle(end: End, onHangUp: () => void): void {
    this.#end = end;
    this.#onHangUp = onHangUp;
  }

  /** Only the first call has an effect. */
  #stop(delayMs: number): void {
    this.#ended ??= this.#end(delayMs);
  }

  /**
   * Resolves when no signal has asked the process to end. Otherwise it never resolves, and the
   * process ends by itself.
   */
  async unlessEnding(): Promise<void> {
    if (this.#ended !== undefined) await new Promise(() => {});
  }
}
