import { parentPort, workerData } from 'node:worker_threads';
import { OperatorError } from '../errors.ts';
import { type CloudResult, type CloudWork, cloudOf } from './clouds.ts';

/** Decrypts one ciphertext; `clouds.ts` starts and ends this thread. */
const { ciphertext, settings, timeouts } = workerData as CloudWork;

async function work(): Promise<CloudResult> {
  try {
    const decrypt = cloudOf(settings).decrypt;
    return { plaintext: await decrypt(Buffer.from(ciphertext), settings, timeouts) };
  } catch (error) {
    if (error instanceof OperatorError) return { problem: error.message };
    throw error;
  }
}

parentPort!.postMessage(await work());
