import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  call,
  createClient,
  makeVault,
  type Place,
  runCli,
  runJson,
  type Service,
  startService,
  until,
  usualPlace,
} from '../support/service.ts';
import { COLOURS, hasTerminal, runOnTerminal, serveOnTerminal } from '../support/terminal.ts';
import { sql } from '../support/vault.ts';

/** A title, a cleared screen, a forged row, text from right to left, and a C1 escape. */
const EVIL =
  'a\u001b]0;pwned\u0007\u001b[2J\nforged  row\r\u202egnp.exe\u2066\u009b31m\u2028z\u007f';
const SAFE =
  'a\\u001b]0;pwned\\u0007\\u001b[2J\\u000aforged  row\\u000d\\u202egnp.exe\\u2066\\u009b31m\\u2028z\\u007f';
/** What no terminal may get; line ends are ours. */
const RAW = /(?!\n)[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/u;

let place: Place;
beforeAll(async () => {
  place = await usualPlace();
  await makeVault(place);
  await createClient(place);
});
afterAll(() => place.remove());

describe('C32: control and bidi characters in the name of a client', () => {
  test.each(['0009', '000a', '001b', '007f', '009b', '061c', '200f', '202e', '2029', '2066'])(
    'U+%s is refused in words by create and update',
    async (codePoint) => {
      const [{ client_id: clientId }] = await runJson(place, 'client', 'list');
      const name = `x${String.fromCharCode(Number.parseInt(codePoint, 16))}y`;
      const problem = `standin: The name of a client cannot contain U+${codePoint.toUpperCase()}`;
      for (const args of [['create'], ['update', clientId]]) {
        const { code, stderr } = await runCli(['client', ...args, '--name', name], place);
        expect(code).toBe(1);
        expect(stderr).toContain(problem);
        expect(stderr).not.toMatch(RAW);
      }
      const listed = await runJson(place, 'client', 'list');
      expect(listed.map((client: { name: string }) => client.name)).not.toContain(name);
    },
  );

  test.each(['subject', 'space'])('in its %s are refused in words, too', async (setting) => {
    const args = ['client', 'create', '--name', 'other', `--${setting}`, 'x\ty'];
    const { code, stderr } = await runCli(args, place);
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining(`The ${setting} of a client cannot contain U+0009`),
    ]);
  });

  test('names of every script, with the joiners that they need, are taken', async () => {
    for (const name of ['Müller & Söhne', '李小龍', 'می‌خواهم', 'עברית', '👩‍👩‍👧'])
      expect((await runCli(['client', 'create', '--name', name], place)).code).toBe(0);
  });

  describe('that somebody wrote into the database', () => {
    let clientId: string;
    let apiKey: string;
    beforeAll(async () => {
      ({ client_id: clientId, api_key: apiKey } = await createClient(place));
      await sql(place, 'update standin.clients set name = $1 where client_id = $2', [
        EVIL,
        clientId,
      ]);
    });

    const COMMANDS = () => [
      ['client', 'list'],
      ['client', 'list', '--json'],
      ['client', 'update', clientId, '--enable'],
      ['client', 'update', clientId, '--enable', '--json'],
      ['client', 'disable', clientId],
      ['client', 'update', clientId, '--enable'],
      ['doctor'],
    ];

    test('reach nothing that a command writes, and forge no row', async () => {
      for (const args of COMMANDS()) {
        const { code, stdout, stderr } = await runCli(args, place);
        expect(code, stderr).toBe(0);
        expect(stdout + stderr, args.join(' ')).not.toMatch(RAW);
        if (args[1] !== undefined && !args.includes('--json')) expect(stdout).toContain(SAFE);
        expect(stdout).not.toMatch(/^forged/m);
      }
      const listed = await runJson(place, 'client', 'list');
      const found = listed.find((client: { client_id: string }) => client.client_id === clientId);
      expect(found.name).toBe(EVIL);
    });

    test.runIf(hasTerminal)('reach no terminal', () => {
      for (const args of COMMANDS())
        expect(runOnTerminal(args, place).replaceAll(COLOURS, '')).not.toMatch(RAW);
    });

    test('stay a name: the client goes on, and can be given another name', async () => {
      const service = await startService(place);
      expect((await call(service, 'tokenize', { a: 'Ann' }, apiKey)).status).toBe(200);
      await service.stop();
      const args = ['client', 'update', clientId, '--rate-limit', '5'];
      expect((await runCli(args, place)).code).toBe(0);
      expect((await runCli([...args, '--name', 'billing'], place)).stdout).toContain('billing');
    });
  });
});

describe('C32: control and bidi characters in an id that somebody wrote into the database', () => {
  let service: Service;
  const ID = `standin_\u001b[2J\u202e\u009b`;

  async function callAs(url: string, apiKey: string): Promise<void> {
    const response = await fetch(`${url}/api/v1/tokenize`, {
      method: 'POST',
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
      body: '{"data":{"a":"Ann"}}',
    });
    expect(response.status).toBe(200);
  }

  async function forgedClient(): Promise<string> {
    const { client_id: clientId, api_key: apiKey } = await createClient(place);
    await sql(
      place,
      "insert into standin.clients (client_id, name, token_mode) values ($1, 'x', 'deterministic') on conflict do nothing",
      [ID],
    );
    await sql(place, 'update standin.api_keys set client_id = $1 where client_id = $2', [
      ID,
      clientId,
    ]);
    return apiKey;
  }

  test('are escaped in the log as JSON and in the audit log, and stay the same id', async () => {
    const apiKey = await forgedClient();
    service = await startService(place, { AUDIT_LOG: 'stdout', AUDIT_REQUIRED: 'true' });
    await callAs(service.url, apiKey);
    await until(() => service.output().includes('"route":"/api/v1/tokenize"'), 'its line');
    await service.stop();
    expect(service.output()).not.toMatch(RAW);
    const lines = service.output().split('\n');
    for (const part of ['/api/v1/tokenize', '"event":"tokenize"'])
      expect(JSON.parse(lines.find((one) => one.includes(part))!).client_id).toBe(ID);
  });

  test.runIf(hasTerminal)(
    'and in the pretty log on a terminal, which has its colours',
    async () => {
      const apiKey = await forgedClient();
      const pretty = await serveOnTerminal(place, { LOG_FORMAT: 'pretty' });
      await callAs(pretty.url, apiKey);
      await until(() => pretty.output().includes('standin_'), 'its line');
      await pretty.stop();
      expect(pretty.output()).toMatch(COLOURS);
      expect(pretty.output().replaceAll(COLOURS, '')).not.toMatch(RAW);
    },
  );

  test('and in lists of API keys', async () => {
    await forgedClient();
    const { code, stdout } = await runCli(['api-key', 'list'], place);
    expect(code).toBe(0);
    expect(stdout).not.toMatch(RAW);
    expect(stdout).toContain('standin_\\u001b[2J\\u202e\\u009b');
  });
});

test('C32: what a command refuses in its arguments is told escaped', async () => {
  for (const args of [[`--x${EVIL}`], ['client', 'disable', EVIL], ['client', EVIL]]) {
    const { code, stderr } = await runCli(args, place);
    expect(code).not.toBe(0);
    expect(stderr).toContain('\\u001b[2J');
    expect(stderr).not.toMatch(RAW);
  }
});
