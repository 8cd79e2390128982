import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { SETTINGS } from '../../src/config/settings.ts';
import { has, runTool } from '../support/deploy.ts';
import { readText } from '../support/docs.ts';
import { newFolder } from '../support/folder.ts';

const FOLDER = 'deploy/kubernetes';
const CHART = 'deploy/helm/standin';
const { version } = JSON.parse(readText('package.json'));
const read = (name: string) => documentsIn(readText(`${FOLDER}/${name}.yaml`));
const [deployment] = read('deployment');
const [job] = read('migrate/job');
const secrets = read('secret.example');
const services = read('service');
const literals = [...readText(`${FOLDER}/kustomization.yaml`).matchAll(/- ([A-Z_]+)=(.*)/g)];
const SET = Object.fromEntries(literals.map(([, name, value]) => [name, value]));

/** From SIGTERM to the end, at most: what timeouts.md says of the drain. */
const REST_OF_DRAIN_MS = 10_500;

const files = newFolder('kubernetes');
const kustomize = (folder: string) => runTool('kubectl', 'kustomize', folder);
/** What the chart makes with these values. */
function chart(values = {}): string {
  const file = join(files, 'values.json');
  writeFileSync(file, JSON.stringify(values));
  const options = ['--namespace', 'standin', '--kube-version', '1.30.0', '-f', file];
  return runTool('helm', 'template', 'standin', CHART, ...options);
}

describe('the manifests', () => {
  const pods = [deployment.spec.template.spec, job.spec.template.spec];
  const containers = pods.flatMap((pod) => [...pod.containers, ...(pod.initContainers ?? [])]);
  const env = containers.flatMap((one) => one.env);

  test('confine every container as the namespace demands', () => {
    expect(containers).toHaveLength(3);
    for (const { automountServiceAccountToken, securityContext } of pods) {
      expect(automountServiceAccountToken).toBe(false);
      const seccompProfile = { type: 'RuntimeDefault' };
      expect(securityContext).toMatchObject({
        runAsNonRoot: true,
        runAsUser: 1000,
        seccompProfile,
      });
    }
    for (const { securityContext, resources } of containers) {
      expect(securityContext).toEqual({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      });
      expect(Object.keys(resources.requests)).toEqual(['cpu', 'memory']);
      expect(Object.keys(resources.limits)).toEqual(['memory']);
    }
  });

  test('ask the right path for the right question, and give time to drain', () => {
    const { terminationGracePeriodSeconds } = pods[0];
    const { livenessProbe, startupProbe, readinessProbe } = containers[0];
    const paths = [livenessProbe, startupProbe, readinessProbe].map(({ httpGet }) => httpGet.path);
    expect(paths).toEqual(['/health/live', '/health/live', '/health']);
    const delayMs = Number(SET.DRAIN_DELAY_MS);
    // Longer than readiness takes to fail, or callers meet a closed port.
    const { periodSeconds, timeoutSeconds, failureThreshold } = readinessProbe;
    expect(delayMs).toBeGreaterThan((failureThreshold * periodSeconds + timeoutSeconds) * 1000);
    expect(terminationGracePeriodSeconds * 1000).toBeGreaterThan(delayMs + REST_OF_DRAIN_MS);
  });

  test('name settings, secrets, ports and pods that are there', () => {
    const set = [...Object.keys(SET), ...env.map(({ name }) => name)];
    expect(Object.keys(SETTINGS)).toEqual(expect.arrayContaining(set));
    const keys = secrets.flatMap(({ metadata, stringData }) =>
      Object.keys(stringData).map((key) => `${metadata.name} ${key}`),
    );
    const references = env.flatMap(({ valueFrom }) => valueFrom?.secretKeyRef ?? []);
    const asked = references.map(({ name, key }) => `${name} ${key}`);
    expect(new Set([...asked, 'standin kek'])).toEqual(new Set(keys));
    const { labels } = deployment.spec.template.metadata;
    expect(deployment.spec.selector.matchLabels).toEqual(labels);
    expect(read('poddisruptionbudget')[0].spec.selector.matchLabels).toEqual(labels);
    for (const { spec } of services) {
      expect(spec.selector).toEqual(labels);
      const [{ targetPort }] = spec.ports;
      const port = containers[0].ports.find(({ name }: any) => name === targetPort).containerPort;
      const setting = targetPort === 'ops' ? SETTINGS.OPS_PORT : SETTINGS.PORT;
      expect(port).toBe(Number(setting.default));
    }
    // Of the job, no traffic: the services must not lead to its pod.
    expect(job.spec.template.metadata.labels).not.toMatchObject(labels);
  });

  test('give the rights of the owner to the job alone, and no secret a value', () => {
    expect(JSON.stringify(deployment)).not.toContain('standin-owner');
    expect(JSON.stringify(job)).toContain('standin-owner');
    expect(pods[1].initContainers[0].args).toEqual(['migrate', '--grant-to', 'standin_app']);
    for (const value of secrets.flatMap(({ stringData }) => Object.values(stringData)))
      expect(value).toContain('REPLACE');
  });
});

