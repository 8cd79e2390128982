import { parentPort, workerData } from 'node:worker_threads';
import { type Call, failureOf, Outbox, type Report, type ThreadData } from './thread-messages.ts';
import { VaultEngine } from './vault-engine.ts';

/**
 * The entry of a vault thread: an engine off the event loop that serves HTTP.
 *
 * Calls are begun a few at a time, with a turn of the event loop between: so one batch is sealed
 * while another is written and the answers of a third go out. All at once, each of the three would
 * wait for the others.
 */
const TEXTS_A_TURN = 48;

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
  for (let texts = 0; texts < TEXTS_A_TURN && waiting.length > 0; ) {
    const call = waiting.shift()!;
    texts += call.texts.length;
    answer(call);
  }
  if (waiting.length > 0) setImmediate(begin);
}

function answer({ id, operation, texts }: Call): void {
  engine.call(operation, texts).then(
    (answered) => outbox.put({ id, texts: answered }),
    (error) => outbox.put({ id, failure: failureOf(error) }),
  );
}
