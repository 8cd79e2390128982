import { afterEach, describe, expect, test } from 'vitest';
import { freePort } from '../support/postgres.ts';
import {
  call,
  createClient,
  makeVault,
  newPlace,
  type Place,
  type Service,
  startService,
  until,
  usualKinds,
} from '../support/service.ts';
import { openTestPool, soon, sql } from '../support/vault.ts';

const UNKNOWN = 'aaaaaaa@aaaaaa.aaa_tok';

describe.each(usualKinds())('a time to live on the %s database', (kind) => {
  const cleanups: (() => void | Promise<void>)[] = [];
  afterEach(async () => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  });

  /** A service that has known two clients from its start: one with a brief time to live, one without. */
  async function start(timeToLiveS: number, env: Record<string, string> = {}) {
    const place = await newPlace(kind);
    cleanups.push(place.remove);
    await makeVault(place);
    const brief = await newClient(place, '--time-to-live', '30m');
    const lasting = await newClient(place);
    const pool = openTestPool(place);
    // Shorter than any that a command gives.
    await pool.query(
      'update standin.clients set time_to_live_s = $1 where time_to_live_s is not null',
      [timeToLiveS],
      soon(),
    );
    await pool.end();
    const service = await startService(place, { OPS_PORT: String(await freePort()), ...env });
    cleanups.push(() => service.stop());
    return { service, brief, lasting };
  }

  async function newClient(place: Place, ...options: string[]): Promise<string> {
    return (await createClient(place, ...options)).api_key;
  }

  const storedValues = async (place: Place) =>
    Number(
      (await sql(place, "select count(*) as n from standin.records where sealed <> ''"))[0]!.n,
    );

  async function removedByService(service: Service): Promise<number> {
    const metrics = await (await fetch(`${service.opsUrl}/metrics`)).text();
    return Number(/^standin_expired_records_total (\d+)$/m.exec(metrics)?.[1]);
  }

  test('a token is unknown when it is over, its value is removed, and its token comes back', async () => {
    const { service, brief, lasting } = await start(2);
    let token = '';
    let askedAtMs = 0;
    const restore = (a = token) => call(service, 'detokenize', { a }, lasting);
    await until(async () => {
      askedAtMs = performance.now();
      token = (await call(service, 'tokenize', { a: 'Ann Lee' }, brief)).body.data.a;
      const { body } = await restore();
      const isInTime = performance.now() - askedAtMs < 2_000;
      if (isInTime) expect(body.data).toEqual({ a: 'Ann Lee' });
      return isInTime;
    }, 'its token was asked for in its time');
    await until(async () => (await restore()).status !== 200, 'it is over');
    expect(performance.now() - askedAtMs).toBeGreaterThan(2_000);
    const unknown = await restore(UNKNOWN);
    const { status, body } = await restore();
    expect({ status, body }).toEqual({ status: unknown.status, body: unknown.body });

    await until(async () => (await storedValues(service.place)) === 0, 'all values are removed');
    const rows = await sql(service.place, 'select expires_at from standin.records');
    expect(rows.length).toBeGreaterThan(0);
    expect(rows.filter((row) => row.expires_at !== null)).toEqual([]);
    await until(async () => (await removedByService(service)) === rows.length, 'they are counted');
    expect((await restore()).body).toEqual(unknown.body);

    const again = await call(service, 'tokenize', { a: 'Ann Lee' }, lasting);
    expect(again.body.data).toEqual({ a: token });
    expect((await restore()).body.data).toEqual({ a: 'Ann Lee' });
  });

  test('a value that two clients share lives as long as the one that wants it longer', async () => {
    const { service, brief, lasting } = await start(2);
    const tokens: string[] = [];
    const ask = async (apiKey: string, value: string) => {
      const answer = await call(service, 'tokenize', { a: value }, apiKey);
      tokens.push(answer.body.data.a);
    };
    await ask(brief, 'first the brief one');
    await ask(lasting, 'first the brief one');
    await ask(lasting, 'first the lasting one');
    await ask(brief, 'first the lasting one');
    expect(new Set(tokens).size).toBe(2);
    await ask(brief, 'only the brief one');
    await until(
      async () => (await call(service, 'detokenize', { a: tokens[4] }, lasting)).status === 400,
      'the brief one is over',
    );
    const { body } = await call(service, 'detokenize', { a: tokens.slice(0, 4) }, lasting);
    expect(body.data.a.map((value: string) => value.split(' ')[2])).toEqual([
      'brief',
      'brief',
      'lasting',
      'lasting',
    ]);
  });

  test('a token that is asked for again and again lives on', async () => {
    const { service, brief } = await start(3);
    const { a: token } = (await call(service, 'tokenize', { a: 'Ann Lee' }, brief)).body.data;
    const [first] = await sql(service.place, 'select max(expires_at) as at from standin.records');
    // Past the end that it had at first, by the clock of the database.
    await until(async () => {
      const askedAtMs = performance.now();
      await call(service, 'tokenize', { a: 'Ann Lee' }, brief);
      const { status } = await call(service, 'detokenize', { a: token }, brief);
      const isInTime = performance.now() - askedAtMs < 3_000;
      if (isInTime) expect(status).toBe(200);
      const [row] = await sql(service.place, 'select now() > $1 as past', [first!.at]);
      return isInTime && row!.past;
    }, 'the token was asked for in its time, past its first end');
  });
});
