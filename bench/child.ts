/** Shared code of the benchmark's child processes. */

/** Tells the parent the address of this process. */
export function announce(url: string): void {
  process.send?.({ url });
}

// Ctrl-C reaches the whole group. The parent ends its children by closing the channel or by dying.
process.on('SIGINT', () => {});
process.on('disconnect', () => process.exit(0));
