/**
 * Runs long work. The first Ctrl-C or SIGTERM asks the work to end at a good place; the second ends
 * the process at once.
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

/** As shells compute it: 128 plus the number of SIGINT. */
export const EXIT_INTERRUPTED = 130;
