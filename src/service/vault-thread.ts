import { parentPort, workerData } from 'node:worker_threads';
import { type Call, failureOf, Outbox, type Report, type ThreadData } from './thread-messages.ts';
import { VaultEngine } from './vault-engine.ts';

/**
 * The entry of a vault thread: an engine off the event loop that serves HTTP. Calls are begun one a
 * turn of the event loop: all at once, the first would wait until the last is sealed.
 */
const { engine: data, connections } = workerData as ThreadData;
const outbox = new Outbox<Report>((reports) => parentPort!.postMessage(reports));
const engine = new VaultEngine(data, connections, {
  batch: (batch, records) => outbox.put({ batch, records }),
  damaged: (damaged) => outbox.put({ damaged }),
});
const waiting: Call[] = [];

parentPort!.on('message', (calls: Call[]) => {
  if (waiting.length === 0) setImmediate(begin);
  waiting.push(...calls);
});

function begin(): void {
  const { id, operation, texts } = waiting.shift()!;
  if (waiting.length > 0) setImmediate(begin);
  engine.call(operation, texts).then(
    (answer) => outbox.put({ id, texts: answer }),
    (error) => outbox.put({ id, failure: failureOf(error) }),
  );
}
