import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { newKeyBytes } from '../../src/crypto/primitives.ts';
import { loaded, newScene, start } from '../support/fault.ts';
import { held, lockWaits } from '../support/own.ts';
import { postgresBin, run } from '../support/postgres.ts';
import { type Place, runJson, until } from '../support/service.ts';
import { detokenizeAll, sql, tokenizeAll } from '../support/vault.ts';

const RECORDS = 60_000;
const KILLS = 5;

async function newVault(records: number) {
  const scene = await newScene();
  const values = Array.from({ length: records }, (_, i) => `value ${i} of ${records}`);
  return { ...scene, values, tokens: await tokenizeAll(scene.service, values) };
}

async function resealed(place: Place, keyVersion: number): Promise<number> {
  const text = 'select count(*)::int as n from standin.records where key_version = $1';
  return (await sql(place, text, [keyVersion]))[0]!.n;
}

const untilResealed = (place: Place, count: number) =>
  until(async () => (await resealed(place, 2)) >= count, `${count} resealed records`);

describe.skipIf(postgresBin === undefined)('while records are resealed', () => {
  test('C13: five kills -9 of it, under load: all records end with the new version, and after the old key is gone all restore', async () => {
    const scene = await loaded(newVault(RECORDS), 50);
    const { place, json, interrupted, service, values, tokens, writers } = scene;
    await json('keyring rotate');
    for (let i = 0; i < KILLS; i++) {
      const goal = (await resealed(place, 2)) + RECORDS / 20;
      const hasBegun = async () => (await resealed(place, 2)) >= goal;
      await interrupted('keyring reseal --rate 8000', hasBegun, 'SIGKILL');
    }
    expect(await resealed(place, 1)).toBeGreaterThan(RECORDS / 3);
    expect(await json('keyring reseal')).toMatchObject({ bad: 0, is_complete: true });
    await writers.finish();
    expect([[...writers.failures], writers.cuts]).toEqual([[], 0]);
    expect(await resealed(place, 1)).toBe(0);
    await sql(place, "update standin.keyring set created_at = created_at - interval '1 hour'");
    await json('keyring retire 1');
    expect(await detokenizeAll(service, tokens)).toEqual(values);
    await writers.verify();
    expect(await json('verify')).toMatchObject({ bad: 0, next: null });
  });

  test('F21: PostgreSQL stopped at once (pg_ctl -m immediate) five times: the same run goes on, and no record is lost', async () => {
    const { cluster, place, json, service, values, tokens } = await newVault(RECORDS);
    await json('keyring rotate');
    const running = runJson(place, 'keyring', 'reseal', '--rate', '8000');
    for (let i = 1; i <= KILLS; i++) {
      await untilResealed(place, (i * RECORDS) / (KILLS + 2));
      run('pg_ctl', ['-D', cluster.dataDir, '-m', 'immediate', '-w', 'stop']);
      cluster.startAgain();
    }
    expect(await running).toMatchObject({ bad: 0, is_complete: true });
    expect([await resealed(place, 1), await resealed(place, 2)]).toEqual([0, RECORDS]);
    expect(await json('verify')).toMatchObject({ records: RECORDS, bad: 0 });
    expect(await detokenizeAll(service, tokens)).toEqual(values);
  });
});

test.skipIf(postgresBin === undefined)(
  'kill -9 of rewrap in the middle of it: all keys are wrapped by the old KEK, and the next run does it',
  async () => {
    const { place, json, begin, service, values, tokens } = await newVault(1_000);
    const newKek = join(place.folder, 'new-kek');
    writeFileSync(newKek, newKeyBytes(), { mode: 0o600 });
    const keks = () => sql(place, 'select distinct kek_id from standin.keyring');
    const before = await keks();
    // It updates the rows in order, and waits for the last of them, which this transaction holds.
    const release = await held(
      place,
      "select 1 from standin.keyring where purpose = 'token' for update",
    );
    const { child, ended } = begin(`keyring rewrap --new-kek-file ${newKek}`);
    const updating = "query like 'update standin.keyring%'";
    await lockWaits(place, updating);
    child.kill('SIGKILL');
    await ended;
    await release();
    await lockWaits(place, updating, (count) => count === 0);
    expect(await keks()).toEqual(before);
    expect(JSON.stringify(await json('doctor'))).not.toContain('"problem"');
    expect(await json(`keyring rewrap --new-kek-file ${newKek}`)).toMatchObject({ keys: 4 });
    expect(await keks()).not.toEqual(before);
    place.env.KEK_FILE = newKek;
    expect(await detokenizeAll(await start(place), tokens, service.api_key)).toEqual(values);
  },
);
