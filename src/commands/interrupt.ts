/**
 * Runs long work that ends by itself, at a good place, after the first Ctrl-C or SIGTERM; a second
 * one ends the process at once.
 */
export async function interruptible<T>(work: (stop: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  const stop = () => {
    if (controller.signal.aborted) process.exit(EXIT_INTERRUPTED);
    controller.abort();
  };
  process.on('SIGINT', stop).on('SIGTERM', stop);
  try {
    return await work(controller.signal);
  } finally {
    process.off('SIGINT', stop).off('SIGTERM', stop);
  }
}

/** As shells count it: 128 and the number of SIGINT. */
export const EXIT_INTERRUPTED = 130;
