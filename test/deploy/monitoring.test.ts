import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { has } from '../support/deploy.ts';
import { anchors, ROOT, readText, table } from '../support/docs.ts';
import { newFolder } from '../support/folder.ts';
import { IssuerStandIn } from '../support/issuer.ts';
import { Licenser } from '../support/keys.ts';
import { freePort } from '../support/processes.ts';
import { RedisServer, redisServer } from '../support/redis.ts';
import {
  type Place,
  runJson,
  type Service,
  startService,
  until,
  usualPlace,
} from '../support/service.ts';
import { Authority, hasOpenssl, tlsCall, tlsExchange } from '../support/tls.ts';

const RUNBOOK = 'docs/operating/alerts.md';
const RULES_FILE = 'deploy/prometheus/standin.rules.yml';
const RULES: readonly any[] = parse(readText(RULES_FILE)).groups.flatMap((one: any) => one.rules);
const ALERTS = RULES.filter(({ alert }) => alert !== undefined);
const TESTS = ['rules', 'week'].map((name) => `deploy/prometheus/standin.${name}.test.yml`);
const DASHBOARD = JSON.parse(readText('deploy/grafana/standin.json'));
const TARGETS: { expr: string; refId: string }[] = DASHBOARD.panels.flatMap(
  ({ targets = [] }: any) => targets,
);
/** Expressions of the dashboard, with values in place of variables. */
const QUERIES = [...TARGETS, DASHBOARD.annotations.list[0]].map(({ expr }) =>
  expr
    .replaceAll('$job', 'standin')
    .replaceAll('$instance', '.*')
    .replaceAll('$__rate_interval', '1m')
    .replaceAll('$__range', '1h'),
);
/** Name, labels and meaning. */
const METRICS = table('docs/operating.md', ['Metric', 'Meaning']).map(([metric, meaning]) => {
  const [name, ...labels] = metric!.match(/\w+/g)!;
  return [name!, labels.toSorted(), meaning!] as const;
});
const DOCUMENTED = METRICS.map(([name]) => name);

const POLICY = `version: 1
kinds: { mail: { shape: word } }
fields: { a: text }
elsewhere: tokenize
detect: { email: mail }
`;

/** Names of Standin's and Node's metrics in expressions, without suffixes of histograms. */
const metricsIn = (expressions: readonly { readonly expr: string }[]) =>
  expressions
    .flatMap(({ expr }) => expr.match(/(?<![:\w])(standin|nodejs|process)_\w+/g) ?? [])
    .map((name) => name.replace(/_(bucket|sum|count)$/, ''));

