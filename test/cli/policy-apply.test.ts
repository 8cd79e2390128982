import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { makeVault, type Place, runCli, runJson, until, usualPlace } from '../support/service.ts';
import { type Asked, askedOnTerminal, COLOURS, hasTerminal } from '../support/terminal.ts';

const CLOSED = 'version: 1\nrights: { support: { "*": full } }\n';
const OPEN = 'version: 1\nfields: { email: email }\nelsewhere: pass\n';
const SHOP_LOSES = 'shop will see less: every kind full -> none.';
const NAMES_NOBODY = 'No client of the vault is called support: nobody will have these rights.';

let place: Place;
beforeAll(async () => {
  place = await usualPlace();
  await makeVault(place);
  await runJson(place, 'client', 'create', '--name', 'shop');
  writeFileSync(join(place.folder, 'closed.yaml'), CLOSED);
  writeFileSync(join(place.folder, 'open.yaml'), OPEN);
});
afterAll(() => place.remove());

const policy = (...args: string[]) => runCli(['policy', ...args], place);
const version = async () => (await runJson(place, 'policy', 'show', '--versions')).length as number;

test('a first policy that takes nothing away asks nothing', async () => {
  const file = join(place.folder, 'first.yaml');
  writeFileSync(file, 'version: 1\nfields: { a: text }\nelsewhere: tokenize\n');
  expect(await policy('apply', file)).toMatchObject({ code: 0, stderr: '' });
  expect(await version()).toBe(1);
});

test('without a terminal, consequences are said, and need --yes', async () => {
  const before = await version();
  const refused = await policy('apply', 'closed.yaml');
  expect(refused).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(
      /^! shop.*\n! No client.*\nstandin: Nothing was changed: .*--yes/,
    ),
  });
  const asJson = await policy('apply', 'closed.yaml', '--json');
  expect(asJson).toMatchObject({ code: 1, stdout: '', stderr: refused.stderr });
  const diff = await policy('diff', 'closed.yaml');
  expect(diff.stdout).toContain(`\n! ${SHOP_LOSES}\n! ${NAMES_NOBODY}\n`);
  const consequences = [SHOP_LOSES, NAMES_NOBODY];
  expect(await runJson(place, 'policy', 'diff', 'closed.yaml')).toMatchObject({ consequences });
  expect(await version()).toBe(before);
  const applied = await runJson(place, 'policy', 'apply', 'closed.yaml', '--yes');
  expect(applied).toMatchObject({ version: before + 1, consequences });
});

/** The question, when the terminal shows it. */
async function question(file: string): Promise<Asked> {
  const asked = askedOnTerminal(['policy', 'apply', file], place);
  await until(() => asked.output().includes('Go on? (yes/no)'), 'the question');
  expect(asked.output().replaceAll(COLOURS, '')).toContain('! Strings that no field names will');
  return asked;
}

test.runIf(hasTerminal)('on a terminal it shows them and asks; only yes is yes', async () => {
  const before = await version();
  const refused = await (await question('open.yaml')).answer('no');
  expect([refused.code, refused.stdout]).toEqual([
    1,
    expect.stringContaining('Nothing was changed.'),
  ]);
  expect(await version()).toBe(before);
  const done = await (await question('open.yaml')).answer('yes');
  expect([done.code, done.stdout]).toEqual([0, expect.stringContaining('is in force')]);
  expect(done.stdout).toContain('shop will see more: every kind none -> full.');
  expect(await version()).toBe(before + 1);
});

test.runIf(hasTerminal)(
  'a change between the question and the answer undoes the answer',
  async () => {
    writeFileSync(join(place.folder, 'refuse.yaml'), OPEN.replace('pass', 'refuse'));
    const byClient = await question('refuse.yaml');
    await runJson(place, 'client', 'create', '--name', 'unseen');
    const before = await version();
    // The new client changes nothing of what was asked.
    expect((await byClient.answer('yes')).code).toBe(0);
    expect(await version()).toBe(before + 1);

    const text = `${OPEN}rights: { shop: { "*": full } }\n`;
    writeFileSync(join(place.folder, 'rights.yaml'), text);
    const byRight = await question('rights.yaml');
    await runJson(place, 'client', 'create', '--name', 'another');
    const refused = await byRight.answer('yes');
    expect(refused.code).toBe(1);
    expect(refused.stdout.replaceAll(/\s+/g, ' ')).toContain(
      'the clients have changed since you were asked: nothing was changed.',
    );
    const byVersion = await question('rights.yaml');
    await runJson(place, 'policy', 'apply', 'closed.yaml', '--yes');
    const late = await byVersion.answer('yes');
    expect([late.code, late.stdout]).toEqual([1, expect.stringContaining('nothing was changed')]);
    expect((await policy('show')).stdout).toBe(CLOSED);
  },
);
