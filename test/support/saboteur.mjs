// --import loads this file into the main thread and the vault threads of a service. When the file
// SABOTAGE names a thread and a fault, that thread suffers the fault. The product itself has no
// such hook. This file is JavaScript, because the service under test loads it without a compiler.
import { readFileSync } from 'node:fs';
import { isMainThread, threadId } from 'node:worker_threads';

const FAULTS = {
  throw: () => {
    throw new Error('sabotage');
  },
  reject: () => void Promise.reject(new Error('sabotage')),
  exit: () => process.exit(0),
};
let isDone = false;

function look() {
  let order = '';
  try {
    order = readFileSync(process.env.SABOTAGE, 'utf8');
  } catch {
    // The file does not exist yet.
  }
  const [thread, fault] = order.split(' ');
  if (isDone || (thread === 'main') !== isMainThread || fault === undefined) return;
  // The first vault thread works on the small requests.
  if (!isMainThread && threadId !== 1) return;
  isDone = true;
  FAULTS[fault]();
}

if (process.env.SABOTAGE !== undefined) setInterval(look, 20).unref();
