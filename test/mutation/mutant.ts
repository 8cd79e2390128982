import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** A change of one place in the program that breaks a promise, and the tests that must notice. */
export interface Mutant {
  readonly id: string;
  /** From `src/`; of a package, as in `packages/bulk/src/csv.ts` or `clients/python/src/standin/_data.py`. */
  readonly file: string;
  /** Occurs once in the file. */
  readonly old: string;
  readonly new: string;
  /** What does not hold any more. */
  readonly promise: string;
  /** Files, from `test/`; of a package, as in `packages/bulk/test/csv.test.ts`. */
  readonly tests: readonly string[];
  /** Only tests with this in their names. */
  readonly name?: string;
}

/** Packages, with folders of their own, and the Python client. Tests of that are in `test/clients/`. */
const OWN = /^(packages|clients\/python\/src)\//;

/** From the root of the repository: the file that is changed, and its tests. */
export function pathsOf({ file, tests }: Pick<Mutant, 'file' | 'tests'>): {
  readonly file: string;
  readonly tests: readonly string[];
} {
  const within = (folder: string, path: string) => (OWN.test(path) ? path : `${folder}/${path}`);
  return { file: within('src', file), tests: tests.map((one) => within('test', one)) };
}

/** As in `service` or `bulk`. */
export function roomOf({ file }: Pick<Mutant, 'file'>): string {
  return file.replace(/^(packages|clients)\//, '').split('/')[0]!;
}

/** What makes an entry worthless in the repository at `root`; undefined: nothing. */
export function problemOf(mutant: Mutant, root: string): string | undefined {
  const { file, tests } = pathsOf(mutant);
  const path = join(root, file);
  if (!existsSync(path)) return 'its file is gone';
  const times = readFileSync(path, 'utf8').split(mutant.old).length - 1;
  if (times !== 1) return `its old text occurs ${times} times`;
  if (mutant.new === mutant.old || mutant.promise === '' || tests.length === 0)
    return 'it has no change, promise or tests';
  return tests.every((one) => existsSync(join(root, one))) ? undefined : 'a test is gone';
}
