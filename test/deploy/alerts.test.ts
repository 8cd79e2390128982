import { test } from 'vitest';
import { has, runTool } from '../support/deploy.ts';

test.runIf(has('promtool', '--version'))(
  'promtool: rules, and the tests of the alerts',
  () => {
    const folder = 'deploy/prometheus';
    runTool('promtool', 'check', 'rules', '--lint-fatal', `${folder}/standin.rules.yml`);
    runTool('promtool', 'check', 'config', '--syntax-only', `${folder}/prometheus.yml`);
    for (const name of ['rules', 'week'])
      runTool('promtool', 'test', 'rules', `${folder}/standin.${name}.test.yml`);
  },
  400_000,
);
