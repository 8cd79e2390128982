import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import {
  call,
  type Ended,
  endOf,
  newPlace,
  type Place,
  runCli,
  type Service,
  spawnCli,
  startService,
  until,
  usualKinds,
} from '../support/service.ts';
import { askedOnTerminal, hasTerminal } from '../support/terminal.ts';
import { sql } from '../support/vault.ts';

const UNKNOWN = 'aaaaaaa@aaaaaa.aaa_tok';

describe.each(usualKinds())('standin forget on the %s database', (kind) => {
  let place: Place;
  let nodes: Service[];
  let apiKey: string;
  beforeAll(async () => {
    place = await newPlace(kind);
    nodes = [await startService(place)];
    apiKey = nodes[0]!.api_key;
    if (kind === 'server') nodes.push(await startService(place));
  });
  afterAll(async () => {
    for (const node of nodes) await node.stop();
    place.remove();
  });
  /** Everything that any command printed. */
  let printed = '';
  const tokens: string[] = [];
  afterEach(() => {
    // No token in any output, nor in the logs of the service.
    for (const token of tokens) {
      expect(printed).not.toContain(token);
      for (const node of nodes) expect(node.output()).not.toContain(token);
    }
  });

  async function tokenize(...values: string[]): Promise<string[]> {
    const { body } = await call(nodes[0]!, 'tokenize', { a: values }, apiKey);
    tokens.push(...body.data.a);
    return body.data.a;
  }

  /** The value of a token, the same on all nodes; undefined when all answer as for no token at all. */
  async function restored(token: string): Promise<string | undefined> {
    const values = await Promise.all(
      nodes.map(async (node) => {
        const { status, body } = await call(node, 'detokenize', { a: token }, apiKey);
        if (status === 200) return body.data.a as string;
        const none = await call(node, 'detokenize', { a: UNKNOWN }, apiKey);
        expect({ status, body }).toEqual({ status: none.status, body: none.body });
        return undefined;
      }),
    );
    expect(new Set(values).size).toBe(1);
    return values[0];
  }

  async function forget(...args: string[]): Promise<Ended> {
    return note(await runCli(['forget', ...args], place));
  }

  async function forgetInput(input: string, ...args: string[]): Promise<Ended> {
    const child = spawnCli(['forget', '--file', '-', ...args], place, {}, 'pipe');
    child.stdin!.end(input);
    return note(await endOf(child));
  }

  function note(result: Ended): Ended {
    printed += result.stdout + result.stderr;
    return result;
  }

  function fileOf(...lines: string[]): string {
    const file = join(place.folder, 'tokens.txt');
    writeFileSync(file, lines.join('\r\n'));
    return file;
  }

  test('a forgotten token is unknown on every node at once; the others stay, and its value can be tokenized again', async () => {
    const [gone, kept] = (await tokenize('to forget', 'to keep')) as [string, string];
    const { code, stdout, stderr } = await forget(gone, '--yes');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toBe('forgotten 1; forgotten before 0; unknown 0\n');
    expect(await restored(gone)).toBeUndefined();
    expect(await restored(kept)).toBe('to keep');
    const [row] = await sql(
      place,
      "select count(*) as n from standin.records where sealed = '' and expires_at is null",
    );
    expect(Number(row!.n)).toBe(1);
    expect(await tokenize('to forget')).toEqual([gone]);
    expect(await restored(gone)).toBe('to forget');
  });

  test('`forget --dry-run` counts, names the lines of unknown tokens with --json, and changes nothing', async () => {
    const [known, before] = (await tokenize('dry known', 'dry before')) as [string, string];
    await forget(before, '--yes');
    const file = fileOf(known, '', UNKNOWN, `  ${before}`, 'no token');
    const expected = {
      is_dry_run: true,
      is_complete: true,
      known: 1,
      already_forgotten: 1,
      unknown: 2,
      unknown_lines: [3, 5],
    };
    const { code, stdout, stderr } = await forget('--file', file, '--dry-run', '--json');
    expect({ code, found: JSON.parse(stdout) }).toEqual({ code: 1, found: expected });
    expect(stderr).toMatch(/^standin: 2 tokens are unknown to this vault, so nothing was removed/);
    expect((await forget('--file', file, '--dry-run')).stdout).toBe(
      'known 1, nothing was changed; forgotten before 1; unknown 2\n',
    );
    expect(await restored(known)).toBe('dry known');
  });

  test('a file and standard input are read to their ends, and a second run finds nothing to do', async () => {
    const values = Array.from({ length: 1_201 }, (_, i) => `from a file ${i}`);
    const all = await tokenize(...values);
    const json = async (result: Promise<Ended>) => {
      const { code, stdout } = await result;
      expect(code).toBe(0);
      return JSON.parse(stdout);
    };
    const counts = { is_dry_run: false, is_complete: true, unknown_lines: [], unknown: 0 };
    const file = fileOf(...all.slice(0, 1_100), '');
    const run = () => json(forget('--file', file, '--yes', '--json'));
    expect(await run()).toEqual({ ...counts, forgotten: 1_100, already_forgotten: 0 });
    expect(await run()).toEqual({ ...counts, forgotten: 0, already_forgotten: 1_100 });
    expect(await json(forgetInput(all.join('\n'), '--yes', '--json'))).toEqual({
      ...counts,
      forgotten: 101,
      already_forgotten: 1_100,
    });
    for (const i of [0, 499, 500, 1_099, 1_200]) expect(await restored(all[i]!)).toBeUndefined();
  });

  test('`forget` without --yes and without a terminal exits 1 and removes nothing', async () => {
    const [token] = (await tokenize('nobody asked')) as [string];
    for (const result of [await forget(token), await forgetInput(token)]) {
      expect(result).toMatchObject({ code: 1, stdout: '' });
      expect(result.stderr).toContain('Add --yes to forget the values, or --dry-run');
    }
    expect(await restored(token)).toBe('nobody asked');
  });

  test('a file that cannot be read, or has no tokens in it, is a failure that says what to do', async () => {
    const missing = await forget('--file', join(place.folder, 'nothing'), '--yes');
    expect(missing).toMatchObject({ code: 1, stdout: '' });
    expect(missing.stderr).toContain('cannot be read (ENOENT)');
    const long = await forget('--file', fileOf('a', 'x'.repeat(5_000)), '--yes');
    expect(long).toMatchObject({ code: 1, stdout: '' });
    expect(long.stderr).toMatch(/^standin: Line 2 of .* one token a line/);
    expect(long.stderr).not.toContain('xxx');
  });

  test.runIf(hasTerminal)('on a terminal it says how many and asks; only yes is yes', async () => {
    const [token] = (await tokenize('asked for')) as [string];
    const asked =
      'The value of 1 known token will be removed. This cannot be undone; older backups still have them.';
    const refused = await answered('no', token, UNKNOWN);
    expect(refused.stdout).toContain(asked);
    expect(refused.stdout).toContain('Nothing was forgotten.');
    expect(refused.code).toBe(1);
    expect(await restored(token)).toBe('asked for');
    const done = await answered('yes', token, UNKNOWN);
    expect(done.stdout).toContain(asked);
    expect(done.stdout).toContain('forgotten 1; forgotten before 0; unknown 1');
    expect(done.stdout).toContain('1 token is unknown to this vault');
    expect(done.code).toBe(1);
    expect(await restored(token)).toBeUndefined();
    // Nothing is known: there is nothing to ask.
    const nothing = await answered('', token);
    expect(nothing.stdout).toContain('forgotten 0; forgotten before 1');
    expect(nothing.code).toBe(0);
  });

  /** Runs the command on a terminal of its own, types the answer, and gives what the terminal showed. */
  async function answered(answer: string, ...args: string[]): Promise<Ended> {
    // The tokens in a file: the terminal shows what is typed.
    return note(await askedOnTerminal(['forget', '--file', fileOf(...args)], place).answer(answer));
  }

  test('values of a file lose every token, by the draws or by a scan, and none is printed', async () => {
    const values = ['Ann Lee', ' two\nbreaks ', 'Ann Ray'];
    const all = await tokenize(...values);
    const file = join(place.folder, 'people.ndjson');
    writeFileSync(file, [...values, 'nobody'].map((one) => `${JSON.stringify(one)}\n`).join(''));
    const dry = await forget('--values', file, '--dry-run', '--json');
    const unknown = { unknown: 1, unknown_lines: [4] };
    expect(JSON.parse(dry.stdout)).toMatchObject({ known: 3, ...unknown });
    expect(dry.stderr).toMatch(/^standin: 1 value is unknown to this vault/);
    const scanned = await forget('--values', file, '--scan', '--yes', '--json');
    expect(JSON.parse(scanned.stdout)).toMatchObject({
      forgotten: 3,
      ...unknown,
      not_searched: [],
    });
    for (const token of all) expect(await restored(token)).toBeUndefined();
    expect(await tokenize('Ann Lee')).toEqual([all[0]]);
    const child = spawnCli(['forget', '--values', '-', '--yes'], place, {}, 'pipe');
    child.stdin!.end('\ufeffAnn Lee\r\n');
    const { code, stdout, stderr } = note(await endOf(child));
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(
      /^forgotten 1; forgotten before 0; unknown 0\nNot searched: tokens that/,
    );
    for (const value of ['Ann Lee', 'breaks', 'Ann Ray']) expect(printed).not.toContain(value);
  });

  test('values that cannot be read or asked about are a failure, and nothing is forgotten', async () => {
    const [token] = (await tokenize('kept as it is')) as [string];
    const file = join(place.folder, 'values.ndjson');
    writeFileSync(file, '"kept as it is"\nno JSON\n');
    expect((await forget('--values', file)).stderr).toContain('Add --yes to forget the values');
    const wrong = await forget('--values', file, '--yes');
    expect(wrong.stderr).toContain('Line 2 is not a JSON string. Nothing was forgotten.');
    const missing = await forget('--values', join(place.folder, 'nothing'), '--yes');
    expect([wrong.code, missing.code]).toEqual([1, 1]);
    expect(missing.stderr).toContain('cannot be read (ENOENT)');
    for (const args of [[], ['--scan', token], ['--values', file, token]])
      expect((await forget(...args, '--yes')).code).toBe(2);
    expect(await restored(token)).toBe('kept as it is');
  });

  test('Ctrl-C stops it after a batch, and a second run goes on', async () => {
    const [first, last] = (await tokenize('first of many', 'last of many')) as [string, string];
    const strangers = Array.from({ length: 300_000 }, (_, i) => `stranger ${i}_tok`).join('\n');
    const file = fileOf(first, strangers, last);
    const child = spawnCli(['forget', '--file', file, '--yes', '--json'], place);
    const stopped = endOf(child);
    const isForgotten = async () =>
      (await call(nodes[0]!, 'detokenize', { a: first }, apiKey)).status === 400;
    await until(isForgotten, 'the first is forgotten');
    child.kill('SIGINT');
    const { code, stdout } = note(await stopped);
    expect(code).toBe(130);
    const counts = JSON.parse(stdout);
    expect(counts).toMatchObject({ is_complete: false, forgotten: 1 });
    expect(counts.unknown).toBeLessThan(300_000);
    expect(await restored(last)).toBe('last of many');
    const again = note(await runCli(['forget', '--file', file, '--yes', '--json'], place));
    expect(again.code).toBe(1);
    const complete = JSON.parse(again.stdout);
    expect(complete).toMatchObject({ is_complete: true, forgotten: 1, already_forgotten: 1 });
    expect(complete.unknown).toBe(300_000);
    expect(complete.unknown_lines).toHaveLength(10_000);
    expect(again.stderr).toContain('100 %  300,002 of 300,002 tokens');
    expect(await restored(last)).toBeUndefined();
  });
});
