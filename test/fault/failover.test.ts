import { describe, expect, onTestFinished, test } from 'vitest';
import {
  expectOnlyUnavailable,
  freeze,
  healthOf,
  lasting,
  loaded,
  newScene,
  nodesAt,
  seconds,
  start,
} from '../support/fault.ts';
import { FaultProxy } from '../support/fault-proxy.ts';
import { type PostgresCluster, postgresBin, query } from '../support/postgres.ts';
import { type Answer, call, runCli, type Service, until } from '../support/service.ts';
import { tcpServer } from '../support/stand-in.ts';
import { newPair, type Pair, urlOf } from '../support/standby.ts';

const SILENCE_S = seconds(8, 30);

/** Another node, which knows only these servers. */
const startOn = ({ place }: Pair, ...clusters: PostgresCluster[]): Promise<Service> =>
  start(place, { DATABASE_URL: urlOf(place, ...clusters) });

function expectUnavailable({ status, body }: Answer): void {
  expect([status, body.error, body.message]).toEqual([
    ...[500, 'internal_error', 'database unavailable'],
  ]);
}

const untilHealthy = (service: Service) =>
  until(async () => (await healthOf(service)) === 200, '/health to say 200');

describe.skipIf(postgresBin === undefined)('F22: failover', () => {
  test('the primary is killed and its standby promoted while writing: no acknowledged token is lost, and the service goes on', async () => {
    const { primary, standby, service, place, writers } = await loaded(newPair(1), 500, Infinity);
    await primary.crash();
    await until(() => writers.failures.size > 0, 'a failed request');
    standby.promote();
    await writers.progress(500);
    await writers.stop();
    const count = await writers.verify();
    expect(count).toBeGreaterThan(1_000);
    expectOnlyUnavailable(writers);

    // The old primary comes back, and nobody has told it: it takes connections, and is the first of the URL.
    primary.startAgain();
    const late = await start(place);
    expect(await writers.verify(late)).toBe(count);
    expect((await call(late, 'tokenize', { a: 'b' }, service.api_key)).status).toBe(200);
  });

  test('the standby is promoted while the primary lives and waits for it in vain: the service goes over, and no acknowledged token is lost', async () => {
    const pair = await loaded(newPair(1), 500, Infinity);
    const { writers } = pair;
    pair.standby.promote();
    await writers.progress(500);
    await writers.stop();
    await writers.verify(await startOn(pair, pair.standby));
  });

  test('a host that is silent and a standby before the primary are passed over, by the service and by commands', async () => {
    const { primary, standby, place } = await newPair(0);
    const port = await tcpServer();
    place.env.DATABASE_URL = urlOf(place, standby, primary).replace('@', `@127.0.0.1:${port},`);
    const { tokenized, restored, ok } = await nodesAt(place);
    expect(await restored(await tokenized({ a: 'Ann Lee' }))).toEqual({ a: 'Ann Lee' });
    expect(await ok('doctor')).not.toMatch(/problem/);
  });

  test('where no host is a primary, a start and doctor name each host and not the password', async () => {
    const { primary, standby, place } = await newPair(0);
    await primary.crash();
    const url = place.env.DATABASE_URL!.replace('//postgres@', '//postgres:hunter2@');
    const run = async (command: string, DATABASE_URL: string) => {
      const ended = await runCli([command], place, { DATABASE_URL, PORT: '0', OPS_PORT: '0' });
      expect(ended.code).toBe(1);
      return ended.stdout + ended.stderr;
    };
    for (const command of ['serve', 'doctor']) {
      const output = await run(command, url);
      expect(output).toMatch(
        /No host of DATABASE_URL is a primary: 127\.0\.0\.1:\d+ does not answer.*, 127\.0\.0\.1:\d+ is a standby\. Promote one/,
      );
      expect(output).not.toContain('hunter2');
    }
    expect(await run('doctor', `${url}?sslrootcert=nowhere`)).toMatch(
      /cannot be read: nowhere \(ENOENT\)\. Correct sslrootcert/,
    );
    const alone = await run('serve', urlOf(place, standby));
    expect(alone).toContain('DATABASE_URL leads to a standby');
  });
});

