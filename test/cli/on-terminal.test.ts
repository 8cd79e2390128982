import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  call,
  makeVault,
  type Place,
  runCli,
  runJson,
  until,
  usualPlace,
} from '../support/service.ts';
import { COLOURS, hasTerminal, runOnTerminal, serveOnTerminal } from '../support/terminal.ts';

let place: Place;
beforeAll(async () => {
  place = await usualPlace();
  await makeVault(place);
});
afterAll(() => place.remove());

const plain = (text: string) => text.replaceAll(COLOURS, '');

test('an empty list says what to do, and is an empty array with --json', async () => {
  expect((await runCli(['client', 'list'], place)).stdout).toBe(
    'No clients yet. Make one with: standin client create --name NAME\n',
  );
  expect((await runCli(['api-key', 'list'], place)).stdout).toBe(
    'No API keys yet. Issue one with: standin api-key issue --client NAME\n',
  );
  expect((await runCli(['client', 'list', '--json'], place)).stdout).toBe('[]\n');
});

describe.runIf(hasTerminal)('on a terminal', () => {
  beforeAll(async () => {
    for (const [name, ...options] of [['shop'], ['crm', '--can', 'tokenize', '--rate-limit=5']])
      await runJson(place, 'client', 'create', '--name', name!, ...options);
  });

  test.each([50, 80, 110])('no line of a list is wider than %d columns', (columns) => {
    const commands = [
      ['client', 'list'],
      ['api-key', 'list'],
      ['keyring', 'status'],
    ];
    for (const args of commands) {
      const lines = plain(runOnTerminal(args, place, {}, columns)).split('\n');
      expect(lines.length).toBeGreaterThan(3);
      for (const line of lines) expect(line.length, line).toBeLessThanOrEqual(columns);
    }
  });

  test.each([50, 80])('doctor breaks lines of %d columns between words', async (columns) => {
    const text = plain(runOnTerminal(['doctor'], place, {}, columns));
    for (const line of text.split('\n').filter((one) => one.length > columns))
      expect(line.trim()).not.toContain(' ');
    expect(text.replaceAll(/\n {9}/g, ' ')).toBe((await runCli(['doctor'], place)).stdout);
    expect(text).toMatch(/\n {9}\S/);
  });

  test('a list that does not fit is a block for each row, without what is usual', () => {
    const [shop, crm] = plain(runOnTerminal(['client', 'list'], place, {}, 80)).split('\n\n');
    expect(shop).toMatch(
      /^CLIENT {15}standin_\w{24}\nNAME {17}shop\nCAN {18}tokenize,detokenize\nTOKENS {15}deterministic\nCREATED {14}\S+Z$/,
    );
    expect(crm).toMatch(/\nCAN {18}tokenize\nRATE LIMIT {11}5\/s\n/);
  });

  test('a list that fits is a table, as in a pipe', async () => {
    const { stdout } = await runCli(['client', 'list'], place);
    expect(stdout).not.toMatch(COLOURS);
    expect(plain(runOnTerminal(['client', 'list'], place, {}, 250))).toBe(stdout);
  });

  test('there is colour, but not with NO_COLOR', () => {
    for (const args of [['doctor'], ['client', 'list'], ['config']]) {
      expect(runOnTerminal(args, place)).toMatch(COLOURS);
      expect(runOnTerminal(args, place, { NO_COLOR: '1' })).not.toMatch(COLOURS);
    }
  });

  test('the log has one line a request', async () => {
    const service = await serveOnTerminal(place, { LOG_FORMAT: 'auto' });
    const { api_key: apiKey, client_id: clientId } = await runJson(
      place,
      ...['client', 'create', '--name', 'caller'],
    );
    const answer = (data: unknown) => call({ url: service.url } as never, 'tokenize', data, apiKey);
    const one = await answer({ a: 'Ann Lee' });
    await answer({ a: 'Ann Lee', b: 'Bob Ray' });
    await answer({ a: 1 });
    await until(() => / 400 {2}/.test(plain(service.output())), 'the third line');
    await service.stop();
    const lines = plain(service.output()).split('\n');
    const requests = lines.filter((line) => line.includes('POST'));
    const line = (status: number, values: string, id = '[0-9a-f-]{36}') =>
      expect.stringMatching(
        new RegExp(
          `^\\[\\d\\d:\\d\\d:\\d\\d\\] POST /api/v1/tokenize {2}${status} {2}${values} {2}[\\d.]+ ms {2}${clientId} ${id}$`,
        ),
      );
    expect(requests).toEqual([
      line(200, '1 value', one.body.request_id),
      line(200, '2 values'),
      line(400, '0 values'),
    ]);
    expect(lines.join('\n')).not.toMatch(/^ +(route|status|values):/m);
  });
});
