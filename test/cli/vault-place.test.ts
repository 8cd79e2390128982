import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import {
  kinds,
  makeVault,
  newBlankPlace,
  newPlace,
  type Place,
  runCli,
} from '../support/service.ts';

/** Only `serve` and `migrate` make a vault: another command in a wrong folder would hide the right one. */
let place: Place;
afterEach(() => place.remove());

const MAKE = 'To make a vault, run: standin serve, or standin migrate';

/** Every command that opens the vault, but doctor. */
const COMMANDS = [
  'client list',
  'client create --name shop',
  'client update shop --can tokenize',
  'client disable shop',
  'api-key list',
  'api-key issue --client shop',
  'api-key revoke key_0123456789ab',
  'forget --yes urb@waovwde.dhq_tok',
  'keyring status',
  'keyring rotate',
  'keyring reseal',
  'keyring retire 1',
  'keyring rewrap --new-kek-file kek',
  'verify',
].map((line) => line.split(' '));

describe('in a folder without a vault', () => {
  test.each(COMMANDS)('standin %s %s says where it looked, and makes nothing', async (...words) => {
    place = await newBlankPlace();
    const { code, stdout, stderr } = await runCli(words, place, { DATA_DIR: './data' });
    expect({ code, stdout, stderr }).toEqual({
      code: 1,
      stdout: '',
      stderr: `standin: There is no vault in ./data (looked in ${place.folder}/data). Go to the folder of the service, or set DATA_DIR. ${MAKE}\n`,
    });
    expect(readdirSync(place.folder)).toEqual([]);
  });

  test('doctor says the same, and makes nothing either', async () => {
    place = await newBlankPlace();
    const { code, stdout } = await runCli(['doctor'], place);
    expect(stdout).toContain(`PROBLEM  database: There is no vault in ${place.env.DATA_DIR}. `);
    expect(code).toBe(1);
    expect(existsSync(place.env.DATA_DIR!)).toBe(false);
  });

  test('a folder with other files is left as it is', async () => {
    place = await newBlankPlace();
    mkdirSync(place.env.DATA_DIR!, { mode: 0o755 });
    writeFileSync(join(place.env.DATA_DIR!, 'notes'), 'mine');
    const { code, stderr } = await runCli(['client', 'list'], place);
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining(MAKE) });
    expect(readdirSync(place.env.DATA_DIR!)).toEqual(['notes']);
  });

  test('migrate makes one, and then the other commands find it', async () => {
    place = await newBlankPlace();
    await makeVault(place);
    const { code, stdout } = await runCli(['client', 'list', '--json'], place);
    expect({ code, stdout }).toEqual({ code: 0, stdout: '[]\n' });
  });
});

describe.runIf(kinds().includes('server'))('in a database without a vault', () => {
  test('a command names the database, but no user and no password, and makes nothing', async () => {
    place = await newPlace('server');
    const url = new URL(place.env.DATABASE_URL!);
    const name = `"${url.pathname.slice(1)}" of ${url.host}`;
    for (const words of [['client', 'list'], ['forget', '--yes', 'a_tok'], ['verify']]) {
      const { code, stdout, stderr } = await runCli(words, place);
      expect({ code, stdout, stderr }).toEqual({
        code: 1,
        stdout: '',
        stderr: `standin: There is no vault in the database ${name}. Check DATABASE_URL. ${MAKE}\n`,
      });
    }
    const doctor = await runCli(['doctor'], place);
    expect(doctor.code).toBe(1);
    expect(doctor.stdout).toContain(`PROBLEM  schema: There is no vault in the database ${name}. `);
  });
});
