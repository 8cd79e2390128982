import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import {
  ANSWER_BOUND_MS,
  expectOnlyUnavailable,
  newCluster,
  newVault,
  newWriters,
  recovery,
  SLACK_MS,
  start,
  times,
  UNAVAILABLE,
} from '../support/fault.ts';
import { freePort, PostgresCluster, postgresBin, query } from '../support/postgres.ts';
import { childrenOf, handOver, isRunning } from '../support/processes.ts';
import { call, until } from '../support/service.ts';

const SYNC_DELAY_MS = 200;
const SLOW_REQUESTS = times(100, 500);
const DISK_MIB = 256;
const BLOCK_BYTES = 1 << 20;

/** Whether strace may attach to processes here, and mounts can be made: in many containers they may not. */
const canTrace = tries(['strace', '-e', 'trace=none', 'true']);
const canMount = tries(['unshare', '-m', 'mount', '-t', 'tmpfs', 'none', '/mnt']);

function tries([program, ...args]: string[]): boolean {
  try {
    execFileSync(program!, args, { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

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
  const gone = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGINT');
  await gone;
}

/** A folder that is a small disk of its own. */
function newDisk(): string {
  const folder = mkdtempSync(join(tmpdir(), 'standin-disk-'));
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${DISK_MIB}m`, 'standin-test', folder]);
  onTestFinished(() => {
    // Lazily: a server that was killed a moment ago may still have it open.
    execFileSync('umount', ['-l', folder]);
    rmSync(folder, { recursive: true, force: true });
  });
  chmodSync(folder, 0o777);
  return folder;
}

function fill(file: string): void {
  const zeros = Buffer.alloc(BLOCK_BYTES);
  try {
    for (;;) writeFileSync(file, zeros, { flag: 'a' });
  } catch (error) {
    expect((error as NodeJS.ErrnoException).code).toBe('ENOSPC');
  }
}

describe.skipIf(postgresBin === undefined)('the disk of PostgreSQL', () => {
  test.skipIf(!canTrace)(
    'F09: every sync takes 200 ms: tokenize waits for it, detokenize does not',
    async () => {
      const cluster = await newCluster();
      const place = await newVault(cluster);
      const service = await start(place, { OPS_PORT: String(await freePort()) });
      const writers = newWriters(service, service.api_key, place);
      await writers.progress(500);
      const { token } = (await call(service, 'tokenize', { token: 'Ann Lee' })).body.data;
      const heapBefore = await heapOf(service.opsUrl!);
      await inject(cluster, `inject=fdatasync:delay_enter=${SYNC_DELAY_MS * 1_000}`);
      writers.forgetSlowest();
      const readsMs: number[] = [];
      const writesMs: number[] = [];
      const timed = async (into: number[], operation: 'tokenize' | 'detokenize', a: string) => {
        const startedMs = performance.now();
        const { status } = await call(service, operation, { a });
        expect(status).toBe(200);
        into.push(performance.now() - startedMs);
      };
      for (let i = 0; i < SLOW_REQUESTS; i++) {
        await Promise.all([
          timed(readsMs, 'detokenize', token),
          i % 10 === 0 ? timed(writesMs, 'tokenize', `slow ${i}`) : undefined,
        ]);
      }
      await writers.stop();
      const medianMs = (all: number[]) => all.toSorted((a, b) => a - b)[all.length >> 1]!;
      console.log(
        `median tokenize ${medianMs(writesMs).toFixed()} ms, detokenize ${medianMs(readsMs).toFixed()} ms`,
      );
      expect(Math.min(...writesMs)).toBeGreaterThan(SYNC_DELAY_MS);
      // It would be twice the delay and more if it waited for the disk.
      expect(medianMs(readsMs)).toBeLessThan(SYNC_DELAY_MS);
      expect([...writers.failures]).toEqual([]);
      expect(writers.slowestMs).toBeLessThan(ANSWER_BOUND_MS + SLACK_MS);
      expect((await heapOf(service.opsUrl!)) - heapBefore).toBeLessThan(64 << 20);
      await writers.verify(service, service.api_key);
      await writers.verifyRows(place);
    },
  );

  test.skipIf(!canMount)(
    'F10: is full: tokenize says 500 and detokenize is right or says 500; with space again all is there',
    async () => {
      const disk = newDisk();
      // Without WAL files to use again, the first write that needs one fails.
      const settings = { min_wal_size: '32MB', max_wal_size: '32MB', wal_recycle: 'off' };
      const cluster = await PostgresCluster.start(settings, disk);
      onTestFinished(() => cluster.stop());
      const place = await newVault(cluster);
      const service = await start(place);
      const writers = newWriters(service, service.api_key, place, {});
      await writers.progress(1_000);
      const filler = join(disk, 'filler');
      fill(filler);
      await until(() => writers.failures.size > 0, 'a failed request', 60_000);
      expect(statfsSync(disk).bavail).toBe(0);
      rmSync(filler);
      // It may have ended: what it could not write it must not go on without.
      if (!isServing(cluster)) cluster.startAgain();
      await recovery(service, service.api_key, 10_000);
      await writers.progress(1_000);
      await writers.stop();
      expectOnlyUnavailable(writers);
      expect(writers.cuts).toBe(0);
      await writers.verify(service, service.api_key);
      await writers.verifyRows(place);
    },
  );

  test.skipIf(!canMount)(
    'F10: of the tables alone is full: /health says 503 until there is space, with no request in between',
    async () => {
      const cluster = await newCluster();
      const disk = newDisk();
      const tables = join(disk, 'tables');
      mkdirSync(tables);
      handOver(tables);
      const administer = (text: string) => query(cluster.directUrl('postgres'), text);
      await administer(`create tablespace small location '${tables}'`);
      await administer("alter system set default_tablespace = 'small'");
      await administer('select pg_reload_conf()');
      const place = await newVault(cluster);
      const service = await start(place);
      const { token } = (await call(service, 'tokenize', { token: 'Ann Lee' })).body.data;
      const filler = join(disk, 'filler');
      fill(filler);
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
      expect((await call(service, 'detokenize', { token })).body.data.token).toBe('Ann Lee');
      rmSync(filler);
      await until(async () => (await health())[0] === 200, '/health to say 200', 10_000);
      const said = 'the disk of the database has space again';
      await until(() => service.output().includes(said), 'its line');
      expect((await call(service, 'tokenize', { a: `${n}` })).status).toBe(200);
    },
  );

  test.skipIf(!canTrace)(
    'F11: a sync fails with EIO: PostgreSQL panics, and no acknowledged token is lost when it has recovered',
    async () => {
      const cluster = await newCluster();
      const place = await newVault(cluster);
      const service = await start(place);
      const writers = newWriters(service, service.api_key, place);
      await writers.progress(200);
      const tracer = await inject(cluster, 'inject=fdatasync:error=EIO:when=10+');
      await until(() => writers.failures.size > 0, 'the panic', 60_000);
      await detach(tracer);
      if (!isServing(cluster)) cluster.startAgain();
      await recovery(service, service.api_key, 10_000);
      await writers.progress(500);
      await writers.stop();
      expect([...writers.failures]).toEqual([UNAVAILABLE]);
      expect(writers.cuts).toBe(0);
      await writers.verify(service, service.api_key);
      await writers.verifyRows(place);
      const log = execFileSync('grep', ['-c', 'PANIC', cluster.logFile], { encoding: 'utf8' });
      expect(Number(log)).toBeGreaterThan(0);
    },
  );
});

function isServing(cluster: PostgresCluster): boolean {
  return existsSync(join(cluster.dataDir, 'postmaster.pid')) && isRunning(cluster.postmasterPid);
}

async function heapOf(opsUrl: string): Promise<number> {
  const text = await (await fetch(`${opsUrl}/metrics`)).text();
  return Number(/^\w*nodejs_heap_size_used_bytes\S* (\S+)$/m.exec(text)![1]);
}
