import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { freeze, lasting, seconds, UNAVAILABLE } from '../support/fault.ts';
import { JournalledWriters } from '../support/journal.ts';
import { PostgresCluster, postgresBin, query } from '../support/postgres.ts';
import {
  type Answer,
  call,
  newPlace,
  type Place,
  runCli,
  type Service,
  startService,
  until,
} from '../support/service.ts';

const SILENCE_S = seconds(8, 30);

const cleanups: (() => void | Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function newCluster(): Promise<PostgresCluster> {
  const cluster = await PostgresCluster.start();
  cleanups.push(() => cluster.stop());
  return cluster;
}

async function newStandby(primary: PostgresCluster): Promise<PostgresCluster> {
  const standby = await primary.startStandby();
  cleanups.push(() => standby.stop());
  return standby;
}

async function newVault(cluster: PostgresCluster): Promise<Place> {
  const place = await newPlace('server', cluster.url('postgres'));
  cleanups.push(place.remove);
  return place;
}

/** The URL of a vault with the hosts of these servers, in this order. */
function urlOf(place: Place, ...clusters: readonly PostgresCluster[]): string {
  const hosts = clusters.map((cluster) => new URL(cluster.url('postgres')).host);
  return place.env.DATABASE_URL!.replace(/@[^/]*/, `@${hosts.join()}`);
}

async function start(place: Place, url: string): Promise<Service> {
  const service = await startService(place, { DATABASE_URL: url });
  cleanups.push(() => service.stop());
  return service;
}

function expectUnavailable(answer: Answer): void {
  const { status, body } = answer;
  expect({ status, ...body }).toEqual({
    status: 500,
    error: 'internal_error',
    message: 'database unavailable',
  });
}

const health = async (service: Service) => (await fetch(`${service.url}/health`)).status;

describe.skipIf(postgresBin === undefined)('F22: failover', () => {
  test('the primary is killed and its standby promoted while writing: no acknowledged token is lost, and the service goes on', async () => {
    const primary = await newCluster();
    const place = await newVault(primary);
    const standby = await newStandby(primary);
    const url = urlOf(place, primary, standby);
    const service = await start(place, url);
    const writers = new JournalledWriters(place, () => service, service.api_key);
    await writers.progress(500);
    await primary.crash();
    await until(() => writers.failures.size > 0, 'a failed request');
    standby.promote();
    await writers.progress(500);
    await writers.stop();
    const { api_key: apiKey } = service;
    const count = await writers.verify(service, apiKey);
    expect(count).toBeGreaterThan(1_000);
    for (const failure of writers.failures) {
      expect(failure).toBe('500 {"error":"internal_error","message":"database unavailable"}');
    }

    // The old primary comes back, and nobody has told it: it takes connections, and is the first of the URL.
    primary.startAgain();
    const late = await start(place, url);
    expect(await writers.verify(late, apiKey)).toBe(count);
    expect((await call(late, 'tokenize', { a: 'b' }, apiKey)).status).toBe(200);
  });

  test('the standby is promoted while the primary lives and waits for it in vain: the service goes over, and no acknowledged token is lost', async () => {
    const primary = await newCluster();
    const place = await newVault(primary);
    const standby = await newStandby(primary);
    const service = await start(place, urlOf(place, primary, standby));
    const writers = new JournalledWriters(place, () => service, service.api_key);
    await writers.progress(500);
    standby.promote();
    await writers.progress(500);
    await writers.stop();
    const there = await start(place, urlOf(place, standby));
    await writers.verify(there, service.api_key);
  });

  test('a host that is silent and a standby before the primary are passed over, by the service and by commands', async () => {
    const primary = await newCluster();
    const place = await newVault(primary);
    const standby = await newStandby(primary);
    const silent = createServer().listen(0, '127.0.0.1');
    await once(silent, 'listening');
    cleanups.push(() => void silent.close());
    const { port } = silent.address() as AddressInfo;
    const url = urlOf(place, standby, primary).replace('@', `@127.0.0.1:${port},`);
    const service = await start(place, url);
    const { a: token } = (await call(service, 'tokenize', { a: 'Ann Lee' })).body.data;
    expect((await call(service, 'detokenize', { token })).body.data.token).toBe('Ann Lee');
    const doctor = await runCli(['doctor'], place, { DATABASE_URL: url });
    expect(doctor.stdout).not.toMatch(/problem/);
    expect(doctor.code).toBe(0);
  });

  test('where no host is a primary, a start and doctor name each host and not the password', async () => {
    const primary = await newCluster();
    const place = await newVault(primary);
    const standby = await newStandby(primary);
    await primary.crash();
    const url = urlOf(place, primary, standby).replace('//postgres@', '//postgres:hunter2@');
    for (const command of ['serve', 'doctor']) {
      const { code, stdout, stderr } = await runCli([command], place, { DATABASE_URL: url });
      expect(code).toBe(1);
      expect(stdout + stderr).toMatch(
        /No host of DATABASE_URL is a primary: 127\.0\.0\.1:\d+ does not answer.*, 127\.0\.0\.1:\d+ is a standby\. Promote one/,
      );
      expect(stdout + stderr).not.toContain('hunter2');
    }
    const cert = await runCli(['doctor'], place, { DATABASE_URL: `${url}?sslrootcert=nowhere` });
    expect(cert.code).toBe(1);
    expect(cert.stdout).toMatch(/cannot be read: nowhere \(ENOENT\)\. Correct sslrootcert/);
    const env = { DATABASE_URL: urlOf(place, standby), PORT: '0', OPS_PORT: '0' };
    const alone = await runCli(['serve'], place, env);
    expect(alone.code).toBe(1);
    expect(alone.stderr).toContain('DATABASE_URL leads to a standby');
  });
});

describe.skipIf(postgresBin === undefined)('F22: one host', () => {
  test('that comes back as a standby answers nothing, and all again when it is promoted', async () => {
    const cluster = await newCluster();
    const place = await newVault(cluster);
    const service = await start(place, place.env.DATABASE_URL!);
    const { token } = (await call(service, 'tokenize', { token: 'Ann Lee' })).body.data;
    cluster.demote();
    expectUnavailable(await call(service, 'tokenize', { a: 'new' }));
    // Also what it has, and what it has not: it may not be up to date.
    expectUnavailable(await call(service, 'detokenize', { token }));
    expectUnavailable(await call(service, 'detokenize', { a: 'unknown_tok' }));
    expect(await health(service)).toBe(503);
    cluster.promote();
    await until(async () => (await health(service)) === 200, '/health to say 200');
    expect((await call(service, 'tokenize', { a: 'new' })).status).toBe(200);
    expect((await call(service, 'detokenize', { token })).body.data.token).toBe('Ann Lee');
  });

  test('that is made read-only under its connections refuses to tokenize, and goes on when it is not', async () => {
    const cluster = await newCluster();
    const place = await newVault(cluster);
    const service = await start(place, place.env.DATABASE_URL!);
    const { token } = (await call(service, 'tokenize', { token: 'Ann Lee' })).body.data;
    const alter = async (text: string) => {
      await query(cluster.directUrl('postgres'), `alter system ${text}`);
      await query(cluster.directUrl('postgres'), 'select pg_reload_conf()');
    };
    // A new value each time: one that is there already needs no write.
    let n = 0;
    const tokenizes = async () =>
      (await call(service, 'tokenize', { a: `new ${n++}` })).status === 200;
    await alter('set default_transaction_read_only = on');
    await until(async () => !(await tokenizes()), 'a refused request');
    expectUnavailable(await call(service, 'tokenize', { a: 'newer' }));
    expect((await call(service, 'detokenize', { token })).body.data.token).toBe('Ann Lee');
    await alter('reset default_transaction_read_only');
    await until(tokenizes, 'an answered request');
  });
});

/** An address that leads where the test says, as a virtual one does. */
async function newVirtualAddress(first: PostgresCluster) {
  let target = first.port;
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connect(target, '127.0.0.1');
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', () => {}).on('close', () => sockets.delete(socket));
    }
    client.pipe(upstream).pipe(client);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  cleanups.push(() => void server.close());
  return {
    port: (server.address() as AddressInfo).port,
    /** Connections that are there are cut. */
    lead(cluster: PostgresCluster): void {
      target = cluster.port;
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** Back after a crash, waiting for no standby: it takes writes as before. */
async function comeBack(primary: PostgresCluster): Promise<void> {
  primary.startAgain();
  await query(primary.directUrl('postgres'), 'alter system reset synchronous_standby_names');
  await query(primary.directUrl('postgres'), 'select pg_reload_conf()');
}

const rowsOf = async (url: string): Promise<number> =>
  Number((await query(url, 'select count(*) as rows from standin.records'))[0]!.rows);

const OLD_PRIMARY =
  /is on timeline 1, and this process has used timeline 2: an old primary is back/;

describe.skipIf(postgresBin === undefined)('F33: an old primary that nobody has fenced', () => {
  test('while the new primary is silent, requests fail, and none goes to the old one', async () => {
    const primary = await newCluster();
    const place = await newVault(primary);
    const standby = await newStandby(primary);
    const service = await startService(place, {
      DATABASE_URL: urlOf(place, primary, standby),
    });
    cleanups.push(() => service.stop());
    const writers = new JournalledWriters(place, () => service, service.api_key);
    await writers.progress(300);
    await primary.crash();
    standby.promote();
    await writers.progress(300);
    await comeBack(primary);
    const rows = await rowsOf(urlOf(place, primary));
    await writers.progress(300);
    const thaw = freeze(standby);
    await until(() => OLD_PRIMARY.test(service.output()), 'the operator to be told', 30_000);
    await lasting(SILENCE_S);
    expect(await health(service)).toBe(503);
    expectUnavailable(await call(service, 'tokenize', { a: 'while it is silent' }));
    thaw();
    await writers.progress(300);
    await writers.stop();
    expect(writers.wrong).toEqual([]);
    expect([...writers.failures].filter((failure) => failure !== UNAVAILABLE)).toEqual([]);
    expect(await rowsOf(urlOf(place, primary))).toBe(rows);
    const there = await start(place, urlOf(place, standby));
    await writers.verify(there, service.api_key);
  });

  test('behind one address that leads back to it: nothing is answered until the address leads to the new one; a restart takes what there is', async () => {
    const primary = await newCluster();
    const place = await newVault(primary);
    const standby = await newStandby(primary);
    const address = await newVirtualAddress(primary);
    const url = place.env.DATABASE_URL!.replace(/:\d+\//, `:${address.port}/`);
    const service = await start(place, url);
    await call(service, 'tokenize', { a: 'before' });
    await primary.crash();
    standby.promote();
    address.lead(standby);
    await until(async () => (await health(service)) === 200, '/health to say 200');
    const { token } = (await call(service, 'tokenize', { token: 'Ann Lee' })).body.data;
    await comeBack(primary);
    const rows = await rowsOf(urlOf(place, primary));
    address.lead(primary);
    expectUnavailable(await call(service, 'tokenize', { a: 'new' }));
    expectUnavailable(await call(service, 'detokenize', { token }));
    expect(await health(service)).toBe(503);
    await until(() => OLD_PRIMARY.test(service.output()), 'the operator to be told');
    expect(await rowsOf(urlOf(place, primary))).toBe(rows);
    const restarted = await start(place, url);
    expect((await call(restarted, 'tokenize', { a: 'new' }, service.api_key)).status).toBe(200);
    address.lead(standby);
    await until(async () => (await health(service)) === 200, '/health to say 200');
    expect((await call(service, 'detokenize', { token })).body.data.token).toBe('Ann Lee');
  });
});
