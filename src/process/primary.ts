import cluster from 'node:cluster';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Config } from '../config/config.ts';
import { OperatorError } from '../errors.ts';
import { listen } from '../http/listen.ts';
import type { Log } from '../log.ts';
import type { Gauges } from '../metrics/gauges.ts';
import { WorkerMetrics } from '../ops/worker-metrics.ts';
import type { KeyFeed } from '../service/keys/key-feed.ts';
import { PrimaryBuckets } from '../service/limits/primary-buckets.ts';
import type { TlsPem } from '../types.ts';
import { RETIRE_TIMEOUT_MS } from './public-listener.ts';
import type { FromWorker } from './worker-messages.ts';
import { endOf, endWithin, kill, type Member, send } from './worker-process.ts';

/** The compiled one, also when this file runs as TypeScript. */
const WORKER = fileURLToPath(new URL('../../dist/process/worker.js', import.meta.url));
/** A worker that ends sooner after its start is replaced with a pause, longer each time. */
const SHORT_LIFE_MS = 10_000;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;
/** After so many starts in a row that came to nothing, the service ends and says why. */
const MAX_FAILED_STARTS = 5;
const SCRAPE_TIMEOUT_MS = 1_000;

export interface WorkersOptions {
  readonly config: Config;
  readonly keys: KeyFeed;
  /** undefined: HTTP in clear. */
  readonly tls: TlsPem | undefined;
  readonly gauges: Gauges;
  readonly log: Log;
  /** The service cannot go on. */
  readonly onFatal: (problems: readonly string[]) => void;
}

/** How the starts of the workers with one number went. */
interface Fortune {
  short_lives: number;
  failed_starts: number;
}

/**
 * The primary: starts workers, which answer on the port, and watches them. It takes connections
 * only to hand them on; what is said on them it does not see.
 */
export class Workers {
  readonly url: string;
  readonly metrics: WorkerMetrics;
  readonly #options: WorkersOptions;
  readonly #members = new Set<Member>();
  readonly #fortunes = new Map<number, Fortune>();
  readonly #buckets = new PrimaryBuckets();
  readonly #scrapes = new Map<number, { missing: number; readonly resolve: () => void }>();
  #last_scrape = 0;
  #is_rolling = false;
  #is_stopping = false;
  #tls: TlsPem | undefined;

