import { beforeAll, expect, test } from 'vitest';
import { placeFor, withVault } from '../support/command.ts';
import { until } from '../support/service.ts';
import { type Asked, askedOnTerminal, COLOURS, hasTerminal } from '../support/terminal.ts';

const CLOSED = 'version: 1\nrights: { support: { "*": full } }\n';
const OPEN = 'version: 1\nfields: { email: email }\nelsewhere: pass\n';
const SHOP_LOSES = 'shop will see less: every kind full -> none.';
const NAMES_NOBODY = 'No client of the vault is called support: nobody will have these rights.';

const at = placeFor('block', undefined, withVault);
beforeAll(async () => {
  await at.json('client create --name shop');
  at.write('closed.yaml', CLOSED);
  at.write('open.yaml', OPEN);
});
const version = async () => (await at.json('policy show --versions')).length as number;

test('a first policy that takes nothing away asks nothing', async () => {
  at.write('first.yaml', 'version: 1\nfields: { a: text }\nelsewhere: tokenize\n');
  await at.text('policy apply first.yaml');
  expect(await version()).toBe(1);
});

test('without a terminal, consequences are said, and need --yes', async () => {
  const before = await version();
  const refused = await at.run('policy apply closed.yaml');
  expect(refused.code).toBe(1);
  const words = /^! shop.*\n! No client.*\nstandin: Nothing was changed: .*--yes/;
  expect(refused.stderr).toMatch(words);
  expect(await at.failure('policy apply closed.yaml --json')).toBe(refused.stderr);
  const lines = `\n! ${SHOP_LOSES}\n! ${NAMES_NOBODY}\n`;
  expect(await at.text('policy diff closed.yaml')).toContain(lines);
  const consequences = [SHOP_LOSES, NAMES_NOBODY];
  expect(await at.json('policy diff closed.yaml')).toMatchObject({ consequences });
  expect(await version()).toBe(before);
  const applied = await at.result('policy apply closed.yaml --yes');
  expect(applied).toMatchObject({ version: before + 1, consequences });
});

/** The question, when the terminal shows it. */
async function question(file: string): Promise<Asked> {
  const asked = askedOnTerminal(['policy', 'apply', file], at.place);
  await until(() => asked.output().endsWith('Go on? (yes/no) '), 'the question');
  expect(asked.output().replaceAll(COLOURS, '')).toContain('! Strings that no field names will');
  return asked;
}

/** The output of a command on the terminal that changed nothing. */
async function refusedBy(asked: Asked, answer: string): Promise<string> {
  const { code, stdout } = await asked.answer(answer);
  expect(code).toBe(1);
  return stdout.replaceAll(/\s+/g, ' ');
}

test.runIf(hasTerminal)('on a terminal it shows them and asks; only yes is yes', async () => {
  const before = await version();
  // The end of the input is no, too, and so is Ctrl-C, which ends the shell as well.
  for (const answer of ['no', '\x04'])
    expect(await refusedBy(await question('open.yaml'), answer)).toContain('Nothing was changed.');
  const interrupted = await (await question('open.yaml')).answer('\x03');
  expect(interrupted.stdout).toContain('Nothing was changed.');
  expect(await version()).toBe(before);
  const done = await (await question('open.yaml')).answer(' Y ');
  expect([done.code, done.stdout]).toEqual([0, expect.stringContaining('is in force')]);
  expect(done.stdout).toContain('shop will see more: every kind none -> full.');
  expect(await version()).toBe(before + 1);
});

test.runIf(hasTerminal)(
  'a change between the question and the answer undoes the answer',
  async () => {
    at.write('refuse.yaml', OPEN.replace('pass', 'refuse'));
    const byClient = await question('refuse.yaml');
    await at.json('client create --name unseen');
    const before = await version();
    // The new client changes nothing of what was asked.
    expect((await byClient.answer('yes')).code).toBe(0);
    expect(await version()).toBe(before + 1);

    at.write('rights.yaml', `${OPEN}rights: { shop: { "*": full } }\n`);
    const byRight = await question('rights.yaml');
    await at.json('client create --name another');
    const words = 'the clients have changed since you were asked: nothing was changed.';
    expect(await refusedBy(byRight, 'yes')).toContain(words);
    const byVersion = await question('rights.yaml');
    await at.result('policy apply closed.yaml --yes');
    expect(await refusedBy(byVersion, 'yes')).toContain('nothing was changed');
    expect(await at.text('policy show')).toBe(CLOSED);
  },
);
