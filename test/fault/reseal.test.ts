import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { newKeyBytes } from '../../src/crypto/primitives.ts';
import { held, newScene, start } from '../support/fault.ts';
import { MixedLoad } from '../support/journal.ts';
import { postgresBin, query, run } from '../support/postgres.ts';
import { type Place, runCli, runJson, spawnCli, until } from '../support/service.ts';
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

/** Ends it as kill -9 does, when so many more records are resealed. */
async function killAfter(child: ChildProcess, place: Place, more: number): Promise<void> {
  const goal = (await resealed(place, 2)) + more;
  await until(async () => (await resealed(place, 2)) >= goal, `${goal} resealed records`);
  child.kill('SIGKILL');
  await once(child, 'exit');
}

describe.skipIf(postgresBin === undefined)('while records are resealed', () => {
  test('C13: five kills -9 of it, under load: all records end with the new version, and after the old key is gone all restore', async () => {
    const { place, service, values, tokens } = await newVault(RECORDS);
    const load = new MixedLoad([service], service.api_key);
    await load.progress(50);
    await runJson(place, 'keyring', 'rotate');
    for (let i = 0; i < KILLS; i++) {
      const child = spawnCli(['keyring', 'reseal', '--rate', '8000'], place);
      await killAfter(child, place, RECORDS / 20);
    }
    expect(await resealed(place, 1)).toBeGreaterThan(RECORDS / 3);
    expect(await runJson(place, 'keyring', 'reseal')).toMatchObject({ bad: 0, is_complete: true });
    await load.stop();
    expect(load.failures).toEqual([]);
    expect(await resealed(place, 1)).toBe(0);
    await sql(place, "update standin.keyring set created_at = created_at - interval '1 hour'");
    await runJson(place, 'keyring', 'retire', '1');
    expect(await detokenizeAll(service, tokens)).toEqual(values);
    expect(await runJson(place, 'verify')).toMatchObject({ bad: 0, next: null });
  });

  test('F21: PostgreSQL stopped at once (pg_ctl -m immediate) five times: the same run goes on, and no record is lost', async () => {
    const { cluster, place, service, values, tokens } = await newVault(RECORDS);
    await runJson(place, 'keyring', 'rotate');
    const running = runCli(['keyring', 'reseal', '--rate', '8000', '--json'], place);
    for (let i = 1; i <= KILLS; i++) {
      const goal = (i * RECORDS) / (KILLS + 2);
      await until(async () => (await resealed(place, 2)) >= goal, `${goal} resealed records`);
      run('pg_ctl', ['-D', cluster.dataDir, '-m', 'immediate', '-w', 'stop']);
      cluster.startAgain();
    }
    const { code, stdout, stderr } = await running;
    expect(code, stderr).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ bad: 0, is_complete: true });
    expect([await resealed(place, 1), await resealed(place, 2)]).toEqual([0, RECORDS]);
    expect(await runJson(place, 'verify')).toMatchObject({ records: RECORDS, bad: 0 });
    expect(await detokenizeAll(service, tokens)).toEqual(values);
  });
});

test.skipIf(postgresBin === undefined)(
  'kill -9 of rewrap in the middle of it: all keys are wrapped by the old KEK, and the next run does it',
  async () => {
    const { place, service, values, tokens } = await newVault(1_000);
    const newKek = join(place.folder, 'new-kek');
    writeFileSync(newKek, newKeyBytes(), { mode: 0o600 });
    const keks = () => sql(place, 'select distinct kek_id from standin.keyring');
    const before = await keks();
    // It updates the rows in order, and waits for the last of them, which this transaction holds.
    const release = await held(
      place,
      "select 1 from standin.keyring where purpose = 'token' for update",
    );
    const child = spawnCli(['keyring', 'rewrap', '--new-kek-file', newKek], place);
    const waits =
      "select pid from pg_stat_activity where wait_event_type = 'Lock' and query like 'update standin.keyring%'";
    const waiting = () => query(place.env.DATABASE_URL!, waits);
    await until(async () => (await waiting()).length === 1, 'a rewrap that waits');
    child.kill('SIGKILL');
    await once(child, 'exit');
    await release();
    await until(async () => (await waiting()).length === 0, 'the end of its connection');
    expect(await keks()).toEqual(before);
    expect(await runJson(place, 'doctor')).not.toContainEqual(
      expect.objectContaining({ status: 'problem' }),
    );
    const rewrapped = await runJson(place, 'keyring', 'rewrap', '--new-kek-file', newKek);
    expect(rewrapped).toMatchObject({ keys: 4 });
    expect(await keks()).not.toEqual(before);
    place.env.KEK_FILE = newKek;
    expect(await detokenizeAll(await start(place), tokens, service.api_key)).toEqual(values);
  },
);
