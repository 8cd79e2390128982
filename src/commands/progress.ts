import { count, plural } from '../terminal.ts';
import { interruptible } from './command.ts';

const DRAW_INTERVAL_MS = 200;
const LINE_INTERVAL_MS = 10_000;
const BAR_CELLS = 24;
/** Of a terminal that does not tell its width. */
const USUAL_COLUMNS = 80;

interface ProgressOptions {
  /** A counted thing, for example `record`. */
  readonly unit: string;
  /** undefined: unknown. The bar then shows the share, if known. */
  readonly total?: number | undefined;
  /** The reason why the work waits at the moment; undefined: none. */
  readonly waitsFor?: () => string | undefined;
  readonly output?: NodeJS.WriteStream;
  readonly nowMs?: () => number;
}

/**
 * Shows the progress of long work on standard error. On a terminal: a line that fits, with a bar,
 * rate and time left. Elsewhere: a plain line every 10 s. A new reason to wait is shown at once.
 */
export class Progress {
  readonly #options: ProgressOptions;
  #total: number | undefined;
  #share: number | undefined;
  #firstShare: number | undefined;
  #shownWait: string | undefined;
  #isShown = false;
  readonly #output: NodeJS.WriteStream;
  readonly #startedAtMs: number;
  #shownAtMs: number;
  #done = 0;

  constructor(options: ProgressOptions) {
    this.#options = options;
    this.#total = options.total;
    this.#output = options.output ?? process.stderr;
    this.#startedAtMs = this.#nowMs();
    this.#shownAtMs = this.#startedAtMs;
  }

  #nowMs(): number {
    return this.#options.nowMs?.() ?? performance.now();
  }

  /** @param share part of all the work that is done, 0 to 1; for work without a known total */
  advance(count: number, share?: number): void {
    this.#done += count;
    this.#share = share;
    this.#firstShare ??= share;
    this.tick();
  }

  /** Shows the state, unless it was shown a moment ago. */
  tick(): void {
    const intervalMs = this.#output.isTTY ? DRAW_INTERVAL_MS : LINE_INTERVAL_MS;
    const wait = this.#options.waitsFor?.();
    const isNew = wait !== undefined && wait !== this.#shownWait;
    if (isNew) this.#shownWait = wait;
    if (isNew || this.#nowMs() - this.#shownAtMs >= intervalMs) this.#show();
  }

  /** Prints a line above the bar. */
  note(line: string): void {
    this.#output.write(this.#output.isTTY ? `\r\x1b[K${line}\n` : `${line}\n`);
  }

  /**
   * Shows the last state and ends its line. Work that did nothing leaves no line.
   * @param isWhole all of the work is done, whatever was estimated
   */
  end(isWhole = false): void {
    if (isWhole && this.#total !== undefined) this.#total = this.#done;
    if (this.#done > 0) this.#show();
    if (!this.#output.isTTY) return;
    if (this.#done > 0) this.#output.write('\n');
    else if (this.#isShown) this.#output.write('\r\x1b[K');
  }

  #show(): void {
    this.#isShown = true;
    this.#shownAtMs = this.#nowMs();
    this.#output.write(this.#output.isTTY ? `\r${this.#text()}\x1b[K` : `${this.#text()}\n`);
  }

  /** The longest form that fits the terminal. */
  #text(): string {
    const { isTTY, columns } = this.#output;
    const room = isTTY ? columns || USUAL_COLUMNS : Number.POSITIVE_INFINITY;
    const forms = this.#forms();
    return forms.find((form) => form.length < room) ?? forms.at(-1)!.slice(0, room - 1);
  }

  /** The state in words, the longest form first. */
  #forms(): string[] {
    const elapsedS = (this.#nowMs() - this.#startedAtMs) / 1000;
    const rate = elapsedS > 0 ? this.#done / elapsedS : 0;
    const { share, leftS, of } = this.#part(elapsedS, rate);
    const wait = this.#options.waitsFor?.();
    const done = `${count(this.#done)}${of} ${plural(this.#total ?? this.#done, this.#options.unit)}`;
    const left = leftS === undefined ? '' : `, ${duration(leftS)} left`;
    const perS = `, ${count(Math.round(rate))}/s`;
    const inShort = wait === undefined ? perS : ', waiting';
    const inFull = wait === undefined ? perS + left : `${rate > 0 ? perS : ''}, waiting: ${wait}`;
    if (share === undefined) return [done + inFull, done + inShort, done];
    const percent = `${Math.floor(share * 100)} %`.padStart(5);
    const lines = [inFull, inShort].map((end) => `${percent}  ${done}${end}`);
    return [`${this.#bar(share)}${lines[0]}`, ...lines, percent + inShort, percent.trim()];
  }

  /** The part of the work that is done, if known, and the time for the rest. */
  #part(elapsedS: number, rate: number) {
    if (this.#total !== undefined) {
      // An estimated or growing total must not be below the count.
      const total = Math.max(this.#total, this.#done);
      const leftS = rate > 0 ? (total - this.#done) / rate : undefined;
      return { share: total === 0 ? 1 : this.#done / total, leftS, of: ` of ${count(total)}` };
    }
    const share = this.#share;
    const gained = share === undefined || share === 1 ? 0 : share - this.#firstShare!;
    return { share, leftS: gained > 0 ? (elapsedS * (1 - share!)) / gained : undefined, of: '' };
  }

  #bar(share: number): string {
    const cells = Math.floor(share * BAR_CELLS);
    return this.#output.isTTY ? `[${'#'.repeat(cells).padEnd(BAR_CELLS, '.')}] ` : '';
  }
}

const TICK_MS = 1_000;

/** Shows the progress of work until it ends, or Ctrl-C stops it. */
export async function watched<T extends object>(
  progress: Progress,
  work: (stop: AbortSignal) => Promise<T>,
): Promise<{ readonly result: T; readonly seconds: number; readonly isStopped: boolean }> {
  const startedAtMs = performance.now();
  const ticking = setInterval(() => progress.tick(), TICK_MS);
  let isWhole = false;
  try {
    return await interruptible(async (stop) => {
      const result = await work(stop);
      isWhole = !stop.aborted && !('error' in result && result.error);
      const seconds = Math.round(performance.now() - startedAtMs) / 1000;
      return { result, seconds, isStopped: stop.aborted };
    });
  } finally {
    clearInterval(ticking);
    progress.end(isWhole);
  }
}

/** `1 h 02 min`, `3 min 05 s`, `12 s` */
function duration(seconds: number): string {
  const s = Math.ceil(seconds);
  const two = (number: number) => String(number).padStart(2, '0');
  if (s >= 3_600) return `${Math.floor(s / 3_600)} h ${two(Math.floor((s % 3_600) / 60))} min`;
  return s >= 60 ? `${Math.floor(s / 60)} min ${two(s % 60)} s` : `${s} s`;
}
