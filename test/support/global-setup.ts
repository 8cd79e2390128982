import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { PGlite } from '@electric-sql/pglite';
import type { TestProject } from 'vitest/node';
import { PostgresCluster, postgresBin } from './postgres.ts';
import { ROOT } from './program.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** A PostgreSQL server on which tests may create databases; empty where there is none. */
    readonly serverUrl: string;
    /** A folder with an embedded database that nobody has used: making one takes seconds. */
    readonly embeddedTemplate: string;
  }
}

/**
 * One PostgreSQL for the whole run: the one of TEST_DATABASE_URL, else one of our own where it is
 * installed; and one embedded database to copy.
 */
export default async function setup(project: TestProject): Promise<() => void> {
  project.provide('embeddedTemplate', await makeTemplate());
  const cluster = await startCluster(project);
  return () => cluster?.stop();
}

/** Kept for the next run, by the version that made it. */
async function makeTemplate(): Promise<string> {
  const maker = join(ROOT, 'node_modules/@electric-sql/pglite/package.json');
  const { version } = JSON.parse(readFileSync(maker, 'utf8'));
  const folder = join(ROOT, 'build', `embedded-template-${version}`);
  if (existsSync(folder)) return folder;
  mkdirSync(join(ROOT, 'build'), { recursive: true });
  const unfinished = mkdtempSync(`${folder}-`);
  const database = await PGlite.create({ dataDir: unfinished });
  await database.close();
  // Of two runs at once, one comes second, and its own is as good.
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
  const cluster = await PostgresCluster.start({ max_connections: '300' });
  project.provide('serverUrl', cluster.url('postgres'));
  return cluster;
}
