import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { ALERTS, dashboardQueries, has, RULES, runTool } from '../support/deploy.ts';
import { anchors, readText } from '../support/docs.ts';

const RUNBOOK = 'docs/operating/alerts.md';
const TESTS = ['standin.rules.test.yml', 'standin.week.test.yml'].map(
  (name) => `deploy/prometheus/${name}`,
);
const cases: { alert_rule_test: { alertname: string; exp_alerts?: unknown[] }[] }[] = TESTS.flatMap(
  (path) => parse(readText(path)).tests,
);

test('each alert says how bad it is, what it means, and where to read what to do', () => {
  expect(ALERTS.length).toBeGreaterThan(25);
  const headings = anchors(RUNBOOK);
  for (const { alert, labels, annotations } of ALERTS) {
    expect(alert).toMatch(/^Standin[A-Z]\w+$/);
    expect(['page', 'ticket']).toContain(labels.severity);
    expect(annotations.summary?.length).toBeGreaterThan(10);
    expect(annotations.description?.length).toBeGreaterThan(10);
    const [path, anchor] = annotations.runbook!.split('#');
    expect([path, headings.includes(anchor!)]).toEqual([RUNBOOK, true]);
  }
  expect(new Set(ALERTS.map(({ alert }) => alert)).size).toBe(ALERTS.length);
});

test('the runbook has no alert that is not there, and says of each how bad it is', () => {
  const text = readText(RUNBOOK);
  const sections = [...text.matchAll(/^### (\w+)\n\n(Page|Ticket)/gm)];
  const runbooks = new Map(
    ALERTS.map(({ annotations }) => [annotations.runbook!.split('#')[1]!, annotations]),
  );
  expect(sections.map(([, name]) => name!.toLowerCase()).sort()).toEqual(
    [...runbooks.keys()].sort(),
  );
  for (const [, name, said] of sections) {
    const { labels } = ALERTS.find(({ alert }) => alert === name)!;
    expect([name, labels.severity]).toEqual([name, said!.toLowerCase()]);
  }
});

test('each alert has a test in which it fires, and one in which it is silent', () => {
  const tested = cases.flatMap(({ alert_rule_test: alertRuleTest }) => alertRuleTest);
  for (const { alert } of ALERTS) {
    const ends = tested.filter(({ alertname }) => alertname === alert);
    expect([
      alert,
      ends.map(({ exp_alerts: expAlerts = [] }) => expAlerts.length > 0).sort(),
    ]).toEqual([alert, [false, true]]);
  }
  expect(tested.length).toBe(2 * ALERTS.length);
});

test('names of recorded series are used, and only those', () => {
  const made = RULES.flatMap((rule) => ('record' in rule ? [rule.record] : []));
  const used = RULES.flatMap(({ expr }) => expr.match(/\bjob\w*:\w+:\w+/g) ?? []);
  expect([...new Set(used)].sort()).toEqual([...made].sort());
});

test.runIf(has('promtool', '--version'))(
  'promtool: rules, and the tests of the alerts',
  () => {
    runTool('promtool', 'check', 'rules', '--lint-fatal', 'deploy/prometheus/standin.rules.yml');
    runTool('promtool', 'check', 'config', '--syntax-only', 'deploy/prometheus/prometheus.yml');
    runTool('promtool', 'test', 'rules', ...TESTS);
  },
  400_000,
);

test.runIf(has('promtool', '--version'))('promtool: the queries of the dashboard parse', () => {
  const folder = mkdtempSync(join(tmpdir(), 'standin-queries-'));
  const check = (queries: string[]) => {
    const rules = queries.map((expr, i) => ({ record: `query:${i}`, expr }));
    const file = join(folder, 'queries.yml');
    writeFileSync(file, stringify({ groups: [{ name: 'queries', rules }] }));
    return runTool('promtool', 'check', 'rules', file);
  };
  expect(check(dashboardQueries('standin'))).toContain('SUCCESS');
  expect(() => check(['sum(rate(standin_requests_total[1m])'])).toThrow();
  rmSync(folder, { recursive: true });
});
