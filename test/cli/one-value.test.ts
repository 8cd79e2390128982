import { afterAll, beforeAll, expect, test } from 'vitest';
import { BulkRuns } from '../support/bulk-run.ts';
import {
  call,
  createClient,
  runCli,
  type Service,
  startService,
  usualPlace,
} from '../support/service.ts';
import { hasTerminal, runOnTerminal } from '../support/terminal.ts';

let service: Service;
let runs: BulkRuns;
beforeAll(async () => {
  service = await startService(await usualPlace());
  runs = new BulkRuns(service.place, service);
});
afterAll(async () => {
  await service.stop();
  service.place.remove();
});

const done = (stdout: string) => ({ code: 0, stdout, stderr: '' });

test('a value goes in, its token comes out on a line of its own, and the other way round', async () => {
  const { code, stdout, stderr } = await runs.run('tokenize ann@example.com');
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout).toMatch(/^[a-z]{3}@[a-z]{7}\.[a-z]{3}_tok\n$/);
  const token = stdout.trimEnd();
  expect(await runs.run(`detokenize ${token}`)).toEqual(done('ann@example.com\n'));
  expect(await runs.run('tokenize ann@example.com --json')).toEqual(done(`{"token":"${token}"}\n`));
  expect(await runs.run(`detokenize ${token} --json`)).toEqual(
    done('{"value":"ann@example.com"}\n'),
  );
});

test.runIf(hasTerminal)(
  'a value does nothing to a terminal, and a program gets it as it is',
  async () => {
    const value = 'red \u001b[31m\u202e';
    const { body } = await call(service, 'tokenize', { value });
    const args = ['detokenize', body.data.value];
    expect((await runCli(args, service.place, runs.env)).stdout).toBe(`${value}\n`);
    const shown = runOnTerminal(args, service.place, runs.env);
    expect(shown).toMatch(/^red .+31m/);
    for (const character of ['\u001b', '\u202e']) expect(shown).not.toContain(character);
  },
);

test('the name of an existing file is a file; --value makes it a value', async () => {
  runs.write('ann.csv', 'email\nann@example.com\n');
  const asFile = await runs.run('tokenize ann.csv');
  expect({ code: asFile.code, stdout: asFile.stdout }).toEqual({ code: 2, stdout: '' });
  expect(asFile.stderr).toContain('the file ann.csv needs --fields or --policy, and --output');
  const asValue = await runs.run('tokenize --value ann.csv');
  expect(asValue.stdout).toMatch(/^[a-z]{3}\.[a-z]{3}_tok\n$/);
  expect(await runs.run(`detokenize ${asValue.stdout.trimEnd()}`)).toEqual(done('ann.csv\n'));
  expect(runs.read('ann.csv')).toBe('email\nann@example.com\n');
});

test('a file that is missing is not taken for a value when an option says that it is a file', async () => {
  const { code, stdout, stderr } = await runs.run('tokenize none.csv --fields email -o out.csv');
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  expect(stderr).toContain('none.csv cannot be read (ENOENT)');
});

test('what is refused is said without the value', async () => {
  const unknown = await runs.run('detokenize qqq@qqqqqqq.qqq_tok');
  expect(unknown).toEqual({
    code: 1,
    stdout: '',
    stderr: 'standin: The argument is not a known token.\n',
  });
  const { api_key: apiKey } = await createClient(service.place, '--can', 'tokenize');
  const { env } = runs;
  runs.env = { ...env, STANDIN_API_KEY: apiKey };
  const forbidden = await runs.run('detokenize qqq@qqqqqqq.qqq_tok');
  runs.env = env;
  expect(forbidden.code).toBe(1);
  expect(forbidden.stderr).toMatch(
    /may not detokenize \(403\)\. .* --can tokenize,detokenize\.\n$/,
  );
});
