import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** A change of one definition of the program, which breaks a promise, and the tests that must notice. */
export interface Mutant {
  readonly id: string;
  /** What does not hold any more. */
  readonly promise: string;
  /** From the root of the repository, as the tests. */
  readonly file: string;
  /** The function, method, class, field or constant that has the old text. */
  readonly within: string;
  /** Occurs once in the definition. White space does not count. */
  readonly old: string;
  readonly new: string;
  readonly tests: readonly string[];
  /** Only tests with this in their names. */
  readonly name: string | undefined;
}

/** Packages, with folders of their own. */
const OWN = /^packages\//;
const ENTRY = /^([\w-]+): (.+)\nin (\S+) by ([^:\n]+)(?:: (.+))?\n- (.+)(?:\n\+ (.+))?$/;

/**
 * Reads a list. A line alone is a file, from `src/`. Paragraphs below it are changes of this file. Without the last
 * line, the old text is removed:
 * ```
 * id: the promise
 * in definition by the/first the/second: only tests with this in their names
 * - old text
 * + new text
 * ```
 */
export function mutantsIn(list: string): Mutant[] {
  const at = (folder: string, path: string) => (OWN.test(path) ? path : `${folder}/${path}`);
  let file = '';
  return list
    .trim()
    .split('\n\n')
    .flatMap((paragraph) => {
      if (!paragraph.includes('\n')) {
        file = at('src', paragraph);
        return [];
      }
      const [, id = '', promise = '', within = '', paths = '', name, old = '', text = ''] =
        ENTRY.exec(paragraph) ?? [];
      if (id === '') throw new Error(`This is no entry:\n${paragraph}`);
      const tests = paths.split(' ').map((path) => `${at('test', path)}.test.ts`);
      return [{ id, promise, file, within, old, new: text, tests, name }];
    });
}

/**
 * Finds a definition in a formatted file of TypeScript. Of the name `Owner.own`, the owner is a class.
 * @returns where it begins and ends: the outermost of several. undefined: it is not there, or there are two
 */
export function definitionOf(
  text: string,
  name: string,
): readonly [begin: number, end: number] | undefined {
  const [own, owner] = name.split('.').reverse() as [string, string?];
  const among = owner === undefined ? [0, text.length] : (definitionOf(text, owner) ?? []);
  const forms = [
    `(?:export )?(?:async |abstract )*(?:function\\*?|class) ${own}\\b.*`,
    `(?:export )?const ${own}\\b.*(?<=^\\S.*)`,
    `(?:[a-z]+ )*${own}(?=[(<]|: (?:async )?\\().*[({<]`,
    `(?:[a-z]+ )*${own}(?:: .+)? = .+(?<!const .*)`,
  ];
  const starts = new RegExp(`^( *)(?:${forms.join('|')})$`, 'gm');
  const found = [...text.slice(...among).matchAll(starts)]
    .map(({ index, 0: line, 1: indent }) => {
      const begin = (among[0] ?? 0) + index;
      const end = begin + lengthOf(text.slice(begin, among[1]), line, indent!);
      return { depth: indent!.length, at: [begin, end] as const };
    })
    // A call begins as a method does.
    .filter(({ at }) => !/^ *#?\w+\([\s\S]*\);$/.test(text.slice(...at)));
  const outer = Math.min(...found.map(({ depth }) => depth));
  const outermost = found.filter(({ depth }) => depth === outer);
  return outermost.length === 1 ? outermost[0]!.at : undefined;
}

/** To the closing bracket of the same indentation, or to the semicolon. */
function lengthOf(text: string, first: string, indent: string): number {
  const last = /[({[<]$/.test(first) ? new RegExp(`^${indent}[)}\\]].*(?<=[;}],?)$`, 'm') : /;$/m;
  const end = last.exec(text);
  return end === null ? text.length : end.index + end[0].length;
}

/** @returns the text of the file with the change, or what makes the entry worthless */
export function changed(mutant: Mutant, text: string): { text: string } | { problem: string } {
  const definition = definitionOf(text, mutant.within);
  if (definition === undefined) return { problem: `${mutant.within} is not there once` };
  const [begin, end] = definition;
  const old = [...mutant.old.replace(/\s/g, '')]
    .map((letter) => letter.replace(/\W/, '\\$&'))
    .join('\\s*');
  const parts = text.slice(begin, end).split(new RegExp(old));
  if (parts.length !== 2) return { problem: `its old text occurs ${parts.length - 1} times` };
  return { text: text.slice(0, begin) + parts.join(mutant.new) + text.slice(end) };
}

/** What makes an entry worthless in the repository at `root`; undefined: nothing. */
export function problemOf(mutant: Mutant, root: string): string | undefined {
  const file = join(root, mutant.file);
  if (!existsSync(file)) return 'its file is gone';
  const result = changed(mutant, readFileSync(file, 'utf8'));
  if ('problem' in result) return result.problem;
  if (!mutant.tests.every((one) => existsSync(join(root, one)))) return 'a test is gone';
  const names = new RegExp(mutant.name ?? '');
  const isNamed = mutant.tests.some((one) => names.test(readFileSync(join(root, one), 'utf8')));
  return isNamed ? undefined : 'no test has its name';
}

/** As in `store` or `bulk`. */
export function roomOf({ file }: Pick<Mutant, 'file'>): string {
  return file.split('/')[1]!;
}
