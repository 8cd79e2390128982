import { fork } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { type Bench, OPENBAO_NOTE, TITLES, versionOf } from './contestants.ts';
import { type Flags, parseFlags } from './flags.ts';
import { grow } from './growth.ts';
import { expandLoads, POLICY_LOADS, policyEntries } from './loads.ts';
import { machineFacts, startDatabaseServer } from './machine.ts';
import { FIRST_FRESH_RECORD } from './prepare.ts';
import { end, Leftovers } from './processes.ts';
import { Results } from './results.ts';
import { measureStart } from './start.ts';
import { summarySection } from './summary.ts';
import { compete, STEADY_SHARE } from './turns.ts';

const INTERRUPTED = 130;

const leftovers = new Leftovers();
let isInterrupted = false;

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, interrupt);
try {
  const args = process.argv.slice(2);
  await run(parseFlags(args), args);
} catch (error) {
  // After an interruption, the removed parts fail. Their errors are no news.
  if (!isInterrupted) console.error((error as Error).message);
  process.exitCode = 1;
}
await leftovers.removeAll();

async function run(named: Flags, args: string[]): Promise<void> {
  const openbao = named.peer === undefined ? undefined : versionOf(named.peer);
  // One that is not there is left out, and the page says so.
  const contestants = named.contestants.filter((one) => one !== 'openbao' || openbao);
  const flags = { ...named, contestants };
  const { loads } = flags;
  const server = await startDatabaseServer(leftovers);
  const facts = await machineFacts(server);
  if (contestants.includes('openbao')) facts.push(`${TITLES.openbao}: ${openbao}`);
  if (contestants.includes('past')) facts.push(`${TITLES.past}: commit ${flags.past}`);
  const generator = fork(new URL('load.js', import.meta.url));
  leftovers.add(() => end(generator, 'SIGKILL'));
  const results = new Results();
  const nextRecord = FIRST_FRESH_RECORD;
  const bench: Bench = { flags, results, generator, server, leftovers, nextRecord };
  // Before the contestants start, because even idle contestants use some CPU.
  if (loads.includes('start')) await results.attempt('start', () => measureStart(bench));
  const entries = contestants.map((name) => ({ name, title: TITLES[name], isWide: false }));
  const common = expandLoads(loads);
  if (common.length > 0) await compete(bench, entries, common);
  if (loads.includes('policy')) await compete(bench, policyEntries(contestants), POLICY_LOADS);
  if (loads.includes('growth')) await grow(bench);
  if (isInterrupted) return;
  const text = page(bench, facts, args);
  process.stdout.write(text);
  if (flags.write !== undefined) writeFileSync(flags.write, text);
  // The figures of a service with wrong answers are worthless.
  if (results.failures.length > 0) throw new Error('Something failed: see the page.');
}

function interrupt(): void {
  if (isInterrupted) return;
  isInterrupted = true;
  console.error('\nInterrupted: stopping all processes.');
  void leftovers.removeAll().then(() => process.exit(INTERRUPTED));
}

/** The Markdown page of a run. */
function page({ flags, results }: Bench, facts: string[], args: string[]): string {
  const command = ['npm run bench', ...(args.length > 0 ? ['--'] : []), ...args].join(' ');
  const openbao = flags.contestants.includes('openbao')
    ? `OpenBao transit is ${OPENBAO_NOTE}`
    : 'OpenBao transit is not in this run: no program was found. `--peer openbao=bao` names it.';
  const sections = [
    '# Benchmarks',
    `Written by \`${command}\`: do not edit, run it again. Contestants took turns on one machine. Compare ratios: rates differ between machines and days.`,
    summarySection(results, flags.rows),
    `## Machine\n\n${facts.map((fact) => `- ${fact}`).join('\n')}`,
    ...results.sections(),
    `## Other products\n\n${openbao}`,
    results.checks(),
    method(flags),
  ];
  return `${sections.filter((one) => one !== undefined).join('\n\n')}\n`;
}

function method({ seconds, rounds }: Flags): string {
  return `## How it is measured

- ${rounds === 1 ? 'Figures are of one round' : `Figures are medians of ${rounds} rounds`} of ${seconds} s after a warm-up; ratios are medians of the ratios in each round.
- Each of ours is one Node.js process; all get bodies of about 100 bytes: e-mail address, name, phone number. The echo sends the parsed body back. The naive service seals with AES-256-GCM and sends one statement a request (\`unnest\`, \`any\`), without API keys, checks, logs or metrics.
- Standin runs with default settings, without rate limit and ops listener, its log in /dev/null. The embedded database does not fsync.
- PostgreSQL has default settings, but for \`min_wal_size\` (1 GB) and WAL files that exist already. **Each measurement begins with a checkpoint**, so the writes of whole pages that follow it are in the figures.
- The generator, on the same cores, has one request at a time on each connection. It joins the body of each request from texts, and looks for the right texts in each answer, for all contestants alike. Samples of new tokens are detokenized.
- At one rate: all get ${100 * STEADY_SHARE} % of the rate that the slower Standin has just reached, from 64 connections. Requests are sent when they are due, and latency counts from then. Who reaches less has no figure.`;
}
