import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { StandinError } from '#client';
import { BulkService } from '../../src/commands/bulk-service.ts';
import { Front, type Trouble } from '../support/balancer.ts';
import { bulkRuns } from '../support/bulk-run.ts';
import { freePort } from '../support/processes.ts';
import { call, createClient } from '../support/service.ts';
import { hasTerminal, kinds, runOnTerminal } from '../support/terminal.ts';

const runs = bulkRuns();
let front: Front;
beforeAll(async () => {
  front = await Front.start(runs.service.url);
});
afterAll(() => front.stop());
beforeEach(() => {
  front.troubles.length = 0;
});

/** The key of a client of its own. */
const keyOf = async (...options: string[]) => ({
  STANDIN_API_KEY: (await createClient(runs.place, ...options)).api_key,
});

const PEOPLE = [
  '{"id": 1, "email": "ann@example.org", "phones": ["555 0101"]}\n',
  '{"id": 2, "email": "bo@example.org"}\n',
].join('');

describe('a field that occurs in no row is an error, and nothing is written in clear', () => {
  const MARK = 'A field that a file may lack has a question mark after it: --fields';
  beforeAll(() => {
    runs.write('a.ndjson', PEOPLE);
    runs.write('a.json', '[\n  { "email": "ann@example.org" }\n]\n');
    runs.write('b.csv', 'id, email ,name\n1,ann@example.org,Ann\n');
    runs.write('map.ndjson', '{"ann@example.org": "secret", "name": "Ann"}\n');
    runs.write('latin1.csv', Buffer.from('name\nJos\xe9\n', 'latin1'));
  });

  test.each([
    [
      'a.ndjson --fields emial',
      `a.ndjson has no field emial (did you mean email?) in any of 2 rows; the first row has: email, phones[*]. ${MARK} "emial?".`,
    ],
    [
      'a.ndjson --fields email,phone',
      `a.ndjson has no field phone in any of 2 rows; the first row has: email, phones[*]. ${MARK} "phone?".`,
    ],
    [
      'a.ndjson --fields email,phones[*].number',
      'Line 1: the field "phones[*]" is a string, and a field is named inside it. To leave bad rows out, name a file for them with --rejects.',
    ],
    [
      'a.json --fields mail',
      `a.json has no field mail (did you mean email?) in its only row; the first row has: email. ${MARK} "mail?".`,
    ],
    [
      'b.csv --fields email',
      'b.csv has no field email (did you mean " email "?); its fields are: id, " email ", name.',
    ],
    // Names that may be values are not told.
    [
      'map.ndjson --fields email',
      `map.ndjson has no field email in its only row; the first row has: name. ${MARK} "email?".`,
    ],
    [
      'a.ndjson --fields $..email',
      '--fields: no path at "..email"; write paths like customer.emails[*],name or ["full name"].',
    ],
    [
      'latin1.csv --fields name',
      'Line 2: the field "name" is not UTF-8 (convert the file, for example with iconv -f LATIN1 -t UTF-8). To leave bad rows out, name a file for them with --rejects.',
    ],
  ])('%s', async (args, message) => {
    for (const operation of args.endsWith('mial') ? ['tokenize', 'detokenize'] : ['tokenize']) {
      const stderr = await runs.failure(`${operation} ${args} -o out`);
      expect(stderr.replaceAll(/^.*\d values?, [\d,]+\/s\n/gm, '')).toBe(`standin: ${message}\n`);
      expect(runs.left('out')).toEqual([]);
    }
  });

  test('on standard output, too: rows wait until every field was found', async () => {
    const command = 'tokenize - --format ndjson --fields email,phone -o -';
    const { code, stdout, stderr } = await runs.feed(command, PEOPLE);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toContain('standard input has no field phone in any of 2 rows');
    const many = `{"email":"a@example.org","note":"${'x'.repeat(1_000)}"}\n`.repeat(20_000);
    const long = await runs.feed(`${command} --rejects rejects.csv --force`, many);
    expect({ code: long.code, stdout: long.stdout }).toEqual({ code: 1, stdout: '' });
    expect(long.stderr).toMatch(/has no field phone in any of [\d,]{5,6} rows/);
  });
});

