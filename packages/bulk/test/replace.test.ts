import { getEventListeners } from 'node:events';
import { describe, expect, test, vi } from 'vitest';
import { inOrder, readBlocks } from '../src/blocks.ts';
import { readBeginning } from '../src/header.ts';
import { RefusedValue, replaceCells } from '../src/replace.ts';
import { DEFAULTS, inputOf } from './edited.ts';

const never = new AbortController().signal;

/** Behaves as the service: refuses a request for its first bad token, and counts the refusals. */
async function detokenized(
  rows: readonly string[],
  stopsAtBadRow = false,
  most = Infinity,
  fields = 'a',
) {
  const input = inputOf(Buffer.from(`${fields}\n${rows.join('\n')}\n`));
  const { format } = await readBeginning(input, { ...DEFAULTS, fields }, false);
  const requests: (readonly string[])[] = [];
  let unknown = 0;
  const ask = async (tokens: readonly string[]) => {
    requests.push(tokens);
    if (tokens.length > most) throw new RefusedValue(undefined, 'has too many values');
    const bad = tokens.filter((token) => token.startsWith('bad'));
    unknown += bad.length;
    if (bad.length > 0) throw new RefusedValue(tokens.indexOf(bad[0]!), 'is not a known token');
    return tokens.map((token) => token.replace('_tok', ''));
  };
  const { value: block } = await readBlocks(input, format, 2).next();
  const rejectsPath = stopsAtBadRow ? undefined : 'rejects';
  const job = { operation: 'detokenize', ask, fields, rejectsPath } as const;
  const replaced = await replaceCells(block!, job, format, never);
  return { ...replaced, text: replaced.bytes.toString(), requests, unknown };
}

describe('replacing the cells of a block', () => {
  test('equal values are sent once', async () => {
    const { text, requests, values } = await detokenized(['x_tok', 'y_tok', 'x_tok', '']);
    expect(text).toBe('x\ny\nx\n\n');
    expect(requests).toEqual([['x_tok', 'y_tok']]);
    expect(values).toBe(3);
  });

  test('what cannot be a token is not sent', async () => {
    const { text, requests, badRows } = await detokenized(['x_tok', 'ann', 'é_tok', 'X_T.k']);
    expect(text).toBe('x\n');
    expect(requests).toEqual([['x_tok']]);
    expect(badRows.map(({ line, problem }) => [line, problem!.reason])).toEqual([
      [3, 'is not a token'],
      [4, 'is not a token'],
      [5, 'is not a token'],
    ]);
  });

  test.each([1, 3, 20, 200])('of 1,000, %d unknown tokens cost few requests', async (count) => {
    const isBad = (i: number) => i % Math.floor(1_000 / count) === 7 % count;
    const cells = Array.from({ length: 1_000 }, (_, i) => `${isBad(i) ? 'bad' : 't'}${i}_tok`);
    const bad = cells.filter((cell) => cell.startsWith('bad'));
    const { badRows, text, requests, unknown } = await detokenized(cells);
    expect(badRows).toHaveLength(bad.length);
    const good = cells.filter((cell) => !cell.startsWith('bad'));
    expect(text).toBe(good.map((cell) => `${cell.replace('_tok', '')}\n`).join(''));
    expect(requests.length).toBeLessThanOrEqual(3 * bad.length + 1);
    expect(unknown).toBeLessThanOrEqual(bad.length * (1 + Math.ceil(Math.log2(bad.length + 1))));
  });

  test('where the first bad row ends the run, nothing is asked for after it', async () => {
    const cells = ['a_tok', 'bad1_tok', 'bad2_tok', 'b_tok'];
    const { badRows, requests, unknown } = await detokenized(cells, true);
    expect(badRows[0]!.line).toBe(3);
    expect(requests).toEqual([cells, ['a_tok']]);
    expect(unknown).toBe(2);
  });

  test('nor where a part of a request that was too large has the bad row', async () => {
    const cells = ['a_tok', 'bad1_tok', 'c_tok', 'd_tok', 'e_tok', 'f_tok'];
    const { badRows, requests } = await detokenized(cells, true, 3);
    expect(badRows[0]!.line).toBe(3);
    expect(requests).toEqual([cells, cells.slice(0, 3), ['a_tok']]);
  });

  test('a bad cell after a good one of its row costs no other row', async () => {
    const rows = ['a_tok,b_tok', 'c_tok,bad1_tok', 'd_tok,e_tok', 'f_tok,bad2_tok', 'g_tok,h_tok'];
    const { text, badRows, values } = await detokenized(rows, false, Infinity, 'a,b');
    expect(text).toBe('a,b\nd,e\ng,h\n');
    expect(badRows.map(({ line }) => line)).toEqual([3, 5]);
    expect(values).toBe(6);
  });

  test('a request that is too large goes in halves; one value alone is what is wrong', async () => {
    const { text, requests } = await detokenized(['a_tok', 'b_tok', 'c_tok'], false, 1);
    expect(text).toBe('a\nb\nc\n');
    expect(requests).toHaveLength(5);
    const none = await detokenized(['a_tok'], false, 0);
    expect(none.badRows[0]!.problem).toEqual({ field: 'a', reason: 'has too many values' });
  });
});

