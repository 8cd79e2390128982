import type { Command } from 'commander';
import { expect, test } from 'vitest';
import { printDone } from '../../src/commands/command.ts';
import { buildProgram } from '../../src/commands/program.ts';
import { ADMIN_OPERATIONS } from '../../src/ops/admin/document.ts';
import type { AdminDone } from '../../src/ops/admin/operation.ts';
import { ACTS, KEY_ACTS } from '../support/acts.ts';

/** Commands that say nothing of the sort "done" or "already" about the vault. */
const READING = [
  ...['client list', 'api-key new', 'api-key list', 'policy check', 'policy show', 'policy diff'],
  ...['policy schema', 'export', 'keyring status', 'audit verify', 'verify', 'openapi', 'config'],
  ...['doctor', 'license verify', 'completion bash', 'completion fish', 'completion zsh'],
];
/** Their answers are those of the service, which F29 tests. */
const OF_THE_SERVICE = ['serve', 'tokenize', 'detokenize', 'model-proxy'];

/** `npm run typecheck` fails when one of these compiles: nothing has waited for a standby. */
void [
  // @ts-expect-error
  () => printDone({}, { version: 1 }, ''),
  // @ts-expect-error
  (): AdminDone => ({ body: { version: 1 } }),
];

function wordsOf(command: Command, before: readonly string[] = []): string[] {
  return command.commands.flatMap((one) => {
    const words = [...before, one.name()];
    return one.commands.length > 0 ? wordsOf(one, words) : [words.join(' ')];
  });
}

const acts = Object.keys({ ...ACTS, ...KEY_ACTS });

test('every command that changes something is in the table of acts, which a failover must not undo', async () => {
  const known = [...READING, ...OF_THE_SERVICE, ...acts.filter((name) => !name.includes('.'))];
  expect(wordsOf(await buildProgram()).sort()).toEqual(known.sort());
});

test('every operation of the admin API that changes something is in the table of acts', () => {
  const changing = ADMIN_OPERATIONS.flatMap((one) => (one.changesNothing ? [] : [one.act]));
  const tested = acts
    .filter((name) => name.includes('.'))
    .map((name) => name.replace(/^forget.*/, 'forget'));
  expect([...new Set(tested)].sort()).toEqual(changing.sort());
});
