import { expect, test } from 'vitest';
import { DASHBOARD, PANELS } from '../support/deploy.ts';

test('the dashboard is one that Grafana can show', () => {
  expect(DASHBOARD.schemaVersion).toBeGreaterThanOrEqual(36);
  // Grafana takes an id of another dashboard for that dashboard, and refuses to import it.
  expect(DASHBOARD.id ?? null).toBeNull();
  expect(DASHBOARD.uid).toMatch(/^[\w-]{1,40}$/);
  expect(new Set(PANELS.map(({ id }) => id)).size).toBe(PANELS.length);
  const taken = new Map<string, string>();
  for (const { title, type, gridPos, targets = [] } of PANELS) {
    const { x, y, w, h } = gridPos;
    expect(x >= 0 && w > 0 && x + w <= 24 && h > 0, title).toBe(true);
    for (let column = x; column < x + w; column++) {
      for (let line = y; line < y + h; line++) {
        expect(taken.get(`${column} ${line}`), title).toBeUndefined();
        taken.set(`${column} ${line}`, title);
      }
    }
    expect(targets.length > 0 || type === 'row', title).toBe(true);
    expect(new Set(targets.map(({ refId }) => refId)).size).toBe(targets.length);
  }
});

test('the dashboard names no data source but the one that is chosen, and no unknown variable', () => {
  const text = JSON.stringify(DASHBOARD);
  const sources = [...text.matchAll(/"datasource":("[^"]*"|\{.*?\}"\})/g)].map(([, one]) => one);
  expect(sources.length).toBeGreaterThan(30);
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a variable of Grafana
  expect(new Set(sources)).toEqual(new Set(['{"type":"prometheus","uid":"${datasource}"}']));
  const variables = DASHBOARD.templating.list.map(({ name }: { name: string }) => name);
  const known = [...variables, '__rate_interval', '__range', '__all'];
  for (const [, name] of text.matchAll(/\$\{?(\w+)/g)) expect(known).toContain(name);
});
