import { beforeAll, describe, expect, test } from 'vitest';
import { newFolder } from '../support/folder.ts';
import { actsOn, ownCluster, ownService } from '../support/own.ts';
import { PostgresCluster, postgresBin, run } from '../support/postgres.ts';
import { call, makePlace, type Place } from '../support/service.ts';
import { Authority, hasOpenssl, type Issued, serveTls } from '../support/tls.ts';

/** With TEST_PGBOUNCER=1 the service speaks to PgBouncer, which has no certificate here. */
const canRun = hasOpenssl && postgresBin !== undefined && process.env.TEST_PGBOUNCER !== '1';

describe.skipIf(!canRun)('C26: TLS to PostgreSQL', () => {
  const folder = newFolder('tls');
  let authority: Authority;
  let other: Authority;
  let cluster: PostgresCluster;
  let place: Place;
  let client: Issued;
  beforeAll(async () => {
    authority = new Authority(folder, 'authority');
    other = new Authority(folder, 'other');
    client = authority.issue('DNS:standin');
    cluster = await PostgresCluster.start();
    place = await makePlace('server', cluster.url('postgres'));
    serveTls(cluster, authority, 'clientcert=verify-ca');
    return () => {
      cluster.stop();
      place.remove();
    };
  });

  /** @param more parameters besides the client's certificate */
  const url = (names: string, mode: string, more?: string) => {
    const hosts = names.split(',').map((name) => `${name}:${cluster.port}`);
    const { pathname } = new URL(place.env.DATABASE_URL!);
    const parameters = more && `&sslrootcert=${more}&sslcert=${client.cert}&sslkey=${client.key}`;
    return `postgres://postgres@${hosts}${pathname}?sslmode=${mode}${parameters ?? ''}`;
  };

  test.each([
    ['verify-full', 'localhost'],
    ['require', 'localhost'],
    // Two names of the one server.
    ['verify-full', 'localhost,localhost'],
  ])('%s to %s: the right authority and name work, without a word of pg', async (mode, names) => {
    const env = { DATABASE_URL: url(names, mode, authority.ca) };
    const service = await ownService(place, env);
    expect((await fetch(`${service.url}/health`)).status).toBe(200);
    const local = `host=${cluster.folder}&port=${cluster.port}&user=postgres`;
    const ssl = `select distinct ssl from pg_stat_ssl join pg_stat_activity using (pid)
      where application_name = 'standin'`;
    expect(run('psql', [`postgresql:///postgres?${local}`, '-Atc', ssl]).trim()).toBe('t');
    if (service.api_key !== '')
      expect((await call(service, 'tokenize', { a: 'Ann Lee' })).status).toBe(200);
    expect(service.output()).not.toMatch(/warning|SECURITY/i);
  });

  const UNTRUSTED = /is not trusted \(\w+\)\. Name the authority .* sslrootcert/;
  const OTHER_NAME =
    /is not for the host in DATABASE_URL \(ERR_TLS_CERT_ALTNAME_INVALID\)\. Name the host/;
  test.each<[string, () => string, RegExp]>([
    ['another authority', () => url('localhost', 'verify-full', other.ca), UNTRUSTED],
    ['another name', () => url('127.0.0.1', 'verify-full', authority.ca), OTHER_NAME],
    [
      'another name, several hosts',
      () => url('127.0.0.1,127.0.0.1', 'require', authority.ca),
      OTHER_NAME,
    ],
    ['no authority', () => url('localhost', 'require'), UNTRUSTED],
    [
      'a file that is missing',
      () => url('localhost', 'verify-full', '/nowhere'),
      /cannot be read: \/nowhere \(ENOENT\)\. Correct sslrootcert/,
    ],
  ])('%s refuses the start, and doctor says why', async (_name, wrong, message) => {
    const { run, noStart } = actsOn(place);
    const env = { DATABASE_URL: wrong() };
    const stderr = await noStart(env);
    expect(stderr).toMatch(message);
    expect(stderr).not.toMatch(/SECURITY|Warning/);
    const doctor = await run('doctor', env);
    expect(doctor.stdout).toMatch(message);
    expect(doctor.code).toBe(1);
  });

  test('a server without TLS is not spoken to in clear', async () => {
    const plain = await ownCluster();
    const env = { DATABASE_URL: `${plain.url('postgres')}?sslmode=require` };
    expect(await actsOn(place).noStart(env)).toMatch(
      /does not support TLS, but sslmode in DATABASE_URL demands it/,
    );
  });
});
