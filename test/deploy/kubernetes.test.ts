import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { SETTINGS } from '../../src/config/settings.ts';
import { has, runTool } from '../support/deploy.ts';
import { readText } from '../support/docs.ts';

const FOLDER = 'deploy/kubernetes';
const read = (name: string): any[] => documentsIn(readText(`${FOLDER}/${name}`));
const [deployment] = read('deployment.yaml');
const [job] = read('migrate/job.yaml');
const secrets = read('secret.example.yaml');
const services = read('service.yaml');

/** From SIGTERM to the end, at most: what timeouts.md says of the drain. */
const REST_OF_DRAIN_MS = 10_500;

describe('the manifests', () => {
  const pods = [deployment.spec.template.spec, job.spec.template.spec];
  const containers = pods.flatMap(({ containers, initContainers = [] }) => [
    ...containers,
    ...initContainers,
  ]);

  test('confine every container as the namespace demands', () => {
    expect(containers).toHaveLength(3);
    for (const pod of pods) {
      expect(pod.automountServiceAccountToken).toBe(false);
      expect(pod.securityContext).toMatchObject({
        runAsNonRoot: true,
        runAsUser: 1000,
        seccompProfile: { type: 'RuntimeDefault' },
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
    const { containers, terminationGracePeriodSeconds } = deployment.spec.template.spec;
    const [{ livenessProbe, startupProbe, readinessProbe }] = containers;
    const paths = [livenessProbe, startupProbe, readinessProbe].map(({ httpGet }) => httpGet.path);
    expect(paths).toEqual(['/health/live', '/health/live', '/health']);
    const [delayMs] = /(?<=DRAIN_DELAY_MS=)\d+/.exec(readText(`${FOLDER}/kustomization.yaml`))!;
    // Longer than readiness takes to fail, or callers meet a closed port.
    const { periodSeconds, timeoutSeconds, failureThreshold } = readinessProbe;
    const noticedS = failureThreshold * periodSeconds + timeoutSeconds;
    expect(Number(delayMs)).toBeGreaterThan(noticedS * 1000);
    expect(terminationGracePeriodSeconds * 1000).toBeGreaterThan(
      Number(delayMs) + REST_OF_DRAIN_MS,
    );
  });

  test('name settings, secrets, ports and pods that are there', () => {
    const literals = [...readText(`${FOLDER}/kustomization.yaml`).matchAll(/- ([A-Z_]+)=/g)];
    const known = Object.keys(SETTINGS);
    const set = containers.flatMap(({ env }) => env).map(({ name }) => name);
    for (const name of [...literals.map(([, name]) => name), ...set]) expect(known).toContain(name);
    const keys = secrets.flatMap(({ metadata, stringData }) =>
      Object.keys(stringData).map((key) => `${metadata.name} ${key}`),
    );
    const asked = containers
      .flatMap(({ env }) => env)
      .flatMap(({ valueFrom }) =>
        valueFrom === undefined
          ? []
          : [`${valueFrom.secretKeyRef.name} ${valueFrom.secretKeyRef.key}`],
      );
    expect(new Set([...asked, 'standin kek'])).toEqual(new Set(keys));
    const { labels } = deployment.spec.template.metadata;
    const selectors = [
      deployment.spec.selector.matchLabels,
      ...services.map(({ spec }) => spec.selector),
      read('poddisruptionbudget.yaml')[0].spec.selector.matchLabels,
    ];
    for (const selector of selectors) expect(selector).toEqual(labels);
    const ports = deployment.spec.template.spec.containers[0].ports;
    for (const { spec } of services) {
      const target = ports.find(({ name }: any) => name === spec.ports[0].targetPort);
      expect(target.containerPort).toBe(
        Number(SETTINGS[target.name === 'ops' ? 'OPS_PORT' : 'PORT'].default),
      );
    }
    // Of the job, no traffic: the services must not lead to its pod.
    expect(job.spec.template.metadata.labels).not.toMatchObject(labels);
  });

  test('give the rights of the owner to the job alone, and no secret a value', () => {
    expect(JSON.stringify(deployment)).not.toContain('standin-owner');
    expect(JSON.stringify(job)).toContain('standin-owner');
    expect(job.spec.template.spec.initContainers[0].args).toEqual([
      'migrate',
      '--grant-to',
      'standin_app',
    ]);
    for (const { stringData } of secrets)
      for (const value of Object.values(stringData)) expect(value).toContain('REPLACE');
  });
});

describe.runIf(has('kubectl', 'version', '--client'))('kubectl kustomize', () => {
  const build = (folder: string) => runTool('kubectl', 'kustomize', folder);

  test('puts all of it into one namespace, and a changed setting into a new pod', () => {
    const made = documentsIn(build(FOLDER));
    expect(made.map(({ kind }) => kind).sort()).toEqual(
      'ConfigMap Deployment Namespace NetworkPolicy PodDisruptionBudget Service Service ServiceAccount'.split(
        ' ',
      ),
    );
    for (const { kind, metadata } of made)
      expect(kind === 'Namespace' ? metadata.name : metadata.namespace).toBe('standin');
    const of = (kind: string) => made.find((one) => one.kind === kind);
    const { containers } = of('Deployment').spec.template.spec;
    expect(containers[0].envFrom[0].configMapRef.name).toBe(of('ConfigMap').metadata.name);
    expect(of('ConfigMap').metadata.name).toMatch(/^standin-\w{10}$/);
    expect(containers[0].image).toContain(JSON.parse(readText('package.json')).version);
  });

  test.runIf(has('kubernetes-validate', '--version'))(
    'makes what the schemas of Kubernetes allow',
    () => {
      const folder = mkdtempSync(join(tmpdir(), 'standin-kubernetes-'));
      const check = (text: string) => {
        const file = join(folder, 'made.yaml');
        writeFileSync(file, text);
        return runTool('kubernetes-validate', '--strict', '-k', '1.30.0', file);
      };
      for (const text of [build(FOLDER), build(`${FOLDER}/migrate`)]) check(text);
      check(readText(`${FOLDER}/secret.example.yaml`));
      expect(() => check(build(FOLDER).replace('replicas: 2', 'replicaz: 2'))).toThrow();
      rmSync(folder, { recursive: true });
    },
  );
});

function documentsIn(text: string): any[] {
  return parseAllDocuments(text).map((document) => document.toJS());
}
