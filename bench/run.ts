import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import {
  CONTESTANTS,
  type ContestantName,
  needsServer,
  startContestant,
  TITLES,
} from './contestants.ts';
import { startDatabaseServer } from './database.ts';
import { type Flags, parseFlags } from './flags.ts';
import { fill, filledTitle, GROWTH_LOADS, SIZES_TITLE } from './growth.ts';
import { Leftovers } from './leftovers.ts';
import { CONNECTIONS, expandLoads, type Load, small } from './loads.ts';
import { machineFacts } from './machine.ts';
import { startPeer, versionOf } from './peers.ts';
import { POLICY_LOADS, policyStarters } from './policy.ts';
import { FIRST_FRESH_RECORD, prepare } from './prepare.ts';
import { startProgram } from './processes.ts';
import { page } from './report.ts';
import { Results } from './results.ts';
import { measureStart, START } from './start.ts';
import { type Bench, type Entrant, type Starter, takeTurns, withEntrants } from './turns.ts';

const FAILED = 1;
const INTERRUPTED = 130;

const leftovers = new Leftovers();
let isInterrupted = false;

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, interrupt);
await main(process.argv.slice(2));

async function main(args: readonly string[]): Promise<void> {
  const flags = parseFlags(args);
  try {
    await run(flags, args);
  } catch (error) {
    // After an interruption, the removed parts fail. Their errors are no news.
    if (isInterrupted) return;
    console.error((error as Error).message);
    process.exitCode = FAILED;
  }
  await leftovers.removeAll();
}

async function run(flags: Flags, args: readonly string[]): Promise<void> {
  const { contestants, others, seconds, rounds } = flags;
  const isServed = contestants.some(needsServer) || others.some((name) => name !== 'start');
  const server = isServed ? await startDatabaseServer(leftovers) : undefined;
  const facts = [...(await machineFacts(server)), ...flags.peers.map(versionOf)];
  const { child: generator } = await startProgram('load.js', [], leftovers);
  const results = new Results();
  const nextRecord = FIRST_FRESH_RECORD;
  const bench: Bench = { seconds, rounds, results, generator, server, leftovers, nextRecord };
  const take = (loads: readonly Load[]) => (entrants: readonly Entrant[]) =>
    takeTurns(bench, loads, entrants);
  // Before the contestants start, because even idle contestants use some CPU.
  if (others.includes('start')) await measureStart(bench);
  const loads = expandLoads(flags.loads);
  if (loads.length > 0) {
    const starters = contestants.map((name) => starter(name, flags, bench));
    await withEntrants(bench, starters, take(loads));
  }
  if (others.includes('policy'))
    await withEntrants(bench, policyStarters(bench), take(POLICY_LOADS));
  if (others.includes('growth')) await grow(bench, flags.rows, take(GROWTH_LOADS));
  if (isInterrupted) return;
  process.stdout.write(page(results, facts, args, flags));
  if (flags.write !== undefined) {
    mkdirSync(dirname(flags.write), { recursive: true });
    writeFileSync(flags.write, page(results, facts, args, flags, summedUp()));
  }
  fail(results.failed);
}

function starter(name: ContestantName, { peers }: Flags, { server }: Bench): Starter {
  const peer = peers.find((one) => one.name === name);
  const own = CONTESTANTS.find((one) => one === name)!;
  return (part) =>
    peer === undefined ? startContestant(own, server, part) : startPeer(peer, server, part);
}

/** A small vault and a filled one take turns. */
async function grow(
  bench: Bench,
  rows: number,
  use: (entrants: readonly Entrant[]) => Promise<void>,
): Promise<void> {
  const start: Starter = (part) => startContestant('postgres', bench.server, part);
  const filled = filledTitle(TITLES.postgres, rows);
  const startFilled: Starter = async (part) => ({ ...(await start(part)), title: filled });
  await withEntrants(bench, [start, startFilled], use, (contestant, folder) =>
    contestant.title === filled
      ? fill(bench, contestant, rows, folder)
      : prepare(contestant, folder),
  );
}

/** Titles of the tables that the written page leaves out: the summary has their ratios. */
function summedUp(): string[] {
  const crowds = CONNECTIONS.slice(1).flatMap((count) =>
    (['tokenize', 'detokenize'] as const).map((name) => small(name, count)),
  );
  const loads = [...GROWTH_LOADS, ...expandLoads(['repeat']), ...crowds];
  return [START.section, SIZES_TITLE, ...loads.map(({ title }) => title)];
}

/** The figures of a service with wrong answers are worthless. */
function fail(failures: number): void {
  if (failures === 0) return;
  console.error(`${failures} requests failed: see the page.`);
  process.exitCode = FAILED;
}

function interrupt(): void {
  if (isInterrupted) return;
  isInterrupted = true;
  console.error('\nInterrupted: stopping all processes.');
  void leftovers.removeAll().then(() => process.exit(INTERRUPTED));
}
