import { AggregatorRegistry, Counter, type Registry } from 'prom-client';
import { addGauges, type Gauges } from '../metrics/gauges.ts';
import { processRegistry, type Snapshot } from '../metrics/metrics.ts';

/** Ours are sums over all workers; the others tell of one process, and have its label. */
const OURS = /^standin_/;

interface Shown {
  snapshot: Snapshot;
  /** One that leaves would show its process under the label of the worker that follows it. */
  is_leaving: boolean;
}

/**
 * The metrics of several workers as those of one service. What a worker has counted stays in the
 * sums when it ends: a sum that falls looks to Prometheus like a restart, and is counted twice.
 */
export class WorkerMetrics {
  readonly #registry = processRegistry('primary');
  readonly #restarts: Counter;
  readonly #workers = new Map<number, Shown>();
  readonly #ask: (is_sample: boolean) => Promise<unknown>;
  #ended: Snapshot = [];
  readonly content_type = this.#registry.contentType;

  /**
   * @param ask has `put` called for all workers that answer in time: with all metrics, or with what
   * a sample needs
   */
  constructor(gauges: Gauges, ask: (is_sample: boolean) => Promise<unknown>) {
    this.#ask = ask;
    const registers = [this.#registry];
    this.#restarts = new Counter({
      name: 'standin_worker_restarts_total',
      help: 'Workers that ended by themselves and were replaced.',
      registers,
    });
    addGauges(registers, gauges);
  }

  restart(): void {
    this.#restarts.inc();
  }

  /**
   * @param id of one worker process, never used again
   * @param snapshot what is not in it stays as it was
   */
  put(id: number, snapshot: Snapshot): void {
    const shown = this.#workers.get(id);
    if (shown === undefined) this.#workers.set(id, { snapshot, is_leaving: false });
    else {
      const names = new Set(snapshot.map(({ name }) => name));
      const others = shown.snapshot.filter(({ name }) => !names.has(name));
      shown.snapshot = [...snapshot, ...others];
    }
  }

  leave(id: number): void {
    const shown = this.#workers.get(id);
    if (shown !== undefined) shown.is_leaving = true;
  }

  end(id: number): void {
    const shown = this.#workers.get(id);
    if (shown === undefined) return;
    this.#workers.delete(id);
    this.#ended = sumOf([this.#ended, shown.snapshot.filter(isCounted)]);
  }

  /** Of all workers, not added up. */
  async sampled(): Promise<Snapshot> {
    await this.#ask(true);
    return [this.#ended, ...[...this.#workers.values()].map(({ snapshot }) => snapshot)].flat();
  }

  async text(): Promise<string> {
    await this.#ask(false);
    const own = await this.#registry.getMetricsAsJSON();
    const shown = [...this.#workers.values()].map(({ snapshot, is_leaving }) =>
      is_leaving ? snapshot.filter(({ name }) => OURS.test(name)) : snapshot,
    );
    return registryOf([own, this.#ended, ...shown]).metrics();
  }
}

/** What a worker counted; how it stood ends with it. */
function isCounted({ name, type }: Snapshot[number]): boolean {
  return OURS.test(name) && String(type) !== 'gauge';
}

/** Ours with the same labels are added up, or show the least; those of a process are alone. */
function registryOf(snapshots: readonly Snapshot[]): Registry {
  return AggregatorRegistry.aggregate(
    snapshots.map((snapshot) =>
      snapshot.map((metric) =>
        OURS.test(metric.name) ? metric : { ...metric, aggregator: 'sum' },
      ),
    ),
  );
}

function sumOf(snapshots: readonly Snapshot[]): Snapshot {
  return registryOf(snapshots).getMetricsAsArray() as unknown as Snapshot;
}
