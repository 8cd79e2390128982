import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { placeFor } from '../support/command.ts';
import {
  call,
  type Ended,
  newPlace,
  type Service,
  startService,
  usualKinds,
} from '../support/service.ts';
import { askedOnTerminal, hasTerminal } from '../support/terminal.ts';
import { sql } from '../support/vault.ts';

const UNKNOWN = 'aaaaaaa@aaaaaa.aaa_tok';

describe.each(usualKinds())('standin forget on the %s database', (kind) => {
  const at = placeFor('block', () => newPlace(kind));
  let nodes: Service[];
  let apiKey: string;
  beforeAll(async () => {
    nodes = [await startService(at.place)];
    apiKey = nodes[0]!.api_key;
    if (kind === 'server') nodes.push(await startService(at.place));
  });
  afterAll(async () => {
    for (const node of nodes) await node.stop();
  });
  /** Everything that any command printed. */
  let printed = '';
  const tokens: string[] = [];
  afterEach(() => {
    // No token in any output, nor in the logs of the service.
    for (const token of tokens)
      for (const text of [printed, ...nodes.map((node) => node.output())])
        expect(text).not.toContain(token);
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

  const note = async (running: Promise<Ended>) => {
    const result = await running;
    printed += result.stdout + result.stderr;
    return result;
  };
  const forget = (...args: string[]) => note(at.run(['forget', ...args]));
  const forgetJson = async (...args: string[]) => {
    const { code, stdout, stderr } = await forget(...args, '--json');
    return { code, stderr, found: JSON.parse(stdout) };
  };
  const fed = (input: string, ...args: string[]) => note(at.feed(['forget', ...args], input));
  const fileOf = (...lines: string[]) => at.write('tokens.txt', lines.join('\r\n'));

  test('a forgotten token is unknown on every node at once; the others stay, and its value can be tokenized again', async () => {
    const [gone, kept] = (await tokenize('to forget', 'to keep')) as [string, string];
    const { code, stdout, stderr } = await forget(gone, '--yes');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toBe('forgotten 1; forgotten before 0; unknown 0\n');
    expect(await restored(gone)).toBeUndefined();
    expect(await restored(kept)).toBe('to keep');
    const text =
      "select count(*)::int as n from standin.records where sealed = '' and expires_at is null";
    expect(await sql(at.place, text)).toEqual([{ n: 1 }]);
    expect(await tokenize('to forget')).toEqual([gone]);
    expect(await restored(gone)).toBe('to forget');
  });

  test('`forget --dry-run` counts, names the lines of unknown tokens with --json, and changes nothing', async () => {
    const [known, before] = (await tokenize('dry known', 'dry before')) as [string, string];
    await forget(before, '--yes');
    // A byte order mark and space around a token are no part of it. No token is longer than the last.
    const file = fileOf(`\ufeff${known}`, '', UNKNOWN, `  ${before}`, 'x'.repeat(1_000));
    const { code, stderr, found } = await forgetJson('--file', file, '--dry-run');
    expect(code).toBe(1);
    expect(found).toEqual({
      ...{ is_dry_run: true, is_complete: true, known: 1, already_forgotten: 1 },
      ...{ unknown: 2, unknown_lines: [3, 5] },
    });
    expect(stderr).toMatch(/^standin: 2 tokens are unknown to this vault, so nothing was removed/);
    expect((await forget('--file', file, '--dry-run')).stdout).toBe(
      'known 1, nothing was changed; forgotten before 1; unknown 2\n',
    );
    expect(await restored(known)).toBe('dry known');
  });

  test('a file and standard input are read to their ends, and a second run finds nothing to do', async () => {
    const values = Array.from({ length: 1_201 }, (_, i) => `from a file ${i}`);
    const all = await tokenize(...values);
    const file = fileOf(...all.slice(0, 1_100), '');
    const same = { is_dry_run: false, is_complete: true, unknown_lines: [], unknown: 0 };
    const run = () => forgetJson('--file', file, '--yes');
    for (const [forgotten, before] of [
      [1_100, 0],
      [0, 1_100],
    ])
      expect(await run()).toMatchObject({
        code: 0,
        found: { ...same, forgotten, already_forgotten: before },
      });
    const rest = await fed(all.join('\n'), '--file', '-', '--yes', '--json');
    const counts = { ...same, forgotten: 101, already_forgotten: 1_100 };
    expect([rest.code, JSON.parse(rest.stdout)]).toEqual([0, counts]);
    for (const i of [0, 499, 500, 1_099, 1_200]) expect(await restored(all[i]!)).toBeUndefined();
  });

  test.each([
    ['x\n'.repeat(100_000), 'Line 1 is not a JSON string. Nothing was forgotten.'],
    ['x\n'.repeat(100_001), 'more than 100,000 values: forget them in several files.'],
    ['x'.repeat(2 ** 24), 'Line 1 is not a JSON string. Nothing was forgotten.'],
    ['x'.repeat(2 ** 24 + 1), 'more than 16 MiB: forget them in several files.'],
  ])(
    'values of a file: 100,000 and 16 MiB are read, more is refused whole (%#)',
    async (text, words) => {
      const file = at.write('values.ndjson', text);
      const { code, stdout, stderr } = await forget('--values', file, '--dry-run');
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
      expect(stderr).toContain(words);
    },
  );

  test('`forget` without --yes and without a terminal exits 1 and removes nothing', async () => {
    const [token] = (await tokenize('nobody asked')) as [string];
    for (const result of [await forget(token), await fed(token, '--file', '-')]) {
      expect(result).toMatchObject({ code: 1, stdout: '' });
      expect(result.stderr).toContain('Add --yes to forget the values, or --dry-run');
    }
    expect(await restored(token)).toBe('nobody asked');
  });

  test('a file that cannot be read, or has no tokens in it, is a failure that says what to do', async () => {
    const missing = await forget('--file', at.path('nothing'), '--yes');
    expect(missing).toMatchObject({ code: 1, stdout: '' });
    expect(missing.stderr).toContain('cannot be read (ENOENT)');
    const long = await forget('--file', fileOf('a', 'x'.repeat(1_001)), '--yes');
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

  /** Types the answer on a terminal. The tokens are in a file: the terminal shows what is typed. */
  function answered(answer: string, ...args: string[]): Promise<Ended> {
    return note(askedOnTerminal(['forget', '--file', fileOf(...args)], at.place).answer(answer));
  }

  test('values of a file lose every token, by the draws or by a scan, and none is printed', async () => {
    const values = ['Ann Lee', ' two\nbreaks ', 'Ann Ray'];
    const all = await tokenize(...values);
    const lines = [...values, 'nobody'].map((one) => `${JSON.stringify(one)}\n`);
    const file = at.write('people.ndjson', lines.join(''));
    const unknown = { unknown: 1, unknown_lines: [4] };
    const dry = await forgetJson('--values', file, '--dry-run');
    expect(dry.found).toMatchObject({ known: 3, ...unknown });
    expect(dry.stderr).toMatch(/^standin: 1 value is unknown to this vault/);
    const scanned = await forgetJson('--values', file, '--scan', '--yes');
    expect(scanned.found).toMatchObject({ forgotten: 3, ...unknown, not_searched: [] });
    for (const token of all) expect(await restored(token)).toBeUndefined();
    expect(await tokenize('Ann Lee')).toEqual([all[0]]);
    expect(await fed('\ufeffAnn Lee\r\n', '--values', '-', '--yes')).toEqual({
      code: 0,
      stdout: expect.stringMatching(
        /^forgotten 1; forgotten before 0; unknown 0\nNot searched: tokens that/,
      ),
      stderr: '',
    });
    for (const value of ['Ann Lee', 'breaks', 'Ann Ray']) expect(printed).not.toContain(value);
  });

  test('values that cannot be read or asked about are a failure, and nothing is forgotten', async () => {
    const [token] = (await tokenize('kept as it is')) as [string];
    const file = at.write('values.ndjson', '"kept as it is"\nno JSON\n');
    for (const [args, words] of [
      [[file], 'Add --yes to forget the values'],
      [[file, '--yes'], 'Line 2 is not a JSON string. Nothing was forgotten.'],
      [[at.path('nothing'), '--yes'], 'cannot be read (ENOENT)'],
    ] as const) {
      const stderr = expect.stringContaining(words);
      expect(await forget('--values', ...args)).toMatchObject({ code: 1, stderr });
    }
    for (const args of [[], ['--scan', token], ['--values', file, token]])
      expect((await forget(...args, '--yes')).code).toBe(2);
    expect(await restored(token)).toBe('kept as it is');
  });

  test('Ctrl-C stops it after a batch, and a second run goes on', async () => {
    const [first, last] = (await tokenize('first of many', 'last of many')) as [string, string];
    const strangers = Array.from({ length: 100_000 }, (_, i) => `stranger ${i}_tok`).join('\n');
    const file = fileOf(first, strangers, last);
    const isForgotten = async () =>
      (await call(nodes[0]!, 'detokenize', { a: first }, apiKey)).status === 400;
    const command = ['forget', '--file', file, '--yes', '--json'];
    const { code, stdout } = await note(at.interrupted(command, isForgotten));
    expect(code).toBe(130);
    const counts = JSON.parse(stdout);
    expect(counts).toMatchObject({ is_complete: false, forgotten: 1 });
    expect(counts.unknown).toBeLessThan(100_000);
    expect(await restored(last)).toBe('last of many');
    const again = await forgetJson('--file', file, '--yes');
    expect(again.code).toBe(1);
    const complete = { is_complete: true, forgotten: 1, already_forgotten: 1, unknown: 100_000 };
    expect(again.found).toMatchObject(complete);
    expect(again.found.unknown_lines).toHaveLength(10_000);
    expect(again.stderr).toContain('100 %  100,002 of 100,002 tokens');
    expect(await restored(last)).toBeUndefined();
  });
});
