/** Removes the processes and files of a run, at its end or an interruption, in reverse order. */
export class Leftovers {
  readonly #steps: (() => Promise<void>)[] = [];

  add(step: () => Promise<void>): void {
    this.#steps.push(step);
  }

  /** Leftovers of a part of the run, which removes them earlier if it succeeds. */
  part(): Leftovers {
    const part = new Leftovers();
    this.add(() => part.removeAll());
    return part;
  }

  /** A failed removal does not prevent the others. */
  async removeAll(): Promise<void> {
    for (let step = this.#steps.pop(); step !== undefined; step = this.#steps.pop())
      await step().catch(({ message }) => console.error(`While tidying up: ${message}`));
  }
}
