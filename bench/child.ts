/** What the programs of the benchmark that run as processes of their own have in common. */

/** Tells the parent where this process listens. */
export function announce(url: string): void {
  process.send?.({ url });
}

// Ctrl-C goes to the whole group: the parent decides when a child ends, by ending the channel or by dying.
process.on('SIGINT', () => {});
process.on('disconnect', () => process.exit(0));
