import { writeFileSync } from 'node:fs';
import { type Bench, TITLES } from './contestants.ts';
import { startDatabaseServer } from './database.ts';
import { type Flags, parseFlags } from './flags.ts';
import { grow } from './growth.ts';
import { Leftovers } from './leftovers.ts';
import { expandLoads, POLICY_LOADS, policyEntries } from './loads.ts';
import { machineFacts } from './machine.ts';
import { versionOf } from './openbao.ts';
import { FIRST_FRESH_RECORD } from './prepare.ts';
import { startProgram } from './processes.ts';
import { page } from './report.ts';
import { Results } from './results.ts';
import { measureStart } from './start.ts';
import { compete } from './turns.ts';

const FAILED = 1;
const INTERRUPTED = 130;

const leftovers = new Leftovers();
let isInterrupted = false;

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, interrupt);
try {
  const args = process.argv.slice(2);
  await run(parseFlags(args), args);
} catch (error) {
  // After an interruption, the removed parts fail. Their errors are no news.
  if (!isInterrupted) fail((error as Error).message);
}
await leftovers.removeAll();

async function run(named: Flags, args: readonly string[]): Promise<void> {
  const openbao = named.peer === undefined ? undefined : versionOf(named.peer);
  // One that is not there is left out, and the page says so.
  const contestants = named.contestants.filter((one) => one !== 'openbao' || openbao);
  const flags = { ...named, contestants };
  const { loads, others } = flags;
  const server = await startDatabaseServer(leftovers);
  const facts = await machineFacts(server);
  if (contestants.includes('openbao')) facts.push(`${TITLES.openbao}: ${openbao}`);
  if (contestants.includes('past')) facts.push(`${TITLES.past}: commit ${flags.past}`);
  const { child: generator } = await startProgram('load.js', [], leftovers);
  const results = new Results();
  const nextRecord = FIRST_FRESH_RECORD;
  const bench: Bench = { flags, results, generator, server, leftovers, nextRecord };
  // Before the contestants start, because even idle contestants use some CPU.
  if (others.includes('start')) await results.attempt('start', () => measureStart(bench));
  const entries = contestants.map((name) => ({ name }));
  if (loads.length > 0) await compete(bench, entries, expandLoads(loads));
  if (others.includes('policy')) await compete(bench, policyEntries(contestants), POLICY_LOADS);
  if (others.includes('growth')) await grow(bench);
  if (isInterrupted) return;
  const text = page(results, facts, args, flags);
  process.stdout.write(text);
  if (flags.write !== undefined) writeFileSync(flags.write, text);
  // The figures of a service with wrong answers are worthless.
  if (results.failures.length > 0) fail('Something failed: see the page.');
}

function fail(why: string): void {
  console.error(why);
  process.exitCode = FAILED;
}

function interrupt(): void {
  if (isInterrupted) return;
  isInterrupted = true;
  console.error('\nInterrupted: stopping all processes.');
  void leftovers.removeAll().then(() => process.exit(INTERRUPTED));
}
