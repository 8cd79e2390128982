/** Items between two pauses: at about 10 us of cryptography each, other requests wait a few milliseconds at most. */
const SLICE_ITEMS = 250;

/** Runs `work` on every item, letting other requests have their turn after each slice. */
export async function inSlices<T>(
  items: readonly T[],
  work: (item: T, index: number) => void,
): Promise<void> {
  for (let i = 0; i < items.length; i++) {
    if (i > 0 && i % SLICE_ITEMS === 0) await new Promise((resolve) => setImmediate(resolve));
    work(items[i]!, i);
  }
}
