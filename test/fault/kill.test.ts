import { afterEach, expect, test } from 'vitest';
import { expectOnlyUnavailable, recovery } from '../support/fault.ts';
import { JournalledWriters } from '../support/journal.ts';
import { PostgresCluster, postgresBin } from '../support/postgres.ts';
import { childrenOf } from '../support/processes.ts';
import { newPlace, type Service, startService, until } from '../support/service.ts';

const KILLS = 10;
const cleanups: (() => void | Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

test('kill -9 of the service on its embedded database, ten times while writing: no acknowledged token is lost', async () => {
  const place = await newPlace('embedded');
  cleanups.push(place.remove);
  let service: Service = await startService(place);
  const { api_key: apiKey } = service;
  const writers = new JournalledWriters(place, () => service, apiKey);
  for (let i = 0; i < KILLS; i++) {
    await writers.progress(200);
    service.kill('SIGKILL');
    // At once: the old database process may still be ending.
    service = await startService(place);
  }
  await writers.progress(200);
  await writers.stop();
  expect(await writers.verify(service, apiKey)).toBeGreaterThan(KILLS * 200);
  await service.stop();
});

test('kill -9 of the embedded database alone: the service starts another, and no acknowledged token is lost', async () => {
  const place = await newPlace('embedded');
  cleanups.push(place.remove);
  const service = await startService(place);
  const writers = new JournalledWriters(place, () => service, service.api_key);
  for (let i = 0; i < 3; i++) {
    await writers.progress(200);
    await until(() => childrenOf(service.pid).length > 0, 'a database process');
    for (const pid of childrenOf(service.pid)) process.kill(pid, 'SIGKILL');
  }
  await writers.progress(200);
  await writers.stop();
  await writers.verify(service, service.api_key);
  await service.stop();
});

test.skipIf(postgresBin === undefined)(
  'F02: kill -9 of Postgres, ten times while writing: no acknowledged token is lost, and the service stays',
  async () => {
    const cluster = await PostgresCluster.start();
    cleanups.push(() => cluster.stop());
    const place = await newPlace('server', cluster.url('postgres'));
    cleanups.push(place.remove);
    const service = await startService(place);
    const writers = new JournalledWriters(place, () => service, service.api_key);
    for (let i = 0; i < KILLS; i++) {
      await writers.progress(500);
      await cluster.crash();
      cluster.startAgain();
      await recovery(service, service.api_key);
    }
    await writers.progress(500);
    await writers.stop();
    await writers.verify(service, service.api_key);
    await writers.verifyRows(place);
    expectOnlyUnavailable(writers);
    expect(writers.cuts).toBe(0);
    await service.stop();
  },
);
