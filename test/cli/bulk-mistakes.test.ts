import { readdirSync, rmSync } from 'node:fs';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { Front } from '../support/balancer.ts';
import { BulkRuns } from '../support/bulk-run.ts';
import { freePort } from '../support/processes.ts';
import { samples } from '../support/samples.ts';
import {
  createClient,
  type Place,
  type Service,
  startService,
  usualPlace,
} from '../support/service.ts';
import { kinds } from '../support/terminal.ts';

let place: Place;
let service: Service;
let front: Front;
let runs: BulkRuns;
beforeAll(async () => {
  place = await usualPlace();
  service = await startService(place);
  front = await Front.start(service.url);
  runs = new BulkRuns(place, service);
});
afterAll(async () => {
  front.stop();
  await service.stop();
  place.remove();
});
beforeEach(() => {
  front.troubles.length = 0;
});

/** The files that a run has left, besides its input. */
function left(name: string): string[] {
  return readdirSync(runs.folder).filter((file) => file.startsWith(name));
}

/** What a command says, without its progress and with placeholders for tokens and times. */
async function seen(command: string, input?: string): Promise<string> {
  const { code, stdout, stderr } = await runs.run(command, input);
  const words = stderr.replaceAll(/^.*\d values, [\d,]+\/s\n/gm, '');
  return kinds(`${stdout}${words}exit ${code}`);
}

const PEOPLE = [
  '{"id": 1, "email": "ann@example.org", "phones": ["555 0101"]}\n',
  '{"id": 2, "email": "bo@example.org"}\n',
].join('');

describe('a field that occurs in no row is an error, and nothing is written in clear', () => {
  beforeEach(() => {
    runs.write('a.ndjson', PEOPLE);
    runs.write('a.json', '[\n  { "email": "ann@example.org" }\n]\n');
    runs.write('a.csv', 'id, email ,name\n1,ann@example.org,Ann\n');
    runs.write('a.xlsx', 'PK');
  });

  test.each([
    [
      'a.ndjson --fields emial',
      'standin: a.ndjson has no field emial (did you mean email?) in any of 2 rows; the first row has: email, phones[*]. A field that a file may lack has a question mark after it: --fields "emial?".',
    ],
    [
      'a.ndjson --fields email,phone',
      'standin: a.ndjson has no field phone in any of 2 rows; the first row has: email, phones[*]. A field that a file may lack has a question mark after it: --fields "phone?".',
    ],
    [
      'a.ndjson --fields email,phones[*].number',
      'standin: Line 1: the field "phones[*]" is a string, and a field is named inside it. To leave bad rows out, name a file for them with --rejects.',
    ],
    [
      'a.json --fields mail',
      'standin: a.json has no field mail (did you mean email?) in its only row; the first row has: email. A field that a file may lack has a question mark after it: --fields "mail?".',
    ],
    [
      'a.csv --fields email',
      'standin: a.csv has no field email (did you mean " email "?); its fields are: id, " email ", name.',
    ],
    [
      'a.csv --fields nmae',
      'standin: a.csv has no field nmae (did you mean name?); its fields are: id, " email ", name.',
    ],
    [
      'a.xlsx --fields email',
      'standin: a.xlsx is not a text file: save it as CSV, TSV, NDJSON or JSON.',
    ],
    [
      'a.ndjson --fields $..email',
      'standin: --fields: no path at "..email"; write paths like customer.emails[*],name or ["full name"].',
    ],
  ])('standin tokenize %s', async (args, message) => {
    expect(await seen(`tokenize ${args} -o out`)).toBe(`${message}\nexit 1`);
    expect(left('out')).toEqual([]);
  });

  test('on standard output, too: rows wait until every field was found', async () => {
    const command = 'tokenize - --format ndjson --fields email,phone -o -';
    const { code, stdout, stderr } = await runs.run(command, PEOPLE);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toContain('standard input has no field phone in any of 2 rows');
    const many = `{"email":"a@example.org","note":"${'x'.repeat(1_000)}"}\n`.repeat(20_000);
    const long = await runs.run(`${command} --rejects rejects.csv --force`, many);
    expect({ code: long.code, stdout: long.stdout }).toEqual({ code: 1, stdout: '' });
    expect(long.stderr).toMatch(/has no field phone in any of [\d,]{5,6} rows/);
  });

  test('names that may be values are not told', async () => {
    runs.write('map.ndjson', '{"ann@example.org": "secret", "name": "Ann"}\n');
    const told = await seen('tokenize map.ndjson --fields email -o out');
    expect(told).toContain('the first row has: name. ');
    expect(told).not.toContain('ann@example.org');
  });

  test('detokenize, too', async () => {
    expect(await seen('detokenize a.ndjson --fields emial -o out')).toContain('has no field emial');
    expect(left('out')).toEqual([]);
  });
});

