import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import fs, { type FileHandle } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { crc32, gunzipSync, gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { type Job, runBulk } from '../src/index.ts';
import { type Decode, Input } from '../src/input.ts';
import { termsOf } from '../src/job.ts';
import { OutputFile, StandardOutput, writing } from '../src/output.ts';

let folder: string;
/** Of what a run writes. */
let out: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'standin-bulk-'));
  out = join(folder, 'out');
  mkdirSync(out);
});
afterEach(() => {
  vi.restoreAllMocks();
  rmSync(folder, { recursive: true });
});

const JOB = {
  operation: 'tokenize' as const,
  ...{ fields: 'email', hasHeader: true, delimiter: undefined },
  ...{ rejectsPath: undefined, rejectedRowsPath: undefined, isResume: false, isForced: false },
  ask: async (values: readonly string[]) => values.map((value) => `${value}_tok`),
  onProgress: () => {},
};

const begin = (job: Job) => runBulk(job, new AbortController().signal);

test('the share is what was written, not what was read ahead', async () => {
  const inputPath = join(folder, 'in.csv');
  const rows = Array.from({ length: 9_000 }, (_, i) => `ann${i}@example.com\n`);
  writeFileSync(inputPath, `email\n${rows.join('')}`);
  const shares: (number | undefined)[] = [];
  const onProgress = (_: number, share: number | undefined) => shares.push(share);
  const outputPath = join(out, 'out.csv');
  await begin({ ...JOB, format: 'csv', inputPath, outputPath, onProgress });
  expect(shares.length).toBeGreaterThan(3);
  expect(shares[0]).toBeLessThan(0.5);
  expect(shares).toEqual(shares.toSorted((a, b) => a! - b!));
  expect(shares.at(-1)).toBe(1);
});

test.each<[string, 'csv' | 'ndjson', string, string, number]>([
  ['an empty list is its field', 'ndjson', 'a[*]', '{"a":[]}\n', 0],
  ['where all rows are bad, no field is missing', 'ndjson', 'a[*]', '{"b":1}{\n', 1],
  ['a file of no rows is done at once', 'ndjson', 'a', '', 0],
  ['a header alone is a file of no rows', 'csv', 'a', 'a,b', 0],
])('%s', async (_, format, fields, text, bad) => {
  const inputPath = join(folder, 'in');
  writeFileSync(inputPath, text);
  const paths = { inputPath, outputPath: join(out, 'out'), rejectsPath: join(out, 'rejects') };
  const { rejected } = await begin({ ...JOB, ...paths, format, fields });
  expect(rejected).toBe(bad);
  expect(readFileSync(paths.outputPath, 'utf8')).toBe(bad ? '' : text);
});

test('an input comes whole in pieces of any size, packed or not, from any offset', async () => {
  const path = join(folder, 'in');
  const text = 'email\nann@example.com\n';
  const inPieces = (bytes: number): Decode =>
    async function* (chunks) {
      for await (const chunk of chunks)
        for (let at = 0; at < chunk.length; at += bytes) yield chunk.subarray(at, at + bytes);
    };
  for (const content of [text, gzipSync(text)])
    for (const decode of [undefined, inPieces(1), inPieces(2), inPieces(9)])
      for (let offset = 0; offset <= text.length; offset++) {
        writeFileSync(path, content);
        const input = await Input.open(path, decode);
        if (offset > 0) await input.seek(offset);
        let found = '';
        for (let next = await input.read(); next !== undefined; next = await input.read())
          found += next;
        expect(found).toBe(text.slice(offset));
      }
});

test('an input is read in pieces of 256 KiB, and known by its size, time and first KiB', async () => {
  const path = join(folder, 'in');
  const bytes = Buffer.alloc(300_000, 'abc');
  for (const content of [bytes, gzipSync(bytes)]) {
    writeFileSync(path, content);
    const input = await Input.open(path);
    const head = crc32(content.subarray(0, 1_024));
    const { size, mtimeMs } = statSync(path);
    expect(input.identity).toEqual({ bytes: size, mtime_ms: mtimeMs, head });
    expect(await input.read()).toHaveLength(262_144);
    input.close();
  }
});

