type End = (delay_ms: number, exit_code: number) => Promise<void>;

/**
 * What SIGTERM, SIGINT and SIGHUP do from the first moment of the service on: without a handler,
 * each of them kills a process, also one that only begins to answer requests.
 */
export class Signals {
  #end: End = async (_, exit_code) => process.exit(exit_code);
  #restart = () => {};
  #ended: Promise<void> | undefined;

  /** @param drain_delay_ms of an end by SIGTERM */
  constructor(drain_delay_ms: number) {
    // The command line has handlers of its own for the time that loading takes.
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.removeAllListeners(signal);
    process.on('SIGTERM', () => this.end(drain_delay_ms, 0));
    process.on('SIGINT', () => this.end(0, 0));
    process.on('SIGHUP', () => this.#restart());
  }

  /** Until this is called there is nothing to finish, so the process ends at once. */
  handle(end: End, restart: () => void): void {
    this.#end = end;
    this.#restart = restart;
  }

  /** The first call counts. */
  end(delay_ms: number, exit_code: number): void {
    this.#ended ??= this.#end(delay_ms, exit_code);
  }

  /** Resolves where nobody has asked for the end: otherwise this process ends on its own. */
  async unlessEnding(): Promise<void> {
    if (this.#ended !== undefined) await new Promise(() => {});
  }
}
