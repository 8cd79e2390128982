import type { TestProject } from 'vitest/node';
import { PostgresCluster, postgres_bin } from './postgres.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** A PostgreSQL server on which tests may create databases; empty where there is none. */
    readonly server_url: string;
  }
}

/** One PostgreSQL for the whole run: the one of TEST_DATABASE_URL, else one of our own where it is installed. */
export default async function setup(project: TestProject): Promise<(() => void) | undefined> {
  const given = process.env.TEST_DATABASE_URL;
  if (given !== undefined || postgres_bin === undefined) {
    project.provide('server_url', given ?? '');
    return undefined;
  }
  const cluster = await PostgresCluster.start({ max_connections: '300' });
  project.provide('server_url', cluster.url('postgres'));
  return () => cluster.stop();
}
