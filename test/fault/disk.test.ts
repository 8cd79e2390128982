import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, rmSync, statfsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { canMount, fill, newDisk } from '../support/disk.ts';
import {
  ANSWER_BOUND_MS,
  expectOnlyUnavailable,
  healthOf,
  loaded,
  newScene,
  recovery,
  SLACK_MS,
  times,
  UNAVAILABLE,
} from '../support/fault.ts';
import { ownCluster } from '../support/own.ts';
import { freePort, type PostgresCluster, postgresBin } from '../support/postgres.ts';
import { childrenOf, handOver, isRunning } from '../support/processes.ts';
import { call, until } from '../support/service.ts';
import { metric } from '../support/vault.ts';

const SYNC_DELAY_MS = 200;
const SLOW_REQUESTS = times(100, 500);

/** In many containers, strace may not attach to processes. */
const canTrace = spawnSync('strace', ['-e', 'trace=none', 'true']).status === 0;

/** Has fdatasync of a server fail or wait, in all its processes and those to come. Ends with the test. */
async function inject(cluster: PostgresCluster, fault: string): Promise<ChildProcess> {
  const postmaster = cluster.postmasterPid;
  const traced = [postmaster, ...childrenOf(postmaster)].flatMap((pid) => ['-p', `${pid}`]);
  const child = spawn('strace', ['-f', '-qq', '-e', 'trace=fdatasync', '-e', fault, ...traced], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let output = '';
  child.stderr!.on('data', (chunk) => {
    output += chunk;
  });
  onTestFinished(() => detach(child));
  await until(() => /fdatasync\(/.test(output), 'the first fdatasync that strace sees');
  return child;
}

/** SIGINT has strace let go of what it traces. */
async function detach(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGINT');
  await once(child, 'exit');
}

/** It may have ended: what it could not write it must not go on without. */
function startIfEnded(cluster: PostgresCluster): void {
  const isThere = existsSync(join(cluster.dataDir, 'postmaster.pid'));
  if (!isThere || !isRunning(cluster.postmasterPid)) cluster.startAgain();
}

describe.skipIf(postgresBin === undefined)('the disk of PostgreSQL', () => {
  test.skipIf(!canTrace)(
    'F09: every sync takes 200 ms: tokenize waits for it, detokenize does not',
    async () => {
      const withOps = newScene({ env: { OPS_PORT: String(await freePort()) } });
      const { cluster, service, tokenized, writers } = await loaded(withOps, 500);
      const heapBytes = () => metric(service, 'nodejs_heap_size_used_bytes');
      const { token } = await tokenized({ token: 'Ann Lee' });
      const before = await heapBytes();
      await inject(cluster, `inject=fdatasync:delay_enter=${SYNC_DELAY_MS * 1_000}`);
      writers.slowestMs = 0;
      const readsMs: number[] = [];
      const writesMs: number[] = [];
      const timed = async (into: number[], operation: 'tokenize' | 'detokenize', a: string) => {
        const startedMs = performance.now();
        expect((await call(service, operation, { a })).status).toBe(200);
        into.push(performance.now() - startedMs);
      };
      for (let i = 0; i < SLOW_REQUESTS; i++) {
        await Promise.all([
          timed(readsMs, 'detokenize', token),
          i % 10 === 0 ? timed(writesMs, 'tokenize', `slow ${i}`) : undefined,
        ]);
      }
      await writers.finish();
      expect(Math.min(...writesMs)).toBeGreaterThan(SYNC_DELAY_MS);
      // The median would be twice the delay and more if it waited for the disk.
      const medianMs = readsMs.toSorted((a, b) => a - b)[readsMs.length >> 1]!;
      expect(medianMs).toBeLessThan(SYNC_DELAY_MS);
      expect([...writers.failures]).toEqual([]);
      expect(writers.slowestMs).toBeLessThan(ANSWER_BOUND_MS + SLACK_MS);
      expect((await heapBytes()) - before).toBeLessThan(64 << 20);
    },
  );

  test.skipIf(!canMount)(
    'F10: is full: tokenize says 500 and detokenize is right or says 500; with space again all is there',
    async () => {
      const disk = newDisk('256m');
      // Without WAL files to use again, the first write that needs one fails.
      const settings = { min_wal_size: '32MB', max_wal_size: '32MB', wal_recycle: 'off' };
      const cluster = await ownCluster(settings, disk);
      const { service, writers } = await loaded(newScene({ cluster }), 1_000, Infinity);
      fill(disk);
      await until(() => writers.failures.size > 0, 'a failed request', 60_000);
      expect(statfsSync(disk).bavail).toBe(0);
      rmSync(join(disk, 'ballast'));
      startIfEnded(cluster);
      await recovery(service, 10_000);
      await writers.finish(1_000);
      expectOnlyUnavailable(writers);
      expect(writers.cuts).toBe(0);
    },
  );

  test.skipIf(!canMount)(
    'F10: of the tables alone is full: /health says 503 until there is space, with no request in between',
    async () => {
      const cluster = await ownCluster();
      const disk = newDisk('256m');
      const tables = join(disk, 'tables');
      mkdirSync(tables);
      handOver(tables);
      await cluster.administer(`create tablespace small location '${tables}'`);
      await cluster.alterSystem("set default_tablespace = 'small'");
      const { service, tokenized, restored } = await newScene({ cluster });
      const sent = await tokenized({ token: 'Ann Lee' });
      fill(disk);
      let n = 0;
      const health = async () => {
        const response = await fetch(`${service.url}/health`);
        return [response.status, ((await response.json()) as { postgres: string }).postgres];
      };
      expect(await health()).toEqual([200, 'ok']);
      const isFull = async () => {
        const values = Array.from({ length: 200 }, () => `${n++} ${'x'.repeat(1_000)}`);
        return (await call(service, 'tokenize', { values })).status === 500;
      };
      await until(isFull, 'a failed request', 60_000);
      expect(await health()).toEqual([503, 'error']);
      expect(await restored(sent)).toEqual({ token: 'Ann Lee' });
      const refusals = () => readFileSync(cluster.logFile, 'utf8').split('No space left').length;
      const before = refusals();
      await until(() => refusals() > before + 1, 'two probes that the server refused');
      expect(await health()).toEqual([503, 'error']);
      rmSync(join(disk, 'ballast'));
      await until(async () => (await healthOf(service)) === 200, '/health to say 200', 10_000);
      const said = 'the disk of the database has space again';
      await until(() => service.output().includes(said), 'its line');
      await tokenized({ a: `${n}` });
    },
  );

  test.skipIf(!canTrace)(
    'F11: a sync fails with EIO: PostgreSQL panics, and no acknowledged token is lost when it has recovered',
    async () => {
      const { cluster, service, writers } = await loaded(newScene(), 200);
      const tracer = await inject(cluster, 'inject=fdatasync:error=EIO:when=10+');
      await until(() => writers.failures.size > 0, 'the panic', 60_000);
      await detach(tracer);
      startIfEnded(cluster);
      await recovery(service, 10_000);
      await writers.finish(500);
      expect([[...writers.failures], writers.cuts]).toEqual([[UNAVAILABLE], 0]);
      expect(readFileSync(cluster.logFile, 'utf8')).toContain('PANIC');
    },
  );
});
