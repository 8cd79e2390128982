import { execFileSync } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus, loadavg, release, tmpdir, totalmem, type } from 'node:os';
import { join } from 'node:path';
import { PostgresCluster, postgresBin } from '../test/support/postgres.ts';
import { ROOT } from '../test/support/program.ts';
import type { Leftovers } from './processes.ts';

/**
 * The PostgreSQL server of a run, which ends with all its databases; undefined: no PostgreSQL here.
 * With default settings, but like a server that has run for a while, which overwrites old WAL files.
 * A new server first fills each file with 16 MiB of zeros, and all commits wait about 50 ms.
 */
export async function startDatabaseServer(leftovers: Leftovers) {
  if (postgresBin === undefined) return undefined;
  const server = await PostgresCluster.start({ min_wal_size: '1GB' });
  leftovers.add(async () => server.stop());
  const message = "pg_logical_emit_message(true, 'bench', repeat('x', 8388608))";
  await server.administer(`select ${message} from generate_series(1, 128)`);
  await server.administer('checkpoint');
  return server;
}

/** The settings that affect the figures. */
const TOLD_SETTINGS =
  'server_version fsync full_page_writes synchronous_commit shared_buffers max_wal_size checkpoint_timeout max_connections wal_compression';
const FSYNCS = 50;
const PAGE_BYTES = 8_192;

/** Facts about the machine that affect the figures, as a list. */
export async function machineFacts(server: PostgresCluster | undefined): Promise<string[]> {
  const version = (folder: string) =>
    JSON.parse(readFileSync(join(ROOT, folder, 'package.json'), 'utf8')).version;
  const describe = ['describe', '--always', '--dirty= with changes', '--exclude=*'];
  const commit = execFileSync('git', describe, { cwd: ROOT, encoding: 'utf8' }).trim();
  const sql = 'select name, current_setting(name) as value from unnest($1::text[]) as name';
  const settings = await server?.administer(sql, [TOLD_SETTINGS.split(' ')]);
  const told = settings?.map(({ name, value }) => `${name}=${value}`).join(', ');
  return [
    `Date: ${new Date().toISOString().slice(0, 16).replace('T', ' ')} UTC`,
    `Standin: ${version('.')}, commit ${commit}`,
    `CPU: ${availableParallelism()} cores, ${cpus()[0]?.model.trim() || 'model not told'}`,
    `Memory: ${Math.round(totalmem() / 2 ** 30)} GiB`,
    `System: ${type()} ${release()}`,
    `Load before the start: ${loadavg()[0]!.toFixed(2)}`,
    `Node.js ${process.versions.node}, Fastify ${version('node_modules/fastify')}, PGlite ${version('node_modules/@electric-sql/pglite')}`,
    `PostgreSQL: ${told ?? 'none'}`,
    `fsync of ${PAGE_BYTES / 1024} KiB: ${fsyncMs().toFixed(2)} ms (mean of ${FSYNCS})`,
  ];
}

/** Time of an fsync in the folder of the databases, which is the least cost of a commit. */
function fsyncMs(): number {
  const path = join(tmpdir(), `standin-bench-fsync-${process.pid}`);
  const startMs = performance.now();
  for (let i = 0; i < FSYNCS; i++)
    writeFileSync(path, Buffer.alloc(PAGE_BYTES, i), { flush: true });
  const tookMs = performance.now() - startMs;
  rmSync(path);
  return tookMs / FSYNCS;
}
