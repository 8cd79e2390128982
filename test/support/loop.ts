import { setImmediate as nextTurn } from 'node:timers/promises';

export { nextTurn };

/** Work that goes on until it is stopped. */
export interface Loop {
  /** Resolves when no work is left, and rejects with the first failure. */
  stop(): Promise<void>;
}

/** Does the work again and again, `count` at a time. Each time has its number, and that of its worker. */
export function loop(work: (n: number, worker: number) => Promise<unknown>, count = 1): Loop {
  let isOver = false;
  const ends = Array.from({ length: count }, async (_, worker) => {
    for (let n = 0; !isOver; n++) await work(n, worker);
  });
  const ended = Promise.all(ends);
  // Only `stop` reports a failure.
  ended.catch(() => {});
  return {
    async stop() {
      isOver = true;
      await ended;
    },
  };
}

/** What the work makes, and after how many turns of the event loop. */
export async function inTurns<T>(work: () => T | Promise<T>) {
  await nextTurn();
  let taken = 0;
  let isOver = false;
  const turn = () => {
    if (isOver) return;
    taken++;
    setImmediate(turn);
  };
  setImmediate(turn);
  const made = await work();
  isOver = true;
  return { made, taken };
}
