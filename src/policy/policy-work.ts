import { Worker } from 'node:worker_threads';
import type { Client } from '../client-settings.ts';
import { OperatorError } from '../errors.ts';
import type { StoredPolicy } from '../store/policies.ts';
import { parsePolicy } from './parse.ts';
import { clientViews, kindExamples, planOf } from './policies.ts';
import { type ReadPolicies, readPolicy } from './policy-follower.ts';

/** A document of the greatest size takes half a second on a machine that does nothing else. */
const TIMEOUT_MS = 30_000;
/** In MB. Such a document takes 80. */
const MAX_HEAP_MB = 160;
const THREAD = new URL('./policy-thread.js', import.meta.url);

/** The slow work on policies. Arguments and results can be cloned. */
export const POLICY_WORK = {
  read: (all: readonly StoredPolicy[]) => all.map(readPolicy),

  /** All about a document that a person may apply. */
  check(
    document: string,
    suffix: string,
    newest: StoredPolicy | undefined,
    clients: readonly Client[],
  ) {
    const { policy, mistakes, warnings } = parsePolicy(document);
    if (policy === undefined) return { mistakes, warnings, kinds: [], clients: [] };
    const plan = planOf(newest, clients, document, policy);
    const kinds = kindExamples(policy, suffix);
    return { mistakes, warnings, plan, kinds, clients: clientViews(policy, clients) };
  },
};

type Work = typeof POLICY_WORK;

/** A document that takes this long or this much memory is none that a person wrote. */
export class TooMuchWork extends OperatorError {
  constructor() {
    super('The policy takes too long to read: make it shorter.');
  }
}

/**
 * Does the work in a thread of its own, off the event loop that serves requests: a document can
 * take half a second.
 * @throws TooMuchWork
 */
export function offThread<N extends keyof Work>(
  name: N,
  ...args: Parameters<Work[N]>
): Promise<ReturnType<Work[N]>> {
  const worker = new Worker(THREAD, {
    ...{ workerData: { name, args }, execArgv: [] },
    resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB },
  });
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => void worker.terminate(), TIMEOUT_MS);
    worker.once('message', resolve);
    worker.once('error', (error: NodeJS.ErrnoException) =>
      reject(error.code === 'ERR_WORKER_OUT_OF_MEMORY' ? new TooMuchWork() : error),
    );
    // After a message, nothing happens.
    worker.once('exit', () => {
      clearTimeout(timer);
      reject(new TooMuchWork());
    });
  });
}

export const readOffThread: ReadPolicies = (all) => offThread('read', all);
