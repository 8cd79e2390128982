import { once } from 'node:events';
import { createWriteStream, readdirSync, readFileSync, statSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { beforeAll, expect, test } from 'vitest';
import { bulkRuns, csvOf } from '../support/bulk-run.ts';
import { Random } from '../support/random.ts';
import { startService, until } from '../support/service.ts';

const runs = bulkRuns();
beforeAll(async () => {
  runs.write('in.csv', INPUT);
  const whole = '-o whole.csv --rejects whole.csv.rejects';
  expect((await runs.run(`${COMMAND} ${whole}`)).code).toBe(3);
});
const ROWS = 60_000;
/** Every 1,000th row is a bad one. */
const INPUT = csvOf(ROWS, 'resumed').replaceAll(/^(\d+000),.*\r\n/gm, '$1\r\n');
const COMMAND = 'tokenize in.csv --fields email,name';

/** The files must be those of an undisturbed run. */
function expectWhole(output: string, rejects: string): void {
  expect(output === runs.read('whole.csv')).toBe(true);
  expect(rejects).toBe(runs.read('whole.csv.rejects'));
}

test.each(['out.csv', 'out.csv.gz'])(
  'killed at any point, again and again, --resume ends with the same files: %s',
  async (name) => {
    const random = new Random();
    const command = `${COMMAND} -o ${name} --rejects ${name}.rejects`;
    const whole = runs.read('whole.csv');
    const wholeBytes = name.endsWith('.gz') ? gzipSync(whole).length : Buffer.byteLength(whole);
    let kills = 0;
    for (let i = 1; i <= 8; i++) {
      const again = `${command}${i === 1 ? '' : ' --resume'}`;
      const bytes = random.below(wholeBytes * (i / 8));
      const ended = await runs.cutOff(again, [`${name}.partial`, bytes]);
      if (ended.code === 'SIGKILL') kills++;
    }
    expect(kills).toBeGreaterThan(0);
    const last = runs.exists(name) ? { code: 3 } : await runs.run(`${command} --resume`);
    expect(last.code).toBe(3);
    const bytes = readFileSync(runs.path(name));
    const output = name.endsWith('.gz') ? gunzipSync(bytes) : bytes;
    expectWhole(output.toString(), runs.read(`${name}.rejects`));
    expect(runs.left(name).sort()).toEqual([name, `${name}.rejects`]);
  },
);

test('Ctrl-C stops it, says how to go on, and the rest is done by --resume', async () => {
  const command = `${COMMAND} -o c.csv --rejects c.rejects`;
  const { code, stdout, stderr } = await runs.cutOff(
    `${command} --json`,
    ['c.csv.partial', 200_000],
    'SIGINT',
  );
  expect(code).toBe(130);
  const stopped = JSON.parse(stdout);
  expect(stopped.is_complete).toBe(false);
  expect(stopped.rows).toBeGreaterThan(0);
  expect(stderr).toContain('to go on, run it again with --resume');
  // All that it told of is kept.
  expect(runs.read('c.csv.partial').split('\r\n').length).toBeGreaterThan(stopped.rows / 2);
  const words = 'continue with --resume, or start again with --force';
  expect(await runs.failure(command)).toContain(words);
  const other = command.replace('email,name', 'email');
  expect(await runs.failure(`${other} --resume`)).toContain(
    'The run to resume used --fields email,name',
  );
  const rest = await runs.run(`${command} --resume --json`);
  expect(rest.code).toBe(3);
  const end = JSON.parse(rest.stdout);
  expect(end).toMatchObject({ is_complete: true, rows: ROWS, rejected: ROWS / 1_000 });
  // Nothing was asked for twice.
  expect(stopped.values + end.values).toBe(2 * (ROWS - ROWS / 1_000));
  expectWhole(runs.read('c.csv'), runs.read('c.rejects'));
});

/** Whether the process waits for its standard input: that is among what it polls. */
function waitsForInput(pid: number): boolean {
  const folder = `/proc/${pid}/fdinfo`;
  return readdirSync(folder).some((fd) => {
    try {
      return /^tfd:\s+0 /m.test(readFileSync(join(folder, fd), 'utf8'));
    } catch {
      return false;
    }
  });
}

test.runIf(process.platform === 'linux')('Ctrl-C ends it while it waits for a header', async () => {
  const { child, ended } = runs.begin('tokenize - --format csv --fields a -o n.csv');
  await until(() => waitsForInput(child.pid!), 'it waits for its input');
  child.kill('SIGINT');
  expect(await ended).toMatchObject({ code: 130, stderr: 'standin: stopped\n' });
  expect(runs.exists('n.csv.partial')).toBe(false);
});

test('a checkpoint that nothing can be made of is in the way of all but --force', async () => {
  const command = 'tokenize in.csv --fields email -o o.csv --rejects o.rejects';
  for (const content of ['{', 'null', '{"version":2,"terms":{}}']) {
    runs.write('o.csv.checkpoint', content);
    for (const again of ['', ' --resume'])
      expect(await runs.failure(command + again)).toContain(
        'o.csv.checkpoint was not written by this version',
      );
  }
  expect((await runs.run(`${command} --force`)).code).toBe(3);
  expect(runs.exists('o.csv.checkpoint')).toBe(false);
});

test('an input that has changed is not gone on with; --force begins again', async () => {
  const begun = new Date('2026-01-02T03:04:05.678Z');
  const put = (content: string, at: Date) => {
    runs.write('d.csv', content);
    utimesSync(runs.path('d.csv'), at, at);
  };
  const content = csvOf(3_000, 'changed').concat('bad\r\n');
  put(content, begun);
  const command = 'tokenize d.csv --fields email -o d.out.csv';
  expect(await runs.failure(command)).toContain('--resume');
  for (const [changed, at] of [
    [content.replaceAll('changed', 'chanGED'), begun],
    [content, new Date()],
    [`${content}\r\n`, begun],
  ] as const) {
    put(changed, at);
    expect(await runs.failure(`${command} --resume`)).toContain('The input has changed since');
  }
  runs.write('d.csv', csvOf(10, 'other'));
  await runs.ok(`${command} --force`);
  expect(runs.read('d.out.csv').split('\r\n')).toHaveLength(12);
});

test('a service that is gone for longer than the time-out ends it; with the next one, --resume goes on', async () => {
  const { ended } = runs.begin(`${COMMAND} -o e.csv --rejects e.rejects --timeout 5`);
  await runs.untilLength('e.csv.partial', 200_000);
  runs.service.kill('SIGKILL');
  await runs.service.exit;
  const { code, stderr } = await ended;
  expect(code).toBe(1);
  expect(stderr).toMatch(
    /(does not answer|gave no result).* The rows so far are kept: to go on, run standin tokenize .* --resume/,
  );
  const { url, api_key: apiKey } = runs.service;
  const next = await startService(runs.place, { PORT: new URL(url).port });
  Object.assign(runs.service, next, { api_key: apiKey });
  expect((await runs.run(`${COMMAND} -o e.csv --rejects e.rejects --resume`)).code).toBe(3);
  expectWhole(runs.read('e.csv'), runs.read('e.rejects'));
});

test('a file that is larger than its memory', async () => {
  const file = createWriteStream(runs.path('large.csv'));
  file.write('id,email,note\n');
  const note = 'n'.repeat(1_000);
  for (let block = 0; block < 300; block++) {
    const rows = Array.from({ length: 1_000 }, (_, i) => {
      const email = i % 20 === 0 ? `large${block}.${i}@example.org` : '';
      return `${i},${email},${note}\n`;
    });
    if (!file.write(rows.join(''))) await once(file, 'drain');
  }
  file.end();
  await once(file, 'close');
  const told = 'process.on("exit",()=>process.stderr.write(process.resourceUsage().maxRSS+" KiB"))';
  const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(told)}` };
  const command = 'tokenize large.csv --fields email -o large.out.csv';
  const { code, stdout, stderr } = await runs.begin(command, env).ended;
  expect(code).toBe(0);
  expect(stdout).toContain('15,000 values');
  expect(Number(/(\d+) KiB$/.exec(stderr)![1])).toBeLessThan(200 * 1024);
  const { size } = statSync(runs.path('large.out.csv'));
  expect(size).toBeGreaterThan(300 * 1_000 * 1_000);
});
