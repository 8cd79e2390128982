import { readFileSync } from 'node:fs';
import { afterAll, describe, expect, onTestFinished, test } from 'vitest';
import { parseAnswers, type RawAnswer, rawExchange, send } from '../support/http.ts';
import { PostgresCluster, postgresBin, query } from '../support/postgres.ts';
import { findText, toldBy } from '../support/secrecy.ts';
import { logLine, served } from '../support/served.ts';
import { call, leastPrivilegePlace, newPlace, startService, until } from '../support/service.ts';

const T = '/api/v1/tokenize';
const D = '/api/v1/detokenize';
/** In the values, and in every other part of a request but the names of fields, which a 400 tells. */
const VALUE = 'zqjxkvbwqvalue';
const NAME = 'zqjxkvbwqname';
/** In all that an error of the database can carry. */
const DATABASE = 'zqjxkvbwqdatabase';

/** Bodies that are refused, each in its own way. */
const REFUSED = [
  `{"data":{"${NAME}":"${VALUE}"`,
  `{"data":{"${NAME}":"${VALUE}",}}`,
  `{"data":{"${NAME}":'${VALUE}'}}`,
  `{"data":{"${NAME}":"${VALUE}"}} ${VALUE}`,
  `{"data":{"${NAME}":${VALUE}}}`,
  `{"data":{"a":"${VALUE}","a":"${VALUE}2"}}`,
  `{"data":{"a":"${VALUE}"},"data":{"b":"${VALUE}"}}`,
  `{"data":{"${NAME}":["${VALUE}",1]}}`,
  `{"data":{"${NAME}":["${VALUE}",{"${NAME}":null}]}}`,
  `{"data":{"__proto__":"${VALUE}"}}`,
  `{"data":{"a":"${VALUE}\\ud83d"}}`,
  `{"data":{"a":"${VALUE}\\q"}}`,
  `{"data":{"a":"${VALUE}\n"}}`,
  `{"data":"${VALUE}"}`,
  `["${VALUE}"]`,
  `"${VALUE}"`,
  VALUE,
  `{"${VALUE}":1}`,
  `{"data":{"a":"${VALUE.repeat(5_000)}"}}`,
  `{"data":${'['.repeat(20)}"${VALUE}"${']'.repeat(20)}}`,
  `{"data":{"a":["${Array(10_001).fill(VALUE).join('","')}"]}}`,
  `\ufeff{"data":{"a":"${VALUE}"}}`,
  Buffer.from(`{"data":{"a":"${VALUE}\xff"}}`, 'latin1'),
  Buffer.from(`{"data":{"a":"${VALUE}"}}`, 'utf16le'),
  ' '.repeat(1_048_576) + VALUE,
];

const HEADERS: Record<string, string>[] = [
  { authorization: `Bearer ${VALUE}` },
  { authorization: `Basic ${VALUE}` },
  { authorization: `Bearer stk_${VALUE.padEnd(34, '0')}` },
  { 'content-type': `text/${VALUE}` },
  { 'content-type': `application/json; charset=${VALUE}` },
  { 'content-encoding': VALUE },
  { cookie: VALUE, 'user-agent': VALUE, 'content-type': VALUE },
  // What is no id is not logged. A value that has the form of an id is: test/unit/correlation.test.ts.
  { 'x-request-id': `${VALUE} `.repeat(2), traceparent: VALUE, 'content-type': VALUE },
  { tracestate: `a=${VALUE}`, baggage: `a=${VALUE}`, 'content-type': VALUE },
];

const RAW = [
  `GET /${VALUE} HTTP/1.1\r\nHost: a\r\n\r\n`,
  `GET /health?${VALUE} HTTP/1.1\r\nHost: ${VALUE}\r\nHost: b\r\n\r\n`,
  `${VALUE.toUpperCase()} / HTTP/1.1\r\nHost: a\r\n\r\n`,
  `TRACE /${VALUE} HTTP/1.1\r\nHost: a\r\nX: ${VALUE}\r\n\r\n`,
  `POST ${T} HTTP/1.1\r\nHost: a\r\n${VALUE}\r\n\r\n`,
  `POST ${T} HTTP/1.1\r\nHost: a\r\nContent-Length: ${VALUE}\r\n\r\n`,
  `POST ${T} HTTP/1.1\r\nHost: a\r\nExpect: ${VALUE}\r\n\r\n`,
  `GET /%${VALUE} HTTP/1.1\r\nHost: a\r\n\r\n`,
  `GET /${VALUE.repeat(2_000)} HTTP/1.1\r\nHost: a\r\n\r\n`,
  VALUE,
];

