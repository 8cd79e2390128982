import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { healthOf, newVault, start } from '../support/fault.ts';
import { ownCluster } from '../support/own.ts';
import { PgBouncer, pgbouncerProgram } from '../support/pgbouncer.ts';
import { plant, sprung, unswayed } from '../support/planted.ts';
import { type PostgresCluster, postgresBin, query } from '../support/postgres.ts';
import {
  call,
  createClient,
  type Place,
  runCli,
  runJson,
  type Service,
  until,
} from '../support/service.ts';

/** What a database administrator may have set, for other programs or for no reason. */
const SETTINGS = [
  "bytea_output = 'escape'",
  'search_path = public, pg_catalog',
  "IntervalStyle = 'sql_standard'",
  "DateStyle = 'German'",
  "TimeZone = 'Asia/Kathmandu'",
  'extra_float_digits = -15',
  'standard_conforming_strings = off',
  'transform_null_equals = on',
  'array_nulls = off',
  'quote_all_identifiers = on',
  "default_transaction_isolation = 'serializable'",
  "default_transaction_isolation = 'repeatable read'",
];
const OLD = { a: 'Ann Lee', b: 'bob@example.org' };
const TIME_TO_LIVE_S = 30 * 86_400;

/** Ways to the server: what a pooler does with the settings of a connection. */
const WAYS = [
  ['direct', undefined],
  ['a PgBouncer that refuses options', {}],
  ['a PgBouncer that drops options', { ignore_startup_parameters: 'options' }],
] as const;

describe.skipIf(postgresBin === undefined)('F34: what others set and plant', () => {
  let cluster: PostgresCluster;
  let direct: string;
  let place: Place;
  let service: Service;
  let leased: string;
  let kept: Record<string, string>;
  let round = 0;

  /** A vault whose user has been the planter's victim since before the first start. */
  async function begin(bounced: Record<string, string> | undefined): Promise<void> {
    cluster = await ownCluster();
    place = await newVault(cluster);
    direct = place.env.DATABASE_URL!;
    await plant(direct);
    if (bounced !== undefined) {
      const bouncer = await PgBouncer.start(cluster.port, bounced);
      onTestFinished(() => bouncer.stop());
      place.env.DATABASE_URL = bouncer.url(new URL(direct).pathname.slice(1));
    }
  }

  async function serve(): Promise<void> {
    service = await start(place);
    leased = (await createClient(place, '--time-to-live', '30d')).api_key;
    kept = (await call(service, 'tokenize', OLD)).body.data;
  }

  /** New and old values, both ways, with and without a time to live, and tokens that are unknown. */
  async function expectRightAnswers(): Promise<void> {
    const ok = async (operation: 'tokenize' | 'detokenize', data: unknown, key?: string) => {
      const { status, body } = await call(service, operation, data, key);
      expect(body.message ?? status).toBe(200);
      return body.data;
    };
    expect(await ok('tokenize', OLD)).toEqual(kept);
    expect(await ok('detokenize', kept)).toEqual(OLD);
    const value = `value ${++round}`;
    expect(await ok('detokenize', await ok('tokenize', { value }))).toEqual({ value });
    const leasedValue = { value: `leased ${value}` };
    expect(await ok('detokenize', await ok('tokenize', leasedValue, leased))).toEqual(leasedValue);
    expect((await call(service, 'detokenize', { a: 'aaaaaaa@aaaaaa.aaa_tok' })).status).toBe(400);
    expect(await healthOf(service)).toBe(200);
    const [soonest] = await query(
      unswayed(direct),
      'select extract(epoch from min(expires_at) - now())::integer as left_s from standin.records',
    );
    expect(soonest!.left_s).toBeGreaterThan(TIME_TO_LIVE_S - 3_600);
    expect(await sprung(direct)).toEqual([]);
  }

  /** On the server, past what was planted in the vault's database. */
  const administer = (text: string) => query(unswayed(cluster.directUrl('postgres')), text);

  async function reload(): Promise<void> {
    const loadedAt = async () => (await administer('select pg_conf_load_time() as at'))[0]!.at;
    const before = await loadedAt();
    await administer('select pg_reload_conf()');
    await until(async () => (await loadedAt()) > before, 'the new configuration');
  }

  const endSessions = () =>
    administer(
      "select pg_terminate_backend(pid) from pg_stat_activity where datname <> 'postgres'",
    );

  async function expectRightCommands(): Promise<void> {
    for (const command of [['doctor'], ['verify'], ['keyring', 'status'], ['api-key', 'list']]) {
      const { code, stdout, stderr } = await runCli(command, place);
      expect([command[0], code, `${stdout}${stderr}`]).toEqual([command[0], 0, expect.anything()]);
      expect(stdout).not.toMatch(/problem|1970|2000-01-01|does not unwrap/);
    }
    const { client_id } = await createClient(place);
    const listed = await runJson(place, 'client', 'list');
    expect(listed).toContainEqual(expect.objectContaining({ client_id }));
    const { token } = (await call(service, 'tokenize', { token: `forget ${++round}` })).body.data;
    const forgotten = await runCli(['forget', token, '--yes'], place);
    expect(forgotten.code, forgotten.stderr).toBe(0);
    expect((await call(service, 'detokenize', { token })).status).toBe(400);
    expect(await sprung(direct)).toEqual([]);
  }

  describe.each(WAYS)('%s', (_way, bounced) => {
    // As skipIf(pgbouncerProgram === undefined), of two of the ways.
    beforeEach(({ skip }) => skip(bounced !== undefined && pgbouncerProgram === undefined));

    test('nothing planted is run, from the first start on, also with every setting of a role and a database', async () => {
      await begin(bounced);
      const name = new URL(direct).pathname.slice(1);
      for (const whose of ['role postgres', `database ${name}`]) {
        for (const setting of SETTINGS) await administer(`alter ${whose} set ${setting}`);
        await endSessions();
        if (whose.startsWith('role')) await serve();
        await expectRightAnswers();
        await expectRightCommands();
        await administer(`alter ${whose} reset all`);
      }
    });

    test('each setting changed on the running server leaves every answer right', async () => {
      await begin(bounced);
      await serve();
      for (const setting of SETTINGS) {
        await administer(`alter system set ${setting}`);
        await reload();
        await expectRightAnswers();
        await administer('alter system reset all');
      }
      for (const setting of SETTINGS) await administer(`alter system set ${setting}`);
      await reload();
      await endSessions();
      await expectRightAnswers();
      await expectRightCommands();
    });
  });
});
