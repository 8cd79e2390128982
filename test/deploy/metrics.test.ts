import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import {
  ALERTS,
  dashboardQueries,
  has,
  labelsIn,
  metricsIn,
  PANELS,
  RULES,
} from '../support/deploy.ts';
import { ROOT, readText, table } from '../support/docs.ts';
import { IssuerStandIn } from '../support/issuer.ts';
import { Licenser } from '../support/keys.ts';
import { freePort } from '../support/processes.ts';
import { RedisServer, redisServer } from '../support/redis.ts';
import { type Place, type Service, startService, until, usualPlace } from '../support/service.ts';
import { Authority, hasOpenssl, tlsCall, tlsExchange } from '../support/tls.ts';

const OPS_TOKEN = 'a-token-of-the-tests-0123456789';
const documented = table('docs/operating.md', ['Metric', 'Meaning']).map(
  ([metric, meaning]) => [metric!.replace(/\{.*/, ''), meaning!] as const,
);
const alerted = ALERTS.flatMap(({ expr }) => metricsIn(expr));
const recorded = RULES.filter((rule) => 'record' in rule).flatMap(({ expr }) => metricsIn(expr));
const shown = PANELS.flatMap(({ targets = [] }) => targets).flatMap(({ expr }) => metricsIn(expr));

test('every metric has an alert, except those that only explain others', () => {
  const watched = new Set([...alerted, ...recorded]);
  const unwatched = documented.map(([name]) => name).filter((name) => !watched.has(name));
  expect(unwatched.sort()).toEqual([
    'standin_batch_records',
    'standin_build_info',
    'standin_client_strings_total',
    'standin_expired_records_total',
    'standin_held_bytes',
    'standin_stalled_requests_total',
  ]);
});

/** With everything that brings metrics of its own: TLS, a license, Redis, an issuer of JWTs. */
describe.runIf(hasOpenssl && redisServer !== undefined)('a service with all metrics', () => {
  let place: Place;
  let redis: RedisServer;
  let issuer: IssuerStandIn;
  let service: Service;
  let scraped: ReadonlySet<string>;

  beforeAll(async () => {
    place = await usualPlace();
    redis = await RedisServer.start();
    issuer = await IssuerStandIn.start();
    const authority = new Authority(place.folder, 'authority');
    const issued = authority.issue('IP:127.0.0.1');
    const licenser = new Licenser(place.folder);
    await licenser.issue(100);
    service = await startService(place, {
      OPS_PORT: String(await freePort()),
      OPS_TOKEN,
      REDIS_URL: redis.url,
      TLS_CERT_FILE: issued.cert,
      TLS_KEY_FILE: issued.key,
      ...licenser.env,
      ...issuer.env,
    });
    const ca = readFileSync(authority.ca);
    const { body } = await tlsCall(service, '/api/v1/tokenize', { ca }, { name: 'ann' });
    await tlsCall(service, '/api/v1/detokenize', { ca }, body.data);
    await tlsCall(service, '/health', { ca });
    await tlsExchange(service, { ca, maxVersion: 'TLSv1.1' }, '').catch(() => undefined);
    await until(async () => {
      scraped = await scrape(service);
      return scraped.has('standin_tls_handshake_failures_total reason');
    }, 'all metrics have a series');
  });

  afterAll(async () => {
    await service.stop();
    await redis.stop();
    issuer.stop();
    place.remove();
  });

  test('exports what the table of metrics has, and nothing of ours besides', () => {
    const known = documented.map(([name]) => name);
    const exported = [...scraped].filter((name) => /^standin_\w+$/.test(name));
    expect(exported.sort()).toEqual(known.toSorted());
  });

  test('exports every metric and label that alerts and dashboard ask for', () => {
    const queries = [...RULES.map(({ expr }) => expr), ...dashboardQueries('standin')];
    for (const name of queries.flatMap(metricsIn)) expect([...scraped]).toContain(name);
    // Prometheus adds these two, and le is in the buckets alone.
    const added = ['job', 'instance'];
    const asked = queries.flatMap(labelsIn).filter(([, label]) => !added.includes(label));
    expect(asked.length).toBeGreaterThan(20);
    for (const [name, label] of asked) expect([...scraped]).toContain(`${name} ${label}`);
  });

  test('has each metric of ours on the dashboard', () => {
    const ours = documented.map(([name]) => name);
    expect(ours.filter((name) => !shown.includes(name))).toEqual([]);
  });

  describe.runIf(has('prometheus', '--version'))('and a real Prometheus', () => {
    let folder: string;
    let url: string;
    let prometheus: ChildProcess;

    beforeAll(async () => {
      folder = mkdtempSync(join(tmpdir(), 'standin-prometheus-'));
      const config = parse(readText('deploy/prometheus/prometheus.yml'));
      config.global = { scrape_interval: '500ms', evaluation_interval: '500ms' };
      config.rule_files = [join(ROOT, 'deploy/prometheus/standin.rules.yml')];
      const [job] = config.scrape_configs;
      job.static_configs = [{ targets: [new URL(service.opsUrl!).host] }];
      job.authorization.credentials_file = join(folder, 'token');
      writeFileSync(join(folder, 'token'), `${OPS_TOKEN}\n`, { mode: 0o600 });
      writeFileSync(join(folder, 'prometheus.yml'), stringify(config));
      const port = await freePort();
      url = `http://127.0.0.1:${port}`;
      prometheus = spawn(
        'prometheus',
        [
          `--config.file=${join(folder, 'prometheus.yml')}`,
          `--storage.tsdb.path=${folder}/data`,
          `--web.listen-address=127.0.0.1:${port}`,
        ],
        { stdio: 'ignore' },
      );
      await until(async () => (await values(url, 'up{job="standin"} == 1')) > 0, 'it scrapes');
    });

    afterAll(async () => {
      const gone = new Promise((resolve) => prometheus.once('exit', resolve));
      prometheus.kill();
      await gone;
      rmSync(folder, { recursive: true, force: true });
    });

    test('takes every query of the dashboard, and has an answer to those of now', async () => {
      const queries = dashboardQueries('standin');
      expect(queries.length).toBeGreaterThan(30);
      for (const query of queries) expect(await values(url, query), query).toBeGreaterThan(-1);
      for (const query of queries.filter((one) => !/rate|increase|ALERTS/.test(one)))
        await until(async () => (await values(url, query)) > 0, query);
    });

    test('evaluates every rule without an error, and none fires for a healthy service', async () => {
      const rules = async () => {
        const response = await fetch(`${url}/api/v1/rules`);
        const { data } = (await response.json()) as { data: { groups: { rules: any[] }[] } };
        return data.groups.flatMap((group) => group.rules);
      };
      await until(
        async () => (await rules()).every(({ health }) => health === 'ok'),
        'all healthy',
      );
      expect((await rules()).map(({ name }) => name).sort()).toEqual(
        RULES.map((rule) => ('alert' in rule ? rule.alert : rule.record)).sort(),
      );
      expect((await rules()).filter(({ state }) => state === 'firing')).toEqual([]);
    });
  });
});

/** Series that an expression has; -1: Prometheus does not take it, or is not there yet. */
async function values(url: string, query: string): Promise<number> {
  const parameters = new URLSearchParams({ query });
  const response = await fetch(`${url}/api/v1/query?${parameters}`).catch(() => undefined);
  if (response?.ok !== true) return -1;
  return ((await response.json()) as any).data.result.length;
}

/** Names of metrics, and `name label` for each label that a sample of them has. */
async function scrape(service: Service): Promise<ReadonlySet<string>> {
  const response = await fetch(`${service.opsUrl}/metrics`, {
    headers: { authorization: `Bearer ${OPS_TOKEN}` },
  });
  const found = new Set<string>();
  for (const line of (await response.text()).split('\n')) {
    const [, typed] = /^# TYPE (\w+) /.exec(line) ?? [];
    if (typed !== undefined) found.add(typed);
    const [, name, labels = ''] = /^(\w+)(?:\{(.*)\})? /.exec(line) ?? [];
    for (const [, label] of labels.matchAll(/(\w+)="/g)) found.add(`${name} ${label}`);
  }
  return found;
}
