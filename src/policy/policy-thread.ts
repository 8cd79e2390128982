import { parentPort, workerData } from 'node:worker_threads';
import { POLICY_WORK } from './policy-work.ts';

/** Entry point of a thread that does one piece of work on policies: see `offThread`. */
const { name, args } = workerData;
const work: (...args: never[]) => unknown = POLICY_WORK[name as keyof typeof POLICY_WORK];
parentPort!.postMessage(work(...(args as never[])));
