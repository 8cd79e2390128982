import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readMigrations } from '../../src/store/schema.ts';
import {
  call,
  makeVault,
  newPlace,
  type Place,
  runCli,
  type Service,
  startService,
  usualKinds,
  usualPlace,
} from '../support/service.ts';

const { version } = JSON.parse(
  readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
);
const API_KEY = /^stk_[0-9A-Za-z]{34}$/;
const CLIENT_ID = /^standin_[0-9a-f]{24}$/;
const NO_CLIENT = 'standin_000000000000000000000000';

const COMMANDS = [
  'serve',
  'migrate',
  'client create',
  'client list',
  'client update',
  'client disable',
  'api-key issue',
  'api-key list',
  'api-key revoke',
  'policy check',
  'policy apply',
  'policy show',
  'policy diff',
  'policy schema',
  'forget',
  'keyring status',
  'keyring rotate',
  'keyring reseal',
  'keyring retire',
  'keyring rewrap',
  'verify',
  'openapi',
  'config',
  'doctor',
  'license verify',
  'completion bash',
  'completion zsh',
  'completion fish',
];

describe('help and usage', () => {
  let place: Place;
  beforeAll(async () => {
    place = await usualPlace();
  });
  afterAll(() => place.remove());

  test.each(COMMANDS)('%s --help explains it with an example and exits with 0', async (command) => {
    const { code, stdout, stderr } = await runCli([...command.split(' '), '--help'], place);
    expect(code).toBe(0);
    expect(stderr).toBe('');
    expect(stdout).toContain(`Usage: standin ${command}`);
    expect(stdout).toMatch(new RegExp(`Examples?:\\n(  .*\\n)*  .*standin ${command}`));
    expect(stdout.includes('--json')).toBe(
      !/^(serve|openapi|policy schema|completion \w+)$/.test(command),
    );
  });

  test('serve --help says where the settings are', async () => {
    const { stdout } = await runCli(['serve', '--help'], place);
    expect(stdout).toContain('environment variables, or lines of the file .env');
    expect(stdout).toContain('standin config lists all of them');
    const [, path] = /^What each does: (.*)$/m.exec(stdout)!;
    expect(readFileSync(path!, 'utf8')).toContain('| `DATABASE_URL` |');
  });

  test('--help lists every group, and every group lists its commands', async () => {
    const { stdout } = await runCli(['--help'], place);
    for (const name of new Set(COMMANDS.map((command) => command.split(' ')[0]!))) {
      expect(stdout).toMatch(new RegExp(`^  ${name} `, 'm'));
      const members = COMMANDS.filter((command) => command.startsWith(`${name} `));
      if (members.length === 0) continue;
      const group = await runCli([name, '--help'], place);
      for (const member of members)
        expect(group.stdout).toMatch(new RegExp(`^  ${member.split(' ')[1]} `, 'm'));
    }
  });

  test('help before a command is --help after it, at any depth', async () => {
    for (const words of [['client'], ['client', 'create'], ['serve']]) {
      const asked = await runCli(['help', ...words], place);
      expect(asked).toEqual(await runCli([...words, '--help'], place));
      expect(asked.stdout).toContain(`Usage: standin ${words.join(' ')} `);
      expect(asked.code).toBe(0);
    }
  });

  test('--version prints the version of package.json', async () => {
    const { code, stdout } = await runCli(['--version'], place);
    expect({ code, stdout }).toEqual({ code: 0, stdout: `${version}\n` });
  });

  test.each([
    [[], 'Usage: standin'],
    [['client'], 'Usage: standin client'],
    [['nonsense'], "unknown command 'nonsense'"],
    [['client', 'nonsense'], "unknown command 'nonsense'"],
    [['completion', 'tcsh'], "unknown command 'tcsh'"],
    [['nonsense', '--help'], "unknown command 'nonsense'"],
    [['client', 'nonsense', '-h'], "unknown command 'nonsense'"],
    [['help', 'nonsense'], "unknown command 'nonsense'"],
    [['help', 'client', 'creat'], '(Did you mean create?)'],
    [['clinet'], '(Did you mean client?)'],
    [['client', 'creat'], '(Did you mean create?)'],
    [['client', 'list', '--jsn'], '(Did you mean --json?)'],
    [['serve', 'extra'], "too many arguments for 'serve'"],
    [['serve', '--json'], "unknown option '--json'"],
    [['migrate', '--force'], "unknown option '--force'"],
    [['client', 'create'], "required option '--name <name>' not specified"],
    [['client', 'create', '--name', ' '], 'It must be 1 to 200 characters'],
    [['client', 'create', '--name', 'x'.repeat(201)], 'It must be 1 to 200 characters'],
    [['client', 'create', '--name', 'x', '--rate-limit', '-1'], '0 to 1000000'],
    [['client', 'create', '--name', 'x', '--rate-limit', '1000001'], '0 to 1000000'],
    [['client', 'create', '--name', 'x', '--rate-limit', 'none'], '0 to 1000000'],
    [['client', 'create', '--name', 'x', '--token-mode', 'odd'], 'deterministic or random'],
    [['client', 'create', '--name', 'x', '--time-to-live', '90'], 'a time like 30m, 12h or 90d'],
    [['client', 'create', '--name', 'x', '--time-to-live', '0d'], 'a time like 30m, 12h or 90d'],
    [['client', 'create', '--name', 'x', '--time-to-live', 'default'], 'a time like 30m'],
    [['client', 'update', NO_CLIENT, '--time-to-live', '10001d'], 'up to 10000d'],
    [['forget'], 'name tokens, or a file of them'],
    [['forget', 'a_tok', '--file', '-'], 'name tokens, or a file of them'],
    [['client', 'create', '--name', 'x', '--can', ''], 'some of tokenize, detokenize and lookup'],
    [
      ['client', 'create', '--name', 'x', '--can', 'tokenize,all'],
      'some of tokenize, detokenize and lookup',
    ],
    [
      ['client', 'create', '--name', 'x', '--can', 'tokenize,tokenize'],
      'some of tokenize, detokenize and lookup',
    ],
    [['client', 'update', NO_CLIENT, '--detokenize-limit', 'x'], 'a number of requests a second'],
    [['client', 'update', NO_CLIENT, '--unknown-token-limit', '-1'], 'a number of'],
    [['client', 'update'], "missing required argument 'client'"],
    [['client', 'update', NO_CLIENT], 'name what to change'],
    [['client', 'update', NO_CLIENT, '--json'], 'name what to change'],
    [['client', 'disable'], "missing required argument 'client'"],
    [['api-key', 'issue'], "required option '--client <client>' not specified"],
    [['api-key', 'issue', '--client', NO_CLIENT, '--expires', 'soon'], '30m, 12h or 90d'],
    [['api-key', 'issue', '--client', NO_CLIENT, '--expires', '2001-01-01'], 'in the future'],
    [['api-key', 'issue', '--client', NO_CLIENT, '--expires', '0d'], 'in the future'],
    [['api-key', 'revoke'], "missing required argument 'api_key_id'"],
    [['keyring', 'retire'], "missing required argument 'version'"],
    [['keyring', 'retire', '0'], 'It must be a whole number'],
    [['keyring', 'reseal', '--rate', '0'], 'a whole number of records a second'],
    [['keyring', 'rewrap'], 'either --new-kek-file or --new-kek-env'],
    [['keyring', 'rewrap', '--new-kek-file', 'a', '--new-kek-env', 'b'], 'either'],
    [['verify', '--from', '12'], 'It must be 32 hex digits'],
  ])('standin %j is wrong usage: exit code 2, and what is wrong', async (args, message) => {
    const { code, stdout, stderr } = await runCli(args, place);
    expect(stderr).toContain(message);
    expect(stdout).toBe('');
    expect(code).toBe(2);
  });
});