test('a field that only some rows have is counted; with a question mark, a file may lack it', async () => {
  runs.write('b.ndjson', PEOPLE);
  expect(await seen('tokenize b.ndjson --fields email,phones[*],fax? -o b.out')).toBe(
    'tokenized 3 values in id; 2 rows, none rejected; replaced: email 2, phones[*] 1; phones[*] is in 1 of 2 rows; fax is in 0 of 2 rows.\nexit 0',
  );
  const json = await runs.run('tokenize b.ndjson --fields email,phones[*] -o b.out --force --json');
  expect(JSON.parse(json.stdout)).toMatchObject({ rows: 2, fields: { email: 2, 'phones[*]': 1 } });
});

test('JSONPath is understood: $.email, $["name"], and $[*].email in an array', async () => {
  const row = '{"email":"ann@example.org","name":"Ann Lee","$":"x"}';
  const done = 'aaa@aaaaaaa.aaa_aaa';
  const one = 'tokenize - --format ndjson --fields $.email,$["name"],$["$"] -o -';
  expect(kinds((await runs.run(one, `${row}\n`)).stdout)).toBe(
    `{"email":"${done}","name":"aaa aaa_aaa","$":"aaaaa_aaa"}`,
  );
  const items = 'tokenize - --format json --fields $[*].email -o -';
  expect(kinds((await runs.run(items, `[${row}]`)).stdout)).toBe(
    `[{"email":"${done}","name":"Ann Lee","$":"x"}]`,
  );
});

