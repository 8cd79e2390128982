import { beforeAll, describe, expect, test } from 'vitest';
import { placeFor, withVault } from '../support/command.ts';
import { start } from '../support/running.ts';
import { CLI, call, createClient, environmentOf, startService, until } from '../support/service.ts';
import { COLOURS, hasTerminal, runOnTerminal, serveOnTerminal } from '../support/terminal.ts';
import { sql } from '../support/vault.ts';

/** A title, a cleared screen, a forged row, text from right to left, and a C1 escape. */
const EVIL =
  'a\u001b]0;pwned\u0007\u001b[2J\nforged  row\r\u202egnp.exe\u2066\u009b31m\u2028z\u007f';
const SAFE =
  'a\\u001b]0;pwned\\u0007\\u001b[2J\\u000aforged  row\\u000d\\u202egnp.exe\\u2066\\u009b31m\\u2028z\\u007f';
/** Characters that no terminal may get. Line ends are ours. */
const RAW = /(?!\n)[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/u;
const plain = (text: string) => text.replaceAll(COLOURS, '');

describe('lists', () => {
  const at = placeFor('block', undefined, withVault);
  const shown = (command: string, columns?: number) =>
    plain(runOnTerminal(command.split(' '), at.place, {}, columns));

  test('an empty list says what to do, and is an empty array with --json', async () => {
    for (const [command, words] of [
      ['client list', 'No clients yet. Make one with: standin client create --name NAME\n'],
      ['api-key list', 'No API keys yet. Issue one with: standin api-key issue --client NAME\n'],
      ['client list --json', '[]\n'],
    ] as const)
      expect(await at.text(command)).toBe(words);
  });

  describe.runIf(hasTerminal)('on a terminal', () => {
    beforeAll(async () => {
      for (const options of ['shop', 'crm --can tokenize --rate-limit=5'])
        await at.json(`client create --name ${options}`);
    });

    test.each([50, 110])('no line of a list is wider than %d columns', (columns) => {
      for (const command of ['client list', 'api-key list', 'keyring status']) {
        const lines = shown(command, columns).split('\n');
        expect(lines.length).toBeGreaterThan(3);
        for (const line of lines) expect(line.length, line).toBeLessThanOrEqual(columns);
      }
    });

    test.each([50, 80])('doctor breaks lines of %d columns between words', async (columns) => {
      const text = shown('doctor', columns);
      expect(text).toMatch(/^.{42,50}$/m);
      for (const line of text.split('\n').filter((one) => one.length > columns))
        expect(line.trim()).not.toContain(' ');
      expect(text.replaceAll(/\n {9}/g, ' ')).toBe(await at.text('doctor'));
      expect(text).toMatch(/\n {9}\S/);
    });

    test('a list that does not fit is a block for each row, without what is usual', () => {
      const [shop, crm] = shown('client list', 80).split('\n\n');
      expect(shop).toMatch(
        /^CLIENT {3}standin_\w{24}\nNAME {5}shop\nCAN {6}tokenize,detokenize\nTOKENS {3}deterministic\nCREATED {2}\S+Z$/,
      );
      expect(crm).toMatch(/\nCAN {9}tokenize\nRATE LIMIT {2}5\/s\n/);
    });

    test('a list that fits is a table, as in a pipe', async () => {
      const stdout = await at.text('client list');
      expect(stdout).not.toMatch(COLOURS);
      expect(shown('client list', 250)).toBe(stdout);
    });

    test.each(['doctor', 'client list', 'config'])(
      '%s has colour, not with NO_COLOR',
      (command) => {
        const args = command.split(' ');
        expect(runOnTerminal(args, at.place)).toMatch(COLOURS);
        expect(runOnTerminal(args, at.place, { NO_COLOR: '1' })).not.toMatch(COLOURS);
      },
    );

    test('the log has one line a request', async () => {
      const service = await serveOnTerminal(at.place, { LOG_FORMAT: 'auto' });
      const { api_key: apiKey, client_id: clientId } = await createClient(at.place);
      const { url } = service;
      const ask = (data: unknown) => call({ url, api_key: apiKey }, 'tokenize', data);
      const one = await ask({ a: 'Ann Lee' });
      await ask({ a: 'Ann Lee', b: 'Bob Ray' });
      await ask({ a: 1 });
      await until(() => / 400 {2}/.test(plain(service.output())), 'the third line');
      await service.stop();
      for (const status of ['[32m200', '[33m400']) expect(service.output()).toContain(status);
      const lines = plain(service.output()).split('\n');
      const start = '\\[\\d\\d:\\d\\d:\\d\\d\\] POST /api/v1/tokenize  ';
      const expected = [
        `200  1 value  [\\d.]+ ms  ${clientId} ${one.body.request_id}`,
        `200  2 values  [\\d.]+ ms  ${clientId} [0-9a-f-]{36}`,
        `400  0 values  [\\d.]+ ms  ${clientId} [0-9a-f-]{36}`,
      ];
      expect(lines.filter((line) => line.includes('POST'))).toEqual(
        expected.map((line) => expect.stringMatching(new RegExp(`^${start}${line}$`))),
      );
      expect(lines.join('\n')).not.toMatch(/^ +(route|status|values):/m);
    });
  });
});

describe('C32: control and bidi characters', () => {
  const at = placeFor('block', undefined, async (made) => {
    await withVault(made);
    await createClient(made.place);
  });

  const codePoints = '0009 000a 001b 007f 009b 061c 200f 202e 2029 2066'.split(' ');
  test('in the name of a client are refused in words by create and update', async () => {
    const before = await at.json('client list');
    const [{ client_id: id }] = before;
    for (const [i, codePoint] of codePoints.entries()) {
      const name = `x${String.fromCharCode(Number.parseInt(codePoint, 16))}y`;
      const words = i % 2 === 0 ? ['create'] : ['update', id];
      const stderr = await at.failure(['client', ...words, '--name', name]);
      expect(stderr).toContain(
        `standin: The name of a client cannot contain U+${codePoint.toUpperCase()}`,
      );
      expect(stderr).not.toMatch(RAW);
    }
    expect(await at.json('client list')).toEqual(before);
  });

  test.each(['subject', 'space'])('in its %s are refused in words, too', async (setting) => {
    const args = ['client', 'create', '--name', 'other', `--${setting}`, 'x\ty'];
    const words = `The ${setting} of a client cannot contain U+0009`;
    expect(await at.failure(args)).toContain(words);
  });

  test('names of every script, with the joiners that they need, are taken', async () => {
    for (const name of ['Müller & Söhne', '李小龍', 'می‌خواهم', 'עברית', '👩‍👩‍👧'])
      await at.json(['client', 'create', '--name', name]);
  });

  test.each([
    ['--x', [`--x${EVIL}`]],
    ['an id', ['client', 'disable', EVIL]],
    ['a command', ['client', EVIL]],
  ])('in %s that a command refuses are told escaped', async (_, args) => {
    const { code, stderr } = await at.run(args);
    expect(code).not.toBe(0);
    expect(stderr).toContain('\\u001b[2J');
    expect(stderr).not.toMatch(RAW);
  });

  describe('in a name that somebody wrote into the database', () => {
    let id: string;
    beforeAll(async () => {
      ({ client_id: id } = await createClient(at.place));
      const renaming = 'update standin.clients set name = $1 where client_id = $2';
      await sql(at.place, renaming, [EVIL, id]);
    });
    const commands = () => [
      ...['client list', 'client list --json', `client update ${id} --enable`],
      ...[`client update ${id} --enable --json`, `client disable ${id}`],
      ...[`client update ${id} --enable`, 'doctor'],
    ];

    test('reach nothing that a command writes, and forge no row', async () => {
      for (const command of commands()) {
        const stdout = await at.text(command);
        expect(stdout, command).not.toMatch(RAW);
        if (command !== 'doctor' && !command.endsWith('--json')) expect(stdout).toContain(SAFE);
        expect(stdout).not.toMatch(/^forged/m);
      }
      const listed = await at.json('client list');
      expect(listed.find((client: any) => client.client_id === id).name).toBe(EVIL);
    });

    test.runIf(hasTerminal)('reach no terminal', () => {
      for (const command of ['client list', 'doctor'])
        expect(plain(runOnTerminal(command.split(' '), at.place))).not.toMatch(RAW);
    });

    test('stay a name: the client goes on, and can be given another name', async () => {
      await at.text(`client update ${id} --rate-limit 5`);
      expect(await at.text(`client update ${id} --name billing`)).toContain('billing');
    });
  });

  describe('in an id that somebody wrote into the database', () => {
    const ID = 'standin_\u001b[2J\u202e\u009b';
    let apiKey: string;
    beforeAll(async () => {
      const made = await createClient(at.place);
      apiKey = made.api_key;
      const inserting =
        "insert into standin.clients (client_id, name, token_mode) values ($1, 'x', 'deterministic')";
      await sql(at.place, inserting, [ID]);
      const moving = 'update standin.api_keys set client_id = $1 where client_id = $2';
      await sql(at.place, moving, [ID, made.client_id]);
    });
    const tokenizeAt = async (url: string) => {
      const { status } = await call({ url, api_key: apiKey }, 'tokenize', { a: 'Ann' });
      expect(status).toBe(200);
    };

    test('are escaped in the log as JSON and in the audit log, and stay the same id', async () => {
      const env = { AUDIT_LOG: 'stdout', AUDIT_REQUIRED: 'true' };
      const service = await startService(at.place, env);
      await tokenizeAt(service.url);
      await until(() => service.output().includes('"route":"/api/v1/tokenize"'), 'its line');
      await service.stop();
      expect(service.output()).not.toMatch(RAW);
      const lines = service.output().split('\n');
      for (const part of ['/api/v1/tokenize', '"event":"tokenize"'])
        expect(JSON.parse(lines.find((one) => one.includes(part))!).client_id).toBe(ID);
    });

    test.runIf(hasTerminal)('and in the pretty log on a terminal', async () => {
      const pretty = await serveOnTerminal(at.place, { LOG_FORMAT: 'pretty' });
      try {
        await tokenizeAt(pretty.url);
        await fetch(`${pretty.url}/nothing`);
        await until(() => pretty.output().includes('m404'), 'their lines');
      } finally {
        await pretty.stop();
      }
      expect(pretty.output()).toMatch(COLOURS);
      for (const status of ['32m200', '33m404'])
        expect(pretty.output()).toContain(`\x1b[${status}`);
      expect(plain(pretty.output())).not.toMatch(RAW);
    });

    test('and a pretty log in a pipe has no colours, whatever the environment asks for', async () => {
      const env = { PORT: '0', OPS_PORT: '0', LOG_FORMAT: 'pretty', FORCE_COLOR: '1' };
      const surroundings = { cwd: at.place.folder, env: environmentOf(at.place, env) };
      const service = start([process.execPath, CLI, 'serve'], surroundings);
      await service.wrote(/listening/);
      await service.stop('SIGTERM');
      expect(service.output()).not.toMatch(COLOURS);
    });

    test('and in lists of API keys', async () => {
      const stdout = await at.text('api-key list');
      expect(stdout).not.toMatch(RAW);
      expect(stdout).toContain('standin_\\u001b[2J\\u202e\\u009b');
    });
  });
});
