const DRAW_INTERVAL_MS = 200;
const LINE_INTERVAL_MS = 10_000;
const BAR_CELLS = 24;

export interface ProgressOptions {
  /** The counted things, for example `records`. */
  readonly unit: string;
  /** undefined: unknown. The bar then shows the share, if known. */
  readonly total?: number | undefined;
  readonly output?: NodeJS.WriteStream;
  readonly nowMs?: () => number;
}

/**
 * Shows the progress of long work on standard error. On a terminal: a bar with rate and time left.
 * Elsewhere: a plain line every 10 s.
 */
export class Progress {
  readonly #unit: string;
  readonly #total: number | undefined;
  #share: number | undefined;
  #firstShare: number | undefined;
  readonly #output: NodeJS.WriteStream;
  readonly #nowMs: () => number;
  readonly #startedAtMs: number;
  #shownAtMs: number;
  #done = 0;

  constructor(options: ProgressOptions) {
    this.#unit = options.unit;
    this.#total = options.total;
    this.#output = options.output ?? process.stderr;
    this.#nowMs = options.nowMs ?? (() => performance.now());
    this.#startedAtMs = this.#nowMs();
    this.#shownAtMs = this.#startedAtMs;
  }

  /** @param share part of all the work that is done, 0 to 1; for work without a known total */
  advance(count: number, share?: number): void {
    this.#done += count;
    this.#share = share;
    this.#firstShare ??= share;
    const intervalMs = this.#output.isTTY ? DRAW_INTERVAL_MS : LINE_INTERVAL_MS;
    if (this.#nowMs() - this.#shownAtMs >= intervalMs) this.#show();
  }

  /** Prints a line above the bar. */
  note(line: string): void {
    this.#output.write(this.#output.isTTY ? `\r\x1b[K${line}\n` : `${line}\n`);
  }

  /** Shows the last state and ends its line. */
  end(): void {
    this.#show();
    if (this.#output.isTTY) this.#output.write('\n');
  }

  #show(): void {
    this.#shownAtMs = this.#nowMs();
    this.#output.write(this.#output.isTTY ? `\r${this.#text()}\x1b[K` : `${this.#text()}\n`);
  }

  #text(): string {
    const elapsedS = (this.#nowMs() - this.#startedAtMs) / 1000;
    const rate = elapsedS > 0 ? this.#done / elapsedS : 0;
    const done = `${format(this.#done)} ${this.#unit}, ${format(Math.round(rate))}/s`;
    if (this.#total === undefined) return this.#share === undefined ? done : this.#shared(done);
    // An estimated or growing total must not be below the count.
    const total = Math.max(this.#total, this.#done);
    const share = total === 0 ? 1 : this.#done / total;
    const left = rate > 0 ? `, ${duration((total - this.#done) / rate)} left` : '';
    return `${this.#bar(share)}  ${format(this.#done)} of ${format(total)} ${this.#unit}, ${format(Math.round(rate))}/s${left}`;
  }

  #shared(done: string): string {
    const share = this.#share!;
    const gained = share - this.#firstShare!;
    const elapsedS = (this.#nowMs() - this.#startedAtMs) / 1000;
    const left = gained > 0 ? `, ${duration((elapsedS * (1 - share)) / gained)} left` : '';
    return `${this.#bar(share)}  ${done}${left}`;
  }

  #bar(share: number): string {
    const cells = Math.floor(share * BAR_CELLS);
    const bar = this.#output.isTTY ? `[${'#'.repeat(cells).padEnd(BAR_CELLS, '.')}] ` : '';
    return `${bar}${`${Math.floor(share * 100)} %`.padStart(5)}`;
  }
}

function format(number: number): string {
  return number.toLocaleString('en-US');
}

/** `1 h 02 min`, `3 min 05 s`, `12 s` */
function duration(seconds: number): string {
  const s = Math.ceil(seconds);
  const two = (number: number) => String(number).padStart(2, '0');
  if (s >= 3_600) return `${Math.floor(s / 3_600)} h ${two(Math.floor((s % 3_600) / 60))} min`;
  return s >= 60 ? `${Math.floor(s / 60)} min ${two(s % 60)} s` : `${s} s`;
}
