import { execFileSync } from 'node:child_process';
import { closeSync, fsyncSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { availableParallelism, cpus, loadavg, release, tmpdir, totalmem, type } from 'node:os';
import { join } from 'node:path';
import { ROOT } from '../test/support/program.ts';
import type { DatabaseServer } from './database.ts';
import { median } from './measure.ts';

const FSYNCS = 50;
const PAGE_BYTES = 8_192;

/** Facts about the machine that affect the figures, by name. */
export function machineFacts(server: DatabaseServer | undefined): [string, string][] {
  const { version: pgliteVersion } = readJson('node_modules/@electric-sql/pglite/package.json');
  const { version: fastifyVersion } = readJson('node_modules/fastify/package.json');
  return [
    ['Date', `${new Date().toISOString().slice(0, 16).replace('T', ' ')} UTC`],
    ['Standin', `${readJson('package.json').version}, commit ${commit()}`],
    ['CPU', `${availableParallelism()} cores, ${cpus()[0]?.model.trim() || 'model not told'}`],
    ['Memory', `${Math.round(totalmem() / 2 ** 30)} GiB`],
    ['System', `${type()} ${release()}`],
    ['Load before the start', loadavg()[0]!.toFixed(2)],
    ['Node.js, Fastify', `${process.versions.node}, ${fastifyVersion}`],
    ['PostgreSQL', server?.version ?? 'none'],
    ['PostgreSQL settings', server?.settings.join(', ') ?? 'none'],
    ['PGlite', String(pgliteVersion)],
    [`fsync of ${PAGE_BYTES / 1024} KiB`, `${fsyncMedianMs().toFixed(2)} ms (median of ${FSYNCS})`],
  ];
}

function readJson(path: string): Record<string, unknown> {
  return JSON.parse(readFileSync(join(ROOT, path), 'utf8'));
}

function commit(): string {
  const git = (...args: string[]) =>
    execFileSync('git', args, { cwd: ROOT, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  try {
    const isChanged =
      git('status', '--porcelain', '--', 'src', 'packages', 'bench', 'package-lock.json') !== '';
    return `${git('rev-parse', '--short', 'HEAD').trim()}${isChanged ? ' with changes' : ''}`;
  } catch {
    return 'unknown';
  }
}

/** Time of an fsync in the folder of the databases, which is the least cost of a commit. */
function fsyncMedianMs(): number {
  const path = join(tmpdir(), `standin-bench-fsync-${process.pid}`);
  const file = openSync(path, 'w');
  const page = Buffer.alloc(PAGE_BYTES, 1);
  try {
    const timesMs = Array.from({ length: FSYNCS }, () => {
      const startMs = performance.now();
      writeSync(file, page);
      fsyncSync(file);
      return performance.now() - startMs;
    });
    return median(timesMs)!;
  } finally {
    closeSync(file);
    rmSync(path);
  }
}
