import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { SETTINGS } from '../../src/config/settings.ts';
import { has, runTool } from '../support/deploy.ts';
import { readText } from '../support/docs.ts';

const CHART = 'deploy/helm/standin';
const TEMPLATE = ['--namespace', 'standin', '--kube-version', '1.30.0'];

test('the chart names the version of the program', () => {
  const { version } = JSON.parse(readText('package.json'));
  const [chart] = documentsIn(readText(`${CHART}/Chart.yaml`));
  expect([chart.version, chart.appVersion]).toEqual([version, version]);
});

test('its settings are settings', () => {
  const [{ settings }] = documentsIn(readText(`${CHART}/values.yaml`));
  for (const name of Object.keys(settings)) expect(Object.keys(SETTINGS)).toContain(name);
});

describe.runIf(has('helm', 'version'))('helm', () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'standin-helm-'));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  /** The objects that the chart makes with these values. */
  function made(values = {}): string {
    const file = join(folder, 'values.json');
    writeFileSync(file, JSON.stringify(values));
    return runTool('helm', 'template', 'standin', CHART, ...TEMPLATE, '-f', file);
  }

  test('finds nothing to say', () => {
    const said = runTool('helm', 'lint', '--strict', CHART);
    expect(said).toContain('0 chart(s) failed');
  });

  test('makes what deploy/kubernetes has, and runs the migration first', () => {
    const base = 'deployment service poddisruptionbudget networkpolicy serviceaccount migrate/job'
      .split(' ')
      .flatMap((name) => documentsIn(readText(`deploy/kubernetes/${name}.yaml`)))
      .map((object) => comparable(object));
    const objects = documentsIn(made());
    const ofChart = objects.filter(({ kind, metadata }) => {
      const isHook = metadata.annotations?.['helm.sh/hook'] === 'pre-install,pre-upgrade';
      expect([metadata.name, isHook]).toEqual([metadata.name, metadata.name === 'standin-migrate']);
      return kind !== 'ConfigMap' && !(isHook && kind === 'ServiceAccount');
    });
    const byName = (a: any, b: any) =>
      `${a.kind} ${a.metadata.name}`.localeCompare(`${b.kind} ${b.metadata.name}`);
    expect(ofChart.map(comparable).toSorted(byName)).toEqual(base.toSorted(byName));
    const settings = objects.find(({ kind }) => kind === 'ConfigMap').data;
    const literals = readText('deploy/kubernetes/kustomization.yaml').matchAll(/- ([A-Z_]+)=(.*)/g);
    expect(settings).toEqual(
      Object.fromEntries([...literals].map(([, name, value]) => [name, value])),
    );
  });

  test('a changed setting makes new pods', () => {
    const podsOf = (text: string) =>
      documentsIn(text).find(({ kind }) => kind === 'Deployment').spec.template;
    expect(podsOf(made({ settings: { LOG_LEVEL: 'warn' } }))).not.toEqual(podsOf(made()));
  });

  test.each([
    ['replicas', { replicas: 0 }],
    ['DATABASE_URL', { settings: { DATABASE_URL: 'postgres://a' } }],
    ['DRAIN_DELAY_MS', { settings: { DRAIN_DELAY_MS: 9000 } }],
    ['replicaz', { replicaz: 3 }],
  ])('refuses a mistake in values: %s', (name, values) => {
    expect(() => made(values)).toThrow(name);
  });

  test.runIf(has('kubernetes-validate', '--version'))('the schemas of Kubernetes allow it', () => {
    const file = join(folder, 'made.yaml');
    const check = (text: string) => {
      writeFileSync(file, text);
      return runTool('kubernetes-validate', '--strict', '-k', '1.30.0', file);
    };
    check(made());
    check(made({ migration: { enabled: false }, networkPolicy: { enabled: false } }));
    expect(() => check(made().replace('replicas: 2', 'replicaz: 2'))).toThrow();
  });
});

/** Without what only one of the two has: version of the image, hooks, checksum. */
function comparable({ metadata, spec, ...object }: any): any {
  const { annotations: _, ...named } = metadata;
  const template = spec?.template;
  if (template === undefined) return { ...object, metadata: named, ...(spec && { spec }) };
  const withoutImage = (containers: any[] = []) => containers.map(({ image: _, ...one }) => one);
  const { containers, initContainers, serviceAccountName: __, ...pod } = template.spec;
  const all = {
    containers: withoutImage(containers),
    initContainers: withoutImage(initContainers),
  };
  const { labels } = template.metadata;
  return {
    ...object,
    metadata: named,
    spec: { ...spec, template: { labels, spec: { ...pod, ...all } } },
  };
}

function documentsIn(text: string): any[] {
  return parseAllDocuments(text)
    .map((document) => document.toJS())
    .filter((object) => object !== null);
}
