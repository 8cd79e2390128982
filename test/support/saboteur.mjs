// Loaded into a service by --import, in its main thread and its vault threads: when the file SABOTAGE has the
// name of a fault, the thread that it names suffers it. The product itself has no such
// hook. JavaScript, because the service under test loads it as it is.
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
    // Not yet.
  }
  const [thread, fault] = order.split(' ');
  if (isDone || (thread === 'main') !== isMainThread || fault === undefined) return;
  // The first of the vault threads has the small requests.
  if (!isMainThread && threadId !== 1) return;
  isDone = true;
  FAULTS[fault]();
}

if (process.env.SABOTAGE !== undefined) setInterval(look, 20).unref();
