/** What a run has started and made, to be taken away at its end or at an interruption: the last first. */
export class Leftovers {
  readonly #steps: (() => Promise<void>)[] = [];
  #removed: Promise<void> | undefined;

  /** What comes while the others are taken away goes at once. */
  add(step: () => Promise<void>): void {
    if (this.#removed === undefined) this.#steps.push(step);
    else void tried(step);
  }

  /** Of a part of the run, which takes them away sooner when it ends in peace. */
  part(): Leftovers {
    const part = new Leftovers();
    this.add(() => part.removeAll());
    return part;
  }

  removeAll(): Promise<void> {
    this.#removed ??= this.#removeAll();
    return this.#removed;
  }

  async #removeAll(): Promise<void> {
    for (const step of this.#steps.reverse()) await tried(step);
  }
}

/** One that fails must not keep the others. */
async function tried(step: () => Promise<void>): Promise<void> {
  await step().catch((error: Error) => console.error(`While tidying up: ${error.message}`));
}
