import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { parsePolicy } from '../src/policy/parse.ts';
import { kindOf } from '../src/shape/kind.ts';
import { defaultKind, type KindSettings, SHAPES } from '../src/shape/kind-settings.ts';
import type { DrawBits } from '../src/shape/token.ts';
import { parseCsv } from '../test/support/token-rules.ts';
import { table, whole } from './results.ts';

/**
 * What tokens of one kind tell of the rows of a column: it draws the token of every row from the same
 * random bytes. Tokens that come out equal differ in nothing but what is drawn: their rows share a
 * shape. `refused` are rows whose value the kind does not take, `alone` those with a shape of their own.
 */
export function revealed(values: readonly string[], settings: KindSettings) {
  const kind = kindOf(settings);
  const accepted = values.flatMap((value) => {
    const made = kind.accept(value);
    return 'reason' in made ? [] : [made.value];
  });
  const crowds = new Map<string, number>();
  for (const value of accepted) {
    // Twice, because a drawn digit can by chance be the one that another row keeps.
    const tokens = SEEDS.map((seed) => kind.drawToken(value, 'tok', seed, 0)?.token);
    const shape = tokens.join(' ');
    crowds.set(shape, (crowds.get(shape) ?? 0) + 1);
  }
  const alone = [...crowds.values()].filter((size) => size === 1).length;
  const refused = values.length - accepted.length;
  return { rows: values.length, refused, shapes: crowds.size, alone };
}

const SEEDS = ['one', 'two'].map(
  (seed): DrawBits =>
    (draw, block) =>
      createHash('sha384').update(`${seed} ${draw} ${block}`).digest().toString('latin1'),
);

/** The kinds of a policy, after those that every vault has. @throws Error for its first mistake */
export function kindsOf(document: string): KindSettings[] {
  const { policy, mistakes } = parsePolicy(document);
  if (policy === undefined) {
    const { line, column, text } = mistakes[0]!;
    throw new Error(`the policy, line ${line}, column ${column}: ${text}`);
  }
  const own = new Set(policy.kinds.map(({ name }) => name));
  const usual = SHAPES.filter((shape) => !own.has(shape));
  return [...usual.map((shape) => defaultKind(shape, shape)), ...policy.kinds];
}

function main([file, column, policyFile]: readonly string[]): void {
  if (file === undefined || column === undefined)
    throw new Error('usage: npm run measure -- FILE.csv COLUMN [POLICY.yaml]');
  const values = parseCsv(readFileSync(file, 'utf8')).map((row) => row[column]);
  if (values.includes(undefined)) throw new Error(`${file} has no column ${column}`);
  const filled = values.filter((value) => value !== undefined && value !== '') as string[];
  const document = policyFile === undefined ? 'version: 1' : readFileSync(policyFile, 'utf8');
  const rows = kindsOf(document).flatMap((kind) => {
    const { refused, shapes, alone } = revealed(filled, kind);
    if (refused === filled.length) return [];
    return [[kind.name, ...[filled.length, refused, shapes, alone].map(whole)]];
  });
  const headings = ['Kind', 'Rows', 'Refused', 'Shapes', 'Rows with a shape of their own'];
  console.log(table(headings, rows));
}

if (import.meta.filename === process.argv[1]) {
  try {
    main(process.argv.slice(2));
  } catch (error) {
    console.error((error as Error).message);
    process.exitCode = 1;
  }
}