describe('JSON arrays', () => {
  const ARRAY = [
    '[',
    '  { "n": 1.10, "email": "ann@example.org", "born": null },',
    '  { "n": 2, "email": 7 },',
    '  { "email": "bo@example.org", "note": "]},{" }',
    ']\n',
  ].join('\n');

  test('there and back are the same file; every other byte stays', async () => {
    const good = ARRAY.replace('7 }', '"\\u0041l" }');
    runs.write('c.json', good);
    expect(await seen('tokenize c.json --fields email -o c.out.json')).toMatch(
      /^tokenized 3 values in id; 3 rows, none rejected; replaced: email 3\.\nexit 0$/,
    );
    const there = runs.read('c.out.json');
    expect(there.replaceAll(/"[^"]*_tok"/g, 'T')).toBe(
      good.replaceAll(/"(ann@|bo@|\\u0041l)[^"]*"/g, 'T'),
    );
    await runs.run('detokenize c.out.json --fields email -o c.back.json');
    expect(runs.read('c.back.json')).toBe(good.replace('\\u0041', 'A'));
  });

  test('bad items are left out, and both files are arrays', async () => {
    for (const bad of [[1], [0, 1], [1, 2], [0], [2], [0, 1, 2]]) {
      const items = ['"a@example.org"', '"b@example.org"', '"c@example.org"'].map((email, i) =>
        bad.includes(i) ? i : email,
      );
      runs.write(
        'd.json',
        JSON.stringify(
          items.map((email) => ({ email })),
          null,
          1,
        ),
      );
      const files = '--rejects d.rejects --rejected-rows d.bad.json -o d.out.json --force';
      const { code } = await runs.run(`tokenize d.json --fields email ${files}`);
      expect(code).toBe(3);
      expect(JSON.parse(runs.read('d.out.json'))).toHaveLength(3 - bad.length);
      expect(JSON.parse(runs.read('d.bad.json'))).toEqual(bad.map((i) => ({ email: i })));
      const lines = bad.map((i) => `${3 * i + 2},email,is a number, not a string`);
      expect(runs.read('d.rejects').replaceAll('"', '')).toBe(
        `line,field,reason\n${lines.join('\n')}\n`,
      );
    }
  });

  test.each([
    ['[{"email":"a@example.org"}', 'ends in the middle of its JSON'],
    ['[{"email":"a@example.org"},', 'ends in the middle of its JSON'],
    ['[', 'ends in the middle of its JSON'],
    ['[{"email":"a@example.org"},]', 'Line 1 of e.json is not JSON'],
    ['[{"email":"a@example.org"}\n{"email":"b@example.org"}]', 'Line 2 of e.json is not JSON'],
    ['[{"email":"a@example.org"}]\n\n{}', 'Line 3 of e.json is not JSON'],
    ['[{"email":"a@example.org",}]', 'Line 1: the row is not JSON'],
  ])('%j is refused in words, and is never complete', async (text, message) => {
    runs.write('e.json', text);
    const told = await seen('tokenize e.json --fields email -o e.out --force');
    expect(told).toContain(message);
    expect(told).toMatch(/exit 1$/);
    expect(left('e.out')).not.toContain('e.out');
  });

  test('a file with one object, or with an object a line, works as well', async () => {
    for (const text of [
      '{\n "people": [{"email":"a@example.org"}]\n}\n',
      '{"people":[]}{"people":[]} \n',
    ]) {
      runs.write('f.json', text);
      const fields = text.includes('email') ? 'people[*].email' : 'people[*]';
      expect(await runs.run(`tokenize f.json --fields ${fields} -o f.out --force`)).toMatchObject({
        code: 0,
      });
      expect(runs.read('f.out').replace(/"[^"]*_tok"/, '"a@example.org"')).toBe(text);
    }
  });

  test.each(samples)('the sample $name there and back', async ({ name, rows }) => {
    const text = `${JSON.stringify(rows, null, 2)}\n`;
    runs.write(`${name}.json`, text);
    const fields = Object.keys(rows[0]!).slice(1).join(',');
    expect(await seen(`tokenize ${name}.json --fields ${fields} -o out.json --force`)).toMatch(
      new RegExp(`; ${rows.length} rows, none rejected; replaced: .*\\.\nexit 0$`),
    );
    const out = JSON.parse(runs.read('out.json'));
    for (const { email } of out) expect(email).toMatch(/_tok$/);
    await runs.run(`detokenize out.json --fields ${fields} -o back.json --force`);
    expect(runs.read('back.json')).toBe(text);
  });
});

describe('a run that failed before its first row blocks nothing', () => {
  test.each([
    ['an API key that is not known', { STANDIN_API_KEY: `stk_${'a'.repeat(34)}` }, '', '(401)'],
    ['a bad row', {}, 'id,email\n1\n', 'Line 2: the row has 1 cell instead of 2'],
  ])('%s', async (_, env, text, message) => {
    const good = 'id,email\n1,ann@example.org\n';
    runs.write('h.csv', text || good);
    const command = `tokenize h.csv --fields email -o ${text === '' ? 'key' : 'row'}.out`;
    const { code, stderr } = await runs.end(runs.start(command, env));
    expect(code).toBe(1);
    expect(stderr).toContain(message);
    expect(stderr).not.toMatch(/--resume|so far/);
    expect([...left('key.out'), ...left('row.out')]).toEqual([]);
    runs.write('h.csv', good);
    expect((await runs.run(command)).code).toBe(0);
    rmSync(runs.path(command.split(' ').at(-1)!));
  });
});

describe('waiting is shown', () => {
  test('for a limit of the client', async () => {
    const { api_key: apiKey } = await createClient(place, '--rate-limit', '1');
    const rows = Array.from({ length: 5_000 }, (_, i) => `{"a":"limited ${i}"}\n`);
    runs.write('i.ndjson', rows.join(''));
    const child = runs.start('tokenize i.ndjson --fields a -o i.out', { STANDIN_API_KEY: apiKey });
    const { code, stderr } = await runs.end(child);
    expect(code).toBe(0);
    expect(stderr).toMatch(/values(, [\d,]+\/s)?, waiting: a limit of the client \(429\)\n/);
  });

  test('for a service that fails and recovers', async () => {
    front.troubles.push('reset', { status: 503, body: '{"error":"overloaded"}' });
    runs.write('j.ndjson', '{"a":"waited for"}\n');
    const child = runs.start('tokenize j.ndjson --fields a -o j.out', { STANDIN_URL: front.url });
    const { code, stderr } = await runs.end(child);
    expect(code).toBe(0);
    expect(stderr).toMatch(/^0 values, waiting: the service does not answer \(\w+\)\n/);
    expect(stderr).toContain('waiting: the service answers 503\n');
    // The last line is of the end, when nothing is waited for.
    expect(stderr.trimEnd().split('\n').at(-1)).toMatch(/^100 % {2}1 value(, [\d,]+\/s)?$/);
  });
});

describe('failures of the service, in the words of the command', () => {
  beforeAll(() => runs.write('k.csv', 'a\nx\n'));
  const failed = async (env: Record<string, string>) => {
    const child = runs.start('tokenize k.csv --fields a -o k.out --timeout 1', env);
    const { stderr } = await runs.end(child);
    expect(left('k.out')).toEqual([]);
    return stderr
      .replaceAll(/:\d{4,5}\b/g, ':PORT')
      .split('\n')
      .at(-2);
  };

  test('nothing listens, the wrong scheme, a wrong API key, another service', async () => {
    const nobody = `http://127.0.0.1:${await freePort()}`;
    expect(await failed({ STANDIN_URL: nobody })).toBe(
      'standin: The service at http://127.0.0.1:PORT does not answer (ECONNREFUSED). Start the service, or correct STANDIN_URL.',
    );
    expect(await failed({ STANDIN_URL: service.url.replace('http:', 'https:') })).toBe(
      'standin: The service at https://127.0.0.1:PORT does not answer over TLS (ERR_SSL_WRONG_VERSION_NUMBER). Does it speak HTTP? Then write http: in STANDIN_URL.',
    );
    expect(await failed({ STANDIN_API_KEY: `stk_${'a'.repeat(34)}` })).toBe(
      'standin: The service at http://127.0.0.1:PORT refuses the API key (401): it is unknown, expired or revoked. Make another with standin api-key issue --client NAME.',
    );
    front.troubles.push({ status: 302, headers: { location: '/login' }, body: '' });
    expect(await failed({ STANDIN_URL: front.url })).toBe(
      'standin: What answers at http://127.0.0.1:PORT is not Standin (302). Set STANDIN_URL to the address of the service.',
    );
  });
});

test('after another policy, a run that could be continued is not to be', async () => {
  runs.write('n.csv', Buffer.from(`name\n${'x\n'.repeat(3_000)}Jos\xe9\n`, 'latin1'));
  const command = 'tokenize n.csv --fields name -o n.out';
  expect((await runs.run(command)).stderr).toContain('--resume');
  const body = '{"error":"precondition_failed","message":"the policy in force is another"}';
  front.troubles.push({ status: 412, body });
  const args = `${command} --resume --rejects n.bad`;
  const { code, stderr } = await runs.end(runs.start(args, { STANDIN_URL: front.url }));
  expect([code, stderr]).toEqual([1, expect.stringContaining('(412)')]);
  expect(stderr).not.toContain('--resume');
});

test('a base address with a path works', async () => {
  const gateway = await Front.start(service.url, '/standin');
  const child = runs.start('tokenize k.csv --fields a -o l.out', {
    STANDIN_URL: `${gateway.url}/standin/`,
  });
  expect(await runs.end(child)).toMatchObject({ code: 0 });
  gateway.stop();
});

test('a cell that is not UTF-8 is refused with what to do', async () => {
  runs.write('m.csv', Buffer.from('name\nJos\xe9\n', 'latin1'));
  expect(await seen('tokenize m.csv --fields name -o m.out')).toContain(
    'Line 2: the field "name" is not UTF-8 (convert the file, for example with iconv -f LATIN1 -t UTF-8)',
  );
});
