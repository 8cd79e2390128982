import { describe, expect, test } from 'vitest';
import { newCluster, newVault, SLACK_MS, start } from '../support/fault.ts';
import { freePort, postgresBin, query } from '../support/postgres.ts';
import { call, runCli, type Service, scrape, until } from '../support/service.ts';

/** Noticed within so long of the change. */
const NOTICED_MS = 5_000;
const BACKENDS = "select pid from pg_stat_activity where application_name = 'standin'";

/** By what they are called in the log; of several, one after the other, taken back in reverse. */
const CHANGES: readonly [name: string, ...settings: string[]][] = [
  ['fsync=off', 'fsync = off'],
  ['full_page_writes=off', 'full_page_writes = off'],
  ['synchronous_commit=off', 'synchronous_commit = off'],
  [
    'synchronous_commit=local',
    'synchronous_commit = local',
    "synchronous_standby_names = 'of_nobody'",
  ],
];

describe.skipIf(postgresBin === undefined)('F36: a running server made unsafe', () => {
  async function begin(env: Record<string, string> = {}) {
    const cluster = await newCluster();
    const place = await newVault(cluster);
    const service = await start(place, { OPS_PORT: String(await freePort()), ...env });
    const { token } = (await call(service, 'tokenize', { token: 'Ann Lee' })).body.data;
    const administer = (text: string) => query(cluster.directUrl('postgres'), text);
    return { cluster, place, service, token, administer };
  }

  let n = 0;
  const tokenize = async (service: Service) => {
    const { status, body } = await call(service, 'tokenize', { a: `value ${n++}` });
    return body.message ?? status;
  };
  const isSafe = async (service: Service) =>
    (await scrape(service.opsUrl!, 'standin_postgres_safe'))[''];

  async function expectRefusals(service: Service, token: string, name: string): Promise<void> {
    const refused = async () => (await tokenize(service)) === 'database unsafe';
    await until(refused, `tokenize to refuse for ${name}`, NOTICED_MS + SLACK_MS);
    expect((await call(service, 'detokenize', { token })).body.data.token).toBe('Ann Lee');
    expect((await fetch(`${service.url}/health`)).status).toBe(200);
    expect(await isSafe(service)).toBe(0);
    expect(service.output()).toContain(`"settings":["${name}"],"msg":"PostgreSQL can lose tokens"`);
    // The line of the request comes after any other line about it.
    const status = '"route":"/api/v1/tokenize","status":500';
    await until(() => service.output().includes(status), 'the line of a refused request');
    expect(service.output()).not.toContain('"reason":"database_unsafe"');
  }

  async function expectWorkAgain(service: Service): Promise<void> {
    const works = async () => (await tokenize(service)) === 200;
    await until(works, 'tokenize to go on', NOTICED_MS + SLACK_MS);
    expect(await isSafe(service)).toBe(1);
    expect(service.output()).toContain('PostgreSQL keeps tokens again');
  }

  async function reload(administer: (text: string) => Promise<unknown>): Promise<void> {
    await administer('select pg_reload_conf()');
  }

  test.each(CHANGES)(
    '%s: tokenize refuses within 5 s, detokenize goes on, and all goes on when it is undone',
    async (name, ...settings) => {
      const { place, service, token, administer } = await begin();
      for (const setting of settings) {
        await administer(`alter system set ${setting}`);
        await reload(administer);
      }
      await expectRefusals(service, token, name);
      const doctor = await runCli(['doctor'], place);
      expect(doctor.stdout).toContain(`PostgreSQL runs with ${name}: a crash can lose`);
      for (const setting of settings.toReversed()) {
        await administer(`alter system reset ${setting.split(' ')[0]}`);
        await reload(administer);
      }
      await expectWorkAgain(service);
    },
  );

  test.each(['role postgres', 'database'])(
    'synchronous_commit=off of the %s: noticed before a session has it, and no session that has it is used after',
    async (whose) => {
      const { place, service, token, administer } = await begin();
      const database = new URL(place.env.DATABASE_URL!).pathname.slice(1);
      const target = whose === 'database' ? `database ${database}` : whose;
      await administer(`alter ${target} set synchronous_commit = off`);
      await expectRefusals(service, token, 'synchronous_commit=off');
      await endSessions(administer, database);
      await until(async () => (await call(service, 'detokenize', { token })).status === 200, 'it');
      const old = (await administer(BACKENDS)).map(({ pid }) => pid);
      await administer(`alter ${target} reset synchronous_commit`);
      await expectWorkAgain(service);
      // That of /health writes nothing.
      const isRenewed = async () =>
        (await administer(BACKENDS)).filter(({ pid }) => old.includes(pid)).length <= 1;
      await until(isRenewed, 'new sessions', NOTICED_MS + SLACK_MS);
    },
  );

  test('with ALLOW_UNSAFE_POSTGRES tokenize goes on, and the metric tells', async () => {
    const { service, administer } = await begin({ ALLOW_UNSAFE_POSTGRES: 'true' });
    await administer('alter system set fsync = off');
    await reload(administer);
    await until(async () => (await isSafe(service)) === 0, 'the metric', NOTICED_MS + SLACK_MS);
    expect(await tokenize(service)).toBe(200);
  });
});

async function endSessions(
  administer: (text: string) => Promise<unknown>,
  database: string,
): Promise<void> {
  await administer(
    `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${database}'`,
  );
}
