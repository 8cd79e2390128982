import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { RecordStore } from '../../src/store/records.ts';
import { migrate } from '../../src/store/schema.ts';
import { Detokenizer } from '../../src/tokens/detokenizer.ts';
import { Tokenizer } from '../../src/tokens/tokenizer.ts';
import type { Value } from '../../src/types.ts';
import { testLeasedKeyring } from '../support/keys.ts';
import { query } from '../support/postgres.ts';
import {
  call,
  kinds,
  newPlace,
  type Place,
  runCli,
  startService,
  until,
} from '../support/service.ts';
import { addKeyVersions, openTestPool, soon, vaultAddress } from '../support/vault.ts';

const hasServer = kinds().includes('server');
const TERMS = { token_mode: 'deterministic', time_to_live_s: null } as const;
const UNAVAILABLE = 'database unavailable';
const WAITING = `select application_name as name from pg_stat_activity
  where datname = current_database() and wait_event_type = 'Lock'`;

async function newVaultPlace(): Promise<Place> {
  const place = await newPlace('server');
  onTestFinished(place.remove);
  return place;
}

/** Takes the lock on the records when it may; resolves to what gives it back. */
async function locked(place: Place, mode: string, name = 'locker'): Promise<() => Promise<void>> {
  const client = new pg.Client({ ...vaultAddress(place), application_name: name });
  await client.connect();
  onTestFinished(() => client.end());
  await client.query(`begin; lock table standin.records in ${mode} mode`);
  return async () => void (await client.query('rollback'));
}

test.skipIf(!hasServer)(
  'no statement of a request goes on beyond its deadline, whatever its own time would be',
  async () => {
    const place = await newVaultPlace();
    const pool = openTestPool(place, 8);
    onTestFinished(() => pool.end());
    await migrate(pool, soon());
    await addKeyVersions(pool, 1, 2, 3);
    const store = () => new RecordStore(pool, { patienceMs: 3_600_000 });
    const tokenizer = new Tokenizer(store(), testLeasedKeyring(), 'tok', () => {});
    const detokenizer = new Detokenizer(store(), testLeasedKeyring(), () => {});
    const tokens = await tokenizer.tokenize(['known' as Value], TERMS, soon());
    const deadline = () => performance.now() + 600;

    const unlockWrites = await locked(place, 'share');
    // Its look-up goes through, and its insert does not.
    expect(await tokenizer.tokenize(['known' as Value], TERMS, deadline())).toEqual(tokens);
    const writing = tokenizer.tokenize(['new' as Value], TERMS, deadline());
    await expect(writing).rejects.toThrow(UNAVAILABLE);
    await unlockWrites();

    const unlock = await locked(place, 'access exclusive');
    const looking = [
      tokenizer.tokenize(['known' as Value], TERMS, deadline()),
      detokenizer.detokenize(tokens, 0, deadline()),
      detokenizer.sizes(tokens, deadline()),
    ];
    await Promise.all(looking.map((one) => expect(one).rejects.toThrow(UNAVAILABLE)));
    await unlock();

    // The token stands for another value: with time left another one is drawn.
    await pool.query(
      'update standin.records set value_fingerprint = gen_random_uuid()',
      [],
      soon(),
    );
    const late = tokenizer.tokenize(['known' as Value], TERMS, performance.now());
    await expect(late).rejects.toThrow(UNAVAILABLE);
    expect(await tokenizer.tokenize(['known' as Value], TERMS, soon())).not.toEqual(tokens);
  },
);

test.skipIf(!hasServer)(
  'the second statement of a request has the time that the first one left, so that who asked first is answered first',
  async () => {
    const place = await newVaultPlace();
    const service = await startService(place);
    onTestFinished(() => void service.stop());
    const url = place.env.DATABASE_URL!;
    const waiting = async (name: string) =>
      (await query(url, WAITING)).filter((row) => row.name === name).length;
    const waits = (name: string, count: number) =>
      until(async () => (await waiting(name)) === count, `${count} of ${name} that wait`);
    const { a: token } = (await call(service, 'tokenize', { a: 'first' })).body.data;
    // The note that it was stored stays: it is looked up, and then has to be written.
    expect((await runCli(['forget', '--yes', token], place)).code).toBe(0);

    const unlock = await locked(place, 'access exclusive');
    const first = call(service, 'tokenize', { a: 'first' });
    await waits('standin', 1);
    // Lets look-ups through, and no writes.
    const next = locked(place, 'share', 'next locker');
    await waits('next locker', 1);
    const second = call(service, 'tokenize', { a: 'second' });
    await waits('standin', 2);
    await unlock();
    const unlockNext = await next;
    const order: string[] = [];
    void first.then(() => order.push('first'));
    void second.then(() => order.push('second'));
    for (const { status, body } of await Promise.all([first, second]))
      expect([status, body.message]).toEqual([500, UNAVAILABLE]);
    expect(order).toEqual(['first', 'second']);
    await unlockNext();
    expect((await call(service, 'tokenize', { a: 'first' })).body.data).toEqual({ a: token });
  },
);