describe('a job', () => {
  const csv = { ...JOB, format: 'csv' as const };
  /** Of an input with the text. */
  const files = (text: string) => {
    const inputPath = join(folder, 'in');
    writeFileSync(inputPath, text);
    return { ...csv, inputPath, outputPath: join(out, 'out') };
  };
  const take = async () => {};
  const imports = { operation: 'import' as const, take, checkpointPath: undefined, terms: {} };

  test('is gone on with by the same terms, wherever its output is', () => {
    const fields = { policy: '1', paths: [] };
    const rejects = { rejectsPath: '/r', rejectedRowsPath: '/rows' };
    const job = { ...csv, ...rejects, inputPath: '-', outputPath: 'out', fields };
    const terms = {
      '--policy': '1',
      '--format': 'csv',
      '--rejects': '/r',
      '--rejected-rows': '/rows',
    };
    const first = { command: 'tokenize', '--delimiter': 'auto', '--no-header': 'off', ...terms };
    expect(termsOf(job)).toEqual(first);
    const others = { hasHeader: false, delimiter: ';', terms: { '--kind': 'text' } };
    const second = { command: 'import', '--delimiter': ';', '--no-header': 'on', ...terms };
    expect(termsOf({ ...job, ...imports, ...others })).toEqual({ ...second, ...others.terms });
  });

  test('that takes rows gets 4,000 at once, no blank ones, and any field may be missing', async () => {
    const job = files(`\n${'{"email":"x"}\n'.repeat(4_000)}\n{"email":"y"}\n`);
    const counts: number[] = [];
    const counted = { take: async (rows: readonly unknown[]) => void counts.push(rows.length) };
    const more = { ...imports, ...counted, format: 'ndjson' as const, fields: 'email,phone' };
    const end = { rows: 4_001, values: 4_001, line: 4_004, is_complete: true, isResumable: false };
    expect(await begin({ ...job, ...more })).toMatchObject(end);
    expect(counts).toEqual([4_000, 1]);
  });

  test('that was stopped before it began has written nothing', async () => {
    const counts = { input_bytes: 0, line: 1, rows: 0, values: 0, rejected: 0 };
    const end = { ...counts, fields: [], replaced: [], is_complete: false, isResumable: false };
    expect(await runBulk(files('email\nx\n'), AbortSignal.abort())).toEqual(end);
    expect(readdirSync(out)).toEqual([]);
  });

  test('names a field that no row has where rows have no text, and what cannot be read', async () => {
    const { error } = await begin({ ...files('{"n":1}\n'), format: 'ndjson' });
    expect(error!.message).toContain('has no field email in its only row. A field that');
    mkdirSync(join(out, 'out.checkpoint'));
    await expect(begin(files('email\n'))).rejects.toThrow('point cannot be read (EISDIR)');
  });

  test('has a packed output of whole MiB, without bytes where nothing came', async () => {
    const file = await OutputFile.open(join(out, 'a.gz'), 0o600, 0);
    await file.write(Buffer.alloc(1_048_575, 'x'));
    const partial = () => readFileSync(join(out, 'a.gz.partial'));
    expect(partial()).toHaveLength(0);
    await file.write(Buffer.from('y'));
    expect(gunzipSync(partial())).toHaveLength(1_048_576);
    expect(await file.flush()).toBe(partial().length);
    await file.close();
    const shorter = OutputFile.open(join(out, 'a.gz'), 0o600, partial().length + 1);
    await expect(shorter).rejects.toThrow('a.gz.partial is shorter than the run left it');
    const whole = await OutputFile.open(join(out, 'a.gz'), 0o600, partial().length);
    await whole.close();
  });
});