describe('the blocks of a file', () => {
  test('have 2,000 cells at most, or one row', async () => {
    const itemsOf = (length: number) => `["${'x","'.repeat(length - 1)}x"]`;
    const rows = [2_001, 1_999, 1, 1, 1_998, 9].map(itemsOf);
    const options = { ...DEFAULTS, format: 'ndjson', fields: '$[*]' } as const;
    const input = inputOf(Buffer.from(rows.join('\n')));
    const { format } = await readBeginning(input, options, false);
    const blocks: number[][] = [];
    for await (const { rows } of readBlocks(input, format, 1)) blocks.push(rows.map((r) => r.line));
    expect(blocks).toEqual([[1], [2, 3], [4, 5], [6]]);
  });

  test('are read again at twice their length only, when a row comes in many pieces', async () => {
    const input = inputOf(Buffer.from(`1\n"${'x'.repeat(100_000)}"\n`), 100);
    const { format } = await readBeginning(input, DEFAULTS, false);
    const read = vi.spyOn(format, 'read');
    for await (const { rows } of readBlocks(input, format, 2)) expect(rows).toHaveLength(1);
    expect(read.mock.calls.length).toBeLessThan(20);
  });
});

describe('work in order', () => {
  test('results come in the order of the items, with so many under way and no more', async () => {
    const waiting: (() => void)[] = [];
    let most = 0;
    let underWay = 0;
    async function* source() {
      for (let i = 0; i < 20; i++) yield i;
      return undefined;
    }
    const work = async (item: number) => {
      most = Math.max(most, ++underWay);
      await new Promise<void>((resolve) => {
        waiting.push(resolve);
        // Answer in the reverse order.
        if (waiting.length === 4 || item > 16)
          setImmediate(() => {
            for (const go of waiting.splice(0).reverse()) go();
          });
      });
      underWay--;
      return item;
    };
    const results: number[] = [];
    for await (const result of inOrder(source(), work, 4, never)) results.push(result);
    expect(results).toEqual(Array.from({ length: 20 }, (_, i) => i));
    expect(most).toBe(4);
    expect(getEventListeners(never, 'abort')).toEqual([]);
  });

  test('a source that waits holds up no result, and one that fails does so after them', async () => {
    let fail = (_: Error): void => {};
    async function* source() {
      yield 1;
      await new Promise((_, reject) => {
        fail = reject;
      });
      return undefined;
    }
    const results = inOrder(source(), async (item) => item, 4, never);
    expect(await results.next()).toEqual({ done: false, value: 1 });
    fail(new Error('the source'));
    await expect(results.next()).rejects.toThrow('the source');
  });

  test('the first failure by order is the one that is told, and a stop ends it at once', async () => {
    async function* source() {
      yield* [1, 2, 3];
      return undefined;
    }
    const fails = async (item: number) => {
      if (item === 1) await new Promise((resolve) => setImmediate(resolve));
      throw new Error(`item ${item}`);
    };
    await expect(inOrder(source(), fails, 4, never).next()).rejects.toThrow('item 1');
    const stop = new AbortController();
    const stuck = inOrder(source(), () => new Promise(() => {}), 4, stop.signal).next();
    // All is under way, and nothing comes.
    await new Promise((resolve) => setImmediate(resolve));
    stop.abort(new Error('stopped'));
    await expect(stuck).rejects.toThrow('stopped');
    const later = new AbortController();
    const begun: number[] = [];
    const results = inOrder(source(), async (item) => begun.push(item), 2, later.signal);
    expect(await results.next()).toMatchObject({ value: 1 });
    later.abort(new Error('later'));
    await expect(results.next()).rejects.toThrow('later');
    await new Promise((resolve) => setImmediate(resolve));
    expect(begun).toEqual([1, 2]);
  });
});