/** SQLSTATEs of the classes that the service tells apart, and of some that it does not. */
const CODES = ['23514', 'P0001', '22P02', '42501', '40001', '57014', 'XX001'];

describe.skipIf(postgresBin === undefined)('on a server that logs all it can', () => {
  let cluster: PostgresCluster;
  afterAll(() => cluster.stop());
  const service = served(async () => {
    cluster = await PostgresCluster.start({
      log_min_error_statement: 'debug5',
      log_error_verbosity: 'verbose',
      log_parameter_max_length_on_error: '-1',
    });
    const place = await leastPrivilegePlace(cluster.url('postgres'));
    return startService(place, { LOG_LEVEL: 'trace' });
  });

  const owner = (text: string) => query(service.place.env.DATABASE_URL!, text);

  /** The response is an error, and has none of the texts in any form. */
  function expectTellsNothing({ status, headers, text }: RawAnswer, ...texts: string[]): void {
    expect(status).toBeGreaterThanOrEqual(300);
    const whole = new Map([['answer', Buffer.from(JSON.stringify([...headers]) + text)]]);
    for (const one of texts) expect(findText(one, whole)).toEqual([]);
  }

  /** All that was written so far has none of the texts; all requests of the test are in it. */
  async function expectNothingLogged(...texts: string[]): Promise<void> {
    const { headers } = await send(service, '/health/live', undefined, {}, 'GET');
    await logLine(service, headers.get('x-request-id')!);
    const output = new Map([['output', Buffer.from(service.output())]]);
    for (const text of [...texts, service.api_key]) expect(findText(text, output)).toEqual([]);
  }

  test('C03: no response to what is refused has a value, an API key or a token in it', async () => {
    const { status, body } = await call(service, 'tokenize', { a: `${VALUE} known` });
    expect(status).toBe(200);
    const { a } = body.data;
    for (const refused of REFUSED)
      for (const path of [T, D]) expectTellsNothing(await send(service, path, refused), VALUE);
    const unknown = { a, b: `${VALUE}_tok`, c: `${VALUE.slice(1)} known_tok` };
    expectTellsNothing(await send(service, D, JSON.stringify({ data: unknown })), VALUE, a);
    for (const headers of HEADERS)
      expectTellsNothing(await send(service, T, '{"data":{}}', headers), VALUE);
    for (const bytes of RAW) {
      const [refused] = parseAnswers(await rawExchange(service, bytes));
      if (refused !== undefined && refused.status >= 300) expectTellsNothing(refused, VALUE);
    }
    await expectNothingLogged(VALUE, NAME, a);
  });

  test.each(CODES)('C27: nothing of an error %s of the database is told', async (code) => {
    await owner('drop trigger if exists fail on standin.records');
    const { body } = await call(service, 'tokenize', { a: `${VALUE} ${code}` });
    await owner(`create or replace function standin.fail() returns trigger language plpgsql as $$
      begin
        raise exception using errcode = '${code}', message = '${DATABASE}', detail = '${DATABASE}',
          hint = '${DATABASE}', column = '${DATABASE}', constraint = '${DATABASE}',
          table = '${DATABASE}', schema = '${DATABASE}', datatype = '${DATABASE}';
      end $$`);
    await owner(
      'create trigger fail before insert on standin.records for each row execute function standin.fail()',
    );
    const request = JSON.stringify({ data: { a: `${VALUE} ${code} new` } });
    let told: Record<string, unknown> = {};
    const ask = async () => {
      const answer = await send(service, T, request);
      expect(answer.status).toBe(500);
      expect(JSON.parse(answer.text)).toEqual({
        error: 'internal_error',
        message: expect.stringMatching(/^(unexpected failure|database unavailable)$/),
      });
      expectTellsNothing(answer, VALUE, DATABASE);
      told = await logLine(service, answer.headers.get('x-request-id')!);
      return told.code !== undefined;
    };
    // The service tries some codes again, and on a busy machine its deadline can end the last try:
    // then the line has no code of the database.
    await until(ask, 'an answer before the deadline');
    await owner('drop trigger fail on standin.records');
    // What is told instead: the code, for the operator alone.
    await expectNothingLogged(VALUE, DATABASE, body.data.a);
    expect(told).toMatchObject({ level: 'error', code });
    expect(Object.values(told).join()).not.toMatch(/insert|select|standin\./);
  });

  test('C27: nothing of an error of a read is told, and no value is in the log of the server', async () => {
    const { body } = await call(service, 'tokenize', { a: `${VALUE} read` });
    await owner(`create or replace function standin.refuse() returns boolean language plpgsql as $$
      begin raise exception using message = '${DATABASE}', detail = '${DATABASE}'; end $$`);
    await owner('create policy refuse on standin.records using (standin.refuse())');
    await owner('alter table standin.records enable row level security');
    const answer = await send(service, D, JSON.stringify(body));
    expect(answer.status).toBe(500);
    expectTellsNothing(answer, VALUE, DATABASE, body.data.a);
    await owner('alter table standin.records disable row level security');
    await expectNothingLogged(VALUE, DATABASE, body.data.a);
    const log = new Map([['log of postgres', readFileSync(cluster.logFile)]]);
    expect(findText(DATABASE, log)).not.toEqual([]);
    for (const text of [VALUE, body.data.a, service.api_key])
      expect(findText(text, log)).toEqual([]);
  });

  test('C02: a crash of the server is told without a value, a token or an API key', async () => {
    const { body } = await call(service, 'tokenize', { a: `${VALUE} crash` });
    await cluster.crash();
    for (const path of [T, D]) {
      const answer = await send(service, path, JSON.stringify(body));
      expect(answer.status).toBe(500);
      expectTellsNothing(answer, VALUE, body.data.a);
    }
    expect((await fetch(`${service.url}/health`)).status).toBe(503);
    cluster.startAgain();
    const works = async () => (await call(service, 'detokenize', body.data)).status === 200;
    await until(works, 'the service works again');
    await expectNothingLogged(VALUE, body.data.a);
  });
});

