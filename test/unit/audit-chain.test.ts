import { createHmac, hkdfSync } from 'node:crypto';
import {
  appendFileSync,
  existsSync,
  fstatSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { AuditFile } from '../../src/audit/audit-file.ts';
import { isPart, type Link, linkOf, linkText } from '../../src/audit/audit-link.ts';
import { type AuditEntry, AuditLog, UnknownCallers } from '../../src/audit/audit-log.ts';
import { type AuditFinding, verifyAudit } from '../../src/audit/audit-verify.ts';
import { openIn } from '../support/audit.ts';
import { folderOfEachTest } from '../support/folder.ts';
import { testKey, testKeyring } from '../support/keys.ts';
import { until } from '../support/service.ts';

const keyring = testKeyring();
const macOf = (last: string, line: Uint8Array) => keyring.auditMac(last, line);
const nameOf = folderOfEachTest('chain');
afterEach(() => {
  vi.restoreAllMocks();
  expect(openIn(nameOf('.')), 'left open').toEqual([]);
});

const linesOf = (count: number, who = 'a') =>
  Array.from({ length: count }, (_, i) => `{"${who}":${i}}\n`);
const write = async (file: AuditFile, lines: readonly string[]) =>
  expect(await file.append(lines, Infinity)).toEqual({ lines: lines.length, failure: undefined });

async function verify(texts: readonly string[], expected: readonly Link[] = []) {
  const findings: AuditFinding[] = [];
  const sources = texts.map((text, i) => ({
    name: `file ${i}`,
    // Cut anywhere: a line may come in two parts.
    chunks: (async function* () {
      for (let at = 0; at < text.length; at += 1_000) yield Buffer.from(text.slice(at, at + 1_000));
    })(),
  }));
  const result = await verifyAudit(sources, {
    macOf,
    expected,
    stop: new AbortController().signal,
    onFinding: (finding) => findings.push(finding),
    onProgress: () => {},
  });
  return {
    ...result,
    findings,
    problems: findings.map(({ line, problem }) => `${line} ${problem}`),
  };
}

const newFile = () => new AuditFile(nameOf('log'), macOf);
const textNow = () => readFileSync(nameOf('log'), 'utf8');
const linesNow = () => textNow().split('\n').slice(0, -1);

/** A chain of so many lines. */
async function chain(count: number): Promise<{ lines: string[]; head: Link }> {
  const file = newFile();
  await write(file, linesOf(count));
  await file.close();
  return { lines: linesNow(), head: file.head };
}

/** Lines of two nodes in turns; the second starts later. */
async function twoNodes(): Promise<{ lines: string[]; heads: Link[] }> {
  const nodes = ['a', 'b'].map((who) => ({ who, file: newFile() }));
  for (let i = 0; i < 6; i++)
    for (const { who, file } of nodes) await write(file, linesOf(2, `${who}${i}`));
  for (const { file } of nodes) await file.close();
  return { lines: linesNow(), heads: nodes.map(({ file }) => file.head) };
}

/** The lines of each chain, in order. */
const byChain = (lines: readonly string[]) =>
  JSON.stringify(lines.toSorted((a, b) => chainOf(a).localeCompare(chainOf(b))));
const chainOf = (line: string) => /"chain":"(\w+)"/.exec(line)?.[1] ?? '';
const textOf = (lines: readonly string[]) => lines.map((line) => `${line}\n`).join('');

test('a link is an HMAC of the line before and the line, with a key of its own', async () => {
  const file = newFile();
  await write(file, ['{"a":"é"}\n', '{"b":1}\n']);
  await file.close();
  const [first, second] = textNow().split('\n').slice(0, 2);
  const key = hkdfSync('sha256', testKey('api-key'), '', 'standin audit chain', 32);
  const hmac = (text: string) =>
    createHmac('sha256', Buffer.from(key)).update(text).digest('base64url').slice(0, 22);
  const body = (line: string) => line.slice(0, line.indexOf(',"mac":"'));
  const parsed = JSON.parse(first!);
  expect(parsed).toEqual({
    ...{ a: 'é', file: nameOf('log'), size: 0, after: '' },
    ...{ chain: expect.stringMatching(/^[0-9a-f]{16}$/), seq: 1, mac: hmac(body(first!)) },
  });
  const mac = hmac(parsed.mac + body(second!));
  expect(JSON.parse(second!)).toEqual({ b: 1, chain: parsed.chain, seq: 2, mac });
});

test('lines of two nodes in a file are as they were written', async () => {
  const { lines, heads } = await twoNodes();
  const { findings, ...rest } = await verify([textOf(lines)], heads);
  expect(findings).toEqual([]);
  expect(rest).toMatchObject({ lines: 24, unlinked: 0, incomplete: 0, earlier: [] });
  expect(rest.heads).toEqual(heads.map(linkText));
});

describe('tampering with one line', () => {
  const at = fc.nat();
  const changes: Record<string, (lines: string[], i: number, j: number) => string[]> = {
    'a character': (lines, i, j) => {
      const line = lines[i]!;
      const k = j % line.length;
      const other = line[k] === 'x' ? 'y' : 'x';
      return lines.with(i, line.slice(0, k) + other + line.slice(k + 1));
    },
    'a removal': (lines, i) => lines.toSpliced(i, 1),
    'a repetition': (lines, i, j) => lines.toSpliced(j % (lines.length + 1), 0, lines[i]!),
    'a swap': (lines, i, j) => {
      const k = j % lines.length;
      return lines.with(i, lines[k]!).with(k, lines[i]!);
    },
    'a line without a link': (lines, i) => lines.toSpliced(i, 0, '{"event":"detokenize"}'),
    'a line without a link that ends in no brace': (lines, i, j) =>
      lines.toSpliced(i, 0, `{"event":"detokenize","seen":{}}${[' ', '\r', '\t', ' x'][j % 4]}`),
    'a line without a link after a byte order mark': (lines, i) =>
      lines.toSpliced(i, 0, '\ufeff{"event":"detokenize"} '),
    'a line with a made-up link': (lines, i, j) =>
      lines.toSpliced(i, 0, lines[j % lines.length]!.replace(/"mac":"./, '"mac":"_')),
  };
  test.each(Object.entries(changes))('%s is found', async (name, change) => {
    const { lines, heads } = await twoNodes();
    await fc.assert(
      fc.asyncProperty(at, at, async (i, j) => {
        const changed = change(lines, i % lines.length, j);
        // The order among nodes is not part of a chain.
        if (byChain(changed) === byChain(lines)) return;
        // The heads show that the last line is missing; nothing in the file itself does.
        const needsHeads = name === 'a removal' || name === 'a character';
        const { findings } = await verify([textOf(changed)], needsHeads ? heads : []);
        expect(findings).not.toEqual([]);
      }),
      { numRuns: 200 },
    );
  });

  test('is named by its line, and by nothing else', async () => {
    const { lines } = await chain(20);
    const line = (i: number, from: string, to: string) =>
      lines.with(i - 1, lines[i - 1]!.replace(from, to));
    const found = async (changed: readonly string[]) => (await verify([textOf(changed)])).problems;
    expect(await found(line(7, '"a":6', '"a":7'))).toEqual(['7 changed']);
    expect(await found(line(7, '"seq":7', '"seq":9'))).toEqual(['7 missing']);
    const { findings, problems } = await verify([textOf(line(11, '"seq":11', '"seq":5'))]);
    expect(problems).toEqual(['11 moved', '12 missing']);
    expect(findings[1]!.detail).toContain('line 11 is missing');
    const { mac } = JSON.parse(lines[6]!);
    expect(await found(line(7, mac, 'A'.repeat(22)))).toEqual(['7 changed']);
    expect(await found(lines.toSpliced(6, 3))).toEqual(['7 missing']);
    const without = (count: number) => verify([textOf(lines.toSpliced(6, count))]);
    expect((await without(1)).findings[0]!.detail).toMatch(/^line 7 is missing in chain /);
    expect((await without(3)).findings[0]!.detail).toMatch(/^lines 7 to 9 are missing in chain /);
    const both = await found(line(7, '"seq":7', '"seq":5').toSpliced(4, 2));
    expect(both).toEqual(['5 changed', '6 missing']);
    expect(await found(lines.toSpliced(0, 1))).toEqual(['1 missing']);
    expect(await found(lines.toSpliced(12, 0, lines[3]!))).toEqual(['13 moved']);
    const repeated = await found(lines.toSpliced(12, 0, ...lines.slice(3, 6)));
    expect(repeated).toEqual(['13 moved', '14 moved', '15 moved']);
    expect(await found(lines.toSpliced(12, 0, '{"event":"tokenize"}'))).toEqual(['13 unlinked']);
    expect(await found(['{"event":"tokenize"}', ...lines])).toEqual(['2 unlinked']);
    expect(await found(['{}', ...lines.slice(1)])).toEqual(['2 unlinked', '2 missing']);
    expect(await found(lines.with(19, lines[19]!.slice(0, -9)))).toEqual(['20 changed']);
  });
});

test('a line that was cut short is one that no reader takes for a line, and nothing else', () => {
  const line = '{"event":"detokenize","node":"a}\\"\\\\","seen":{"card":{"full":1}},"mac":"x"}';
  for (let end = 1; end < line.length; end++)
    expect([end, isPart(Buffer.from(line.slice(0, end)))]).toEqual([end, true]);
  fc.assert(
    fc.property(fc.jsonValue(), fc.constantFrom('', ' ', '\r', '\ufeff', ' {'), (value, more) => {
      expect(isPart(Buffer.from(JSON.stringify(value) + more))).toBe(false);
    }),
  );
  expect(isPart(Buffer.from('{\\}'))).toBe(false);
});

describe('a chain', () => {
  test('goes on in the next file, whose first line names the last one of the file before', async () => {
    const texts: string[] = [];
    const file = newFile();
    for (let i = 0; i < 3; i++) {
      await write(file, linesOf(5, `f${i}`));
      texts.push(textNow());
      rmSync(nameOf('log'));
      file.refresh();
    }
    await file.close();
    expect((await verify(texts, [file.head])).findings).toEqual([]);
    const [, second, third] = texts as [string, string, string];
    const alone = await verify([second, third]);
    expect(alone.findings).toEqual([]);
    expect(alone.earlier.map((text) => linkOf(text)!.sequence)).toEqual([5]);
    expect((await verify([texts[0]!, third])).problems).toEqual(['1 missing']);
    const cut = await verify([textOf(texts[0]!.split('\n').slice(0, 4)), second]);
    expect(cut.findings).toMatchObject([{ line: 1, detail: expect.stringMatching(/^line 5 is/) }]);
    expect((await verify([second, texts[0]!])).findings).not.toEqual([]);
    const plain = second.replaceAll(/,"(file|chain)":.*/g, '}');
    expect((await verify([texts[0]!, plain, third])).problems).toEqual(['5 unlinked', '1 missing']);
  });

  test('names its last line in a new file that another node has begun', async () => {
    const nodes = [newFile(), newFile()];
    const texts: string[] = [];
    for (let i = 0; i < 2; i++) {
      for (const node of nodes) await write(node, linesOf(3, `f${i}`));
      texts.push(textNow());
      rmSync(nameOf('log'));
      for (const node of nodes) node.refresh();
    }
    for (const node of nodes) await node.close();
    expect((await verify(texts)).findings).toEqual([]);
    const alone = await verify([texts[1]!]);
    expect([alone.findings, alone.earlier.length]).toEqual([[], 2]);
    const ofFirst = texts[0]!.split('\n').filter((line) => chainOf(line) === nodes[0]!.head.chain);
    expect((await verify([textOf(ofFirst), texts[1]!])).problems).toEqual(['4 missing']);
  });

  test('goes on after the file was cut to nothing', async () => {
    const file = newFile();
    await write(file, linesOf(5));
    const copy = textNow();
    truncateSync(nameOf('log'), 0);
    await write(file, linesOf(5));
    await file.close();
    const rest = textNow();
    expect((await verify([copy, rest])).findings).toEqual([]);
    const alone = await verify([rest]);
    expect([alone.findings, alone.earlier.length]).toEqual([[], 1]);
  });

  test('of the next run names the last line of the run before', async () => {
    await chain(5);
    appendFileSync(nameOf('log'), '{"cut sho');
    const { lines } = await chain(5);
    expect(await verify([textOf(lines)])).toMatchObject({ findings: [], incomplete: 1, lines: 10 });
    expect(textOf(lines)).not.toContain('"other":');
    expect((await verify([textOf(lines.toSpliced(4, 1))])).problems).toEqual(['6 named']);
    expect((await verify([textOf(lines.slice(5))])).problems).toEqual(['2 named']);
  });

  test('that lost its last lines, or all, is seen only by a head that was noted elsewhere', async () => {
    const { lines, head } = await chain(5);
    for (const left of [lines.slice(0, 3), []]) {
      expect((await verify([textOf(left)])).findings).toEqual([]);
      expect((await verify([textOf(left)], [head])).problems).toEqual([`${left.length} named`]);
    }
  });

  test('that is gone as a whole is seen by what another one wrote after it', async () => {
    const [long, short] = [newFile(), newFile()];
    await write(long, linesOf(3));
    await write(short, linesOf(4, 'b'));
    await short.close();
    await write(long, linesOf(200));
    await long.close();
    const lines = linesNow();
    expect((await verify([textOf(lines)])).findings).toEqual([]);
    const left = lines.filter((line) => chainOf(line) !== short.head.chain);
    const { findings } = await verify([textOf(left)]);
    const detail = `lines 1 to 4 are missing in chain ${short.head.chain}`;
    expect(findings).toMatchObject([{ line: 4, detail }]);
    const named = left.map((line) => line.replace(/"other":"/, '"others":"'));
    expect((await verify([textOf(named)])).findings).not.toEqual([]);
  });

  test('names another one once a minute, and none of a file that was moved away', async () => {
    let passedMs = 0;
    const now = performance.now.bind(performance);
    vi.spyOn(performance, 'now').mockImplementation(() => now() + passedMs);
    const nodes = [newFile(), newFile()];
    const both = async () => {
      for (const node of nodes) await write(node, linesOf(1));
    };
    const named = () => textNow().split('"other":"').length - 1;
    for (let i = 0; i < 10; i++) await both();
    expect(named()).toBe(2);
    passedMs = 60_000;
    await both();
    expect(named()).toBe(4);
    // The second one has seen a line of the first, names it when it is due, and not again.
    await both();
    for (passedMs of [60_001, 120_000, 180_000, 240_000]) await write(nodes[1]!, linesOf(1));
    expect(named()).toBe(5);
    // It reads the whole file again, and does not name itself.
    await nodes[1]!.close();
    await write(nodes[1]!, linesOf(1));
    expect(JSON.parse(linesNow().at(-1)!).other).toMatch(`${nodes[0]!.head.chain}:`);
    rmSync(nameOf('log'));
    passedMs = 300_000;
    await both();
    for (const node of nodes) await node.close();
    expect(named()).toBe(1);
    const { findings } = await verify([textNow()]);
    expect(findings).toEqual([]);
  });

  test('tells lines from before apart, and those that were added to them', async () => {
    writeFileSync(nameOf('log'), textOf(['{"event":"tokenize"}', '{"event":"detokenize"}']));
    await chain(3);
    const text = textNow();
    const plain = text.slice(0, text.indexOf('{"a"'));
    expect(await verify([plain, text])).toMatchObject({ findings: [], lines: 3, unlinked: 4 });
    expect((await verify([`{"event":"tokenize"}\n${text}`])).problems).toEqual(['4 unlinked']);
  });
});

describe('an audit file', () => {
  test('is the one of its name again after a second, and before it goes on in the old one', async () => {
    let nowMs = 7;
    vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
    const file = newFile();
    const seen: boolean[] = [];
    for (nowMs of [7, 1_006, 1_007]) {
      await write(file, linesOf(1));
      seen.push(existsSync(nameOf('log')));
      rmSync(nameOf('log'), { force: true });
    }
    expect(seen).toEqual([true, false, true]);
    await file.close();
  });

  test('that begins with a brace alone goes on in the next line, unless another writer ends that one', async () => {
    writeFileSync(nameOf('log'), '{');
    const file = newFile();
    await write(file, linesOf(1));
    appendFileSync(nameOf('log'), '{"cut sho');
    const written = write(file, linesOf(1));
    // It has found half a line now, and looks again.
    for (let i = 0; i < 20; i++) await undefined;
    appendFileSync(nameOf('log'), 'rt":1}\n');
    await written;
    await file.close();
    expect(linesNow().map((line) => line.slice(0, 6))).toEqual(['{', '{"a":0', '{"cut ', '{"a":0']);
  });

  test('tells a failure without a code as EIO, and leaves standard output open', async () => {
    const broken = new AuditFile(nameOf('log'), () => {
      throw new Error('no code');
    });
    expect(await broken.append(linesOf(1), Infinity)).toEqual({ lines: 0, failure: 'EIO' });
    const file = new AuditFile('stdout', macOf);
    await write(file, []);
    await file.close();
    expect(() => fstatSync(1)).not.toThrow();
  });
});

describe('an audit log', () => {
  let told: unknown[];
  let log: AuditLog;
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    told = [];
    log = new AuditLog({
      ...{ path: nameOf('log'), isRequired: true, node: 'a', macOf, onWaiting() {} },
      onHead: (head) => told.push(linkOf(head)!.sequence),
      onLost: (lines) => told.push(lines),
      onChange: (isAvailable, failure) => told.push(isAvailable, failure),
    });
  });
  afterEach(async () => {
    await log.close();
    vi.useRealTimers();
  });
  const record = () =>
    log.record({ event: 'tokenize', outcome: 'success', client_id: 'c' } as AuditEntry)!;

  test('tells its last link once a minute while there are new lines, and at its end', async () => {
    await record();
    for (const [waitedMs, heads] of [
      [59_999, 0],
      [1, 1],
      [120_000, 1],
    ] as const) {
      await vi.advanceTimersByTimeAsync(waitedMs);
      expect(told).toHaveLength(heads);
    }
    await record();
    await vi.advanceTimersByTimeAsync(60_000);
    await record();
    for (const waitedMs of [0, 1_000]) {
      log.recordStranger({ event: 'x', outcome: 'y', status: 401, remote_address: undefined });
      vi.advanceTimersByTime(waitedMs);
      await log.close();
    }
    expect([told, vi.getTimerCount()]).toEqual([[1, 2, 4, 5], 0]);
  });

  test('counts refusals beyond 5,000 that wait as lost, and writes all others before it closes', async () => {
    const come = (clientId?: string) =>
      log.record({ event: 'tokenize', outcome: 'forbidden', client_id: clientId } as AuditEntry);
    for (let i = 0; i < 5_002; i++) void come('c');
    expect(told).toEqual([1, 1]);
    await record();
    for (const client of ['c', undefined]) void come(client);
    await log.close();
    expect([told, linesNow().length]).toEqual([[1, 1, 5_003], 5_003]);
  });

  test('on a disk that hangs fails what waits for its line after four seconds', async () => {
    vi.spyOn(AuditFile.prototype, 'append').mockReturnValue(new Promise(() => {}));
    record().catch(({ reason }) => told.push(reason));
    await vi.advanceTimersByTimeAsync(3_900);
    expect(told).toEqual([]);
    await vi.advanceTimersByTimeAsync(100);
    expect(told).toEqual([false, 'ETIMEDOUT', 1, 'audit_unavailable']);
  });
});

test('unknown callers that come while others are written have their line in the next second', async () => {
  const stranger = { event: 'tokenize', outcome: 'unauthorized', status: 401 } as const;
  const come = (address: string) => log.recordStranger({ ...stranger, remote_address: address });
  const comes = ['2.2.2.2'];
  const log = new AuditLog({
    ...{ path: nameOf('log'), isRequired: false, node: 'a' },
    macOf: (last, line) => {
      for (const address of comes.splice(0)) come(address);
      return macOf(last, line);
    },
    ...{ onHead() {}, onLost() {}, onWaiting() {}, onChange() {} },
  });
  come('1.1.1.1');
  const text = () => (existsSync(nameOf('log')) ? textNow() : '');
  await until(() => /1\.1\.1\.1.*\n.*2\.2\.2\.2/.test(text()), 'both lines');
  await log.close();
});

test('unknown callers from a hundred addresses have a sum each, and all others one of their own', () => {
  const callers = new UnknownCallers();
  for (let i = 0; i < 150; i++)
    for (const outcome of ['unauthorized', 'unauthorized'])
      callers.add({ event: 'tokenize', outcome, status: 401, remote_address: `10.0.0.${i}` });
  const sums = callers.take();
  expect(sums).toHaveLength(101);
  expect(sums.at(-1)).toMatchObject({ remote_address: 'other', requests: 100 });
  expect(sums.slice(0, -1).every(({ requests }) => requests === 2)).toBe(true);
  expect([callers.isEmpty, callers.take()]).toEqual([true, []]);
});
