import { Command, InvalidArgumentError } from 'commander';
import { type ContestantName, PAST, TITLES } from './contestants.ts';
import { LOADS, type LoadName } from './loads.ts';

export interface Flags {
  readonly seconds: number;
  readonly rounds: number;
  readonly contestants: readonly ContestantName[];
  readonly loads: readonly LoadName[];
  /** The program of OpenBao. */
  readonly peer: string | undefined;
  /** The commit of the earlier Standin. */
  readonly past: string;
  /** Size of the vault in the growth load, in rows. */
  readonly rows: number;
  /** The path of the page to write. */
  readonly write?: string;
}

const CONTESTANTS = Object.keys(TITLES) as ContestantName[];

const ABOUT =
  'Compares Standin with a bare Fastify echo, with a naive service, with an old commit of itself, ' +
  'and with OpenBao if you name its program, on this machine, in one run. --seconds 1 --rounds 1 gives a ' +
  'first impression in four minutes.';

const MORE = `
Contestants: ${CONTESTANTS.join(', ')}
Loads: ${LOADS.join(', ')}
policy, start and growth have contestants of their own.
growth runs only if --only names it; a million rows take half a minute.

Against an old commit: --only past,postgres,tokenize,repeat,detokenize,policy --rounds 9

The benchmark starts its own PostgreSQL, with default settings.
Exit codes: 0 done, 1 failed or wrong answers, 2 wrong usage, 130 interrupted.`;

const WRONG_USAGE = 2;

/** Ends the process for --help and for wrong usage. */
export function parseFlags(args: readonly string[]): Flags {
  const program = new Command('npm run bench --')
    .description(ABOUT)
    .option('--seconds <n>', 'length of one measurement', positive, 5)
    .option('--rounds <n>', 'measurements of each contestant and load, in turns', positive, 3)
    .option('--only <list>', 'only these contestants and loads', (text) => text.split(','), [])
    .option('--peer <openbao=program>', 'also OpenBao, with your own program')
    .option('--past <commit>', 'the old commit, built in build/past', PAST)
    .option('--rows <n>', 'rows of growth', positive, 1e7)
    .option('--write <file>', 'write the page to a file too, such as docs/benchmarks.md')
    .addHelpText('after', MORE)
    .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : WRONG_USAGE));
  const { only, ...flags } = program.parse(args, { from: 'user' }).opts();
  const known: readonly string[] = [...CONTESTANTS, ...LOADS];
  const unknown = only.find((name: string) => !known.includes(name));
  if (unknown !== undefined) program.error(`--only: ${unknown} is not one of ${known.join(', ')}`);
  const chosen = <T extends string>(names: readonly T[], usual = names) => {
    const named = names.filter((name) => only.includes(name));
    return named.length === 0 ? usual : named;
  };
  const peer = flags.peer?.replace(/^openbao=/, '');
  const usual = LOADS.filter((name) => name !== 'growth');
  return { ...flags, peer, contestants: chosen(CONTESTANTS), loads: chosen(LOADS, usual) } as Flags;
}

function positive(text: string): number {
  if (Number(text) > 0) return Number(text);
  throw new InvalidArgumentError('not a number above 0');
}
