import { Worker } from 'node:worker_threads';
import type { KeySnapshot } from '../keys/keyring-follower.ts';
import {
  type Call,
  errorOf,
  Outbox,
  type Part,
  packCall,
  type Report,
  type ThreadData,
  unpackReports,
} from './thread-messages.ts';
import type { EngineObserver, Results } from './vault-engine.ts';

const THREAD = new URL('./vault-thread.js', import.meta.url);

interface Pending {
  readonly texts: number;
  readonly resolve: (results: Results) => void;
  readonly reject: (error: Error) => void;
}

/** The main thread's side of a vault engine that runs in its own thread. */
export class ThreadClient {
  readonly #thread: Worker;
  readonly #pending = new Map<number, Pending>();
  readonly #outbox: Outbox<Part>;
  #pendingTexts = 0;
  #lastId = 0;
  #isClosing = false;

  constructor(data: ThreadData, observer: EngineObserver) {
    this.#thread = new Worker(THREAD, { workerData: data, execArgv: [] });
    this.#outbox = new Outbox((parts) => this.#thread.postMessage(parts));
    const onResults = (id: number, results: Results) => this.#end(id).resolve(results);
    const onReport = (report: Report) => this.#take(report, observer);
    this.#thread.on('message', (parts: (Part | Report)[]) =>
      unpackReports(parts, onResults, onReport),
    );
    // Rethrown to end the process: without its thread it is useless, and a supervisor can restart
    // it.
    this.#thread.on('error', (error) => {
      throw error;
    });
    this.#thread.on('exit', () => {
      if (!this.#isClosing) throw new Error('a vault thread ended');
    });
  }

  /** Texts in calls that are not answered yet. */
  get pendingTexts(): number {
    return this.#pendingTexts;
  }

  /** See VaultEngine.call. */
  call(call: Omit<Call, 'id'>): Promise<Results> {
    return new Promise((resolve, reject) => {
      const id = ++this.#lastId;
      const texts = call.texts.length;
      this.#pending.set(id, { texts, resolve, reject });
      this.#pendingTexts += texts;
      packCall({ id, ...call }, this.#outbox.due());
    });
  }

  renew(news: KeySnapshot): void {
    this.#thread.postMessage(news);
  }

  reconnect(): void {
    this.#thread.postMessage('reconnect');
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    await this.#thread.terminate();
  }

  #take(report: Report, observer: EngineObserver): void {
    if ('batch' in report) observer.batch(report.batch, report.records);
    else if ('damaged' in report) observer.damaged(report.damaged);
    else if ('wantsKeys' in report) observer.keysWanted();
    else this.#end(report.id).reject(errorOf(report.failure));
  }

  #end(id: number): Pending {
    const pending = this.#pending.get(id)!;
    this.#pending.delete(id);
    this.#pendingTexts -= pending.texts;
    return pending;
  }
}
