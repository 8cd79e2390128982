import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { blocksUnder } from '../support/docs.ts';
import { newFolder } from '../support/folder.ts';
import { call, newPlace, type Place, runCli, startService } from '../support/service.ts';

const MODULE = '/usr/lib/softhsm/libsofthsm2.so';
const hasPrograms = ['softhsm2-util', 'pkcs11-tool', 'openssl'].every(
  (name) => spawnSync('sh', ['-c', `command -v ${name}`]).status === 0,
);
const PIN = '87654321';

/** The commands and the settings of docs/operating/kek.md, run as they are. */
describe.skipIf(!hasPrograms || !existsSync(MODULE))('a KEK that SoftHSM decrypts', () => {
  const folder = newFolder('hsm');
  let place: Place;
  let env: Record<string, string>;
  beforeAll(async () => {
    const [commands, settings] = blocksUnder('docs/operating/kek.md', 'HSM (PKCS#11)').map((text) =>
      text.replaceAll('/etc/standin', folder),
    );
    mkdirSync(join(folder, 'tokens'));
    const configuration = join(folder, 'softhsm2.conf');
    writeFileSync(configuration, `directories.tokendir = ${folder}/tokens\n`);
    writeFileSync(join(folder, 'hsm.pin'), `${PIN}\n`, { mode: 0o600 });
    const surroundings = { ...process.env, SOFTHSM2_CONF: configuration };
    const token = ['--free', '--label', 'standin', '--so-pin', '12345678', '--pin', PIN];
    execFileSync('softhsm2-util', ['--init-token', ...token], { env: surroundings });
    const script = ['-e', '-c', commands!];
    execFileSync('sh', script, { env: surroundings, stdio: ['ignore', 'ignore', 'pipe'] });
    env = { SOFTHSM2_CONF: configuration, ...(parseEnv(settings!) as Record<string, string>) };
    place = await newPlace('embedded');
  });
  afterAll(() => place.remove());

  const doctor = async () => (await runCli(['doctor'], place, env)).stdout;

  test('opens the vault at each start; the file is encrypted', async () => {
    const first = await startService(place, env);
    const token = (await call(first, 'tokenize', { name: 'Ann' })).body.data.name;
    await first.stop();
    const again = await startService(place, env);
    const answer = await call(again, 'detokenize', { name: token }, first.api_key);
    expect(answer.body.data).toEqual({ name: 'Ann' });
    await again.stop();
    expect(await doctor()).toMatch(
      /^ok +key-encryption key: the output of KEK_COMMAND .* opens all/m,
    );
    const encrypted = readFileSync(join(folder, 'kek.encrypted'));
    expect(encrypted).toHaveLength(3_072 / 8);
  });

  test('the private key can never leave the HSM', () => {
    const login = ['--module', MODULE, '--token-label', 'standin', '--login', '--pin', PIN];
    const objects = execFileSync('pkcs11-tool', [...login, '-O', '--type', 'privkey'], {
      env: { ...process.env, SOFTHSM2_CONF: env.SOFTHSM2_CONF },
      encoding: 'utf8',
    });
    expect(objects).toMatch(/Access: +sensitive, always sensitive, never extractable, local/);
  });

  test.each([
    ['a wrong PIN', () => writeFileSync(join(folder, 'hsm.pin'), '1111\n')],
    ['a token that is gone', () => rmSync(join(folder, 'tokens'), { recursive: true })],
  ])('%s is a problem that says nothing secret', async (_, spoil) => {
    spoil();
    const found = await doctor();
    expect(found).toMatch(
      /^PROBLEM +key-encryption key: KEK_COMMAND ended with exit code \d+\. Run/m,
    );
    expect(found).not.toMatch(/1111|87654321/);
  });
});
