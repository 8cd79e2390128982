import { expect, onTestFinished, test } from 'vitest';
import { CitusCluster, citusIsInstalled } from '../support/citus.ts';
import { expectOnlyUnavailable, newWriters, start } from '../support/fault.ts';
import { query } from '../support/postgres.ts';
import { call, newPlace, until } from '../support/service.ts';

const KILLS = 2;
const PREPARED = 'select gid from pg_prepared_xacts';

/** A service on Citus, where rows that a killed worker had prepared stay unseen for a second. */
async function startOnCitus() {
  const cluster = await CitusCluster.start({ 'citus.recover_2pc_interval': "'1s'" });
  onTestFinished(() => cluster.stop());
  const place = await newPlace('server', cluster.serverUrl);
  onTestFinished(place.remove);
  const service = await start(place);
  return { cluster, place, nodes: [service], service, api_key: service.api_key };
}

const DATABASE_UNAVAILABLE = { status: 500, body: { message: 'database unavailable' } };

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
    const works = async () => (await call(service, 'detokenize', { tokens })).status === 200;
    await until(works, 'an answer with both workers');
    expect((await call(service, 'detokenize', { tokens })).body.data.tokens).toEqual(values);
    const again = await call(service, 'tokenize', { a: more });
    expect(again.status).toBe(200);
    expect((await call(service, 'detokenize', again.body.data)).body.data.a).toEqual(more);
  },
);

test.skipIf(!citusIsInstalled)(
  'kill -9 of workers and of the coordinator of Citus while writing: no acknowledged token is lost',
  async () => {
    const scene = await startOnCitus();
    const { cluster } = scene;
    const writers = newWriters(scene, {});
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
    await writers.verify();
    expectOnlyUnavailable(writers);
  },
  // Three servers that recover six times, on a busy machine.
  300_000,
);
