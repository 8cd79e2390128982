import type { Mutant } from './mutant.ts';

const CHAIN = ['unit/audit-chain.test.ts'];

/** The chain of the audit log, and the attempts of administrators. */
export const AUDIT: readonly Mutant[] = [
  {
    id: 'audit-unchained',
    file: 'audit/audit-link.ts',
    old: 'const mac = macOf(lastMac, buffer',
    new: "const mac = macOf('', buffer",
    promise: 'A link covers the line before.',
    tests: CHAIN,
  },
  {
    id: 'audit-opening-unnamed',
    file: 'audit/audit-file.ts',
    old: 'this.#isOpening = true;\n      this.#end',
    new: 'this.#end',
    promise: 'The first line in a new file names the last line of the file before.',
    tests: CHAIN,
  },
  {
    id: 'audit-run-unnamed',
    file: 'audit/audit-check.ts',
    old: 'if (reached >= link.sequence) continue;',
    new: 'continue;',
    promise: 'Last lines that a later run, or the log, names are missed.',
    tests: CHAIN,
  },
  {
    id: 'audit-added-before',
    file: 'audit/audit-verify.ts',
    old: 'this.#unlinkedBytes > (line.opening?.size ?? 0)',
    new: 'this.#unlinkedBytes < 0',
    promise: 'Lines without a link that were added before the chain are found.',
    tests: CHAIN,
  },
  {
    id: 'admin-act-untold',
    file: 'ops/admin/api.ts',
    old: "if (!isReading(incoming)) await act.tell('attempt');",
    new: "if (isReading(incoming)) await act.tell('attempt');",
    promise: 'An act of an administrator has its attempt in the audit log before it is done.',
    tests: ['fault/audit.test.ts'],
    name: 'F12: an act',
  },
  {
    id: 'audit-told-each-time',
    file: 'audit/audit-log.ts',
    old: 'if (!this.#isAvailable) return;\n    this.#isAvailable = false;',
    new: 'this.#isAvailable = false;',
    promise: 'Lost audit lines are told once, not for each.',
    tests: ['fault/audit-log.test.ts'],
  },
  {
    id: 'audit-calm-at-once',
    file: 'audit/audit-log.ts',
    old: 'clearTimeout(this.#calmTimer);\n    this.#calmTimer = undefined;\n    if',
    new: 'if',
    promise: 'The end is told after a second without a loss.',
    tests: ['fault/audit-log.test.ts'],
  },
  {
    id: 'audit-forged-as-cut',
    file: 'audit/audit-verify.ts',
    old: 'linked === undefined && isPart(bytes)',
    new: 'linked === undefined && bytes.at(-1) !== 0x7d',
    promise: 'A forged line that ends in a space is not taken for one that was cut short.',
    tests: CHAIN,
  },
  {
    id: 'audit-other-unnamed',
    file: 'audit/audit-file.ts',
    old: "return isDue ? otherText(this.#other!) : '';",
    new: "return '';",
    promise: 'A line of another node shows that a whole run is gone.',
    tests: CHAIN,
  },
  {
    id: 'audit-other-of-the-old-file',
    file: 'audit/audit-file.ts',
    old: '      this.#other = undefined;\n    } catch',
    new: '    } catch',
    promise: 'A line names no link of a file that was moved away.',
    tests: CHAIN,
  },
];
