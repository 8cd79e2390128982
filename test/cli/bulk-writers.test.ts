import { appendFileSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { BulkRuns, csvOf } from '../support/bulk-run.ts';
import {
  type Ended,
  type Place,
  type Service,
  startService,
  usualPlace,
} from '../support/service.ts';

let place: Place;
let service: Service;
let runs: BulkRuns;
beforeAll(async () => {
  place = await usualPlace();
  service = await startService(place);
  runs = new BulkRuns(place, service);
  runs.write('in.csv', INPUT);
  const whole = 'tokenize in.csv --fields email,name -o whole.csv --rejects whole.rejects';
  expect((await runs.run(whole)).code).toBe(3);
});
afterAll(async () => {
  await service.stop();
  place.remove();
});

/** Line 3,001 is a bad row, in the third block. */
const INPUT = csvOf(5_000, 'writers').replace(/^3000,.*\r\n/m, '3000\r\n');

const left = (name: string) => readdirSync(runs.folder).filter((file) => file.startsWith(name));

/** A run that has written its first row and waits for more. */
async function liveRun(name: string, rejects = '') {
  const child = runs.start(`tokenize - --format ndjson --fields a -o ${name}${rejects}`);
  child.stdin!.on('error', () => {});
  const ended = runs.end(child);
  child.stdin!.write('{"a":"first"}\n');
  await runs.untilLength(child, `${name}.partial`, 10);
  const end = (text: string) => {
    child.stdin!.end(text);
    return ended;
  };
  return { child, ended, end };
}

describe('two runs never write one file', () => {
  test('a run beside a live one is refused, with the process, whatever it is told', async () => {
    const live = await liveRun('a.out', ' --rejects a.rejects');
    const by = `Another run (process ${live.child.pid}) is writing`;
    for (const [files, written] of [
      ['-o a.out', 'a.out'],
      ['-o a.out --force', 'a.out'],
      ['-o a.out --resume', 'a.out'],
      ['-o b.out --rejects a.rejects --force', 'a.rejects'],
    ]) {
      const { code, stderr } = await runs.run(`tokenize in.csv --fields email ${files}`);
      expect(stderr).toBe(`standin: ${by} ${written}: wait until it ends, or end it first.\n`);
      expect(code).toBe(1);
    }
    expect(left('b.out')).toEqual([]);
    expect(await live.end('{"a":"last"}\n')).toMatchObject({ code: 0 });
    expect(runs.read('a.out')).toMatch(/^\{"a":"[a-z]{5}_tok"\}\n\{"a":"[a-z]{5}_tok"\}\n$/);
    expect(left('a.')).toEqual(['a.out', 'a.rejects']);
  });

  test('of several that find the lock of a killed run, each ends whole or is refused', async () => {
    const killed = await liveRun('c.csv');
    killed.child.kill('SIGKILL');
    expect((await killed.ended).code).toBe('SIGKILL');
    expect(runs.exists('c.csv.lock')).toBe(true);
    const command = 'tokenize in.csv --fields email,name -o c.csv --rejects c.rejects --force';
    const ends: Ended[] = await Promise.all(Array.from({ length: 6 }, () => runs.run(command)));
    for (const { code, stderr } of ends)
      if (code !== 3)
        expect(stderr).toMatch(/^standin: Another run .*is writing c\.(csv|rejects):/);
    expect(ends.map(({ code }) => code)).toContain(3);
    expect(runs.read('c.csv') === runs.read('whole.csv')).toBe(true);
    expect(runs.read('c.rejects')).toBe(runs.read('whole.rejects'));
    expect(left('c.')).toEqual(['c.csv', 'c.rejects']);
  });

  test('a file of somebody else in the place of the lock stays as it is', async () => {
    runs.write('d.csv.lock', 'not ours\n');
    const command = 'tokenize in.csv --fields email --rejects d.rejects';
    const { code, stderr } = await runs.run(`${command} -o d.csv`);
    expect(stderr).toContain('d.csv.lock is in the way: it is no lock of this program');
    const input = await runs.run('tokenize d.csv.lock --format csv --fields a -o d.csv');
    expect(input.stderr).toContain('are the same file');
    expect([code, runs.read('d.csv.lock'), left('d.')]).toEqual([1, 'not ours\n', ['d.csv.lock']]);
  });
});

describe('a run whose file was touched by another process fails, and leaves no complete file', () => {
  test.each<[string, (partial: string) => void]>([
    ['removed', (partial) => rmSync(partial)],
    ['replaced', (partial) => renameSync(runs.path('other'), partial)],
    ['longer', (partial) => appendFileSync(partial, '{"a":"of another"}\n')],
  ])('%s', async (_, change) => {
    runs.write('other', '{"a":"first"}\n');
    const live = await liveRun('e.out');
    change(runs.path('e.out.partial'));
    const { code, stdout, stderr } = await live.end('{"a":"last"}\n');
    expect(stderr).toContain(
      'standin: e.out.partial is not as this run wrote it: another process has replaced or changed it. Start again with --force.\n',
    );
    expect([code, stdout, runs.exists('e.out')]).toEqual([1, '', false]);
    rmSync(runs.path('e.out.partial'), { force: true });
  });
});

/** Makes the third write of less than 1,000 bytes fail, and only this one. */
const ONE_FAILURE = `
import { open } from 'node:fs/promises';
const file = await open(process.execPath);
const kind = Object.getPrototypeOf(file);
await file.close();
const { write } = kind;
let short = 0;
kind.write = function (bytes, ...more) {
  if (bytes.length < 1000 && ++short === 3) throw Object.assign(new Error(), { code: 'ENOSPC' });
  return write.call(this, bytes, ...more);
};`;

describe('--resume ends with the same files', () => {
  const expectWhole = (name: string) => {
    expect(runs.read(name) === runs.read('whole.csv')).toBe(true);
    expect(runs.read(`${name}.rejects`)).toBe(runs.read('whole.rejects'));
  };

  test('after bytes beyond the checkpoint that do not come again', async () => {
    const command = 'tokenize in.csv --fields email,name -o f.csv';
    const stopped = await runs.run(command);
    expect(stopped.stderr).toContain('Line 3001: the row has 1 cell instead of 3');
    appendFileSync(runs.path('f.csv.partial'), 'left,by,a killed run\r\n'.repeat(50_000));
    expect((await runs.run(`${command} --resume --rejects f.csv.rejects`)).code).toBe(3);
    expectWhole('f.csv');
  });

  test('after a write that failed between two files, and the next would not', async () => {
    const command = 'tokenize in.csv --fields email,name -o g.csv --rejects g.csv.rejects';
    const preload = `--import=data:text/javascript,${encodeURIComponent(ONE_FAILURE)}`;
    const { code, stderr } = await runs.end(runs.start(command, { NODE_OPTIONS: preload }));
    expect(stderr).toMatch(/g\.csv\.rejects\.partial cannot be written \(the disk is full, ENOSPC/);
    expect(stderr).toContain('The rows so far are kept');
    expect(code).toBe(1);
    expect((await runs.run(`${command} --resume`)).code).toBe(3);
    expectWhole('g.csv');
  });
});