describe('the watch over all tests', () => {
  const API_KEY = `stk_${'a'.repeat(34)}`;

  test.each([
    ['a line of the log', (text: string) => `{"level":"info","msg":"${text}"}\n`],
    ['a stack', (text: string) => `{"level":"info"}\nError: ${text}\n    at serve (main.js:1:1)\n`],
    ['a warning without an end of line', (text: string) => `(node:7) Warning: ${text}`],
  ])('sees a value, a token and an API key in %s', (_name, written) => {
    expect(toldBy(written('all is well'), [VALUE])).toEqual([]);
    expect(toldBy(written(`a ${VALUE}`), [VALUE])).toEqual([VALUE]);
    expect(toldBy(written('to qwert_tok'), [])).toEqual(['t_tok']);
    expect(toldBy(written(`by ${API_KEY}`), [])).toEqual([API_KEY]);
  });

  test('sees each of 100,000 values, also one that JSON escapes', () => {
    const values = Array.from({ length: 100_000 }, (_, i) => `value "${i}"`);
    const output = '{"msg":"value \\"99999\\""}\nError: value "70000"\n';
    expect(toldBy(output, values)).toEqual(['value \\"99999\\"', 'value "70000"']);
  });

  test('sees what the embedded database of a service writes on standard error', async () => {
    const place = await newPlace('embedded');
    const written = 'zqjxkvbwqstderr';
    const tells = `process.argv[1]?.endsWith('embedded-server.js')&&process.stderr.write('${written}')`;
    onTestFinished(() => place.remove());
    const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(tells)}`;
    const service = await startService(place, { NODE_OPTIONS });
    onTestFinished(() => service.stop());
    await until(() => toldBy(service.output(), [written]).length > 0, 'what it wrote');
    expect(toldBy(service.output(), [written])).toEqual([written]);
  });
});
