import { describe, expect, test } from 'vitest';
import type { Growth, Turn } from '../../bench/growth.ts';
import { expandLoads, type Load, type LoadName } from '../../bench/loads.ts';
import type { Measurement } from '../../bench/measurements.ts';
import { type Results, summarySection } from '../../bench/summary.ts';

const LOADS = expandLoads(['tokenize', 'detokenize', 'repeat', 'bulk', 'block'], [64, 256]);

interface Figures {
  readonly rate?: number;
  readonly p99_ms?: number;
  readonly heldUpMs?: number;
  readonly serviceCpuS?: number;
}

function measured(
  load: Load | undefined,
  contestant: Measurement['contestant'],
  round: number,
  { rate = 0, p99_ms: p99Ms = 0, heldUpMs, serviceCpuS }: Figures,
): Measurement {
  const result = {
    right: 1,
    failures: {},
    repeated: 0,
    durationS: 1,
    p50_ms: 0,
    p99_ms: p99Ms,
    maxMs: 0,
    besideP50Ms: 0,
    cpuS: 0,
    samples: [],
    next: 0,
  };
  const costs = { serviceCpuS, databaseCpuS: undefined, verifiedTokens: 0 };
  return { load: load!, contestant, round, result, rate, heldUpMs, ...costs };
}

function find(name: LoadName, connections: number): Load {
  return LOADS.find((load) => load.name === name && load.connections === connections)!;
}

/** The cells of the row that begins so, of PostgreSQL and of the embedded database. */
function row(results: Partial<Results>, beginning: string): string[] {
  const page = summarySection({
    measurements: [],
    start: undefined,
    growth: undefined,
    ...results,
  });
  const line = page!.split('\n').find((text) => text.startsWith(`| ${beginning}`));
  return line!.slice(2, -2).split(' | ').slice(1);
}

describe('the summary of a benchmark', () => {
  test('compares each round with the same round of the other', () => {
    const load = find('tokenize', 64);
    const measurements = [
      measured(load, 'echo', 1, { rate: 1_000 }),
      measured(load, 'postgres', 1, { rate: 390 }),
      measured(load, 'embedded', 1, { rate: 410 }),
      measured(load, 'echo', 2, { rate: 100 }),
      measured(load, 'postgres', 2, { rate: 39 }),
      measured(load, 'embedded', 2, { rate: 41 }),
      measured(load, 'echo', 3, { rate: 10 }),
      measured(load, 'postgres', 3, { rate: 10 }),
      measured(load, 'embedded', 3, { rate: 10 }),
    ];
    expect(row({ measurements }, 'tokenize, 64 connections, rate of the echo')).toEqual([
      '–',
      '0.390',
      '0.410',
    ]);
  });

  test('shows what a figure misses its aim by', () => {
    const load = find('detokenize', 256);
    const measurements = [
      measured(load, 'echo', 1, { serviceCpuS: 100 }),
      measured(load, 'postgres', 1, { serviceCpuS: 251 }),
      measured(load, 'embedded', 1, { serviceCpuS: 250 }),
    ];
    expect(row({ measurements }, 'detokenize, 256 connections, CPU')).toEqual([
      'at most 2.5',
      '**2.51**',
      '2.50',
    ]);
  });

  test('takes the latency at a part of the peak, not the one at the peak', () => {
    const load = find('tokenize', 64);
    const measurements = [
      measured(load, 'postgres', 1, { p99_ms: 90 }),
      measured(load.steady, 'echo', 1, { p99_ms: 10 }),
      measured(load.steady, 'postgres', 1, { p99_ms: 19.9 }),
      measured(load.steady, 'embedded', 1, { p99_ms: 20.1 }),
    ];
    expect(row({ measurements }, 'tokenize at 70 % of its peak')).toEqual([
      'at most 2',
      '1.99',
      '**2.01**',
    ]);
  });

  test('takes the longest of all rounds for the event loop, beside large requests only', () => {
    const [alone, beside] = LOADS.filter(({ name }) => name === 'block');
    const measurements = [
      measured(alone, 'postgres', 1, { heldUpMs: 900 }),
      measured(beside, 'postgres', 1, { heldUpMs: 12 }),
      measured(beside, 'postgres', 2, { heldUpMs: 51 }),
      measured(beside, 'postgres', 3, { heldUpMs: 13 }),
    ];
    expect(row({ measurements }, 'event loop')).toEqual(['at most 50', '**51.00**', '–']);
  });

  test('counts bulk in values, stored values against new ones, and a start of the embedded kind', () => {
    const bulk = find('bulk', 8);
    const measurements = [
      measured(bulk, 'postgres', 1, { rate: 26.6 }),
      measured(bulk, 'embedded', 1, { rate: 26.7 }),
      measured(find('tokenize', 64), 'postgres', 1, { rate: 100 }),
      measured(find('repeat', 64), 'postgres', 1, { rate: 99 }),
    ];
    expect(row({ measurements }, 'bulk')).toEqual(['at least 80,000', '**79,800**', '80,100']);
    expect(row({ measurements }, 'stored values, 64').slice(1, 2)).toEqual(['**0.990**']);
    const none = { serve: [], postgres: [] };
    const start = { firstMs: 9_000, timesMs: { npm_start: [1_400, 1_499, 3_000], ...none } };
    expect(row({ start }, '`npm start`')).toEqual(['at most 1.5', '–', '1.499']);
  });

  test('has ratios, memory and bytes of a vault that was filled', () => {
    const turn = (right: number, p99Ms: number): Turn => {
      const { result } = measured(undefined, 'postgres', 1, { p99_ms: p99Ms });
      return { tokenize: { ...result, right }, detokenize: result, walBytesPerRow: 0 };
    };
    const milestone = (rows: number, rssBytes: number) => ({
      rows,
      rowsPerS: 1,
      rssBytes,
      tableBytes: 100 * rows,
      indexBytes: 44 * rows,
    });
    const growth: Growth = {
      rows: 2_000_000,
      seconds: 1,
      milestones: [milestone(100_000, 100 * 2 ** 20), milestone(2_000_000, 165 * 2 ** 20)],
      rounds: [{ empty: turn(1_000, 4), full: turn(810, 7) }],
      failures: 0,
      repeated: 0,
      verifiedTokens: 0,
    };
    const figure = (beginning: string) => row({ growth }, beginning)[1];
    expect(figure('tokenize with 2,000,000 records')).toEqual('0.810');
    expect(figure('detokenize with 2,000,000 records')).toEqual('**1.750**');
    expect(figure('memory of the service')).toEqual('**65.0**');
    expect(figure('bytes a record')).toEqual('144');
  });

  test('is left out when nothing of it was measured', () => {
    const results = { measurements: [], start: undefined, growth: undefined };
    expect(summarySection(results)).toBeUndefined();
    const measurements = [measured(find('tokenize', 64), 'echo', 1, { rate: 1 })];
    expect(summarySection({ ...results, measurements })).toBeUndefined();
  });
});
