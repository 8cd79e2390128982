import { expect, onTestFinished, test } from 'vitest';
import { citusIsInstalled, startCitus } from '../support/citus.ts';
import { expectOnlyUnavailable, loaded, nodesAt } from '../support/fault.ts';
import { ownPlace } from '../support/own.ts';
import { query } from '../support/postgres.ts';
import { call, until } from '../support/service.ts';

const KILLS = 2;
const PREPARED = 'select gid from pg_prepared_xacts';

/** A service on Citus, where rows that a killed worker had prepared stay unseen for a second. */
async function startOnCitus() {
  const cluster = await startCitus({ 'citus.recover_2pc_interval': "'1s'" });
  onTestFinished(() => cluster.stop());
  return { cluster, ...(await nodesAt(await ownPlace('server', cluster.serverUrl))) };
}

const DATABASE_UNAVAILABLE = { status: 500, body: { message: 'database unavailable' } };

test.skipIf(!citusIsInstalled)(
  'a worker of Citus is killed: 500 database unavailable, and all is well when it is back',
  async () => {
    const { cluster, service, tokenized, restored } = await startOnCitus();
    const values = Array.from({ length: 50 }, (_, i) => `value ${i}`);
    const { tokens } = await tokenized({ tokens: values });
    const worker = cluster.workers[0]!;
    await worker.crash();
    const more = values.map((value) => `${value} more`);
    expect(await call(service, 'tokenize', { a: more })).toMatchObject(DATABASE_UNAVAILABLE);
    expect(await call(service, 'detokenize', { tokens })).toMatchObject(DATABASE_UNAVAILABLE);
    worker.startAgain();
    const works = async () => (await call(service, 'detokenize', { tokens })).status === 200;
    await until(works, 'an answer with both workers');
    expect(await restored(tokens)).toEqual(values);
    expect(await restored(await tokenized(more))).toEqual(more);
  },
);

test.skipIf(!citusIsInstalled)(
  'kill -9 of workers and of the coordinator of Citus while writing: no acknowledged token is lost',
  async () => {
    const { cluster, writers } = await loaded(startOnCitus(), 0, Infinity);
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
);
