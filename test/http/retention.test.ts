import { describe, expect, onTestFinished, test } from 'vitest';
import { startWithOps } from '../support/ops.ts';
import {
  call,
  createClient,
  makeVault,
  newPlace,
  scrape,
  until,
  usualKinds,
} from '../support/service.ts';
import { openTestPool, soon, sql } from '../support/vault.ts';

const UNKNOWN = 'aaaaaaa@aaaaaa.aaa_tok';
const LIMIT = 'update standin.clients set time_to_live_s = $1 where time_to_live_s is not null';

describe.each(usualKinds())('a time to live on the %s database', (kind) => {
  /** A service that has known two clients from its start: one with a brief time to live, one without. */
  async function start(timeToLiveS: number) {
    const place = await newPlace(kind);
    onTestFinished(place.remove);
    await makeVault(place);
    const { api_key: brief } = await createClient(place, '--time-to-live', '30m');
    const { api_key: lasting } = await createClient(place);
    const pool = openTestPool(place);
    // Shorter than any that a command gives.
    await pool.query(LIMIT, [timeToLiveS], soon());
    await pool.end();
    const service = await startWithOps(place);
    onTestFinished(() => service.stop());
    /** The token of a value, for a client. */
    const tokenize = async (apiKey: string, a: string): Promise<string> =>
      (await call(service, 'tokenize', { a }, apiKey)).body.data.a;
    const restore = (a: unknown) => call(service, 'detokenize', { a }, lasting);
    const isOver = (token: string) => async () => (await restore(token)).status !== 200;
    return { service, brief, lasting, tokenize, restore, isOver };
  }

  test('a token is unknown when it is over, its value is removed, and its token comes back', async () => {
    const { service, brief, lasting, tokenize, restore, isOver } = await start(2);
    let token = '';
    let askedAtMs = 0;
    await until(async () => {
      askedAtMs = performance.now();
      token = await tokenize(brief, 'Ann Lee');
      const { body } = await restore(token);
      const isInTime = performance.now() - askedAtMs < 2_000;
      if (isInTime) expect(body.data).toEqual({ a: 'Ann Lee' });
      return isInTime;
    }, 'its token was asked for in its time');
    await until(isOver(token), 'it is over');
    expect(performance.now() - askedAtMs).toBeGreaterThan(2_000);
    const unknown = await restore(UNKNOWN);
    const { status, body } = await restore(token);
    expect([status, body]).toEqual([unknown.status, unknown.body]);

    const records = 'select expires_at, sealed from standin.records';
    const isRemoved = async () =>
      (await sql(service.place, `${records} where sealed <> ''`)).length === 0;
    await until(isRemoved, 'all values are removed');
    const rows = await sql(service.place, records);
    expect(rows.length).toBeGreaterThan(0);
    expect(rows.filter((row) => row.expires_at !== null)).toEqual([]);
    const counted = async () =>
      (await scrape(service.opsUrl, 'standin_expired_records_total'))[''] === rows.length;
    await until(counted, 'they are counted');
    expect((await restore(token)).body).toEqual(unknown.body);

    expect(await tokenize(lasting, 'Ann Lee')).toBe(token);
    expect((await restore(token)).body.data).toEqual({ a: 'Ann Lee' });
  });

  test('a value that two clients share lives as long as the one that wants it longer', async () => {
    const { brief, lasting, tokenize, restore, isOver } = await start(2);
    const first = await tokenize(brief, 'first the brief one');
    expect(await tokenize(lasting, 'first the brief one')).toBe(first);
    const second = await tokenize(lasting, 'first the lasting one');
    expect(await tokenize(brief, 'first the lasting one')).toBe(second);
    await until(isOver(await tokenize(brief, 'only the brief one')), 'the brief one is over');
    const { a } = (await restore([first, second])).body.data;
    expect(a).toEqual(['first the brief one', 'first the lasting one']);
  });

  test('a token that is asked for again and again lives on', async () => {
    const { service, brief, tokenize, restore } = await start(3);
    const token = await tokenize(brief, 'Ann Lee');
    const [first] = await sql(service.place, 'select max(expires_at) as at from standin.records');
    // Past the end that it had at first, by the clock of the database.
    await until(async () => {
      const askedAtMs = performance.now();
      await tokenize(brief, 'Ann Lee');
      const { status } = await restore(token);
      const isInTime = performance.now() - askedAtMs < 3_000;
      if (isInTime) expect(status).toBe(200);
      const [row] = await sql(service.place, 'select now() > $1 as past', [first!.at]);
      return isInTime && row!.past;
    }, 'the token was asked for in its time, past its first end');
  });
});