/**
 * Calls `before` before each operation on a file that changes something. Ends with the test.
 * @returns all files that are opened
 */
async function watch(before: (name: string, given: unknown[]) => void): Promise<FileHandle[]> {
  const opened: FileHandle[] = [];
  const file = await fs.open(folder);
  const kind: FileHandle = Object.getPrototypeOf(file);
  await file.close();
  const spied = <T extends object>(target: T, names: (keyof T & string)[]) => {
    for (const name of names) {
      const own = target[name] as (...given: unknown[]) => unknown;
      Object.assign(target, {
        async [name](...given: unknown[]) {
          before(name, given);
          const done = await own.apply(this, given);
          if (name === 'open') opened.push(done as FileHandle);
          return done;
        },
      });
      onTestFinished(() => void Object.assign(target, { [name]: own }));
    }
  };
  spied(fs, ['open', 'rename', 'rm', 'writeFile']);
  spied(kind, ['write', 'writeFile', 'truncate', 'datasync', 'sync']);
  syncBuiltinESMExports();
  onTestFinished(() => syncBuiltinESMExports());
  return opened;
}

test('standard output is full with more than 8 MiB that wait', async () => {
  const output = new StandardOutput();
  await output.write(Buffer.alloc(8 * 1_024 * 1_024));
  expect(output.isFull).toBe(false);
  await output.write(Buffer.alloc(1));
  expect(output.isFull).toBe(true);
});

test('a file gets its name when all of it is on the disk, where a run is saved each second', async () => {
  const paths = { inputPath: join(folder, 'in'), outputPath: join(out, 'out') };
  writeFileSync(paths.inputPath, `email\n${'x\n'.repeat(9_000)}`);
  let ms = 0;
  vi.spyOn(performance, 'now').mockImplementation(() => ms);
  const onProgress = () => (ms += 500);
  const done: string[] = [];
  const opened = await watch((name, given) => {
    done.push(typeof given[0] === 'string' ? `${name} ${basename(given[0])}` : name);
    if (name === 'writeFile') expect(given[2]).toMatchObject({ mode: 0o600, flag: 'wx' });
  });
  await begin({ ...JOB, ...paths, format: 'csv', onProgress });
  const synced = ['open out', 'sync'];
  const next = 'out.checkpoint.new';
  const saved = [`rm ${next}`, `writeFile ${next}`, 'sync', `rename ${next}`, ...synced];
  const begun = [...saved, 'rm out.partial', 'open out.partial', 'truncate', 'write'];
  const written = ['write', 'write', 'write', 'datasync', ...saved];
  const rest = ['write', 'write', 'datasync', ...saved, 'datasync', ...saved];
  const named = ['rename out.partial', ...synced, 'rm out.checkpoint', `rm ${next}`, ...synced];
  expect(done).toEqual(['open in', ...begun, ...written, ...rest, ...named]);
  expect(new Set(opened.map(({ fd }) => fd))).toEqual(new Set([-1]));
});

const ROWS = 2_100;
/** In the second block. */
const isBad = (i: number) => i > 2_000 && i % 45 === 0;
const FORMS = {
  csv: {
    input: (i: number) => (isBad(i) ? `${i}` : `${i},ann${i}@example.com`),
    lines: (rows: string[]) => rows.map((row) => `${row}\n`).join(''),
    head: 'id,email\n',
    fault: ',,has 1 cell instead of 2',
  },
  json: {
    input: (i: number) => `{"id":${i},"email":${isBad(i) ? 7 : `"ann${i}@example.com"`}}`,
    lines: (rows: string[]) => `\n${rows.join(',\n')}\n]\n`,
    head: '[',
    fault: ',email,"is a number, not a string"',
  },
};

