import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { beforeAll, describe, expect, inject, test } from 'vitest';
import { blocksUnder, ROOT } from '../support/docs.ts';
import { newFolder } from '../support/folder.ts';
import { startWithPolicy } from '../support/policy.ts';
import { createDatabase } from '../support/postgres.ts';
import { freePort } from '../support/processes.ts';
import {
  areWanted,
  commandFolder,
  copyJavaExample,
  example,
  folderOf,
  installNode,
  installPython,
  maven,
  run,
  start,
} from '../support/recipes.ts';
import { served } from '../support/served.ts';
import { kinds, startService, until, usualPlace } from '../support/service.ts';
import { tokenPattern } from '../support/token-rules.ts';

/** Installations, and programs that start slowly on a busy machine. */
const SLOW_MS = 1_800_000;
const TSC = join(ROOT, 'node_modules/typescript/bin/tsc');
/** The Python client. */
const PYTHON = join(ROOT, 'clients/python');
const ann = { name: 'Ann Lee', email: 'ann@example.com' };
const name = expect.stringMatching(tokenPattern(ann.name));
const email = expect.stringMatching(tokenPattern(ann.email));
const CUSTOMERS = `id,name,email\n1,${ann.name},${ann.email}\n2,Bo Ray,bo@example.org\n`;

/** Names none of the strings: under it, a recipe that sends records would store them in clear. */
const POLICY = 'version: 1\nfields: { order.email: email }\nelsewhere: pass\n';

describe.runIf(areWanted)('recipes', { timeout: SLOW_MS }, () => {
  const service = served(async () =>
    kinds().includes('server') ? startWithPolicy(POLICY) : startService(await usualPlace()),
  );
  const folder = newFolder('recipes');
  let env: Record<string, string>;
  beforeAll(() => {
    const path = `${commandFolder(folder)}:${process.env.PATH}`;
    env = { PATH: path, STANDIN_URL: service.url, STANDIN_API_KEY: service.api_key };
  });

  /** Adds a customer to the app that listens there, and gets one value back. @returns what it stores */
  async function addedTo(port: string) {
    const url = `http://127.0.0.1:${port}/customers`;
    const headers = { 'content-type': 'application/json' };
    const added = await fetch(url, { method: 'POST', headers, body: JSON.stringify(ann) });
    const { id, ...tokens } = (await added.json()) as Record<string, string>;
    expect(tokens).toEqual({ name, email });
    const restored = await fetch(`${url}/${id}/email`);
    expect(await restored.json()).toEqual({ email: ann.email });
    return { url, id, tokens };
  }

  test('NestJS: stores tokens, finds by them, restores one value', async () => {
    const place = folderOf('nestjs', ['node_modules', 'package-lock.json']);
    const packages = ['common', 'core', 'platform-express'].map((one) => `@nestjs/${one}@11`);
    installNode(place, ...packages, 'reflect-metadata@0.2', 'rxjs@7');
    cpSync(example('nestjs'), place, { recursive: true });
    await run([process.execPath, TSC, '-p', '.'], place);
    const app = start([process.execPath, 'dist/main.js'], place, { ...env, PORT: '0' });
    const { url, id, tokens } = await addedTo(await app.wrote(/port: (\d+)/));
    const found = await fetch(`${url}?email=${ann.email}`);
    expect(await found.json()).toEqual([[id, tokens]]);
  });

  test('Spring: a service to inject', async () => {
    const place = folderOf('spring');
    copyJavaExample(place);
    maven(place, 'package');
    const settings = { ...env, SERVER_PORT: '0' };
    const app = start(['java', '-jar', 'target/customers-1.jar'], place, settings);
    await addedTo(await app.wrote(/Tomcat started on port (\d+)/));
  });

  test.skipIf(!kinds().includes('server'))('dbt: joins tokens, refuses values', async () => {
    const bin = installPython('dbt', 'dbt-core==1.10.*', 'dbt-postgres==1.10.*');
    const place = folderOf('dbt-project');
    cpSync(example('dbt'), place, { recursive: true });
    mkdirSync(join(place, 'raw'));
    writeFileSync(join(place, 'raw/customers.csv'), CUSTOMERS);
    const orders = `email,amount\n${ann.email},10\n${ann.email},5\nbo@example.org,7\n`;
    writeFileSync(join(place, 'raw/orders.csv'), orders);
    const url = new URL(await createDatabase(inject('serverUrl')));
    const settings = {
      ...{ ...env, PATH: `${bin}:${env.PATH}`, DBT_PROFILES_DIR: place },
      ...{ PGHOST: url.hostname, PGPORT: url.port, PGUSER: url.username },
      ...{ PGPASSWORD: decodeURIComponent(url.password), PGDATABASE: url.pathname.slice(1) },
    };
    const [commands] = blocksUnder('docs/guides/recipes.md', 'dbt');
    expect(await run(['sh', '-ec', commands!], place, settings)).toContain('PASS=6');
    // The canary of is_token: the same files, in clear.
    for (const file of ['customers.csv', 'orders.csv'])
      cpSync(join(place, 'raw', file), join(place, 'seeds', file));
    const inClear = run(['dbt', 'build', '--no-use-colors'], place, settings);
    await expect(inClear).rejects.toThrow(/FAIL 2 is_token_revenue_by_customer_email/);
  });

  test('dbt: a pre-hook tokenizes the rows that are new', async () => {
    const packages = ['dbt-core==1.10.*', 'dbt-duckdb==1.10.*', 'pyarrow==26.*', 'numpy', PYTHON];
    const bin = installPython('dbt-duckdb', ...packages);
    const place = folderOf('dbt-duckdb-project');
    cpSync(example('dbt-duckdb'), place, { recursive: true });
    const query = async (sql: string) => {
      const code = `import duckdb; print(duckdb.connect('shop.duckdb').execute(${JSON.stringify(sql)}).fetchall())`;
      return run([join(bin, 'python'), '-c', code], place);
    };
    const settings = { ...env, DBT_PROFILES_DIR: place, PYTHONPATH: place };
    const build = [join(bin, 'dbt'), 'build', '--no-use-colors'] as [string, ...string[]];
    await query(`create table raw_customers as select 1 as id, '${ann.email}' as email`);
    await query("insert into raw_customers values (2, null), (3, '')");
    expect(await run(build, place, settings)).toContain('PASS=1');
    const first = await query('select email from customers order by id');
    expect(first).toMatch(
      /^\[\('[a-z]{3}@[a-z]{7}\.[a-z]{3}_tok',\), \(None,\), \('[a-z]{8}_tok',\)\]/,
    );
    await query(`insert into raw_customers values (4, '${ann.email}')`);
    await run(build, place, settings);
    const [, token] = /'([^']+)'/.exec(first)!;
    expect(await query(`select id from raw_customers where email = '${token}'`)).toContain(
      '[(1,), (4,)]',
    );
  });

  test('Airflow: tasks tokenize the file of a day, and what they hand on', async () => {
    const airflow = join(installPython('airflow', 'apache-airflow==3.*', PYTHON), 'airflow');
    const home = folderOf('airflow-home');
    const settings = {
      ...{ ...env, AIRFLOW_HOME: home, AIRFLOW_VAR_CUSTOMERS_FOLDER: home },
      ...{ AIRFLOW_VAR_SIGNUPS_FOLDER: home, AIRFLOW__CORE__DAGS_FOLDER: example('airflow') },
      AIRFLOW__CORE__LOAD_EXAMPLES: 'False',
    };
    writeFileSync(join(home, '2026-11-21.csv'), CUSTOMERS);
    const signups = [
      { id: 1, ...ann },
      { id: 2, name: 'Bo Ray' },
    ];
    writeFileSync(join(home, '2026-11-21.json'), JSON.stringify(signups));
    await run([airflow, 'db', 'migrate'], home, settings);
    await run([airflow, 'dags', 'test', 'customers', '2026-11-21'], home, settings);
    const tokens = readFileSync(join(home, '2026-11-21-tokens.csv'), 'utf8');
    const [, first] = tokens.split('\n');
    expect(first!.split(',')).toEqual(['1', name, email]);
    expect(tokens).not.toContain('example');
    await run([airflow, 'dags', 'test', 'signups', '2026-11-21'], home, settings);
    const handed = JSON.parse(readFileSync(join(home, '2026-11-21-tokens.json'), 'utf8'));
    expect(handed).toEqual([
      { id: 1, name, email },
      { id: 2, name: expect.stringMatching(tokenPattern('Bo Ray')) },
    ]);
  });

  test('Kafka: copies a topic with tokens, on a broker', async () => {
    const python = join(installPython('kafka', 'kafka-python==3.*', PYTHON), 'python');
    const settings = { ...env, KAFKA_SERVERS: await startBroker() };
    start([python, example('kafka/tokenize_topic.py')], folder, settings);
    const check = join(ROOT, 'test/examples/kafka_check.py');
    const copies = JSON.parse(await run([python, check], folder, settings));
    expect(copies).toEqual([
      ['1', { id: 1, name, email }],
      ['2', { id: 2, name: '', email: null }],
      ['3', { id: 3, email: copies[0][1].email, is_new: true }],
      ['4', null],
    ]);
  });
});