test('a field that only some rows have is counted; with a question mark, a file may lack it', async () => {
  runs.write('b.ndjson', PEOPLE);
  const command = 'tokenize b.ndjson -o b.out --force --fields email,phones[*]';
  expect(kinds(await runs.ok(`${command},fax?`))).toBe(
    'tokenized 3 values in id; 2 rows, none rejected; replaced: email 2, phones[*] 1; phones[*] is in 1 of 2 rows; fax is in 0 of 2 rows.',
  );
  const fields = { email: 2, 'phones[*]': 1 };
  expect(JSON.parse(await runs.ok(`${command} --json`))).toMatchObject({ rows: 2, fields });
});

describe('waiting is shown', () => {
  test('for a limit of the client', async () => {
    const rows = Array.from({ length: 5_000 }, (_, i) => `{"a":"limited ${i}"}\n`);
    runs.write('i.ndjson', rows.join(''));
    const env = await keyOf('--rate-limit', '1');
    const { code, stderr } = await runs.run('tokenize i.ndjson --fields a -o i.out', env);
    expect(code).toBe(0);
    expect(stderr).toMatch(/values(, [\d,]+\/s)?, waiting: a limit of the client \(429\)\n/);
  });

  test('for a service that fails and recovers', async () => {
    front.troubles.push('reset', { status: 503, body: '{"error":"overloaded"}' });
    runs.write('j.ndjson', '{"a":"waited for"}\n');
    const env = { STANDIN_URL: front.url };
    const { code, stderr } = await runs.run('tokenize j.ndjson --fields a -o j.out', env);
    expect(code).toBe(0);
    expect(stderr).toMatch(/^0 values, waiting: the service does not answer \(\w+\)\n/);
    expect(stderr).toContain('waiting: the service answers 503\n');
    // The last line is of the end, when nothing is waited for.
    expect(stderr.trimEnd().split('\n').at(-1)).toMatch(/^100 % {2}1 value(, [\d,]+\/s)?$/);
  });
});

test('a service is silent after 5 s, and only while a request is open', async () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  const service = new BulkService('tokenize', { ...runs.service, url: front.url }, 60);
  const after = (ms: number) => vi.advanceTimersByTime(ms) && service.waitsFor;
  expect(after(5_001)).toBeUndefined();
  for (const words of [undefined, 'the service has not answered yet']) {
    front.troubles.push('silence');
    const ending = new AbortController();
    const asked = service.ask(['a'], ending.signal, ['']).catch(() => {});
    expect(after(words === undefined ? 5_000 : 5_001)).toBe(words);
    ending.abort();
    await asked;
    expect(after(5_001)).toBeUndefined();
  }
  vi.useRealTimers();
});

test('a limit for longer than --timeout ends it, with both times', async () => {
  const env = await keyOf('--rate-limit', '0.1');
  await runs.ok('tokenize ann', env);
  expect(await runs.failure('tokenize ann --timeout 2', env)).toMatch(
    /^standin: A limit of the client is exceeded \(429\) for (9|10) s more, and --timeout is 2 s\.\n$/,
  );
});

test.each([
  [
    'CERT_HAS_EXPIRED',
    'does not answer with a certificate that is trusted here (CERT_HAS_EXPIRED).',
  ],
  [undefined, 'does not answer (no reason given). Start the service'],
])('a service that does not answer, because of %s', (detail, words) => {
  const error = new StandinError('', { code: 'network_error', attempts: 1, detail });
  expect(new BulkService('tokenize', runs.service, 1).problem(error)).toContain(words);
});