describe.each(['out.csv', 'out.json.gz'])('a run to %s with bad rows', (name) => {
  const format = name.split('.')[1] as keyof typeof FORMS;
  const { input, lines, head, fault } = FORMS[format];
  const indexes = Array.from({ length: ROWS }, (_, i) => i);
  const bad = indexes.filter(isBad);
  const good = indexes.filter((i) => !isBad(i));
  const whole = {
    [name]: head + lines(good.map((i) => input(i).replace('.com', '.com_tok'))),
    rejects: `line,field,reason\n${bad.map((i) => `${i + 2}${fault}\n`).join('')}`,
    bad: head + lines(bad.map(input)),
  };
  let job: Job;
  beforeEach(() => {
    const inputPath = join(folder, 'in');
    writeFileSync(inputPath, head + lines(indexes.map(input)));
    const paths = { rejectsPath: join(out, 'rejects'), rejectedRowsPath: join(out, 'bad') };
    job = { ...JOB, ...paths, format, inputPath, outputPath: join(out, name) };
    // Each block is saved.
    let ms = 0;
    vi.spyOn(performance, 'now').mockImplementation(() => (ms += 1_000));
  });

  const run = (isResume: boolean) => begin({ ...job, isResume });
  const files = () =>
    Object.fromEntries(
      readdirSync(out).map((one) => {
        const bytes = readFileSync(join(out, one));
        return [one, (one.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString()];
      }),
    );

  /** Begins, or goes on, and ends with what an undisturbed run would have written and told. */
  async function ends(isResume: boolean): Promise<void> {
    const { rows, values, rejected, replaced, ...end } = await run(isResume);
    const counts = { rows: ROWS, values: good.length, rejected: bad.length };
    expect({ rows, values, rejected }).toEqual(counts);
    expect(end).toMatchObject({ is_complete: true, isResumable: false });
    expect(replaced).toEqual([['email', good.length]]);
    expect(files()).toEqual(whole);
  }

  /** The files before each operation of a whole run. */
  async function states(): Promise<string[]> {
    const found: string[] = [];
    let isOver = false;
    await watch(() => {
      if (isOver) return;
      found.push(join(folder, `state ${found.length}`));
      cpSync(out, found.at(-1)!, { recursive: true });
    });
    await ends(false);
    isOver = true;
    return found;
  }

  function restore(state?: string): void {
    rmSync(out, { recursive: true });
    if (state === undefined) mkdirSync(out);
    else cpSync(state, out, { recursive: true });
  }

  test('is ended by --resume, before whatever operation on a file it was killed', async () => {
    for (const state of await states()) {
      restore(state);
      const left = files();
      if (name in left && !(`${name}.checkpoint` in left)) expect(left).toMatchObject(whole);
      else await ends(true);
    }
  });

  test('that fails at an operation on a file leaves what --resume ends, or nothing', async () => {
    const begun = (await states()).map((state) => [undefined, state] as const);
    let left = 0;
    const opened = await watch(() => {
      if (--left === 0) throw Object.assign(new Error(), { code: 'ENOSPC' });
    });
    const middle = begun[begun.length >> 1]![1];
    for (const from of [undefined, middle])
      for (let at = 1; ; at++) {
        restore(from);
        left = at;
        const { isResumable } = await run(from !== undefined).catch(() => ({ isResumable: false }));
        if (left > 0) break;
        left = 0;
        expect(opened.every(({ fd }) => fd === -1)).toBe(true);
        // A failure may come after the last file has its name.
        if (!(`${name}.checkpoint` in files()) && name in files()) expect(files()).toEqual(whole);
        else if (from !== undefined || isResumable) {
          expect(Object.keys(files())).toContain(`${name}.checkpoint`);
          await ends(true);
        } else {
          expect(files()).toEqual({});
          await ends(false);
        }
      }
  });
});

test('a file that cannot be written because of a quota: in words', async () => {
  const failing = writing('a', () =>
    Promise.reject(Object.assign(new Error(), { code: 'EDQUOT' })),
  );
  await expect(failing).rejects.toThrow('a cannot be written (the quota is used up, EDQUOT)');
});
