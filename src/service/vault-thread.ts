import { parentPort, workerData } from 'node:worker_threads';
import { Keyring } from '../crypto/keyring.ts';
import { RecordStore } from '../store/records.ts';
import type { Token, Value } from '../types.ts';
import { Detokenizer } from './detokenizer.ts';
import {
  type Call,
  failureOf,
  Outbox,
  type Report,
  type Texts,
  type ThreadData,
} from './thread-messages.ts';
import { Tokenizer } from './tokenizer.ts';
import { CONTROL_CONNECTIONS, openPool, REQUEST_PATIENCE_MS } from './vault.ts';

/**
 * The entry of a vault thread: shape, cryptography and database, off the event loop that serves
 * HTTP.
 *
 * Calls are begun a few at a time, with a turn of the event loop between: so one batch is sealed
 * while another is written and the answers of a third go out. All at once, each of the three would
 * wait for the others.
 */
const CALLS_A_TURN = 16;

const { vault, keys } = workerData as ThreadData;
const outbox = new Outbox<Report>((reports) => parentPort!.postMessage(reports));
const keyring = new Keyring(keys);
const pool = openPool(vault, vault.database_connections - CONTROL_CONNECTIONS);
const records = new RecordStore(pool, {
  patience_ms: REQUEST_PATIENCE_MS,
  onBatch: (batch, records) => outbox.put({ batch, records }),
});
const tokenizer = new Tokenizer(records, keyring, vault.token_suffix);
const detokenizer = new Detokenizer(records, keyring, (damaged) => outbox.put({ damaged }));
let waiting: Call[] = [];

parentPort!.on('message', (calls: Call[]) => {
  if (waiting.length === 0) setImmediate(begin);
  waiting.push(...calls);
});

function begin(): void {
  const calls = waiting.slice(0, CALLS_A_TURN);
  waiting = waiting.slice(CALLS_A_TURN);
  if (waiting.length > 0) setImmediate(begin);
  for (const call of calls) {
    answer(call).then(
      (texts) => outbox.put({ id: call.id, texts }),
      (error) => outbox.put({ id: call.id, failure: failureOf(error) }),
    );
  }
}

function answer({ operation, texts }: Call): Promise<Texts> {
  if (operation === 'detokenize') return detokenizer.detokenize(texts as Token[]);
  return tokenizer.tokenize(texts as Value[], operation);
}