describe('the address of the service', () => {
  beforeAll(() => runs.write('k.csv', 'a\nx\n'));
  const answering =
    (...troubles: Trouble[]) =>
    async () => {
      front.troubles.push(...troubles);
      return { STANDIN_URL: front.url };
    };

  test.each<[string, () => Promise<Record<string, string>>, string]>([
    [
      'nobody listens',
      async () => ({ STANDIN_URL: `http://127.0.0.1:${await freePort()}` }),
      'The service at http://127.0.0.1:PORT does not answer (ECONNREFUSED). Start the service, or correct STANDIN_URL.',
    ],
    [
      'the wrong scheme',
      async () => ({ STANDIN_URL: runs.service.url.replace('http:', 'https:') }),
      'The service at https://127.0.0.1:PORT does not answer over TLS (ERR_SSL_WRONG_VERSION_NUMBER). Does it speak HTTP? Then write http: in STANDIN_URL.',
    ],
    [
      'another API key',
      async () => ({ STANDIN_API_KEY: `stk_${'a'.repeat(34)}` }),
      'The service at http://127.0.0.1:PORT refuses the API key (401): it is unknown, expired or revoked. Make another with standin api-key issue --client NAME.',
    ],
    [
      'a service that is silent',
      answering('silence', 'silence'),
      'The service at http://127.0.0.1:PORT gave no result within 1 s. --timeout sets how long to try.',
    ],
    [
      'a failure without words here',
      answering({ status: 405, body: '{"error":"odd","message":"why"}' }),
      'The service at http://127.0.0.1:PORT cannot tokenize: 405 odd.',
    ],
    [
      'another service',
      answering({ status: 302, headers: { location: '/login' }, body: '' }),
      'What answers at http://127.0.0.1:PORT is not Standin (302). Set STANDIN_URL to the address of the service.',
    ],
  ])('%s: said in the words of the command', async (_, env, words) => {
    const stderr = await runs.failure(
      'tokenize k.csv --fields a -o k.out --timeout 1',
      await env(),
    );
    const last = stderr
      .replaceAll(/:\d{4,5}\b/g, ':PORT')
      .split('\n')
      .at(-2);
    expect(last).toBe(`standin: ${words}`);
    expect(runs.left('k.out')).toEqual([]);
  });

  test('may have a path', async () => {
    const gateway = await Front.start(runs.service.url, '/standin');
    const env = { STANDIN_URL: `${gateway.url}/standin/` };
    await runs.ok('tokenize k.csv --fields a -o l.out', env);
    gateway.stop();
  });
});

describe('options that are repeated', () => {
  beforeAll(() =>
    runs.write('a.csv', 'id,name,email,"a, b"\n1,Ann Lee,ann@example.org,x\n2,Bo Ray,,y\n'),
  );

  test.each([[['--fields', 'name', '--fields', 'email']], [['--fields', ' name, email ']]])(
    'fields add up, and spaces around them count as nothing: %j',
    async (fields) => {
      expect(await runs.ok(['tokenize', 'a.csv', ...fields, '-o', 'a.out', '--force'])).not.toBe(
        '',
      );
      expect(runs.read('a.out')).toMatch(
        /^id,name,email,"a, b"\n1,[a-z]{3} [a-z]{3}_tok,[a-z@.]+_tok,x\n2,[a-z]{2} [a-z]{3,}_tok,,y\n$/,
      );
    },
  );

  test.each([
    ['tokenize a.csv --fields email -o b.csv -o c.csv', "'-o, --output <file>'"],
    ['tokenize ann --kind text --kind email', "'--kind <kind>'"],
    ['client create --name a --can tokenize --can detokenize', "'--can <operations>'"],
    ['forget --file a --space one --space two', "'--space <name>'"],
  ])('any other is refused, since one of its values would be lost: %s', async (command, option) => {
    const words = `error: option ${option} is given twice: give it once\n`;
    expect(await runs.failure(command, {}, 2)).toContain(words);
  });

  test('the last line of a run names the fields that it replaced', async () => {
    const quoted = ['tokenize', 'a.csv', '--fields', 'name,email,"a, b"', '-o', 'd.csv'];
    expect(kinds(await runs.ok(quoted))).toBe(
      'tokenized 5 values in id; 2 rows, none rejected; replaced: name 2, email 1, "a, b" 2.',
    );
    runs.write('f.csv', 'email\n""\n');
    const nothing = await runs.ok('tokenize f.csv --fields email -o f.out');
    expect(nothing).toContain('1 row, none rejected; replaced: nothing.');
  });
});

describe('what is a token already', () => {
  test('a field of tokens ends the run before it writes; --retokenize makes tokens of them', async () => {
    await runs.ok('tokenize a.csv --fields name -o g.csv');
    const again = 'tokenize g.csv --fields email,name -o tokens.csv';
    expect(await runs.failure(again)).toBe(
      'standin: The field "name" has tokens already: all values in the first rows end in _tok, as tokens of this vault do. Leave the field out, or add --retokenize to make tokens of tokens.\n',
    );
    expect(runs.left('tokens.csv')).toEqual([]);
    await runs.ok(`${again} --retokenize`);
    await runs.ok('detokenize tokens.csv --fields email,name -o i.csv');
    expect(runs.read('i.csv')).toBe(runs.read('g.csv'));
  });

  test('a client that may only tokenize is told as well; one value among others is none', async () => {
    const env = await keyOf('--can', 'tokenize');
    const like = 'urb@waovwde.dhq_tok\n';
    runs.write('j.csv', `email\n${like}`);
    const told = await runs.failure('tokenize j.csv --fields email -o j.csv.out', env);
    expect(told).toContain('The field "email" has tokens already');
    runs.write('m.csv', `email\n${like}ann@example.org\nbo_id\n`);
    // A run that has written goes on, whatever comes later.
    runs.write('l.csv', `email\n${'ann@example.org\n'.repeat(6_000)}${like.repeat(12_000)}`);
    for (const name of ['m', 'l'])
      await runs.ok(`tokenize ${name}.csv --fields email -o ${name}.csv.out`, env);
  });
});

