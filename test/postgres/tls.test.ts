import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { PostgresCluster, postgresBin, run } from '../support/postgres.ts';
import { call, makePlace, type Place, runCli, startService } from '../support/service.ts';
import { Authority, hasOpenssl, type Issued, serveTls } from '../support/tls.ts';

/** With TEST_PGBOUNCER=1 the service speaks to PgBouncer, which has no certificate here. */
const canRun = hasOpenssl && postgresBin !== undefined && process.env.TEST_PGBOUNCER !== '1';

describe.skipIf(!canRun)('C26: TLS to PostgreSQL', () => {
  let folder: string;
  let authority: Authority;
  let other: Authority;
  let cluster: PostgresCluster;
  let place: Place;
  let client: Issued;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'standin-tls-'));
    authority = new Authority(folder, 'authority');
    other = new Authority(folder, 'other');
    client = authority.issue('DNS:standin');
    cluster = await PostgresCluster.start();
    place = await makePlace('server', cluster.url('postgres'));
    serveTls(cluster, authority, 'clientcert=verify-ca');
  });
  afterAll(() => {
    cluster?.stop();
    place?.remove();
    rmSync(folder, { recursive: true, force: true });
  });

  const path = () => new URL(place.env.DATABASE_URL!).pathname;
  const withClient = () => `sslcert=${client.cert}&sslkey=${client.key}`;
  const url = (hosts: string, ca: string, mode = 'verify-full') =>
    `postgres://postgres@${hosts}${path()}?sslmode=${mode}&sslrootcert=${ca}&${withClient()}`;
  const hosts = (names: string[]) => names.map((name) => `${name}:${cluster.port}`).join();

  test.each([
    ['verify-full', 'localhost'],
    ['require', 'localhost'],
    // Two names of the one server.
    ['verify-full', 'localhost,localhost'],
  ])('%s to %s: the right authority and name work, without a word of pg', async (mode, names) => {
    const service = await startService(place, {
      DATABASE_URL: url(hosts(names.split(',')), authority.ca, mode),
    });
    expect((await fetch(`${service.url}/health`)).status).toBe(200);
    const open = run('psql', [
      `postgresql:///postgres?host=${cluster.folder}&port=${cluster.port}&user=postgres`,
      ...[
        '-Atc',
        "select distinct ssl from pg_stat_ssl join pg_stat_activity using (pid) where application_name = 'standin'",
      ],
    ]);
    expect(open.trim()).toBe('t');
    if (service.api_key !== '')
      expect((await call(service, 'tokenize', { a: 'Ann Lee' })).status).toBe(200);
    expect(service.output()).not.toMatch(/warning|SECURITY/i);
    await service.stop();
  });

  test.each([
    [
      'another authority',
      () => url(hosts(['localhost']), other.ca),
      /is not trusted \(\w+\)\. Name the authority .* sslrootcert/,
    ],
    [
      'another authority, several hosts',
      () => url(hosts(['localhost', '127.0.0.1']), other.ca),
      /is not trusted \(\w+\)/,
    ],
    [
      'another name',
      () => url(hosts(['127.0.0.1']), authority.ca),
      /is not for the host in DATABASE_URL \(ERR_TLS_CERT_ALTNAME_INVALID\)\. Name the host/,
    ],
    [
      'another name, several hosts',
      () => url(hosts(['127.0.0.1', '127.0.0.1']), authority.ca, 'require'),
      /is not for the host/,
    ],
    [
      'no authority',
      () => `postgres://postgres@${hosts(['localhost'])}${path()}?sslmode=require`,
      /is not trusted/,
    ],
    [
      'a file that is missing',
      () => url(hosts(['localhost']), '/nowhere'),
      /cannot be read: \/nowhere \(ENOENT\)\. Correct sslrootcert/,
    ],
  ])('%s refuses the start, and doctor says why', async (_name, wrong, message) => {
    const env = { DATABASE_URL: wrong(), PORT: '0', OPS_PORT: '0' };
    const { code, stdout, stderr } = await runCli(['serve'], place, env);
    expect(stderr).toMatch(message);
    expect(stderr).not.toMatch(/SECURITY|Warning/);
    expect([code, stdout]).toEqual([1, '']);
    const doctor = await runCli(['doctor'], place, env);
    expect(doctor.stdout).toMatch(message);
    expect(doctor.code).toBe(1);
  });

  test('a server without TLS is not spoken to in clear', async () => {
    const plain = await PostgresCluster.start();
    try {
      const { code, stderr } = await runCli(['serve'], place, {
        DATABASE_URL: `${plain.url('postgres')}?sslmode=require`,
        PORT: '0',
        OPS_PORT: '0',
      });
      expect(stderr).toMatch(/does not support TLS, but sslmode in DATABASE_URL demands it/);
      expect(code).toBe(1);
    } finally {
      plain.stop();
    }
  });
});
