import { existsSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { SETTINGS } from '../../src/config/settings.ts';
import { misspeltGuards, unknownSettings } from '../../src/config/unknown.ts';
import { placeFor } from '../support/command.ts';
import { newBlankPlace, startService } from '../support/service.ts';

describe('standin config', () => {
  const at = placeFor('test', newBlankPlace);

  test('prints every setting, its value and where it is from, and opens no vault', async () => {
    at.write('.env', 'RATE_LIMIT=5\nLOG_LEVEL=warn\nVALUES_LIMIT=7\n');
    const env = { LOG_LEVEL: 'debug', VALUES_LIMIT: '' };
    const stdout = await at.text('config', env);
    const rows = stdout.split('\n').slice(0, -1);
    expect(rows[0]).toMatch(/^SETTING +VALUE +FROM$/);
    expect(rows.slice(1).map((row) => row.split(' ')[0])).toEqual(Object.keys(SETTINGS));
    for (const row of [
      /^RATE_LIMIT +5 +\.env$/m,
      /^LOG_LEVEL +debug +environment$/m,
      /^VALUES_LIMIT +10000 +default$/m,
      /^DATABASE_URL +- +-$/m,
    ])
      expect(stdout).toMatch(row);
    expect(existsSync(at.place.env.DATA_DIR!)).toBe(false);
    const limit = { setting: 'RATE_LIMIT', value: '5', from: '.env' };
    expect(await at.json('config', env)).toContainEqual(limit);
  });

  test('shows no secret, wherever it is from', async () => {
    const secret = 'hunter2';
    const env = {
      DATABASE_URL: `postgres://u:${secret}@db/vault`,
      REDIS_URL: `redis://:${secret}@cache`,
      KEK_COMMAND: `echo ${secret}`,
      OPS_TOKEN: `${secret}0123456789abcdef`,
    };
    at.write('.env', `VAULT_TOKEN=${secret}\n`);
    const stdout = await at.text('config', env);
    for (const name of Object.keys(env))
      expect(stdout).toMatch(new RegExp(`^${name} +\\(not shown\\) +environment$`, 'm'));
    expect(stdout).toMatch(/^VAULT_TOKEN +\(not shown\) +\.env$/m);
    expect(stdout + (await at.text('config --json', env))).not.toContain(secret);
  });

  test('prints settings that a start refuses too, and ends with 1 as a start does', async () => {
    const { stdout, ...end } = await at.run('config', { PORT: 'x' });
    expect(stdout).toMatch(/^PORT +x +environment$/m);
    const stderr = 'standin: PORT is "x"; it must be 0 to 65535.\n';
    expect(end).toEqual({ code: 1, stderr });
  });
});

describe('a name that looks like a setting and is none', () => {
  const at = placeFor('test');

  test('is named by config, by doctor and in the log of a start', async () => {
    at.write('.env', 'RATE_LIMITS=3\n');
    const env = { DATA_DIRS: 'x', STANDIN_FOO: 'y' };
    const words = [
      'RATE_LIMITS is not a setting. Did you mean RATE_LIMIT?',
      'DATA_DIRS is not a setting. Did you mean DATA_DIR?',
      'STANDIN_FOO is not a setting. List the settings with: standin config',
    ];
    const { code, stderr } = await at.run('config', env);
    expect(code).toBe(0);
    for (const one of words) expect(stderr).toContain(`standin: ${one}\n`);
    const doctor = await at.run('doctor', env);
    expect(doctor.stdout).toContain(`warning  configuration: ${words.join(' ')}\n`);
    const service = await startService(at.place, env);
    const lines = service.output().split('\n');
    const warned = lines.filter((line) => line.includes('"level":"warn"'));
    const told = warned.map((line) => JSON.parse(line).msg);
    expect(told.slice(0, words.length)).toEqual(words);
    await service.stop();
  });

  test.each(['serve', 'config'])(
    'that is nearly a setting that protects ends %s, also in .env',
    async (command) => {
      at.write('.env', 'TLS_CLIENT_CA_FIEL=hunter2\n');
      const words =
        'standin: TLS_CLIENT_CA_FIEL is not a setting. Did you mean TLS_CLIENT_CA_FILE, which protects? Correct or unset it.\n';
      const { code, stderr } = await at.run(command);
      expect([code, stderr]).toEqual([1, words]);
    },
  );
});

describe('a name of the environment', () => {
  test.each([
    ['AUDIT_REQIRED', 'AUDIT_REQUIRED, which protects?'],
    ['AUDIT_REQURIED', 'AUDIT_REQUIRED, which protects?'],
    ['AUDITREQUIRE', 'AUDIT_REQUIRED, which protects?'],
    ['tls_client_ca_file', 'TLS_CLIENT_CA_FILE, which protects?'],
    ['KEK_COMAND', 'KEK_COMMAND, which protects?'],
    ['OPS_TOEKNS', 'OPS_TOKEN, which protects?'],
    ['ADMINTOKENS', 'ADMIN_TOKEN, which protects?'],
    ['JWT_TYPES', 'JWT_TYPE, which protects?'],
    ['UNKNOWN_TOKENS_LIMITS', 'UNKNOWN_TOKEN_LIMIT, which protects?'],
    ['RATELIMIT', 'RATE_LIMIT?'],
    ['PROT', 'PORT?'],
    ['LOG_LEVLE', 'LOG_LEVEL?'],
    ['REDIS_URI', 'REDIS_URL?'],
    ['rate_limit', 'RATE_LIMIT?'],
    ['HOSTS', 'HOST?'],
  ])('%s is taken for %s', (name, meant) => {
    const found = [...unknownSettings({ [name]: 'x' }), ...misspeltGuards({ [name]: 'x' })];
    expect(found).toEqual([
      expect.stringContaining(`${name} is not a setting. Did you mean ${meant}`),
    ]);
  });

  test('is taken for none where other programs use it', () => {
    const others = {
      ...{ PATH: 'x', HOME: 'x', HOSTNAME: 'x', AWS_PROFILE: 'x', LOG_DIR: 'x', NODE_ENV: 'x' },
      ...{ STANDIN_PORT: 'tcp://10.0.0.1:80', STANDIN_SERVICE_HOST: '10.0.0.1' },
      ...{ STANDIN_PORT_8080_TCP_ADDR: '10.0.0.1', SSL_CERT_FILE: 'x', APP_PORT: '1' },
      // One letter more would be one too many of these.
      ...{ LOGS_LEVELS: 'x', AUDITREQUIR: 'x' },
    };
    expect([unknownSettings(others), misspeltGuards(others)]).toEqual([[], []]);
  });
});
