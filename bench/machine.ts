import { execFileSync } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus, loadavg, release, tmpdir, totalmem, type } from 'node:os';
import { join } from 'node:path';
import { ROOT } from '../test/support/program.ts';
import { type DatabaseServer, settingsOf } from './database.ts';

const FSYNCS = 50;
const PAGE_BYTES = 8_192;

/** Facts about the machine that affect the figures, as a list. */
export async function machineFacts(server: DatabaseServer | undefined): Promise<string[]> {
  const version = (folder: string) =>
    JSON.parse(readFileSync(join(ROOT, folder, 'package.json'), 'utf8')).version;
  const describe = ['describe', '--always', '--dirty= with changes', '--exclude=*'];
  const commit = execFileSync('git', describe, { cwd: ROOT, encoding: 'utf8' }).trim();
  return [
    `Date: ${new Date().toISOString().slice(0, 16).replace('T', ' ')} UTC`,
    `Standin: ${version('.')}, commit ${commit}`,
    `CPU: ${availableParallelism()} cores, ${cpus()[0]?.model.trim() || 'model not told'}`,
    `Memory: ${Math.round(totalmem() / 2 ** 30)} GiB`,
    `System: ${type()} ${release()}`,
    `Load before the start: ${loadavg()[0]!.toFixed(2)}`,
    `Node.js ${process.versions.node}, Fastify ${version('node_modules/fastify')}, PGlite ${version('node_modules/@electric-sql/pglite')}`,
    `PostgreSQL: ${server === undefined ? 'none' : await settingsOf(server)}`,
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