test.runIf(has('kubectl', 'version', '--client'))(
  'kubectl kustomize puts all of it into one namespace, and a changed setting into a new pod',
  () => {
    const made = documentsIn(kustomize(FOLDER));
    const kinds =
      'ConfigMap Deployment Namespace NetworkPolicy PodDisruptionBudget Service Service ServiceAccount';
    expect(made.map(({ kind }) => kind).sort()).toEqual(kinds.split(' '));
    for (const { kind, metadata } of made)
      expect(kind === 'Namespace' ? metadata.name : metadata.namespace).toBe('standin');
    const of = (kind: string) => made.find((one) => one.kind === kind);
    const [{ envFrom, image }] = of('Deployment').spec.template.spec.containers;
    expect(of('ConfigMap').metadata.name).toMatch(/^standin-\w{10}$/);
    expect(envFrom[0].configMapRef.name).toBe(of('ConfigMap').metadata.name);
    expect(image).toContain(version);
  },
);

test('the chart names the version of the program, and settings that are there', () => {
  const [{ version: ofChart, appVersion }] = documentsIn(readText(`${CHART}/Chart.yaml`));
  expect([ofChart, appVersion]).toEqual([version, version]);
  const [{ settings }] = documentsIn(readText(`${CHART}/values.yaml`));
  expect(Object.keys(SETTINGS)).toEqual(expect.arrayContaining(Object.keys(settings)));
});

describe.runIf(has('helm', 'version'))('helm', () => {
  test('finds nothing to say', () => {
    expect(runTool('helm', 'lint', '--strict', CHART)).toContain('0 chart(s) failed');
  });

  test('makes what deploy/kubernetes has, and runs the migration first', () => {
    const base = [deployment, job, ...services].concat(
      ['poddisruptionbudget', 'networkpolicy', 'serviceaccount'].flatMap(read),
    );
    const objects = documentsIn(chart());
    const ofChart = objects.filter(({ kind, metadata }) => {
      const isHook = metadata.annotations?.['helm.sh/hook'] === 'pre-install,pre-upgrade';
      expect([metadata.name, isHook]).toEqual([metadata.name, metadata.name === 'standin-migrate']);
      return kind !== 'ConfigMap' && !(isHook && kind === 'ServiceAccount');
    });
    const byName = (a: any, b: any) =>
      `${a.kind} ${a.metadata.name}`.localeCompare(`${b.kind} ${b.metadata.name}`);
    expect(ofChart.map(comparable).sort(byName)).toEqual(base.map(comparable).sort(byName));
    expect(objects.find(({ kind }) => kind === 'ConfigMap').data).toEqual(SET);
  });

  test('a changed setting makes new pods', () => {
    const podsOf = (text: string) =>
      documentsIn(text).find(({ kind }) => kind === 'Deployment').spec.template;
    expect(podsOf(chart({ settings: { LOG_LEVEL: 'warn' } }))).not.toEqual(podsOf(chart()));
  });

  test.each([
    ['replicas', { replicas: 0 }],
    ['DATABASE_URL', { settings: { DATABASE_URL: 'postgres://a' } }],
    ['DRAIN_DELAY_MS', { settings: { DRAIN_DELAY_MS: 9000 } }],
    ['replicaz', { replicaz: 3 }],
  ])('refuses a mistake in values: %s', (name, values) => {
    expect(() => chart(values)).toThrow(name);
  });
});

const LEAST = { migration: { enabled: false }, networkPolicy: { enabled: false } };
describe.runIf(has('kubernetes-validate', '--version'))('the schemas of Kubernetes', () => {
  const made: [program: string, string, () => string][] = [
    ['kubectl', 'the manifests', () => kustomize(FOLDER)],
    ['kubectl', 'the migration', () => kustomize(`${FOLDER}/migrate`)],
    ['kubectl', 'the secrets', () => readText(`${FOLDER}/secret.example.yaml`)],
    ['helm', 'the chart', chart],
    ['helm', 'the chart without its options', () => chart(LEAST)],
  ];
  test.each(made.filter(([program]) => has(program)))('of %s allow %s', (_program, _name, make) => {
    const file = join(files, 'made.yaml');
    const check = (text: string) => {
      writeFileSync(file, text);
      return runTool('kubernetes-validate', '--strict', '-k', '1.30.0', file);
    };
    check(make());
    expect(() => check(make().replace('apiVersion', 'apiVersiom'))).toThrow();
  });
});

/** Without what only one of the two has: version of the image, hooks, checksum. */
function comparable({ metadata, spec, ...object }: any): any {
  const { annotations: _, ...named } = metadata;
  const template = spec?.template;
  if (template === undefined) return { ...object, metadata: named, ...(spec && { spec }) };
  const withoutImage = (containers: any[] = []) => containers.map(({ image: _, ...one }) => one);
  const { containers, initContainers, serviceAccountName: __, ...pod } = template.spec;
  const all = [withoutImage(containers), withoutImage(initContainers)];
  const { labels } = template.metadata;
  return { ...object, metadata: named, spec: { ...spec, template: { labels, pod, all } } };
}

function documentsIn(text: string): any[] {
  return parseAllDocuments(text)
    .map((document) => document.toJS())
    .filter((object) => object !== null);
}
