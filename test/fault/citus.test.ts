import { afterEach, expect, test } from 'vitest';
import { CitusCluster, citusIsInstalled } from '../support/citus.ts';
import { JournalledWriters } from '../support/journal.ts';
import { query } from '../support/postgres.ts';
import { call, newPlace, type Service, startService, until } from '../support/service.ts';

const KILLS = 2;
const PREPARED = 'select gid from pg_prepared_xacts';
const cleanups: (() => void | Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function startOnCitus(): Promise<{ cluster: CitusCluster; service: Service }> {
  // How long rows stay unseen that a worker had prepared, and not committed, when it was killed.
  const cluster = await CitusCluster.start({ 'citus.recover_2pc_interval': "'1s'" });
  cleanups.push(() => cluster.stop());
  const place = await newPlace('server', cluster.serverUrl);
  cleanups.push(place.remove);
  const service = await startService(place);
  cleanups.push(() => service.stop());
  return { cluster, service };
}

const DATABASE_UNAVAILABLE = {
  status: 500,
  body: { error: 'internal_error', message: 'database unavailable' },
};

test.skipIf(!citusIsInstalled)(
  'a worker of Citus is killed: 500 database unavailable, and all is well when it is back',
  async () => {
    const { cluster, service } = await startOnCitus();
    const values = Array.from({ length: 50 }, (_, i) => `value ${i}`);
    const { tokens } = (await call(service, 'tokenize', { tokens: values })).body.data;
    const worker = cluster.workers[0]!;
    await worker.crash();
    const more = values.map((value) => `${value} more`);
    expect(await call(service, 'tokenize', { a: more })).toMatchObject(DATABASE_UNAVAILABLE);
    expect(await call(service, 'detokenize', { tokens })).toMatchObject(DATABASE_UNAVAILABLE);
    worker.startAgain();
    await until(
      async () => (await call(service, 'detokenize', { tokens })).status === 200,
      'an answer with both workers',
    );
    expect((await call(service, 'detokenize', { tokens })).body.data.tokens).toEqual(values);
    const again = await call(service, 'tokenize', { a: more });
    expect(again.status).toBe(200);
    expect((await call(service, 'detokenize', again.body.data)).body.data.a).toEqual(more);
  },
);

test.skipIf(!citusIsInstalled)(
  'kill -9 of workers and of the coordinator of Citus while writing: no acknowledged token is lost',
  async () => {
    const { cluster, service } = await startOnCitus();
    const writers = new JournalledWriters(service.place, () => service, service.api_key);
    for (let i = 0; i < KILLS; i++) {
      for (const node of [...cluster.workers, cluster.coordinator]) {
        await writers.progress(30);
        await node.crash();
        node.startAgain();
      }
    }
    await writers.progress(100);
    await writers.stop();
    await until(async () => {
      const prepared = await Promise.all(
        cluster.workers.map((worker) => query(worker.url('postgres'), PREPARED)),
      );
      return prepared.flat().length === 0;
    }, 'the end of what was prepared');
    await writers.verify(service, service.api_key);
    for (const failure of writers.failures) {
      expect(failure).toBe('500 {"error":"internal_error","message":"database unavailable"}');
    }
  },
  // Three servers that recover six times, on a busy machine.
  300_000,
);
