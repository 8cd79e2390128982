const stops = new WeakMap<AbortSignal, Set<() => void>>();

/**
 * Calls `stop` when the signal is aborted. All share one listener of a signal, which may be
 * that of a whole program: runtimes take more than ten for a leak, and say so.
 * @returns what ends it
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
