import type { Worker } from 'node:cluster';
import { setTimeout as sleep } from 'node:timers/promises';
import { CLOSE_TIMEOUT_MS } from '../timeouts.ts';
import { FINISH_TIMEOUT_MS } from './public-listener.ts';
import type { ToWorker } from './worker-messages.ts';

const LOOK_INTERVAL_MS = 10;
/** What a worker may take to end once it has stopped waiting for callers. */
const END_TIMEOUT_MS = FINISH_TIMEOUT_MS + CLOSE_TIMEOUT_MS + 500;

/** One worker process. */
export interface Member {
  /** From 1; the one that takes its place has the same. */
  readonly number: number;
  readonly worker: Worker;
  /** Resolves to how it ended, when its last message has been read. */
  readonly ended: Promise<string>;
  listening_at_ms: number | undefined;
  is_leaving: boolean;
  problems: readonly string[] | undefined;
}

/** Resolves to how the worker ended, when its last message has been read. */
export function endOf(worker: Worker): Promise<string> {
  const cutConnection = watchConnection(worker);
  return new Promise((resolve) => {
    worker.once('exit', async (code, signal) => {
      // Its 'disconnect' does not come when a connection was being handed to it (Node 20).
      while (worker.isConnected()) await sleep(LOOK_INTERVAL_MS);
      if (code !== 0) cutConnection();
      resolve(signal ?? `exit code ${code}`);
    });
    // It was not even started.
    worker.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.name));
  });
}

/**
 * A connection that is being handed to a worker when that is killed is forgotten by node:cluster,
 * open: its caller would wait for ever. There is one at a time; closing it again does nothing.
 * @returns closes the last one
 */
function watchConnection({ process }: Worker): () => void {
  let last: { close?(): void } | undefined;
  const post = process.send.bind(process) as (...args: unknown[]) => boolean;
  process.send = ((...args: unknown[]) => {
    if (typeof args[1] === 'object' && args[1] !== null) last = args[1];
    return post(...args);
  }) as typeof process.send;
  return () => last?.close?.();
}

/** Resolves when it has ended; by force when it takes longer than it may. */
export async function endWithin(member: Member, wait_ms: number): Promise<void> {
  const late = setTimeout(() => void kill(member), wait_ms + END_TIMEOUT_MS);
  await member.ended;
  clearTimeout(late);
}

export async function kill({ worker, ended }: Member): Promise<void> {
  worker.process.kill('SIGKILL');
  await ended;
}

/** To a worker that is gone, nothing: its end is noticed elsewhere. */
export function send({ worker }: Member, message: ToWorker): void {
  worker.send(message, () => {});
}
