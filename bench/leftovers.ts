/** Removes the processes and files of a run, at its end or an interruption, in reverse order. */
export class Leftovers {
  readonly #steps: (() => Promise<void>)[] = [];
  #removed: Promise<void> | undefined;

  /** During the removal, a new item is removed at once. */
  add(step: () => Promise<void>): void {
    if (this.#removed === undefined) this.#steps.push(step);
    else void tried(step);
  }

  /** Leftovers of a part of the run, which removes them earlier if it succeeds. */
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

/** A failed removal must not prevent the other removals. */
async function tried(step: () => Promise<void>): Promise<void> {
  await step().catch((error: Error) => console.error(`While tidying up: ${error.message}`));
}
