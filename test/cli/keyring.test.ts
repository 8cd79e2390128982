import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { newKeyBytes } from '../../src/crypto/primitives.ts';
import {
  type Ended,
  newPlace,
  type Place,
  runCli,
  runJson,
  type Service,
  spawnCli,
  startService,
  until,
  usualKinds,
} from '../support/service.ts';
import { detokenizeAll, sql, tokenizeAll } from '../support/vault.ts';

let place: Place;
let service: Service;
afterEach(async () => {
  await service.stop();
  place.remove();
});

async function newVault(kind: 'embedded' | 'server'): Promise<void> {
  place = await newPlace(kind);
  service = await startService(place);
}

const json = (...args: string[]) => runJson(place, ...args);

/** Text on standard output of a command that ends well. */
async function text(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await runCli(args, place);
  expect(code, stderr).toBe(0);
  return stdout;
}

function values(count: number): string[] {
  return Array.from({ length: count }, (_, i) => `value ${i}`);
}

/** Fingerprints in order, as verify names them. */
async function fingerprints(): Promise<string[]> {
  const rows = await sql(
    place,
    'select token_fingerprint as f from standin.records order by token_fingerprint',
  );
  return rows.map(({ f }) => f.replaceAll('-', ''));
}

async function damage(...which: string[]): Promise<void> {
  await sql(
    place,
    'update standin.records set sealed = set_byte(sealed, 20, get_byte(sealed, 20) # 1) where token_fingerprint = any($1::uuid[])',
    [which],
  );
}

/** SIGINT to a command once its standard error has the words. */
async function interruptedAt(words: string, ...args: string[]): Promise<Ended> {
  const child = spawnCli(args, place);
  let stdout = '';
  let stderr = '';
  child.stdout!.on('data', (chunk) => {
    stdout += chunk;
  });
  child.stderr!.on('data', (chunk) => {
    stderr += chunk;
  });
  const code = new Promise<number>((resolve) => child.once('close', resolve));
  await until(() => stderr.includes(words), words);
  child.kill('SIGINT');
  return { code: await code, stdout, stderr };
}

