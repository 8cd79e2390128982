import { execFileSync, spawnSync } from 'node:child_process';
import { parse } from 'yaml';
import { ROOT, readText } from './docs.ts';

export interface Alert {
  readonly alert: string;
  readonly expr: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

type Rule = Alert | { readonly record: string; readonly expr: string };

export const RULES: readonly Rule[] = parse(
  readText('deploy/prometheus/standin.rules.yml'),
).groups.flatMap((group: { rules: Rule[] }) => group.rules);

export const ALERTS = RULES.filter((rule) => 'alert' in rule);

export interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; h: number };
  readonly targets?: readonly { readonly refId: string; readonly expr: string }[];
}

export const DASHBOARD = JSON.parse(readText('deploy/grafana/standin.json'));
export const PANELS: readonly Panel[] = DASHBOARD.panels;

/** Expressions of the dashboard, with values in place of variables. */
export function dashboardQueries(job: string): string[] {
  const shown = PANELS.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
  return [...shown, DASHBOARD.annotations.list[0].expr].map((expr) =>
    expr
      .replaceAll('$job', job)
      .replaceAll('$instance', '.*')
      .replaceAll('$__rate_interval', '1m')
      .replaceAll('$__range', '1h'),
  );
}

/** Names of Standin's and Node's metrics in an expression, without suffixes of histograms. */
export function metricsIn(expr: string): string[] {
  const names = expr.match(/(?<![:\w])(standin|nodejs|process)_\w+/g) ?? [];
  return names.map((name) => name.replace(/_(bucket|sum|count)$/, ''));
}

/** Labels that an expression uses, by metric. */
export function labelsIn(expr: string): [metric: string, label: string][] {
  const selected = expr.matchAll(/(?<![:\w])((?:standin|nodejs|process)_\w+)\{([^}]*)\}/g);
  return [...selected].flatMap(([, name, matchers]) =>
    [...matchers!.matchAll(/(\w+) ?[=!]/g)].map(([, label]): [string, string] => [name!, label!]),
  );
}

/** Whether a program is installed. Tests that need a missing program are skipped. */
export function has(program: string, ...args: string[]): boolean {
  return spawnSync(program, args, { stdio: 'ignore' }).status === 0;
}

export function runTool(program: string, ...args: string[]): string {
  return execFileSync(program, args, { cwd: ROOT, encoding: 'utf8', stdio: 'pipe' });
}
