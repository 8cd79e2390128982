interface Slot<R> {
  end: PromiseSettledResult<R> | undefined;
}

/**
 * Works on several items at once, and yields the results in the order of the items. A slow source
 * delays no result. If the source fails, the earlier results still come first.
 * @param atOnce most items that are in work or wait for an earlier result
 * @param stop ends the iteration at once, with the reason of the signal
 */
export async function* inOrder<T, R>(
  source: AsyncIterator<T, undefined>,
  work: (item: T) => Promise<R>,
  atOnce: number,
  stop: AbortSignal,
): AsyncGenerator<R, undefined> {
  const slots: Slot<R>[] = [];
  let isReading = false;
  let end: PromiseSettledResult<undefined> | undefined;
  let wake = (): void => {};
  stop.addEventListener('abort', () => wake(), { once: true });
  const begin = (item: T) => {
    const slot: Slot<R> = { end: undefined };
    slots.push(slot);
    void outcomeOf(work(item)).then((result) => {
      slot.end = result;
      wake();
    });
  };
  const read = async () => {
    isReading = true;
    const next = await outcomeOf(source.next());
    isReading = false;
    if (next.status === 'rejected') end = next;
    else if (next.value.done) end = { status: 'fulfilled', value: undefined };
    else begin(next.value.value);
    wake();
  };
  for (;;) {
    stop.throwIfAborted();
    if (!isReading && end === undefined && slots.length < atOnce) void read();
    const first = slots[0]?.end;
    if (first !== undefined) {
      slots.shift();
      yield resultOf(first);
    } else if (end !== undefined && slots.length === 0) {
      return resultOf(end);
    } else {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  }
}

async function outcomeOf<T>(promise: Promise<T>): Promise<PromiseSettledResult<T>> {
  const [result] = await Promise.allSettled([promise]);
  return result;
}

function resultOf<T>(result: PromiseSettledResult<T>): T {
  if (result.status === 'rejected') throw result.reason;
  return result.value;
}
