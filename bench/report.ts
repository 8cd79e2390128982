import type { Flags } from './flags.ts';
import { OPENBAO_NOTE } from './openbao.ts';
import type { Results } from './results.ts';
import { summarySection } from './summary.ts';
import { STEADY_SHARE } from './turns.ts';

/** The Markdown page of a run. */
export function page(
  results: Results,
  facts: readonly string[],
  args: readonly string[],
  flags: Flags,
): string {
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

const method = ({ seconds, rounds }: Flags): string => `## How it is measured

- ${rounds === 1 ? 'Figures are of one round' : `Figures are medians of ${rounds} rounds`} of ${seconds} s after a warm-up; ratios are medians of the ratios in each round.
- Each of ours is one Node.js process; all get bodies of about 100 bytes: e-mail address, name, phone number. The echo sends the parsed body back. The naive service seals with AES-256-GCM and sends one statement a request (\`unnest\`, \`any\`), without API keys, checks, logs or metrics.
- Standin runs with default settings, without rate limit and ops listener, its log in /dev/null. The embedded database does not fsync.
- PostgreSQL has default settings, but for \`min_wal_size\` (1 GB) and WAL files that exist already. **Each measurement begins with a checkpoint**, so the writes of whole pages that follow it are in the figures.
- The generator, on the same cores, has one request at a time on each connection. It joins the body of each request from texts, and looks for the right texts in each answer, for all contestants alike. Samples of new tokens are detokenized.
- At one rate: all get ${100 * STEADY_SHARE} % of the rate that the slower Standin has just reached, from 64 connections. Requests are sent when they are due, and latency counts from then. Who reaches less has no figure.`;
