import type { Command } from 'commander';
import type { Config } from '../config/config.ts';
import { OperatorError } from '../errors.ts';
import { count, painted, shown, wrapped } from '../terminal.ts';
import { command, config, type OutputOptions, printPainted } from './command.ts';

const MARKS = { ok: 'ok      ', warning: 'warning ', problem: 'PROBLEM ' } as const;
const INDENT = MARKS.ok.length + 1;
const COLOURS = { ok: 'green', warning: 'yellow', problem: 'red' } as const;

export function addDoctor(program: Command): void {
  command(
    program,
    'doctor',
    'Check configuration, database, keys and settings, and say how to fix problems.',
    ['standin doctor'],
  ).action((options) => doctor(config(), options));
}

/** Prints every finding. Fails when one of them is a problem. */
async function doctor(
  { unknownSettings, ...examined }: Config,
  options: OutputOptions,
): Promise<void> {
  // Imported here, so that help does not wait for the driver of the database.
  const { examine } = await import('../process/doctor.ts');
  const findings = [
    unknownSettings.length === 0
      ? ({ check: 'configuration', status: 'ok', detail: 'complete' } as const)
      : ({ check: 'configuration', status: 'warning', detail: unknownSettings.join(' ') } as const),
    ...(await examine(examined)),
  ];
  printPainted(
    options,
    findings,
    findings
      .map(
        ({ check, status, detail }) =>
          `${painted(COLOURS[status], MARKS[status])} ${wrapped(`${check}: ${shown(detail)}`, INDENT)}`,
      )
      .join('\n'),
  );
  const problems = findings.filter((finding) => finding.status === 'problem').length;
  if (problems > 0) throw new OperatorError(`${count(problems, 'problem')} found.`);
}
