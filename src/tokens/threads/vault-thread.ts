import { parentPort, workerData } from 'node:worker_threads';
import { Unavailable } from '../../errors.ts';
import { Timeline } from '../../store/primary.ts';
import { RecordStore } from '../../store/records.ts';
import { monotonicMs, statementDeadline, VAULT_TIMEOUT_MS } from '../../timeouts.ts';
import type { Token, Value } from '../../types.ts';
import { LeasedKeyring } from '../../vault/leased-keyring.ts';
import { openPool } from '../../vault/pools.ts';
import { Detokenizer } from '../detokenizer.ts';
import { Tokenizer } from '../tokenizer.ts';
import {
  failureOf,
  isPiece,
  type MessagePart,
  Outbox,
  packResults,
  type Report,
  type Results,
  type ThreadData,
  type ToThread,
  unpackCalls,
  type VaultCall,
} from './messages.ts';
import { ThreadRules } from './thread-rules.ts';

/**
 * Entry point of a vault thread: tokenizes and detokenizes on its own database connections, off the
 * event loop that serves HTTP.
 * Each turn of the event loop starts some small calls and one piece of a large call. So the thread
 * seals one batch while the database writes another and the results of a third leave, and small
 * calls wait for one piece at most.
 */

const SMALL_TEXTS_A_TURN = 96;
/** When a running piece finds the database away, pieces that have waited this long fail with it. */
const STALLED_AFTER_MS = 1_000;
/** More pieces would only delay small calls that wait for a statement. */
const MAX_PIECES_UNDER_WAY = 8;

const data = workerData as ThreadData;
const outbox = new Outbox<MessagePart | Report>((parts) => parentPort!.postMessage(parts));
const onDamaged = (damaged: number) => outbox.put({ damaged });
const keys = new LeasedKeyring(data.keys, () => outbox.put({ wantsKeys: true }));
const pool = openPool(data.vault, data.connections, new Timeline(data.timeline));
const records = new RecordStore(pool, {
  timeoutMs: VAULT_TIMEOUT_MS,
  onBatch: (batch, count) => outbox.put({ batch, records: count }),
});
const tokenizer = new Tokenizer(records, keys, data.vault.token_suffix, onDamaged);
const detokenizer = new Detokenizer(records, keys, onDamaged);
const rules = new ThreadRules();

const small: VaultCall[] = [];
/** Waiting pieces, with their time of arrival. */
const pieces: { readonly call: VaultCall; readonly sinceMs: number }[] = [];
let piecesUnderWay = 0;
let isTurnDue = false;

parentPort!.on('message', (message: ToThread) => {
  if (message === 'reconnect') return pool.reconnect();
  if (!isCalls(message))
    return 'policy' in message ? rules.add(message.policy) : keys.take(message);
  const sinceMs = performance.now();
  for (const call of unpackCalls(message)) {
    if (isPiece(call.question.texts.length, call.bytes)) pieces.push({ call, sinceMs });
    else small.push(call);
  }
  takeTurnSoon();
});

function isCalls(message: Exclude<ToThread, string>): message is readonly MessagePart[] {
  return Array.isArray(message);
}

function canBeginPiece(): boolean {
  return pieces.length > 0 && piecesUnderWay < MAX_PIECES_UNDER_WAY;
}

function takeTurnSoon(): void {
  if (isTurnDue || (small.length === 0 && !canBeginPiece())) return;
  isTurnDue = true;
  setImmediate(takeTurn);
}

function takeTurn(): void {
  isTurnDue = false;
  for (let texts = 0; texts < SMALL_TEXTS_A_TURN && small.length > 0; ) {
    const call = small.shift()!;
    texts += call.question.texts.length;
    void answer(call);
  }
  if (canBeginPiece()) beginPiece();
  takeTurnSoon();
}

function beginPiece(): void {
  piecesUnderWay++;
  const deadlineMs = monotonicMs() + VAULT_TIMEOUT_MS;
  void answer({ ...pieces.shift()!.call, deadlineMs }).then((error) => {
    piecesUnderWay--;
    if (error instanceof Unavailable) failStalled(error);
    takeTurnSoon();
  });
}

/**
 * Fails old pieces when the database is away. The deadline of a piece begins only when it starts,
 * eight at a time, so queued pieces would wait many times that long.
 */
function failStalled(error: Unavailable): void {
  const stalledBeforeMs = performance.now() - STALLED_AFTER_MS;
  while (pieces.length > 0 && pieces[0]!.sinceMs < stalledBeforeMs)
    outbox.put({ id: pieces.shift()!.call.id, failure: failureOf(error) });
}

/** Resolves to the error of the call, or to undefined. */
async function answer(call: VaultCall): Promise<unknown> {
  try {
    packResults(call.id, await resultsOf(call), outbox.due());
    return undefined;
  } catch (error) {
    outbox.put({ id: call.id, failure: failureOf(error) });
    return error;
  }
}

function resultsOf(call: VaultCall): Promise<Results> {
  // performance.now() of this thread differs from that of the caller's thread.
  const byMs = statementDeadline(performance.now() + call.deadlineMs - monotonicMs());
  const { bytes, question } = call;
  const { operation, texts, terms, view } = question;
  switch (operation) {
    case 'tokenize':
    case 'lookup': {
      const ofEach = view === null ? terms! : rules.termsOf(terms!, view);
      return tokenizer[operation](texts as readonly Value[], ofEach, byMs);
    }
    case 'detokenize': {
      const visibility = view === null ? undefined : rules.visibility(view);
      return detokenizer.detokenize(texts as readonly Token[], bytes, byMs, visibility);
    }
    case 'accept':
      return Promise.resolve(rules.accepted(texts, view!));
    case 'find':
      return Promise.resolve(rules.found(texts, view!));
    case 'sizes':
      return detokenizer.sizes(texts as readonly Token[], byMs, view?.space);
  }
}
