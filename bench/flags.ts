import { accessSync, constants } from 'node:fs';
import { resolve } from 'node:path';
import { Command, InvalidArgumentError } from 'commander';
import { CONTESTANTS, type ContestantName } from './contestants.ts';
import { PEERS } from './interfaces.ts';
import { LOADS, type LoadName, OTHERS, type OtherName } from './loads.ts';
import type { Peer } from './peers.ts';

export interface Flags {
  readonly seconds: number;
  readonly rounds: number;
  readonly contestants: readonly ContestantName[];
  /** Programs of other products. */
  readonly peers: readonly Peer[];
  readonly loads: readonly LoadName[];
  /** Loads with their own contestants. */
  readonly others: readonly OtherName[];
  /** Size of the vault in the growth load, in rows. */
  readonly rows: number;
  /** The path of the page to write; undefined: no page. */
  readonly write: string | undefined;
}

const ABOUT =
  'Compares Standin with a bare Fastify echo and with a naive service, on this machine, in one ' +
  'run, and with other open products whose programs you name. It takes about twenty minutes; ' +
  '--seconds 1 --rounds 1 gives a first impression in three.';

const MORE = `
Contestants: ${CONTESTANTS.join(', ')}
Loads: ${LOADS.join(', ')}
Loads with contestants of their own: ${OTHERS.join(', ')}
growth runs only if --only names it; a million rows take half a minute.

The benchmark starts its own PostgreSQL, with default settings, if a contestant needs one.
Exit codes: 0 done, 1 failed or wrong answers, 2 wrong usage, 130 interrupted.`;

const WRONG_USAGE = 2;
const ALL_LOADS = [...LOADS, ...OTHERS] as const;

/** Ends the process for --help and for wrong usage. */
export function parseFlags(args: readonly string[]): Flags {
  const program = new Command('npm run bench --')
    .description(ABOUT)
    .option('--seconds <n>', 'length of one measurement', positive, 5)
    .option('--rounds <n>', 'measurements of each contestant and load, in turns', whole, 3)
    .option('--only <list>', 'only these contestants and loads', list, [])
    .option(
      '--peer <name=file>',
      `also this product (${PEERS.join(', ')}), with your own program`,
      peers,
      [],
    )
    .option('--rows <n>', 'rows of growth', whole, 1e7)
    .option('--write <file>', 'write the page to a file too, such as docs/benchmarks.md')
    .addHelpText('after', MORE)
    .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : WRONG_USAGE));
  const { only, peer, ...flags } = program.parse(args, { from: 'user' }).opts();
  const all: ContestantName[] = [...CONTESTANTS, ...peer.map(({ name }: Peer) => name)];
  const known: readonly string[] = [...all, ...ALL_LOADS];
  const unknown = only.find((name: string) => !known.includes(name));
  if (unknown !== undefined) program.error(`--only: ${unknown} is not one of ${known.join(', ')}`);
  const chosen = <T extends string>(names: readonly T[]) =>
    names.filter((name) => only.includes(name));
  const named = chosen(ALL_LOADS);
  const contestants = chosen(all);
  return {
    ...(flags as Flags),
    peers: peer,
    contestants: contestants.length > 0 ? contestants : all,
    loads: LOADS.filter((name) => named.length === 0 || named.includes(name)),
    others: only.length === 0 ? OTHERS.filter((name) => name !== 'growth') : chosen(OTHERS),
  };
}

function list(text: string): string[] {
  return text.split(',').filter((item) => item !== '');
}

function peers(text: string, others: readonly Peer[]): Peer[] {
  const [, name, file = ''] = /^(.*?)=(.*)$/.exec(text) ?? [];
  const known = PEERS.find((one) => one === name);
  if (known === undefined || others.some((other) => other.name === known)) {
    throw new InvalidArgumentError(`expected one of ${PEERS.join(', ')}, each once`);
  }
  try {
    accessSync(file, constants.X_OK);
  } catch {
    throw new InvalidArgumentError(`${file} is not an executable file`);
  }
  return [...others, { name: known, file: resolve(file) }];
}

function whole(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('not a whole number above 0');
}

function positive(text: string): number {
  if (Number(text) > 0) return Number(text);
  throw new InvalidArgumentError('not a number above 0');
}
