import { accessSync, constants } from 'node:fs';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { CONTESTANTS, type ContestantName } from './contestants.ts';
import { LOADS, type LoadName, OTHERS, type OtherName } from './loads.ts';
import type { Peer } from './peer-programs.ts';
import { asPeer, PEERS } from './peers.ts';

export interface Flags {
  readonly seconds: number;
  readonly rounds: number;
  readonly connections: readonly number[];
  readonly contestants: readonly ContestantName[];
  /** Programs of other products. */
  readonly peers: readonly Peer[];
  readonly loads: readonly LoadName[];
  /** Loads with their own contestants. */
  readonly others: readonly OtherName[];
  /** Size of the vault in the growth load, in records. */
  readonly rows: number;
  /** Settings of the benchmark's own PostgreSQL, by name. */
  readonly postgres: Readonly<Record<string, string>>;
  /** The path of the page to write; undefined: no page. */
  readonly write: string | undefined;
}

export const USAGE = `npm run bench -- [flags]

Compares Standin with a bare Fastify echo and with a naive service, on this machine, in one run,
and with other open products whose programs you name.
It takes about fifteen minutes; --seconds 1 --rounds 1 gives a first impression in two and a half.

  --seconds N        length of one measurement (default 5)
  --rounds N         measurements of each contestant and load, taken in turns (default 3)
  --connections A,B  connections of the loads of small requests (default 64,256)
  --only A,B         only these contestants (${CONTESTANTS.join(', ')})
                     and loads (${LOADS.join(', ')},
                     ${OTHERS.join(', ')})
  --peer NAME=FILE   also this product (${PEERS.join(', ')}), with your own program FILE;
                     repeat the flag for more products. Databunker needs a minute to prepare, and a
                     connection to PostgreSQL for each request: check max_connections of your server
  --rows N           records of growth, which runs only if --only names it (default 10000000;
                     half a minute a million)
  --postgres A=B,C=D settings of the benchmark's own PostgreSQL, such as max_wal_size=16GB
  --write FILE       write the page to a file too, such as docs/benchmarks.md
  --help             this text

BENCH_DATABASE_URL names a PostgreSQL on which the benchmark may create databases. Without it, the
benchmark starts its own PostgreSQL, with default settings, if PostgreSQL is installed.
Exit codes: 0 done, 1 failed or wrong answers, 2 wrong usage, 130 interrupted.`;

const OPTIONS = {
  seconds: { type: 'string', default: '5' },
  rounds: { type: 'string', default: '3' },
  connections: { type: 'string', default: '64,256' },
  only: { type: 'string', default: '' },
  rows: { type: 'string', default: '10000000' },
  postgres: { type: 'string', default: '' },
  peer: { type: 'string', multiple: true },
  write: { type: 'string' },
  help: { type: 'boolean', default: false },
} as const;

const ALL_LOADS = [...LOADS, ...OTHERS] as const;
/** The contestants of loads with their own contestants. */
const SUBJECTS: Record<OtherName, ContestantName> = {
  nodes: 'postgres',
  overload: 'postgres',
  start: 'embedded',
  growth: 'postgres',
};

/** @returns undefined for --help @throws Error for wrong usage */
export function parseFlags(args: readonly string[]): Flags | undefined {
  const { values } = parseArgs({ args: [...args], options: OPTIONS });
  if (values.help) return undefined;
  const only = list(values.only);
  const peers = (values.peer ?? []).map(peer);
  const all = [...CONTESTANTS, ...peers.map(({ name }) => name)];
  if (new Set(all).size < all.length) throw new Error('--peer: the same name twice');
  const known: readonly string[] = [...all, ...ALL_LOADS];
  const unknown = only.find((name) => !known.includes(name));
  if (unknown !== undefined)
    throw new Error(`--only: ${unknown} is not one of ${known.join(', ')}`);
  const contestants = chosen(all, only);
  const named = ALL_LOADS.filter((name) => only.includes(name));
  const loads = named.length > 0 ? named : ALL_LOADS.filter((name) => name !== 'growth');
  return {
    seconds: number('seconds', values.seconds, 0.1, 600),
    rounds: whole('rounds', values.rounds, 100),
    connections: list(values.connections).map((text) => whole('connections', text, 10_000)),
    contestants,
    peers,
    loads: LOADS.filter((name) => loads.includes(name)),
    others: OTHERS.filter(
      (name) =>
        named.includes(name) || (loads.includes(name) && contestants.includes(SUBJECTS[name])),
    ),
    rows: whole('rows', values.rows, 1e9, 1e5),
    postgres: Object.fromEntries(list(values.postgres).map(setting)),
    write: values.write,
  };
}

function list(text: string): string[] {
  return text.split(',').filter((item) => item !== '');
}

function chosen<T extends string>(all: readonly T[], only: readonly string[]): readonly T[] {
  const some = all.filter((name) => only.includes(name));
  return some.length === 0 ? all : some;
}

const SETTING = /^([a-z_]+)=([A-Za-z0-9_.]+)$/;

function setting(text: string): [string, string] {
  const [, name, value] = SETTING.exec(text) ?? [];
  if (name === undefined || value === undefined) {
    throw new Error(`--postgres: ${text} is not name=value`);
  }
  return [name, value];
}

function peer(text: string): Peer {
  const at = text.indexOf('=');
  const name = asPeer(text.slice(0, at));
  const file = resolve(text.slice(at + 1));
  if (name === undefined)
    throw new Error(`--peer: ${text} is not NAME=FILE, with a name from ${PEERS.join(', ')}`);
  try {
    accessSync(file, constants.X_OK);
  } catch {
    throw new Error(`--peer: ${file} is not an executable file`);
  }
  return { name, file };
}

function whole(name: string, text: string, max: number, min = 1): number {
  const parsed = number(name, text, min, max);
  if (!Number.isInteger(parsed)) throw new Error(`--${name}: ${text} is not a whole number`);
  return parsed;
}

function number(name: string, text: string, min: number, max: number): number {
  const parsed = Number(text);
  if (parsed >= min && parsed <= max) return parsed;
  throw new Error(`--${name}: ${text} is not a number from ${min} to ${max}`);
}
