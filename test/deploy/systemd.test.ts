import { describe, expect, test } from 'vitest';
import { has, runTool } from '../support/deploy.ts';
import { readText } from '../support/docs.ts';

const UNIT = 'deploy/systemd/standin.service';
const NODES = 'deploy/systemd/standin@.service';

/** Lines that systemd reads. */
const linesOf = (unit: string) =>
  readText(unit)
    .split('\n')
    .filter((line) => /^[A-Z]/.test(line));

test.each([UNIT, NODES])('%s gives time to drain, and lets no core file be written', (unit) => {
  const seconds = Number(/^TimeoutStopSec=(\d+)s$/m.exec(readText(unit))![1]);
  expect(seconds).toBeGreaterThanOrEqual(25);
  expect(readText(unit)).toContain('\nLimitCORE=0\n');
});

test('nodes on one port have what the one service has, and what sharing takes', () => {
  const [one, many] = [linesOf(UNIT), linesOf(NODES)];
  expect(many.filter((line) => !one.includes(line))).toEqual([
    'Description=Standin, tokenization service, node %i',
    expect.stringMatching(/^ExecStartPost=.*:946%i\/metrics$/),
    'TimeoutStopSec=30s',
    'Environment=REUSE_PORT=true OPS_PORT=946%i DRAIN_DELAY_MS=0',
    'User=standin',
  ]);
  expect(one.filter((line) => !many.includes(line))).toEqual([
    'Description=Standin, tokenization service',
    'TimeoutStopSec=25s',
  ]);
});

describe.runIf(has('systemd-analyze', '--version'))('systemd-analyze', () => {
  test.each([UNIT, NODES])('finds nothing in %s', (unit) => {
    expect(runTool('systemd-analyze', 'verify', unit)).toBe('');
  });

  // 0 is no exposure, 10 is none of the protections; since version 250 it can look at a file.
  test.runIf(has('systemd-analyze', 'security', '--offline=true', UNIT))(
    'calls it well kept',
    () => {
      runTool('systemd-analyze', 'security', '--offline=true', '--threshold=20', UNIT);
      expect(() =>
        runTool('systemd-analyze', 'security', '--offline=true', '--threshold=5', UNIT),
      ).toThrow();
    },
  );
});
