const stops = new WeakMap<AbortSignal, Set<() => void>>();

/**
 * Calls `stop` when the signal is aborted. All calls share one listener for each signal, because
 * runtimes report more than ten listeners as a leak, and a program may use one signal throughout.
 * @returns stops listening
 */
export function onAbort(signal: AbortSignal, stop: () => void): () => void {
  const known = stops.get(signal);
  const all = known ?? new Set();
  if (known === undefined) {
    stops.set(signal, all);
    signal.addEventListener('abort', () => {
      for (const one of all) one();
    });
  }
  all.add(stop);
  return () => all.delete(stop);
}
