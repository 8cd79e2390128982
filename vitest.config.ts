import { defineConfig } from 'vitest/config';

/** The fault suite takes minutes, and stops and kills what it tests: a project of its own. */
const FAULT = 'test/fault/**/*.test.ts';
/** Waits long or takes much processor time, and seldom breaks alone: `npm run test:long`, at every landing. */
const LONG = [
  'test/browser/*.test.ts',
  'test/cli/{bulk-resume,completion,guides,there-and-back}.test.ts',
  'test/clients/*.test.ts',
  'test/deploy/{alerts,image,two-machines}.test.ts',
  'test/examples/*.test.ts',
  'test/generators/*.test.ts',
  'test/http/{api-key-uses,client-troubles,examples-typescript,model-proxy,openapi-examples}.test.ts',
  'test/http/{rights,secrecy,timeouts,tls,volume}.test.ts',
  'test/kek/{credentials,pkcs11,sources}.test.ts',
  'test/load/*.test.ts',
  'test/package/installed.test.ts',
  'test/policy/reserved.test.ts',
  'test/postgres/{alias-moves,api-key-loads,backup,citus,count,deadline}.test.ts',
  'test/postgres/{embedded-database,migrate-data,move,nodes,overload,pgbouncer}.test.ts',
  'test/redis/service.test.ts',
  'test/unit/nonces.test.ts',
];
/** Spin needs a processor for minutes: `npm run test:model`. */
const MODEL = 'test/model/*.test.ts';
/** Servers that recover ten times, on a machine that others use as well. Every wait in a test has a bound of its own. */
const FAULT_TIMEOUT_MS = process.env.FAULT_LENGTH === 'full' ? 10_800_000 : 1_800_000;

/** Real processes and databases: starting them takes seconds on a busy machine. */
const shared = {
  globalSetup: ['test/support/global-setup.ts'],
  setupFiles: ['test/support/setup.ts'],
  // A process runs file after file: one for each would pay more for its start than for its tests.
  isolate: false,
  testTimeout: 240_000,
  hookTimeout: 240_000,
};

/** Tests import the sources of our own packages, where the program imports their builds. */
const ssr = { resolve: { conditions: ['source', 'node'] } };

export default defineConfig({
  test: {
    // Tests wait for processes of their own as long as they work: two for each of two processors.
    maxWorkers: 4,
    reporters: ['default', './test/support/count-reporter.ts'],
    projects: [
      {
        ssr,
        test: {
          ...shared,
          name: 'main',
          include: ['test/**/*.test.ts', 'packages/*/test/**/*.test.ts'],
          exclude: [FAULT, MODEL, ...LONG],
        },
      },
      { ssr, test: { ...shared, name: 'long', include: LONG } },
      {
        ssr,
        test: { ...shared, name: 'fault', include: [FAULT], testTimeout: FAULT_TIMEOUT_MS },
      },
      { test: { name: 'model', include: [MODEL] } },
      // `npm run screenshots`: the pictures of the documents.
      { ssr, test: { ...shared, name: 'screenshots', include: ['test/browser/screenshots.ts'] } },
    ],
  },
});
