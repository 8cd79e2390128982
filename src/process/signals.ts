type End = (delayMs: number) => Promise<void>;

/**
 * What SIGTERM, SIGINT and SIGHUP do from the first moment of the service on: without a handler,
 * each of them kills a process, also one that only begins to answer requests.
 */
export class Signals {
  #end: End = async () => process.exit(0);
  #onHangUp = () => {};
  #ended: Promise<void> | undefined;

  /** @param drainDelayMs of an end by SIGTERM */
  constructor(drainDelayMs: number) {
    // The command line has handlers of its own for the time that loading takes.
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.removeAllListeners(signal);
    process.on('SIGTERM', () => this.#stop(drainDelayMs));
    process.on('SIGINT', () => this.#stop(0));
    process.on('SIGHUP', () => this.#onHangUp());
  }

  /** Until this is called there is nothing to finish, so the process ends at once. */
  handle(end: End, onHangUp: () => void): void {
    this.#end = end;
    this.#onHangUp = onHangUp;
  }

  /** The first call counts. */
  #stop(delayMs: number): void {
    this.#ended ??= this.#end(delayMs);
  }

  /** Resolves where nobody has asked for the end: otherwise this process ends on its own. */
  async unlessEnding(): Promise<void> {
    if (this.#ended !== undefined) await new Promise(() => {});
  }
}
