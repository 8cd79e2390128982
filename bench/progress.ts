/** Shows the progress of a long run: one updating line on a terminal, otherwise a line per step. */
export class Progress {
  readonly #steps: number;
  readonly #isTerminal = process.stderr.isTTY === true;
  #startedMs = 0;
  #done = 0;

  constructor(steps: number) {
    this.#steps = steps;
  }

  /** Prints a line that does not count as a step. */
  note(text: string): void {
    this.#write(text);
  }

  begin(text: string): void {
    if (this.#startedMs === 0) this.#startedMs = performance.now();
    if (this.#isTerminal) this.#write(`${this.#place(1)} ${text}`);
  }

  /** @param outcome in words, for readers of the run's log */
  end(text: string, outcome: string): void {
    this.#done++;
    if (!this.#isTerminal) this.#write(`${this.#place(0)} ${text} => ${outcome}`);
  }

  clear(): void {
    if (this.#isTerminal) process.stderr.write('\r\x1b[2K');
  }

  #place(step: 0 | 1): string {
    const leftMs =
      this.#done === 0
        ? undefined
        : ((performance.now() - this.#startedMs) / this.#done) * (this.#steps - this.#done);
    const left = leftMs === undefined ? '' : `, ${minutes(leftMs)} left`;
    return `[${this.#done + step}/${this.#steps}${left}]`;
  }

  #write(line: string): void {
    if (!this.#isTerminal) process.stderr.write(`${line}\n`);
    else process.stderr.write(`\r\x1b[2K${line.slice(0, (process.stderr.columns || 80) - 1)}`);
  }
}

export function minutes(ms: number): string {
  const seconds = Math.round(ms / 1_000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
}
