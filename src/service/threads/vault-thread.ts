import { parentPort, workerData } from 'node:worker_threads';
import { Unavailable } from '../../errors.ts';
import { monotonicMs, REQUEST_PATIENCE_MS } from '../../timeouts.ts';
import type { KeySnapshot } from '../keys/keyring-follower.ts';
import {
  type Call,
  failureOf,
  isPiece,
  Outbox,
  type Part,
  packResults,
  type Report,
  type ThreadData,
  type ToThread,
  unpackCalls,
} from './thread-messages.ts';
import { VaultEngine } from './vault-engine.ts';

/**
 * Entry point of a vault thread: an engine off the event loop that serves HTTP.
 * Each turn of the event loop starts a few small calls and one piece of a large call. So the thread
 * seals one batch while the database writes another and the answers of a third go out. If all calls
 * started at once, each batch would wait for the others. Small calls wait for one piece at most.
 */
const SMALL_TEXTS_A_TURN = 48;
/** When a running piece finds the database away, pieces that have waited this long fail with it. */
const STALLED_AFTER_MS = 1_000;
/** More pieces would only delay small calls that wait for a statement. */
const MAX_PIECES_UNDER_WAY = 8;

const { engine: data, connections } = workerData as ThreadData;
const outbox = new Outbox<Part | Report>((parts) => parentPort!.postMessage(parts));
const engine = new VaultEngine(data, connections, {
  batch: (batch, records) => outbox.put({ batch, records }),
  damaged: (damaged) => outbox.put({ damaged }),
  keysWanted: () => outbox.put({ wantsKeys: true }),
});
const small: Call[] = [];
/** Waiting pieces, with their time of arrival. */
const pieces: { readonly call: Call; readonly sinceMs: number }[] = [];
let piecesUnderWay = 0;
let isBeginDue = false;

parentPort!.on('message', (message: ToThread) => {
  if (message === 'reconnect') return engine.reconnect();
  if (!isCalls(message)) return engine.renew(message);
  const sinceMs = performance.now();
  for (const call of unpackCalls(message)) {
    if (isPiece(call)) pieces.push({ call, sinceMs });
    else small.push(call);
  }
  beginSoon();
});

function beginSoon(): void {
  const hasPiece = pieces.length > 0 && piecesUnderWay < MAX_PIECES_UNDER_WAY;
  if (isBeginDue || (small.length === 0 && !hasPiece)) return;
  isBeginDue = true;
  setImmediate(begin);
}

function begin(): void {
  isBeginDue = false;
  for (let texts = 0; texts < SMALL_TEXTS_A_TURN && small.length > 0; ) {
    const call = small.shift()!;
    texts += call.texts.length;
    void answer(call);
  }
  if (pieces.length > 0 && piecesUnderWay < MAX_PIECES_UNDER_WAY) {
    piecesUnderWay++;
    const deadlineMs = monotonicMs() + REQUEST_PATIENCE_MS;
    void answer({ ...pieces.shift()!.call, deadlineMs }).then((error) => {
      piecesUnderWay--;
      if (error instanceof Unavailable) failStalled(error);
      beginSoon();
    });
  }
  beginSoon();
}

function isCalls(message: readonly Part[] | KeySnapshot): message is readonly Part[] {
  return Array.isArray(message);
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
function answer(call: Call): Promise<unknown> {
  const { id } = call;
  return engine.call(call).then(
    (results) => {
      packResults(id, results, outbox.due());
      return undefined;
    },
    (error) => {
      outbox.put({ id, failure: failureOf(error) });
      return error;
    },
  );
}