describe.each(usualKinds())('admin commands on the %s database', (kind) => {
  describe.each(['stopped', 'running'] as const)('with the service %s', (state) => {
    let place: Place;
    let service: Service | undefined;
    beforeAll(async () => {
      place = await newPlace(kind);
      if (state === 'running') service = await startService(place);
    });
    afterAll(async () => {
      await service?.stop();
      place.remove();
    });

    /** The one JSON document that a command prints. */
    async function json(...args: string[]): Promise<any> {
      const { code, stdout, stderr } = await runCli([...args, '--json'], place);
      expect(stderr).toBe('');
      expect(code).toBe(0);
      expect(stdout).toMatch(/^\S.*\n$/);
      return JSON.parse(stdout);
    }

    async function text(...args: string[]): Promise<string> {
      const { code, stdout, stderr } = await runCli(args, place);
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      return stdout;
    }

    async function failure(...args: string[]): Promise<string> {
      const { code, stdout, stderr } = await runCli(args, place);
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
      return stderr;
    }

    test('migrate applies what is missing, and the second time nothing', async () => {
      const applied = state === 'running' ? [] : readMigrations().map(({ name }) => name);
      expect(await json('migrate')).toMatchObject({ applied });
      expect(await json('migrate')).toMatchObject({ applied: [] });
      expect(await text('migrate')).toBe('The schema is up to date.\n');
    });

    test('client create --json prints client_id and api_key, and nothing else', async () => {
      const made = await json('client', 'create', '--name', 'billing');
      expect(made).toEqual({
        client_id: expect.stringMatching(CLIENT_ID),
        api_key: expect.stringMatching(API_KEY),
      });
      if (service !== undefined) {
        const { status, body } = await call(service, 'tokenize', { a: 'Ann' }, made.api_key);
        expect({ status, client_id: body.client_id }).toEqual({
          status: 200,
          client_id: made.client_id,
        });
      }
    });

    test('client list shows every client as it was made', async () => {
      const { client_id: clientId } = await json(
        ...['client', 'create', '--name', 'crm', '--rate-limit', '0.5', '--token-mode', 'random'],
        ...['--can', 'tokenize', '--detokenize-limit', '7', '--unknown-token-limit', '0'],
      );
      const clients = await json('client', 'list');
      expect(clients.find((one: any) => one.client_id === clientId)).toEqual({
        client_id: clientId,
        name: 'crm',
        rate_limit: 0.5,
        token_mode: 'random',
        can_tokenize: true,
        can_detokenize: false,
        can_lookup: false,
        detokenize_limit: 7,
        lookup_limit: null,
        unknown_token_limit: 0,
        time_to_live_s: null,
        space: '',
        subject: null,
        created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
        disabled_at: null,
        last_used_at: null,
      });
      const row = (await text('client', 'list'))
        .split('\n')
        .find((line) => line.startsWith(clientId));
      expect(row).toMatch(
        / crm +tokenize +0\.5\/s +7\/s +default +none +random +for ever +- +\S+Z +- +-$/,
      );
    });

    test('a time to live is as it was written, in seconds, and can be taken back', async () => {
      const { client_id: clientId } = await json(
        'client',
        'create',
        '--name',
        'x',
        '--time-to-live',
        '90d',
      );
      const update = (...args: string[]) => json('client', 'update', clientId, ...args);
      expect(await update('--name', 'y')).toMatchObject({ time_to_live_s: 90 * 86_400 });
      expect(await text('client', 'list')).toMatch(
        new RegExp(`${clientId} .* 90d +- +\\S+Z +- +-$`, 'm'),
      );
      expect(await update('--time-to-live', '36h')).toMatchObject({ time_to_live_s: 129_600 });
      expect(await text('client', 'update', clientId, '--time-to-live', '30m')).toMatch(
        /time to live 30m\n$/,
      );
      expect(await update('--time-to-live', 'none')).toMatchObject({ time_to_live_s: null });
      expect(await text('client', 'update', clientId, '--name', 'z')).toMatch(/live for ever\n$/);
    });

    test('client update changes what is named and nothing else', async () => {
      const { client_id: clientId } = await json(
        ...['client', 'create', '--name', 'old', '--rate-limit', '5', '--token-mode', 'random'],
      );
      expect(await json('client', 'update', clientId, '--name', 'new')).toMatchObject({
        name: 'new',
        rate_limit: 5,
        token_mode: 'random',
        disabled_at: null,
      });
      expect(await json('client', 'update', clientId, '--rate-limit', 'default')).toMatchObject({
        name: 'new',
        rate_limit: null,
        token_mode: 'random',
      });
      expect(
        await json('client', 'update', clientId, '--rate-limit', '0', '--token-mode=deterministic'),
      ).toMatchObject({ name: 'new', rate_limit: 0, token_mode: 'deterministic' });
    });

    test('client update changes what a client may do, and its own limits', async () => {
      const { client_id: clientId } = await json('client', 'create', '--name', 'may');
      const update = (...changes: string[]) => json('client', 'update', clientId, ...changes);
      expect(await update('--can', 'detokenize', '--detokenize-limit=2')).toMatchObject({
        can_tokenize: false,
        can_detokenize: true,
        detokenize_limit: 2,
        unknown_token_limit: null,
      });
      expect(
        await update('--can=detokenize,tokenize', '--unknown-token-limit', '0.5'),
      ).toMatchObject({
        can_tokenize: true,
        can_detokenize: true,
        detokenize_limit: 2,
        unknown_token_limit: 0.5,
      });
      const defaults = ['--detokenize-limit=default', '--unknown-token-limit=default'];
      expect(await text('client', 'update', clientId, ...defaults)).toBe(
        `${clientId}  may: enabled, can tokenize,detokenize, rate limit default, detokenize limit default, unknown token limit default, lookup limit default, deterministic tokens, time to live for ever\n`,
      );
    });

    test('client disable is undone by client update --enable', async () => {
      const { client_id: clientId } = await json('client', 'create', '--name', 'gone');
      const disabled = await json('client', 'disable', clientId);
      expect(disabled.disabled_at).toMatch(/Z$/);
      expect(await json('client', 'disable', clientId)).toEqual(disabled);
      expect(await failure('api-key', 'issue', '--client', clientId)).toBe(
        `standin: Client ${clientId} is disabled. Enable it first: standin client update ${clientId} --enable\n`,
      );
      expect((await json('client', 'update', clientId, '--enable')).disabled_at).toBeNull();
    });

    test('API keys are issued beside each other, listed without the key, and revoked by id', async () => {
      const { client_id: clientId, api_key: apiKey } = await json(
        'client',
        'create',
        '--name',
        'keys',
      );
      const issued = await json('api-key', 'issue', '--client', clientId, '--expires', '90d');
      expect(issued).toEqual({
        api_key_id: expect.stringMatching(/^key_[0-9a-f]{12}$/),
        client_id: clientId,
        api_key: expect.stringMatching(API_KEY),
        expires_at: expect.stringMatching(/Z$/),
      });
      expect(issued.api_key).not.toBe(apiKey);
      const printed = await text('api-key', 'list', '--client', clientId);
      expect(printed).not.toContain('stk_');
      expect(printed.match(/ live /g)).toHaveLength(2);
      const revoked = await json('api-key', 'revoke', issued.api_key_id);
      expect(revoked.revoked_at).toMatch(/Z$/);
      expect(await json('api-key', 'revoke', issued.api_key_id)).toEqual(revoked);
      expect(await json('api-key', 'list', '--client', clientId)).toEqual([
        expect.objectContaining({ client_id: clientId, expires_at: null, revoked_at: null }),
        { ...revoked, last_used_at: null },
      ]);
      expect(await text('api-key', 'list', '--client', clientId)).toMatch(
        new RegExp(`^${issued.api_key_id} .* revoked `, 'm'),
      );
    });

    test('keyring status lists the four keys of a new vault, wrapped by one KEK', async () => {
      const keys = await json('keyring', 'status');
      expect(keys.map((key: any) => key.purpose)).toEqual([
        'api-key',
        'dek',
        'fingerprint',
        'token',
      ]);
      for (const key of keys) {
        expect(key).toEqual({
          purpose: expect.any(String),
          version: 1,
          is_primary: true,
          kek_id: keys[0].kek_id,
          created_at: expect.stringMatching(/Z$/),
          records: key.purpose === 'dek' ? expect.any(Number) : null,
          is_estimate: false,
          closed_at: null,
        });
      }
      expect(keys[0].kek_id).toMatch(/^[0-9a-f]{16}$/);
    });

    test('doctor finds nothing wrong', async () => {
      const findings = await json('doctor');
      expect(findings.map((one: any) => [one.check, one.status])).toEqual([
        ['configuration', 'ok'],
        ['database', 'ok'],
        ['schema', 'ok'],
        ['rights', 'ok'],
        ['owners', 'ok'],
        ['key-encryption key', 'ok'],
        ['records', 'ok'],
        ['token suffix', 'ok'],
        ['clients', 'ok'],
        ['policy', 'ok'],
      ]);
    });

    test.each([
      [['client', 'update', NO_CLIENT, '--name', 'x'], 'client list'],
      [['client', 'disable', NO_CLIENT], 'client list'],
      [['api-key', 'issue', '--client', NO_CLIENT], 'client list'],
      [['api-key', 'list', '--client', NO_CLIENT], 'client list'],
      [['api-key', 'revoke', 'key_000000000000'], 'api-key list'],
    ])('%j names what there is none of and how to find it', async (args, remedy) => {
      expect(await failure(...args)).toMatch(
        new RegExp(`^standin: There is no .*_0+\\. List them with: standin ${remedy}\n$`),
      );
    });
  });
});

test('client create begins the client_id with CLIENT_PREFIX', async () => {
  const place = await usualPlace();
  await makeVault(place);
  const args = ['client', 'create', '--name', 'x', '--json'];
  const { stdout } = await runCli(args, place, { CLIENT_PREFIX: 'acme' });
  expect(JSON.parse(stdout).client_id).toMatch(/^acme_[0-9a-f]{24}$/);
  place.remove();
});
