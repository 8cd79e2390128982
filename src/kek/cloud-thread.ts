import { parentPort, workerData } from 'node:worker_threads';
import { decryptHere } from './clouds.ts';

/** Decrypts one ciphertext. `clouds.ts` starts and ends this thread. */
parentPort!.postMessage(await decryptHere(workerData));
