import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PGlite } from '@electric-sql/pglite';
import type { TestProject } from 'vitest/node';
import { PostgresCluster, postgres_bin } from './postgres.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** A PostgreSQL server on which tests may create databases; empty where there is none. */
    readonly server_url: string;
    /** A folder with an embedded database that nobody has used: making one takes seconds. */
    readonly embedded_template: string;
  }
}

/**
 * One PostgreSQL for the whole run: the one of TEST_DATABASE_URL, else one of our own where it is
 * installed; and one embedded database to copy.
 */
export default async function setup(project: TestProject): Promise<() => void> {
  const template = await makeTemplate();
  project.provide('embedded_template', template);
  const cluster = await startCluster(project);
  return () => {
    cluster?.stop();
    rmSync(template, { recursive: true });
  };
}

async function makeTemplate(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'standin-template-'));
  const database = await PGlite.create({ dataDir: folder });
  await database.close();
  return folder;
}

async function startCluster(project: TestProject): Promise<PostgresCluster | undefined> {
  const given = process.env.TEST_DATABASE_URL;
  if (given !== undefined || postgres_bin === undefined) {
    project.provide('server_url', given ?? '');
    return undefined;
  }
  const cluster = await PostgresCluster.start({ max_connections: '300' });
  project.provide('server_url', cluster.url('postgres'));
  return cluster;
}
