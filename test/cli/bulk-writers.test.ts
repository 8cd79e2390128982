import { appendFileSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { beforeAll, describe, expect, test } from 'vitest';
import { bulkRuns, csvOf } from '../support/bulk-run.ts';

/** Line 3,001 is a bad row, in the third block. */
const INPUT = csvOf(5_000, 'writers').replace(/^3000,.*\r\n/m, '3000\r\n');
const TOKENIZE = 'tokenize in.csv --fields email,name';

const runs = bulkRuns();
beforeAll(async () => {
  runs.write('in.csv', INPUT);
  expect((await runs.run(`${TOKENIZE} -o whole.csv --rejects whole.rejects`)).code).toBe(3);
});

/** A run that has written its first row and waits for more. */
async function liveRun(name: string, rejects = '') {
  const command = `tokenize - --format ndjson --fields a -o ${name}${rejects}`;
  const { child, ended } = runs.begin(command);
  child.stdin!.write('{"a":"first"}\n');
  await runs.untilLength(`${name}.partial`, 10);
  const end = () => {
    child.stdin!.end('{"a":"last"}\n');
    return ended;
  };
  return { child, ended, end };
}

function expectWhole(name: string): void {
  expect(runs.read(`${name}.csv`) === runs.read('whole.csv')).toBe(true);
  expect(runs.read(`${name}.rejects`)).toBe(runs.read('whole.rejects'));
}

describe('two runs never write one file', () => {
  test('a run beside a live one is refused, with the process, whatever it is told', async () => {
    runs.write('a.out.lock', '12345678901234');
    const live = await liveRun('a.out', ' --rejects a.rejects');
    const by = `Another run (process ${live.child.pid}) is writing`;
    for (const [files, written] of [
      ['-o a.out', 'a.out'],
      ['-o a.out --force', 'a.out'],
      ['-o a.out --resume', 'a.out'],
      ['-o b.out --rejects a.rejects --force', 'a.rejects'],
    ])
      expect(await runs.failure(`tokenize in.csv --fields email ${files}`)).toBe(
        `standin: ${by} ${written}: wait until it ends, or end it first.\n`,
      );
    expect(runs.left('b.out')).toEqual([]);
    expect(await live.end()).toMatchObject({ code: 0 });
    expect(runs.read('a.out')).toMatch(/^\{"a":"[a-z]{5}_tok"\}\n\{"a":"[a-z]{5}_tok"\}\n$/);
    expect(runs.left('a.')).toEqual(['a.out', 'a.rejects']);
  });

  test('of several that find the lock of a killed run, each ends whole or is refused', async () => {
    const killed = await liveRun('c.csv');
    killed.child.kill('SIGKILL');
    expect((await killed.ended).code).toBe('SIGKILL');
    expect(runs.exists('c.csv.lock')).toBe(true);
    const command = `${TOKENIZE} -o c.csv --rejects c.rejects --force`;
    const ends = await Promise.all(Array.from({ length: 6 }, () => runs.begin(command).ended));
    const refused = /^standin: Another run .*is writing c\.(csv|rejects):/;
    for (const { code, stderr } of ends) if (code !== 3) expect(stderr).toMatch(refused);
    expect(ends.map(({ code }) => code)).toContain(3);
    expectWhole('c');
    expect(runs.left('c.')).toEqual(['c.csv', 'c.rejects']);
  });

  test('a file of somebody else in the place of the lock stays as it is', async () => {
    runs.write('d.csv.lock', 'not ours\n');
    const stderr = await runs.failure(`${TOKENIZE} --rejects d.rejects -o d.csv`);
    expect(stderr).toContain('d.csv.lock is in the way: it is no lock of this program');
    const input = await runs.failure('tokenize d.csv.lock --format csv --fields a -o d.csv');
    expect(input).toContain('are the same file');
    expect([runs.read('d.csv.lock'), runs.left('d.')]).toEqual(['not ours\n', ['d.csv.lock']]);
    symlinkSync('whole.csv', runs.path('g.csv.lock'));
    expect(await runs.failure(`${TOKENIZE} -o g.csv`)).toContain('it is a symbolic link, ELOOP');
  });
});

test.each<[string, (partial: string) => void]>([
  ['removed', (partial) => rmSync(partial)],
  ['replaced', (partial) => renameSync(runs.path('other'), partial)],
  ['longer', (partial) => appendFileSync(partial, '{"a":"of another"}\n')],
])(
  'a run whose file was %s by another process fails, and leaves no complete file',
  async (_, change) => {
    runs.write('other', '{"a":"first"}\n');
    const live = await liveRun('e.out');
    change(runs.path('e.out.partial'));
    const { code, stdout, stderr } = await live.end();
    expect(stderr).toContain(
      'standin: e.out.partial is not as this run wrote it: another process has replaced or changed it. Start again with --force.\n',
    );
    expect([code, stdout, runs.exists('e.out')]).toEqual([1, '', false]);
    rmSync(runs.path('e.out.partial'), { force: true });
  },
);
