import { parentPort, workerData } from 'node:worker_threads';
import { Unavailable } from '../../errors.ts';
import { REQUEST_PATIENCE_MS } from '../../timeouts.ts';
import { type KeyNews, monotonicMs } from '../keys/key-news.ts';
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
 * The entry of a vault thread: an engine off the event loop that serves HTTP.
 *
 * In a turn of the event loop a few small calls are begun, and one piece of a large one. So one
 * batch is sealed while another is written and the answers of a third go out (all at once, each of
 * the three would wait for the others), and small calls wait for one piece at most.
 */
const SMALL_TEXTS_A_TURN = 48;
/** A piece that waits for so long fails with those before it, when the database is away. */
const STALLED_AFTER_MS = 1_000;
/** More would only stand before small calls where they wait for a statement. */
const MAX_PIECES_UNDER_WAY = 8;

const { engine: data, connections } = workerData as ThreadData;
const outbox = new Outbox<Part | Report>((parts) => parentPort!.postMessage(parts));
const engine = new VaultEngine(data, connections, {
  batch: (batch, records) => outbox.put({ batch, records }),
  damaged: (damaged) => outbox.put({ damaged }),
  keysWanted: () => outbox.put({ wantsKeys: true }),
});
const small: Call[] = [];
/** With when they came. */
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

function isCalls(message: readonly Part[] | KeyNews): message is readonly Part[] {
  return Array.isArray(message);
}

/**
 * Pieces are patient only once they are begun, eight at a time: behind a database that is away they
 * would wait for many times that long.
 */
function failStalled(error: Unavailable): void {
  const stalledBeforeMs = performance.now() - STALLED_AFTER_MS;
  while (pieces.length > 0 && pieces[0]!.sinceMs < stalledBeforeMs)
    outbox.put({ id: pieces.shift()!.call.id, failure: failureOf(error) });
}

/** Resolves to the failure, if it is one. */
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
