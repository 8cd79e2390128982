import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { newKeyBytes } from '../../src/crypto/primitives.ts';
import { placeFor } from '../support/command.ts';
import { newPlace, type Service, startService, until, usualKinds } from '../support/service.ts';
import { detokenizeAll, sql, tokenizeAll } from '../support/vault.ts';

const values = (count: number) => Array.from({ length: count }, (_, i) => `value ${i}`);

describe.each(usualKinds())('the life of a key on the %s database', (kind) => {
  const at = placeFor('test', () => newPlace(kind));
  let service: Service;
  beforeEach(async () => {
    service = await startService(at.place);
  });
  afterEach(() => service.stop());

  /** Fingerprints in order, as verify names them. */
  async function fingerprints(): Promise<string[]> {
    const text = 'select token_fingerprint as f from standin.records order by token_fingerprint';
    return (await sql(at.place, text)).map(({ f }) => f.replaceAll('-', ''));
  }

  /** Changes a bit of records; the same change again takes it back. */
  async function damage(...which: string[]): Promise<void> {
    const text =
      'update standin.records set sealed = set_byte(sealed, 20, get_byte(sealed, 20) # 1) where token_fingerprint = any($1::uuid[])';
    await sql(at.place, text, [which]);
  }

  const resealedWith = async (version: number) => {
    const text = 'select count(*)::int as n from standin.records where key_version = $1';
    return (await sql(at.place, text, [version]))[0]!.n as number;
  };

  test('rotate, reseal, retire and rewrap say what they did and what is next', async () => {
    const tokens = await tokenizeAll(service, values(2_500));
    expect(await at.text('keyring rotate')).toMatch(/^Version 2 of the dek key is the primary/);
    expect(await at.text('keyring status')).toMatch(
      /^dek +1 +[0-9a-f]{16} +\S+ +2,500\ndek +2 +primary +[0-9a-f]{16} +\S+ +0$/m,
    );
    const refused = async (version: number, words: RegExp) =>
      expect(await at.failure(`keyring retire ${version}`)).toMatch(words);
    await refused(7, /^standin: There is no dek key of version 7/);
    await refused(2, /^standin: Version 2 is the primary/);
    await refused(1, /^standin: 2,500 records need key version 1; .*keyring reseal/);
    expect(await at.run('keyring reseal')).toEqual({
      code: 0,
      stdout: '2,500 records resealed with key version 2.\n',
      stderr: expect.stringMatching(/^100 % {2}2,500 of 2,500 records, [\d,]+\/s, 0 s left\n$/),
    });
    expect(await at.result('keyring reseal')).toMatchObject({ resealed: 0, is_complete: true });
    const early =
      / is (\d+) s old, so nodes may still seal with version 1\..*Try again in (\d+) s\./s;
    await refused(1, early);
    const [, ageS, leftS] = early.exec(await at.failure('keyring retire 1'))!;
    expect(Number(ageS) + Number(leftS)).toBe(60);
    await sql(at.place, "update standin.keyring set created_at = created_at - interval '1 hour'");
    expect(await at.text('keyring retire 1')).toMatch(/^Version 1 of the dek key is gone/);
    await refused(1, /^standin: There is no dek key of version 1/);
    const deks = (await at.json('keyring status')).filter((key: any) => key.purpose === 'dek');
    expect(deks).toMatchObject([{ version: 2, is_primary: true, records: 2_500 }]);
    expect((await at.run('verify')).stdout).toBe('2,500 records opened, 0 of them bad.\n');
    expect(await detokenizeAll(service, tokens)).toEqual(values(2_500));
  });

  test('rewrap: to a file or by settings, and not to the KEK that is there', async () => {
    const kekFile = at.place.env.KEK_FILE ?? join(at.place.env.DATA_DIR!, 'kek');
    const rewrap = 'keyring rewrap --new-kek-file';
    const same = await at.failure(`${rewrap} ${kekFile}`);
    expect(same).toMatch(/already wraps all keys, .* Nothing was changed/);
    const none = at.path('none');
    expect(await at.failure(`${rewrap} ${none}`)).toContain(`cannot be read from ${none} (ENOENT)`);
    const second = at.write('second', newKeyBytes().toString('hex'));
    expect(await at.failure(`${rewrap} ${second}`, { KEK_FILE: none })).toContain('(ENOENT)');
    // Beside the KEK_FILE of the environment, which is of the KEK of before.
    at.write('second.env', `KEK_COMMAND=cat ${second}\n`);
    const command = 'keyring rewrap --new-kek-env second.env';
    expect(await at.text(command)).toMatch(/^4 keys now wrapped by .*[0-9a-f]{16}\. /);
    expect(await at.text(command)).toMatch(/^Nothing changed: all keys are already wrapped/);
    // test/postgres/keys.test.ts has the nodes that go on, and start with the new one.
    expect((await at.run('keyring status', { KEK_FILE: second })).code).toBe(0);
  });

  test('damaged records are named and left alone; the others are resealed', async () => {
    await tokenizeAll(service, values(1_050));
    const all = await fingerprints();
    const bad = all.slice(40, 1_042);
    await damage(...bad);
    await at.json('keyring rotate');
    const ended = await at.run('keyring reseal --json');
    expect(ended.code).toBe(1);
    const lines = ended.stderr.split('\n').filter((line) => line.includes('bad record '));
    const named = bad.map((one) => `bad record ${one}: damaged: its row was changed`);
    expect(lines).toEqual(named);
    expect(ended.stderr).toMatch(
      /^standin: 1,002 bad records\. Restore their rows .* from a backup/m,
    );
    expect(JSON.parse(ended.stdout)).toMatchObject({ resealed: 48, bad: 1_002, is_complete: true });
    const verified = await at.run('verify --json');
    expect(verified.code).toBe(1);
    // Those that --json lists.
    const found = bad.slice(2).map((_, i) => ({ fingerprint: bad[i], reason: 'damaged' }));
    const counts = { records: 1_050, bad: 1_002, bad_records: found, next: null };
    expect(JSON.parse(verified.stdout)).toMatchObject(counts);
    expect(await at.failure('keyring retire 1')).toContain('1,002 records need key version 1');
    await damage(...bad);
    expect(await at.result('keyring reseal')).toMatchObject({ resealed: 1_002, bad: 0 });
    expect(await at.result('verify')).toMatchObject({ records: 1_050, bad: 0 });
  });

  test('verify on Ctrl-C says where to go on, and does', async () => {
    await tokenizeAll(service, values(3_000));
    const all = await fingerprints();
    await damage(all[0]!);
    const words = `bad record ${all[0]}`;
    const command = 'verify --rate 500 --json';
    const isFound = (stderr: string) => stderr.includes(words);
    const { code, stdout, stderr } = await at.interrupted(command, isFound);
    // What is bad counts more than that it was interrupted.
    expect([code, stderr]).toEqual([1, expect.stringContaining('standin: 1 bad record. ')]);
    const { records, next } = JSON.parse(stdout);
    expect(records).toBeLessThan(3_000);
    expect(next).toBe(all[records]);
    const id = next.toUpperCase().replace(/^.{8}/, '$&-');
    const rest = await at.result(`verify --from ${id}`);
    expect(rest).toMatchObject({ records: 3_000 - records });
  });

  test('reseal on Ctrl-C stops after a batch, exit code 130, and the next run does the rest', async () => {
    const tokens = await tokenizeAll(service, values(3_000));
    await at.json('keyring rotate');
    const hasBegun = async () => (await resealedWith(2)) > 0;
    const { code, stdout } = await at.interrupted('keyring reseal --rate 500 --json', hasBegun);
    expect(code).toBe(130);
    const { resealed, is_complete: isComplete } = JSON.parse(stdout);
    expect(isComplete).toBe(false);
    expect(resealed).toBe(await resealedWith(2));
    expect(resealed).toBeLessThan(3_000);
    expect(await at.result('keyring reseal')).toMatchObject({ resealed: 3_000 - resealed });
    expect(await detokenizeAll(service, tokens)).toEqual(values(3_000));
  });

  test('a rotation during a reseal ends it: no record gets a version that may be retired', async () => {
    await tokenizeAll(service, values(2_000));
    await at.json('keyring rotate');
    const { ended } = at.begin('keyring reseal --rate 100');
    await until(async () => (await resealedWith(2)) > 0, 'a record that was resealed');
    await at.json('keyring rotate');
    const { code, stderr } = await ended;
    expect(code).toBe(1);
    expect(stderr).toContain('version 2 is no longer the primary');
    const rest = await at.result('keyring reseal');
    expect(rest).toMatchObject({ key_version: 3, resealed: 2_000 });
  });
});