describe.each(usualKinds())('the life of a key on the %s database', (kind) => {
  test('rotate, reseal, retire and rewrap say what they did and what is next', async () => {
    await newVault(kind);
    const tokens = await tokenizeAll(service, values(2_500));
    expect(await text('keyring', 'rotate')).toMatch(/^Version 2 of the dek key is the primary/);
    expect(await text('keyring', 'status')).toMatch(
      /^dek +1 +[0-9a-f]{16} +\S+ +2,500\ndek +2 +primary +[0-9a-f]{16} +\S+ +0$/m,
    );
    const early = await runCli(['keyring', 'retire', '1'], place);
    expect(early.code).toBe(1);
    expect(early.stderr).toMatch(/^standin: 2,500 records need key version 1; .*keyring reseal/);
    const { code, stdout, stderr } = await runCli(['keyring', 'reseal'], place);
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: '2,500 records resealed with key version 2.\n',
    });
    expect(stderr).toMatch(/^100 % {2}2,500 of 2,500 records, [\d,]+\/s, 0 s left\n$/);
    expect(await json('keyring', 'reseal')).toMatchObject({ resealed: 0, is_complete: true });
    const young = await runCli(['keyring', 'retire', '1'], place);
    expect([young.code, young.stderr]).toEqual([1, expect.stringMatching(/Try again in \d+ s/)]);
    await sql(place, "update standin.keyring set created_at = created_at - interval '1 hour'");
    expect(await text('keyring', 'retire', '1')).toMatch(/^Version 1 of the dek key is gone/);
    const deks = (await json('keyring', 'status')).filter((key: any) => key.purpose === 'dek');
    expect(deks).toMatchObject([{ version: 2, is_primary: true, records: 2_500 }]);
    expect(await text('verify')).toBe('2,500 records opened, 0 of them bad.\n');
    expect(await detokenizeAll(service, tokens)).toEqual(values(2_500));
  });

  test('rewrap: to a file or by settings, and not to the KEK that is there', async () => {
    await newVault(kind);
    const tokens = await tokenizeAll(service, values(10));
    const kekFile = place.env.KEK_FILE ?? join(place.env.DATA_DIR!, 'kek');
    const same = await runCli(['keyring', 'rewrap', '--new-kek-file', kekFile], place);
    expect(same.code).toBe(1);
    expect(same.stderr).toMatch(/already wraps all keys, .* Nothing was changed/);
    const none = join(place.folder, 'none');
    const missing = await runCli(['keyring', 'rewrap', '--new-kek-file', none], place);
    expect(missing.stderr).toContain(`cannot be read from ${none} (ENOENT)`);
    writeFileSync(join(place.folder, 'second'), newKeyBytes().toString('hex'), { mode: 0o600 });
    // Beside the KEK_FILE of the environment, which is of the KEK of before.
    const second = `KEK_COMMAND=cat ${join(place.folder, 'second')}\n`;
    writeFileSync(join(place.folder, 'second.env'), second);
    const args = ['keyring', 'rewrap', '--new-kek-env', 'second.env'];
    expect(await text(...args)).toMatch(/^4 keys now wrapped by .*[0-9a-f]{16}\. /);
    expect(await text(...args)).toMatch(/^Nothing changed: all keys are already wrapped/);
    place.env.KEK_FILE = join(place.folder, 'second');
    await service.stop();
    const { api_key: apiKey } = service;
    service = await startService(place);
    expect(await detokenizeAll(service, tokens, apiKey)).toEqual(values(10));
  });

  test('damaged records are named and left alone; the others are resealed', async () => {
    await newVault(kind);
    await tokenizeAll(service, values(50));
    const all = await fingerprints();
    await damage(all[3]!, all[40]!);
    await json('keyring', 'rotate');
    const ended = await runCli(['keyring', 'reseal', '--json'], place);
    expect(ended.code).toBe(1);
    expect(ended.stderr).toContain(`bad record ${all[3]}: damaged`);
    expect(ended.stderr).toContain(`bad record ${all[40]}: damaged`);
    expect(ended.stderr).toMatch(/^standin: 2 bad records\. Restore their rows .* from a backup/m);
    expect(JSON.parse(ended.stdout)).toMatchObject({ resealed: 48, bad: 2, is_complete: true });
    const verified = await runCli(['verify', '--json'], place);
    expect(verified.code).toBe(1);
    expect(JSON.parse(verified.stdout)).toMatchObject({
      records: 50,
      bad: 2,
      bad_records: [
        { fingerprint: all[3], reason: 'damaged' },
        { fingerprint: all[40], reason: 'damaged' },
      ],
      next: null,
    });
    const needed = await runCli(['keyring', 'retire', '1'], place);
    expect(needed.stderr).toContain('2 records need key version 1');
    // The same change again takes it back.
    await damage(all[3]!, all[40]!);
    expect(await json('keyring', 'reseal')).toMatchObject({ resealed: 2, bad: 0 });
    expect(await json('verify')).toMatchObject({ records: 50, bad: 0 });
  });

  test('verify on Ctrl-C says where to go on, and does', async () => {
    await newVault(kind);
    await tokenizeAll(service, values(3_000));
    const all = await fingerprints();
    await damage(all[0]!);
    const args = ['verify', '--rate', '500', '--json'];
    const first = await interruptedAt(`bad record ${all[0]}`, ...args);
    // What is bad counts more than that it was interrupted.
    expect(first.code).toBe(1);
    const { records, next } = JSON.parse(first.stdout);
    expect(records).toBeLessThan(3_000);
    expect(next).toBe(all[records]);
    expect(await json('verify', '--from', next)).toMatchObject({ records: 3_000 - records });
  });

  test('reseal on Ctrl-C stops after a portion, exit code 130, and the next run does the rest', async () => {
    await newVault(kind);
    const tokens = await tokenizeAll(service, values(3_000));
    await json('keyring', 'rotate');
    const child = spawnCli(['keyring', 'reseal', '--rate', '500', '--json'], place);
    let stdout = '';
    child.stdout!.on('data', (chunk) => {
      stdout += chunk;
    });
    const code = new Promise((resolve) => child.once('close', resolve));
    const done = async () => {
      const rows = await sql(
        place,
        'select count(*)::int as n from standin.records where key_version = 2',
      );
      return rows[0]!.n as number;
    };
    await until(async () => (await done()) > 0, 'a record that was resealed');
    child.kill('SIGINT');
    expect(await code).toBe(130);
    const { resealed, is_complete: isComplete } = JSON.parse(stdout);
    expect(isComplete).toBe(false);
    expect(resealed).toBe(await done());
    expect(resealed).toBeLessThan(3_000);
    expect(await json('keyring', 'reseal')).toMatchObject({ resealed: 3_000 - resealed });
    expect(await detokenizeAll(service, tokens)).toEqual(values(3_000));
  });

  test('a rotation during a reseal ends it: no record gets a version that may be retired', async () => {
    await newVault(kind);
    await tokenizeAll(service, values(2_000));
    await json('keyring', 'rotate');
    const running = runCli(['keyring', 'reseal', '--rate', '100'], place);
    const begun = 'select 1 from standin.records where key_version = 2 limit 1';
    await until(async () => (await sql(place, begun)).length > 0, 'a record that was resealed');
    await json('keyring', 'rotate');
    const { code, stderr } = await running;
    expect(code).toBe(1);
    expect(stderr).toContain('version 2 is no longer the primary');
    expect(await json('keyring', 'reseal')).toMatchObject({ key_version: 3, resealed: 2_000 });
  });
});
