import { describe, expect, test } from 'vitest';
import { backends, healthOf, newScene, SLACK_MS } from '../support/fault.ts';
import { freePort, postgresBin } from '../support/postgres.ts';
import { call, type Service, until } from '../support/service.ts';
import { metric } from '../support/vault.ts';

/** Noticed within so long of the change. */
const NOTICED_MS = 5_000;

/** Made one after the other, and taken back in reverse. The log names the first. */
const CHANGES: readonly [name: string, ...more: string[]][] = [
  ['fsync=off'],
  ['full_page_writes=off'],
  ['synchronous_commit=off'],
  ['synchronous_commit=local', "synchronous_standby_names='of_nobody'"],
];

describe.skipIf(postgresBin === undefined)('F36: a running server made unsafe', () => {
  async function begin(env: Record<string, string> = {}) {
    const scene = await newScene({ env: { OPS_PORT: String(await freePort()), ...env } });
    return { ...scene, sent: await scene.tokenized({ token: 'Ann Lee' }) };
  }

  let n = 0;
  const tokenize = async (service: Service) => {
    const { status, body } = await call(service, 'tokenize', { a: `value ${n++}` });
    return body.message ?? status;
  };
  const isSafe = (service: Service) => metric(service, 'standin_postgres_safe');
  type Begun = Awaited<ReturnType<typeof begin>>;

  async function expectRefusals({ service, sent, restored }: Begun, name: string): Promise<void> {
    const refused = async () => (await tokenize(service)) === 'database unsafe';
    await until(refused, `tokenize to refuse for ${name}`, NOTICED_MS + SLACK_MS);
    expect(await restored(sent)).toEqual({ token: 'Ann Lee' });
    expect(await healthOf(service)).toBe(200);
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

  test.each(CHANGES)(
    '%s: tokenize refuses within 5 s, detokenize goes on, and all goes on when it is undone',
    async (name, ...more) => {
      const settings = [name, ...more];
      const scene = await begin();
      const { cluster, service } = scene;
      for (const setting of settings) await cluster.alterSystem(`set ${setting}`);
      await expectRefusals(scene, name);
      expect((await scene.run('doctor')).stdout).toContain(
        `PostgreSQL runs with ${name}: a crash can lose`,
      );
      for (const setting of settings.toReversed())
        await cluster.alterSystem(`reset ${setting.split('=')[0]}`);
      await expectWorkAgain(service);
    },
  );

  test.each(['role postgres', 'database'])(
    'synchronous_commit=off of the %s: noticed before a session has it, and no session that has it is used after',
    async (whose) => {
      const scene = await begin();
      const { cluster, place, service, sent } = scene;
      const database = new URL(place.env.DATABASE_URL!).pathname.slice(1);
      const target = whose === 'database' ? `database ${database}` : whose;
      await cluster.administer(`alter ${target} set synchronous_commit = off`);
      await expectRefusals(scene, 'synchronous_commit=off');
      await cluster.administer(
        `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${database}'`,
      );
      await until(async () => (await call(service, 'detokenize', sent)).status === 200, 'it');
      const old = await backends(cluster);
      await cluster.administer(`alter ${target} reset synchronous_commit`);
      await expectWorkAgain(service);
      // That of /health writes nothing.
      const isRenewed = async () =>
        (await backends(cluster)).filter((pid) => old.includes(pid)).length <= 1;
      await until(isRenewed, 'new sessions', NOTICED_MS + SLACK_MS);
    },
  );

  test('with ALLOW_UNSAFE_POSTGRES tokenize goes on, and the metric tells', async () => {
    const { cluster, service } = await begin({ ALLOW_UNSAFE_POSTGRES: 'true' });
    await cluster.alterSystem('set fsync = off');
    await until(async () => (await isSafe(service)) === 0, 'the metric', NOTICED_MS + SLACK_MS);
    expect(await tokenize(service)).toBe(200);
  });
});
