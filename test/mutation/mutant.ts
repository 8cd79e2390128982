/** A change of one place in the program that breaks a promise, and the tests that must notice. */
export interface Mutant {
  readonly id: string;
  /** From `src/`. */
  readonly file: string;
  /** Occurs once in the file. */
  readonly old: string;
  readonly new: string;
  /** What does not hold any more. */
  readonly promise: string;
  /** Files, from `test/`. */
  readonly tests: readonly string[];
  /** Only tests with this in their names. */
  readonly name?: string;
}
