import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { PGlite } from '@electric-sql/pglite';
import type { TestProject } from 'vitest/node';
import { nameRun } from './leftovers.ts';
import { PostgresCluster, postgresBin } from './postgres.ts';
import { ROOT } from './program.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** The URL of a PostgreSQL server on which tests may create databases; empty without one. */
    readonly serverUrl: string;
    /** A folder with an unused embedded database to copy, because making one takes seconds. */
    readonly embeddedTemplate: string;
  }
}

/**
 * Provides one PostgreSQL for the whole run: the server of TEST_DATABASE_URL, or else our own if
 * PostgreSQL is installed. Also provides one embedded database to copy.
 */
export default async function setup(project: TestProject): Promise<() => void> {
  const endRun = nameRun();
  project.provide('embeddedTemplate', await makeTemplate());
  const cluster = await startCluster(project);
  return () => {
    cluster?.stop();
    endRun();
  };
}

/**
 * Kept for later runs, one for each version of PGlite. It lacks the files of `template1` and
 * `template0`, which nobody opens: two thirds of what every embedded place copies.
 */
async function makeTemplate(): Promise<string> {
  const maker = join(ROOT, 'node_modules/@electric-sql/pglite/package.json');
  const { version } = JSON.parse(readFileSync(maker, 'utf8'));
  const folder = join(ROOT, 'build', `embedded-${version}`);
  if (existsSync(folder)) return folder;
  mkdirSync(join(ROOT, 'build'), { recursive: true });
  const unfinished = mkdtempSync(`${folder}-`);
  const database = await PGlite.create({ dataDir: unfinished });
  const found = await database.query<{ oid: number }>(
    'select oid from pg_database where datistemplate',
  );
  await database.close();
  for (const { oid } of found.rows)
    rmSync(join(unfinished, 'base', String(oid)), { recursive: true });
  // If two runs race, the second run keeps its own copy, which is as good.
  if (existsSync(folder)) return unfinished;
  renameSync(unfinished, folder);
  return folder;
}

async function startCluster(project: TestProject): Promise<PostgresCluster | undefined> {
  const given = process.env.TEST_DATABASE_URL;
  if (given !== undefined || postgresBin === undefined) {
    project.provide('serverUrl', given ?? '');
    return undefined;
  }
  const cluster = await PostgresCluster.start({ max_connections: '300', autovacuum: 'off' });
  project.provide('serverUrl', cluster.url('postgres'));
  return cluster;
}