describe('one value', () => {
  const done = (stdout: string) => ({ code: 0, stdout, stderr: '' });

  test('goes in, its token comes out on a line of its own, and the other way round', async () => {
    const printed = await runs.ok('tokenize ann@example.com');
    expect(printed).toMatch(/^[a-z]{3}@[a-z]{7}\.[a-z]{3}_tok\n$/);
    const token = printed.trimEnd();
    for (const [command, stdout] of [
      [`detokenize ${token}`, 'ann@example.com\n'],
      ['tokenize ann@example.com --json', `{"token":"${token}"}\n`],
      [`detokenize ${token} --json`, '{"value":"ann@example.com"}\n'],
    ] as const)
      expect(await runs.run(command)).toEqual(done(stdout));
  });

  test('that looks like a token is told beside its token', async () => {
    const { stdout, stderr } = await runs.run('tokenize lxo_tok');
    expect(await runs.run(`detokenize ${stdout.trim()}`)).toEqual(done('lxo_tok\n'));
    expect(stderr).toBe('standin: the argument looks like a token already: it ends in _tok\n');
  });

  test.runIf(hasTerminal)(
    'does nothing to a terminal, and a program gets it as it is',
    async () => {
      const value = 'red \u001b[31m\u202e';
      const { body } = await call(runs.service, 'tokenize', { value });
      const args = ['detokenize', body.data.value];
      expect(await runs.ok(args)).toBe(`${value}\n`);
      const { url: STANDIN_URL, api_key: STANDIN_API_KEY } = runs.service;
      const shown = runOnTerminal(args, runs.place, { STANDIN_URL, STANDIN_API_KEY });
      expect(shown).toMatch(/^red .+31m/);
      for (const character of ['\u001b', '\u202e']) expect(shown).not.toContain(character);
    },
  );

  test('with the name of an existing file needs --value', async () => {
    runs.write('ann.csv', 'email\nann@example.com\n');
    const words = 'the file ann.csv needs --fields or --policy, and --output';
    expect(await runs.failure('tokenize ann.csv', {}, 2)).toContain(words);
    const token = await runs.ok('tokenize --value ann.csv');
    expect(token).toMatch(/^[a-z]{3}\.[a-z]{3}_tok\n$/);
    expect(await runs.run(`detokenize ${token.trimEnd()}`)).toEqual(done('ann.csv\n'));
    expect(runs.read('ann.csv')).toBe('email\nann@example.com\n');
  });

  test('that is refused is not told', async () => {
    const words = 'standin: The argument is not a known token.\n';
    expect(await runs.failure('detokenize qqq@qqqqqqq.qqq_tok')).toBe(words);
    const env = await keyOf('--can', 'tokenize');
    const forbidden = await runs.failure('detokenize qqq@qqqqqqq.qqq_tok', env);
    expect(forbidden).toMatch(/may not detokenize \(403\)\. .* --can tokenize,detokenize\.\n$/);
  });

  test.each(['customer.csv', 'orders.NDJSON', 'a.tsv.gz', 'list.txt', 'data/customers', 'x.xlsx'])(
    'that may be the misspelt name of a file is not tokenized: %s',
    async (name) => {
      for (const operation of ['tokenize', 'detokenize'])
        expect(await runs.failure(`${operation} ${name}`, {}, 2)).toContain(
          'error: there is no such file: correct the name; or add --value, if the argument is the text itself\n',
        );
      expect(await runs.run(`tokenize --value ${name}`)).toMatchObject({ code: 0, stderr: '' });
    },
  );

  test('with a kind is a value, and a token may have a slash', async () => {
    const token = await runs.ok('tokenize --value 03/04/2020');
    expect(await runs.run(`detokenize ${token.trim()}`)).toEqual(done('03/04/2020\n'));
    const stderr = await runs.failure('tokenize 03/04/2020 --kind date');
    expect(stderr).toContain('has no policy (404)');
  });
});