describe('alerts', () => {
  test('each says how bad it is, what it means, and where to read what to do', () => {
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
    const sections = [...readText(RUNBOOK).matchAll(/^### (\w+)\n\n(Page|Ticket)/gm)];
    const runbooks = ALERTS.map(({ annotations }) => annotations.runbook!.split('#')[1]!);
    expect(sections.map(([, name]) => name!.toLowerCase()).sort()).toEqual(
      [...new Set(runbooks)].sort(),
    );
    for (const [, name, said] of sections) {
      const { labels } = ALERTS.find(({ alert }) => alert === name)!;
      expect([name, labels.severity]).toEqual([name, said!.toLowerCase()]);
    }
  });

  test('each has a test in which it fires, and one in which it is silent', () => {
    const tested = TESTS.flatMap((path) => parse(readText(path)).tests).flatMap(
      ({ alert_rule_test: ends }) => ends,
    );
    for (const { alert } of ALERTS) {
      const ends = tested.filter(({ alertname }) => alertname === alert);
      const fires = ends.map(({ exp_alerts: expected = [] }) => expected.length > 0);
      expect([alert, fires.sort()]).toEqual([alert, [false, true]]);
    }
    expect(tested.length).toBe(2 * ALERTS.length);
  });

  test('names of recorded series are used, and only those', () => {
    const used = RULES.flatMap(({ expr }) => expr.match(/\bjob\w*:\w+:\w+/g) ?? []);
    expect(new Set(used)).toEqual(new Set(RULES.flatMap(({ record }) => record ?? [])));
  });

  test('every metric has one, except those that only explain others', () => {
    const watched = metricsIn(RULES);
    expect(DOCUMENTED.filter((name) => !watched.includes(name)).sort()).toEqual([
      'standin_batch_records',
      'standin_build_info',
      'standin_client_strings_total',
      'standin_detections_total',
      'standin_expired_records_total',
      'standin_held_bytes',
      'standin_stalled_requests_total',
    ]);
  });
});

describe('the dashboard', () => {
  test('is one that Grafana can show: each panel has a place and queries of its own', () => {
    const { schemaVersion, id, uid, panels } = DASHBOARD;
    expect(schemaVersion).toBeGreaterThanOrEqual(36);
    // Grafana takes an id of another dashboard for that dashboard, and refuses to import it.
    expect(id ?? null).toBeNull();
    expect(uid).toMatch(/^[\w-]{1,40}$/);
    expect(new Set(panels.map((one: any) => one.id)).size).toBe(panels.length);
    const cells = panels.flatMap(({ gridPos: { x, y, w, h } }: any) =>
      Array.from({ length: w * h }, (_, i) => `${x + (i % w)} ${y + Math.floor(i / w)}`),
    );
    expect(new Set(cells).size).toBe(cells.length);
    for (const { title, type, gridPos, targets = [] } of panels) {
      const { x, w, h } = gridPos;
      expect(x >= 0 && w > 0 && x + w <= 24 && h > 0, title).toBe(true);
      expect(targets.length > 0 || type === 'row', title).toBe(true);
      expect(new Set(targets.map((one: any) => one.refId)).size).toBe(targets.length);
    }
  });

  test('names no data source but the one that is chosen, and no unknown variable', () => {
    const text = JSON.stringify(DASHBOARD);
    const sources = [...text.matchAll(/"datasource":("[^"]*"|\{.*?\}"\})/g)].map(([, one]) => one);
    expect(sources.length).toBeGreaterThan(30);
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a variable of Grafana
    expect(new Set(sources)).toEqual(new Set(['{"type":"prometheus","uid":"${datasource}"}']));
    const variables = DASHBOARD.templating.list.map(({ name }: { name: string }) => name);
    const known = [...variables, '__rate_interval', '__range', '__all'];
    for (const [, name] of text.matchAll(/\$\{?(\w+)/g)) expect(known).toContain(name);
  });

  test('has each metric of ours', () => {
    expect(metricsIn(TARGETS)).toEqual(expect.arrayContaining(DOCUMENTED));
  });
});

/** With everything that brings metrics of its own: TLS, a license, Redis, an issuer of JWTs, a policy. */
describe.runIf(hasOpenssl && redisServer !== undefined)('a service with all metrics', () => {
  const OPS_TOKEN = 'a-token-of-the-tests-0123456789';
  let place: Place;
  let redis: RedisServer;
  let issuer: IssuerStandIn;
  let service: Service;
  let text: string;
  /** Names of metrics, and `name label` for each label that a sample of them has. */
  let scraped: readonly string[];

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
    const policy = join(place.folder, 'policy.yaml');
    writeFileSync(policy, POLICY);
    await runJson(place, 'policy', 'apply', policy, '--yes');
    await tlsCall(service, '/health', { ca });
    await tlsExchange(service, { ca, maxVersion: 'TLSv1.1' }, '').catch(() => undefined);
    const late = ['tls_handshake_failures_total reason', 'detections_total kind'];
    await until(async () => {
      await tlsCall(service, '/api/v1/tokenize', { ca }, { a: 'ann' });
      await tlsCall(service, '/api/v1/text/tokenize', { ca }, { text: 'ann@example.com' });
      const headers = { authorization: `Bearer ${OPS_TOKEN}` };
      text = await (await fetch(`${service.opsUrl}/metrics`, { headers })).text();
      const samples = [...text.matchAll(/^(\w+)\{(.*)\} /gm)].flatMap(([, name, labels]) =>
        [...labels!.matchAll(/(\w+)="/g)].map(([, label]) => `${name} ${label}`),
      );
      scraped = [...text.matchAll(/^# TYPE (\w+) /gm)].map(([, name]) => name!).concat(samples);
      return late.every((name) => scraped.includes(`standin_${name}`));
    }, 'all metrics have a series');
  });
  afterAll(async () => {
    await service.stop();
    await redis.stop();
    issuer.stop();
    place.remove();
  });

  test('exports what the table of metrics says, with its labels and help, and nothing of ours besides', () => {
    const exported = [...text.matchAll(/^# HELP (standin_\w+) (.*)\n# TYPE .*\n(.*)/gm)].map(
      ([, name, help, sample]) => {
        const labels = new Set([...sample!.matchAll(/(\w+)="/g)].map(([, label]) => label!));
        labels.delete('le');
        return [name!, [...labels].toSorted(), help!] as const;
      },
    );
    expect(exported.toSorted()).toEqual(METRICS.toSorted());
  });

  test('exports every metric and label that alerts and dashboard ask for', () => {
    const all = [...RULES, ...QUERIES.map((expr) => ({ expr }))];
    expect(scraped).toEqual(expect.arrayContaining(metricsIn(all)));
    const selected = /(?<![:\w])((?:standin|nodejs|process)_\w+)\{([^}]*)\}/g;
    const asked = all
      .flatMap(({ expr }) => [...expr.matchAll(selected)])
      .flatMap(([, name, matchers]) =>
        [...matchers!.matchAll(/(\w+) ?[=!]/g)].map(([, label]) => `${name} ${label}`),
      )
      // Prometheus adds these two.
      .filter((one) => !/ (job|instance)$/.test(one));
    expect(asked.length).toBeGreaterThan(20);
    expect(scraped).toEqual(expect.arrayContaining(asked));
  });

  describe.runIf(has('prometheus', '--version'))('and a real Prometheus', () => {
    const folder = newFolder('prometheus');
    let url: string;
    let prometheus: ChildProcess;

    beforeAll(async () => {
      const config = parse(readText('deploy/prometheus/prometheus.yml'));
      config.global = { scrape_interval: '500ms', evaluation_interval: '500ms' };
      config.rule_files = [join(ROOT, RULES_FILE)];
      const [job] = config.scrape_configs;
      job.static_configs = [{ targets: [new URL(service.opsUrl!).host] }];
      job.authorization.credentials_file = join(folder, 'token');
      writeFileSync(join(folder, 'token'), `${OPS_TOKEN}\n`, { mode: 0o600 });
      const file = join(folder, 'prometheus.yml');
      writeFileSync(file, stringify(config));
      const address = `127.0.0.1:${await freePort()}`;
      url = `http://${address}`;
      const data = `--storage.tsdb.path=${folder}/data`;
      const args = [`--config.file=${file}`, data, `--web.listen-address=${address}`];
      prometheus = spawn('prometheus', args, { stdio: 'ignore' });
      await until(async () => (await values('up{job="standin"} == 1')) > 0, 'it scrapes');
    });
    afterAll(async () => {
      const gone = new Promise((resolve) => prometheus.once('exit', resolve));
      prometheus.kill();
      await gone;
    });

    /** Series that an expression has; -1: Prometheus does not take it, or is not there yet. */
    async function values(query: string): Promise<number> {
      const path = `/api/v1/query?${new URLSearchParams({ query })}`;
      const response = await fetch(`${url}${path}`).catch(() => undefined);
      return response?.ok === true ? ((await response.json()) as any).data.result.length : -1;
    }

    test('takes every query of the dashboard, and has an answer to those of now', async () => {
      expect(QUERIES.length).toBeGreaterThan(30);
      expect(await values('sum(rate(standin_requests_total[1m])')).toBe(-1);
      for (const query of QUERIES) expect(await values(query), query).toBeGreaterThan(-1);
      for (const query of QUERIES.filter((one) => !/rate|increase|ALERTS/.test(one)))
        await until(async () => (await values(query)) > 0, query);
    });

    test('evaluates every rule without an error, and none fires for a healthy service', async () => {
      let rules: any[] = [];
      await until(async () => {
        const { data }: any = await (await fetch(`${url}/api/v1/rules`)).json();
        rules = data.groups.flatMap((group: any) => group.rules);
        return rules.every(({ health }) => health === 'ok');
      }, 'all healthy');
      expect(rules.map(({ name }) => name).sort()).toEqual(
        RULES.map(({ alert, record }) => alert ?? record).sort(),
      );
      expect(rules.filter(({ state }) => state === 'firing')).toEqual([]);
    });
  });
});
