import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { readAudit } from '../support/audit.ts';
import { parseAnswers, type RawAnswer, rawExchange } from '../support/http.ts';
import { startWithOps } from '../support/ops.ts';
import { logLine, served } from '../support/served.ts';
import { call, scrape, usualPlace } from '../support/service.ts';

const T = '/api/v1/tokenize';
const D = '/api/v1/detokenize';
let token: string;
const service = served(async () =>
  startWithOps(await usualPlace(), { AUDIT_LOG: 'audit.log', AUDIT_REQUIRED: 'true' }),
);
beforeAll(async () => {
  token = (await call(service, 'tokenize', { a: 'Ann Lee' })).body.data.a;
});

/** Answered as for a caller who may have everything; `body` is acceptable to both operations. */
async function ask(target: string): Promise<RawAnswer> {
  const body = target.includes('health') ? '' : JSON.stringify({ data: { a: token } });
  const head = [`${body === '' ? 'GET' : 'POST'} ${target} HTTP/1.1`, 'Host: a'];
  head.push('Connection: close', `Authorization: Bearer ${service.api_key}`);
  head.push('Content-Type: application/json', `Content-Length: ${body.length}`);
  const [answer] = parseAnswers(await rawExchange(service, `${head.join('\r\n')}\r\n\r\n${body}`));
  return answer!;
}

const countOf = async (route: string, status: number) =>
  (await scrape(service.opsUrl, 'standin_requests_total'))[`route="${route}",status="${status}"`] ??
  0;

/** The one before the last word, or where one could follow. */
const LAST_SLASH = /(?<=\w)\/(?=\w+$)|$/;
/** Each names the path for a router that decodes, cuts or resolves. */
const SPELLINGS: [string, (path: string) => string][] = [
  ['a letter as percent', (path) => path.replace('e', '%65')],
  ['the first letter as percent', (path) => path.replace(/\/(\w)/, (_, a) => `/%${hex(a)}`)],
  ['a slash as percent', (path) => path.replace(LAST_SLASH, '%2f')],
  ['a letter as percent twice', (path) => path.replace('e', '%2565')],
  ['a fragment', (path) => `${path}#x`],
  ['a fragment with a query', (path) => `${path}#?x`],
  ['parameters', (path) => `${path};x=1`],
  ['a slash behind', (path) => `${path}/`],
  ['two slashes', (path) => `/${path}`],
  ['a dot', (path) => `/.${path}`],
  ['two dots', (path) => `/x/..${path}`],
  ['a backslash', (path) => path.replace(LAST_SLASH, '\\')],
  ['capitals', (path) => path.toUpperCase()],
  ['absolute, a letter as percent', (path) => `http://a${path.replace('e', '%65')}`],
  ['absolute, two slashes', (path) => `http://a/${path}`],
  ['absolute, with a user', (path) => `http://u@a${path}`],
  ['of another scheme', (path) => `ftp://a${path}`],
];

function hex(letter: string): string {
  return letter.charCodeAt(0).toString(16);
}

describe.each([T, D, '/health', '/health/live'])('C33: %s', (path) => {
  test.each(SPELLINGS)('%s is a 404, and counted as no route', async (_, spell) => {
    const before = await countOf('none', 404);
    const { status, text } = await ask(spell(path));
    expect([status, JSON.parse(text).error]).toEqual([404, 'not_found']);
    expect(await countOf('none', 404)).toBe(before + 1);
  });

  test.each(['http://a', 'HTTPS://a:1', 'http://127.0.0.1:1', 'http://[::1]'])(
    'is served by its absolute form %s, and logged, counted and audited as itself',
    async (origin) => {
      const before = await countOf(path, 200);
      const { status, headers } = await ask(`${origin}${path}?x=1`);
      expect(status).toBe(200);
      expect(await countOf(path, 200)).toBe(before + 1);
      const id = headers.get('x-request-id')!;
      expect((await logLine(service, id, '"route"')).route).toBe(path);
      const { lines } = readAudit(join(service.place.folder, 'audit.log'));
      const events = lines.filter((line) => line.request_id === id).map(({ event }) => event);
      expect(events).toEqual(path.startsWith('/api') ? [path.slice('/api/v1/'.length)] : []);
    },
  );
});

test('C33: the ops listener has one spelling of each path, and no absolute form', async () => {
  const target = new URL('/metrics', service.opsUrl);
  const get = async (spelling: string) => {
    const head = `GET ${spelling} HTTP/1.1\r\nHost: ${target.host}\r\nConnection: close\r\n\r\n`;
    const received = await rawExchange({ ...service, url: target.origin }, head);
    return Number(received.split(' ')[1]);
  };
  expect(await get('/metrics')).toBe(200);
  for (const [, spell] of SPELLINGS)
    expect([spell('/metrics'), await get(spell('/metrics'))]).toEqual([spell('/metrics'), 404]);
  expect(await get(`http://${target.host}/metrics`)).toBe(404);
});