describe.skipIf(postgresBin === undefined)('F22: one host', () => {
  test('that comes back as a standby answers nothing, and all again when it is promoted', async () => {
    const { cluster, service, tokenized, restored } = await newScene();
    const sent = await tokenized({ token: 'Ann Lee' });
    cluster.demote();
    expectUnavailable(await call(service, 'tokenize', { a: 'new' }));
    // Also what it has, and what it has not: it may not be up to date.
    expectUnavailable(await call(service, 'detokenize', sent));
    expectUnavailable(await call(service, 'detokenize', { a: 'unknown_tok' }));
    expect(await healthOf(service)).toBe(503);
    cluster.promote();
    await untilHealthy(service);
    await tokenized({ a: 'new' });
    expect(await restored(sent)).toEqual({ token: 'Ann Lee' });
  });

  test('that is made read-only under its connections refuses to tokenize, and goes on when it is not', async () => {
    const { cluster, service, tokenized, restored } = await newScene();
    const sent = await tokenized({ token: 'Ann Lee' });
    // A new value each time: one that is there already needs no write.
    let n = 0;
    const tokenizes = async () =>
      (await call(service, 'tokenize', { a: `new ${n++}` })).status === 200;
    await cluster.alterSystem('set default_transaction_read_only = on');
    await until(async () => !(await tokenizes()), 'a refused request');
    expectUnavailable(await call(service, 'tokenize', { a: 'newer' }));
    expect(await restored(sent)).toEqual({ token: 'Ann Lee' });
    await cluster.alterSystem('reset default_transaction_read_only');
    await until(tokenizes, 'an answered request');
  });
});

/** Back after a crash, waiting for no standby: it takes writes as before. Resolves to its rows. */
async function comeBack({ primary, place }: Pair): Promise<() => Promise<number>> {
  primary.startAgain();
  await primary.alterSystem('reset synchronous_standby_names');
  const url = urlOf(place, primary);
  return async () => (await query(url, 'select count(*)::int as n from standin.records'))[0]!.n;
}

const untilTold = (service: Service) =>
  until(
    () =>
      service
        .output()
        .includes('is on timeline 1, and this process has used timeline 2: an old primary is back'),
    'the operator to be told',
    30_000,
  );

describe.skipIf(postgresBin === undefined)('F33: an old primary that nobody has fenced', () => {
  test('while the new primary is silent, requests fail, and none goes to the old one', async () => {
    const pair = await loaded(newPair(1), 300, Infinity);
    const { primary, standby, service, writers } = pair;
    await primary.crash();
    standby.promote();
    await writers.progress(300);
    const rowsOfOld = await comeBack(pair);
    const rows = await rowsOfOld();
    await writers.progress(300);
    const thaw = freeze(standby);
    await untilTold(service);
    await lasting(SILENCE_S);
    expect(await healthOf(service)).toBe(503);
    expectUnavailable(await call(service, 'tokenize', { a: 'while it is silent' }));
    thaw();
    await writers.progress(300);
    await writers.stop();
    expectOnlyUnavailable(writers);
    expect(await rowsOfOld()).toBe(rows);
    await writers.verify(await startOn(pair, standby));
  });

  test('behind one address that leads back to it: nothing is answered until the address leads to the new one; a restart takes what there is', async () => {
    const pair = await newPair(0);
    const { primary, standby, place } = pair;
    const address = await FaultProxy.start(primary.port);
    onTestFinished(() => address.stop());
    const DATABASE_URL = address.through(urlOf(place, primary));
    const service = await start(place, { DATABASE_URL });
    await call(service, 'tokenize', { a: 'before' });
    await primary.crash();
    standby.promote();
    address.lead(standby);
    await untilHealthy(service);
    const { token } = (await call(service, 'tokenize', { token: 'Ann Lee' })).body.data;
    const rowsOfOld = await comeBack(pair);
    const rows = await rowsOfOld();
    address.lead(primary);
    expectUnavailable(await call(service, 'tokenize', { a: 'new' }));
    expectUnavailable(await call(service, 'detokenize', { token }));
    expect(await healthOf(service)).toBe(503);
    await untilTold(service);
    expect(await rowsOfOld()).toBe(rows);
    const restarted = await start(place, { DATABASE_URL });
    expect((await call(restarted, 'tokenize', { a: 'new' }, service.api_key)).status).toBe(200);
    address.lead(standby);
    await untilHealthy(service);
    expect((await call(service, 'detokenize', { token })).body.data.token).toBe('Ann Lee');
  });
});