  /** Resolves when all listen. @throws OperatorError with the reason of the first that does not */
  static async start(options: WorkersOptions): Promise<Workers> {
    const { HOST, PORT, WORKERS } = options.config;
    // Known before the workers start: each of them, and each that follows, is given the same.
    const probe = createServer();
    const scheme = options.tls === undefined ? 'http' : 'https';
    const url = await listen(probe, HOST, PORT, 'PORT', undefined, scheme);
    await once(probe.close(), 'close');
    const of_scheme = scheme === 'http' ? 80 : 443;
    const config = { ...options.config, PORT: Number(new URL(url).port || of_scheme) };
    cluster.schedulingPolicy = cluster.SCHED_RR;
    cluster.setupPrimary({ exec: WORKER, args: [], serialization: 'advanced' });
    const workers = new Workers({ ...options, config }, url);
    const numbers = Array.from({ length: WORKERS }, (_, i) => i + 1);
    await Promise.all(numbers.map((number) => workers.#launch(number)));
    for (const member of workers.#members) workers.#watch(member);
    return workers;
  }

  private constructor(options: WorkersOptions, url: string) {
    this.url = url;
    this.#options = options;
    this.#tls = options.tls;
    this.metrics = new WorkerMetrics(options.gauges, (is_sample) => this.#scrape(is_sample));
    options.keys.subscribe((news) => {
      // The first message to a worker must be its start, which has them.
      for (const member of this.#members)
        if (member.listening_at_ms !== undefined) send(member, { kind: 'keys', news });
    });
  }

  /** A new worker for each, one after the other, without a request that fails. */
  async roll(): Promise<void> {
    const { log, config } = this.#options;
    if (this.#is_rolling) return log.warn({}, 'a rolling restart is under way');
    this.#is_rolling = true;
    log.info({}, 'rolling restart');
    let number = 1;
    while (number <= config.WORKERS && (await this.#renew(number))) number++;
    if (number > config.WORKERS) log.info({}, 'rolling restart done');
    this.#is_rolling = false;
  }

  async #renew(number: number): Promise<boolean> {
    const old = [...this.#members].find((member) => member.number === number);
    try {
      await this.#startAnother(number);
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      if (this.#is_stopping) return false;
      const { problems } = error;
      this.#options.log.error(
        { worker: number, problems },
        'worker could not start, the old one stays',
      );
      if (!this.#isTaken(number)) void this.#replace(number);
      return false;
    }
    if (old !== undefined) await this.#retire(old);
    return !this.#is_stopping;
  }

  /** For connections that are made from now on, also to workers that start later. */
  renew(tls: TlsPem): void {
    this.#tls = tls;
    // One that starts gets it when it listens: its first message must be its start.
    for (const member of this.#members)
      if (member.listening_at_ms !== undefined) send(member, { kind: 'renew', tls });
  }

  /** Resolves when no worker is left; within the time-outs, however they fare. */
  async stop(delay_ms: number): Promise<void> {
    this.#is_stopping = true;
    const ends = [...this.#members].map((member) => {
      // One that does not listen yet has no requests to finish.
      if (member.listening_at_ms === undefined) return kill(member);
      send(member, { kind: 'stop', delay_ms });
      return endWithin(member, delay_ms);
    });
    await Promise.all(ends);
  }

  /** Resolves when the worker listens. @throws OperatorError when it ends instead */
  async #launch(number: number): Promise<Member> {
    const worker = cluster.fork();
    const member: Member = {
      number,
      worker,
      ended: endOf(worker),
      listening_at_ms: undefined,
      is_leaving: false,
      problems: undefined,
    };
    this.#members.add(member);
    const listening = new Promise<undefined>((resolve) => {
      worker.on('message', (message: FromWorker) => {
        this.#take(member, message);
        if (message.kind === 'listening') resolve(undefined);
      });
    });
    const gone = member.ended.then((how) => {
      this.#members.delete(member);
      this.metrics.end(worker.id);
      return how;
    });
    const how = await Promise.race([listening, gone]);
    if (how === undefined) return member;
    throw new OperatorError(
      ...(member.problems ?? [`Worker ${number} ended with ${how} before it listened.`]),
    );
  }

  #take(member: Member, message: FromWorker): void {
    const { config, keys } = this.#options;
    if (message.kind === 'loaded') {
      const { number } = member;
      send(member, { kind: 'start', number, config, keys: keys.latest, tls: this.#tls });
    } else if (message.kind === 'take') {
      send(member, { kind: 'granted', answers: this.#buckets.answer(message.calls) });
    } else if (message.kind === 'keys_wanted') keys.demand();
    else if (message.kind === 'metrics') {
      this.metrics.put(member.worker.id, message.snapshot);
      if (message.id !== undefined) this.#answerScrape(message.id);
    } else if (message.kind === 'failed') member.problems = message.problems;
    else {
      member.listening_at_ms = performance.now();
      // It may have started with one that was renewed meanwhile.
      if (this.#tls !== undefined) send(member, { kind: 'renew', tls: this.#tls });
    }
  }

  async #startAnother(number: number): Promise<void> {
    const member = await this.#launch(number);
    this.#options.log.info({ worker: number, pid: member.worker.process.pid }, 'worker started');
    this.#watch(member);
  }

  /** Replaces a worker that listens when it ends by itself. */
  #watch(member: Member): void {
    void member.ended.then((how) => {
      if (member.is_leaving || this.#is_stopping) return;
      const { number, listening_at_ms } = member;
      const fortune = this.#fortuneOf(number);
      const is_short = performance.now() - listening_at_ms! < SHORT_LIFE_MS;
      fortune.short_lives = is_short ? fortune.short_lives + 1 : 0;
      this.#options.log.warn({ worker: number, ended_with: how }, 'worker ended');
      void this.#replace(number);
    });
  }

  async #replace(number: number): Promise<void> {
    const { log, onFatal } = this.#options;
    const fortune = this.#fortuneOf(number);
    this.metrics.restart();
    await sleep(pauseAfter(fortune.short_lives + fortune.failed_starts));
    if (this.#is_stopping || this.#isTaken(number)) return;
    try {
      await this.#startAnother(number);
      fortune.failed_starts = 0;
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      if (this.#is_stopping || this.#isTaken(number)) return;
      log.error({ worker: number, problems: error.problems }, 'worker could not start');
      if (++fortune.failed_starts >= MAX_FAILED_STARTS) onFatal(error.problems);
      else void this.#replace(number);
    }
  }

  /** A rolling restart may have been faster. */
  #isTaken(number: number): boolean {
    return [...this.#members].some((member) => member.number === number && !member.is_leaving);
  }

  #fortuneOf(number: number): Fortune {
    let fortune = this.#fortunes.get(number);
    if (fortune === undefined) {
      fortune = { short_lives: 0, failed_starts: 0 };
      this.#fortunes.set(number, fortune);
    }
    return fortune;
  }

  async #retire(member: Member): Promise<void> {
    member.is_leaving = true;
    this.metrics.leave(member.worker.id);
    send(member, { kind: 'retire' });
    await endWithin(member, RETIRE_TIMEOUT_MS);
  }

  /** Has the metrics of all that answer in time; of the others the last ones stay. */
  async #scrape(is_sample: boolean): Promise<void> {
    const asked = [...this.#members].filter((member) => member.listening_at_ms !== undefined);
    const id = ++this.#last_scrape;
    const all_answered = new Promise<void>((resolve) => {
      this.#scrapes.set(id, { missing: asked.length, resolve });
    });
    for (const member of asked) send(member, { kind: 'scrape', id, is_sample });
    const given_up = new AbortController();
    await Promise.race([
      all_answered,
      sleep(SCRAPE_TIMEOUT_MS, undefined, { signal: given_up.signal }).catch(() => {}),
    ]);
    given_up.abort();
    this.#scrapes.delete(id);
  }

  #answerScrape(id: number): void {
    const scrape = this.#scrapes.get(id);
    if (scrape !== undefined && --scrape.missing === 0) scrape.resolve();
  }
}

function pauseAfter(failures: number): number {
  return failures < 2 ? 0 : Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (failures - 2));
}
