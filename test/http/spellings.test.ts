import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readAudit } from '../support/audit.ts';
import { parseAnswers, type RawAnswer, rawExchange } from '../support/http.ts';
import { freePort } from '../support/processes.ts';
import { call, type Service, scrape, startService, until, usualPlace } from '../support/service.ts';

const T = '/api/v1/tokenize';
const D = '/api/v1/detokenize';
let service: Service;
let token: string;
beforeAll(async () => {
  const place = await usualPlace();
  const AUDIT_LOG = join(place.folder, 'audit.log');
  service = await startService(place, {
    ...{ AUDIT_LOG, AUDIT_REQUIRED: 'true', OPS_PORT: String(await freePort()) },
  });
  token = (await call(service, 'tokenize', { a: 'Ann Lee' })).body.data.a;
});
afterAll(async () => {
  await service.stop();
  service.place.remove();
});

/** Answered as for a caller who may have everything; `body` is acceptable to both operations. */
async function ask(target: string, url = service.url): Promise<RawAnswer> {
  const body = JSON.stringify({ data: { a: token } });
  const method = target.includes('health') ? 'GET' : 'POST';
  const head = [`${method} ${target} HTTP/1.1`, 'Host: a', 'Connection: close'];
  head.push(`Authorization: Bearer ${service.api_key}`);
  if (method === 'POST')
    head.push('Content-Type: application/json', `Content-Length: ${body.length}`);
  const bytes = `${head.join('\r\n')}\r\n\r\n${method === 'POST' ? body : ''}`;
  const [answer] = parseAnswers(await rawExchange({ ...service, url }, bytes));
  return answer!;
}

const requestsOf = () => scrape(service.opsUrl!, 'standin_requests_total');
const countOf = (counts: Record<string, number>, route: string, status: number) =>
  counts[`route="${route}",status="${status}"`] ?? 0;

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
    const before = await requestsOf();
    const { status, text } = await ask(spell(path));
    expect([status, JSON.parse(text).error]).toEqual([404, 'not_found']);
    const after = await requestsOf();
    expect(countOf(after, 'none', 404)).toBe(countOf(before, 'none', 404) + 1);
  });

  test.each(['http://a', 'HTTPS://a:1', 'http://127.0.0.1:1', 'http://[::1]'])(
    'is served by its absolute form %s, and logged, counted and audited as itself',
    async (origin) => {
      const before = await requestsOf();
      const { status, headers } = await ask(`${origin}${path}?x=1`);
      expect(status).toBe(200);
      const after = await requestsOf();
      expect(countOf(after, path, 200)).toBe(countOf(before, path, 200) + 1);
      const id = headers.get('x-request-id')!;
      const logged = () =>
        service
          .output()
          .split('\n')
          .find((one) => one.includes(id) && one.includes('"route"') && one.endsWith('}'));
      await until(() => logged() !== undefined, 'its line in the log');
      expect(JSON.parse(logged()!).route).toBe(path);
      const { lines } = readAudit(join(service.place.folder, 'audit.log'));
      const events = lines
        .filter(({ request_id: requestId }) => requestId === id)
        .map(({ event }) => event);
      expect(events).toEqual(path.startsWith('/api') ? [path.slice('/api/v1/'.length)] : []);
    },
  );
});

test('C33: the ops listener has one spelling of each path, and no absolute form', async () => {
  const target = new URL('/metrics', service.opsUrl!);
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