/** Whether somebody listens there. */
const accepts = (port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = connect(port, '127.0.0.1', () => resolve(true));
    socket.on('error', () => resolve(false)).on('connect', () => socket.destroy());
  });

const BROKER = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>example</groupId><artifactId>broker</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>3.9.1</version>
  </dependency></dependencies>
</project>`;

/** A broker of Apache Kafka that is its own controller. */
async function startBroker(): Promise<string> {
  const place = folderOf('kafka-broker', ['libs']);
  writeFileSync(join(place, 'pom.xml'), BROKER);
  maven(place, 'dependency:copy-dependencies', '-DoutputDirectory=libs');
  const [port, controllerPort] = [await freePort(), await freePort()];
  const properties = {
    'process.roles': 'broker,controller',
    'node.id': 1,
    'controller.quorum.voters': `1@127.0.0.1:${controllerPort}`,
    listeners: `PLAINTEXT://127.0.0.1:${port},CONTROLLER://127.0.0.1:${controllerPort}`,
    'controller.listener.names': 'CONTROLLER',
    'log.dirs': join(place, 'logs'),
    'offsets.topic.replication.factor': 1,
    'group.initial.rebalance.delay.ms': 0,
  };
  const lines = Object.entries(properties).map(([key, value]) => `${key}=${value}\n`);
  writeFileSync(join(place, 'server.properties'), lines.join(''));
  const java = ['java', '-Xmx384m', '-cp', 'libs/*'] as const;
  const id = ['-t', 'MkU3OEVBNTcwNTJENDM2Qk'];
  const storage = [...java, 'kafka.tools.StorageTool', 'format', ...id] as const;
  await run([...storage, '-c', 'server.properties'], place);
  start([...java, 'kafka.Kafka', 'server.properties'], place);
  await until(() => accepts(port), 'the broker accepts connections');
  return `127.0.0.1:${port}`;
}
