/** At about 10 us of cryptography an item, other requests wait for a few milliseconds at most. */
const PIECE_ITEMS = 250;

/**
 * Works on many items piece by piece, with a turn of the event loop for others between: while one
 * piece is written, the next is sealed. Results are in the order of the items.
 */
export function inPieces<T, R>(
  items: readonly T[],
  work: (piece: readonly T[]) => Promise<readonly R[]>,
): Promise<readonly R[]> {
  return items.length <= PIECE_ITEMS ? work(items) : inManyPieces(items, work);
}

async function inManyPieces<T, R>(
  items: readonly T[],
  work: (piece: readonly T[]) => Promise<readonly R[]>,
): Promise<readonly R[]> {
  const results: Promise<readonly R[]>[] = [];
  for (let from = 0; from < items.length; from += PIECE_ITEMS) {
    if (from > 0) await new Promise((resolve) => setImmediate(resolve));
    const piece = work(items.slice(from, from + PIECE_ITEMS));
    // A failure is thrown below; until then it must not count as unhandled.
    piece.catch(() => {});
    results.push(piece);
  }
  return (await Promise.all(results)).flat();
}
