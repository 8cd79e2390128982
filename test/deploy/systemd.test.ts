import { describe, expect, test } from 'vitest';
import { has, runTool } from '../support/deploy.ts';
import { readText } from '../support/docs.ts';

const UNIT = 'deploy/systemd/standin.service';

test('the unit gives time to drain, and lets no core file be written', () => {
  const seconds = Number(/^TimeoutStopSec=(\d+)s$/m.exec(readText(UNIT))![1]);
  expect(seconds).toBeGreaterThanOrEqual(25);
  expect(readText(UNIT)).toContain('\nLimitCORE=0\n');
});

describe.runIf(has('systemd-analyze', '--version'))('systemd-analyze', () => {
  test('finds nothing in the unit', () => {
    expect(runTool('systemd-analyze', 'verify', UNIT)).toBe('');
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
