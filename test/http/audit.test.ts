import { chmodSync, mkdirSync, readFileSync, statSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, onTestFinished, type TestContext, test } from 'vitest';
import { METHODS } from '../../src/public/schema.ts';
import { readAudit } from '../support/audit.ts';
import { blocks } from '../support/docs.ts';
import { send } from '../support/http.ts';
import { linesOfLog } from '../support/secrecy.ts';
import { logged } from '../support/served.ts';
import {
  call,
  createClient,
  kinds,
  newPlace,
  type Place,
  runCli,
  type Service,
  startService,
  until,
  usualKinds,
} from '../support/service.ts';

const UUID = expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f-]{17}$/);
const KEY_ID = expect.stringMatching(/^key_[0-9a-f]{12}$/);
const TIME = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
const T = '/api/v1/tokenize';
const D = '/api/v1/detokenize';

let place: Place;
let file: string;

async function prepare(kind: Place['kind'], { onTestFinished }: TestContext): Promise<void> {
  place = await newPlace(kind);
  onTestFinished(() => place.remove());
  file = join(place.folder, 'audit.log');
}

async function start(env: Record<string, string> = {}): Promise<Service> {
  const service = await startService(place, { AUDIT_LOG: file, ...env });
  onTestFinished(() => service.stop());
  return service;
}

describe.each(usualKinds())('the audit log on the %s database', (kind) => {
  beforeEach((context) => prepare(kind, context));

  test('each route that takes an API key has a line for a known one, and the rest of them none', async () => {
    const service = await start({ AUDIT_REQUIRED: 'true' });
    const ids: (string | null)[] = [];
    for (const [route, methods] of Object.entries(METHODS)) {
      for (const method of methods.split(', ')) {
        const body = method === 'POST' ? '{"data":{"text":"a"}}' : undefined;
        const { headers } = await send(service, route, body, {}, method);
        if (route.startsWith('/api/')) ids.push(headers.get('x-request-id'));
      }
    }
    await service.stop();
    const { lines } = readAudit(file);
    expect(lines.map(({ request_id: id }) => id)).toEqual(ids);
    const last = lines.slice(-2).map(({ event, status }) => `${event} ${status}`);
    expect(last).toEqual(['policy 404', 'policy 404']);
  });

  test.each(['true', 'false'])(
    'AUDIT_REQUIRED=%s: C28: each request of a known caller has its line, all others of a second one, and no more',
    async (AUDIT_REQUIRED) => {
      const node = await start({ AUDIT_REQUIRED });
      const limited = ['--can=tokenize', '--rate-limit=0.001'];
      const { api_key: apiKey, client_id: clientId } = await createClient(place, ...limited);
      const theirs = { authorization: `Bearer ${apiKey}` };
      const { body } = await call(node, 'tokenize', { zqName: ['Ann Lee', 'Bob Ray', 'Bob Ray'] });
      await call(node, 'detokenize', { zqName: body.data.zqName });
      await call(node, 'detokenize', { zqA: body.data.zqName[0], zqB: ['zq1_tok', 'zq2_tok'] });
      await send(node, D, '{"data":{}}', theirs);
      await send(node, T, '{"data":{}}', theirs);
      await send(node, T, '{"data":{}}', theirs);
      await send(node, T, 'zq{', { 'content-type': 'text/plain' });
      await send(node, T, ' '.repeat(1_048_577));
      await send(node, T, '{"data":{"zqName":1}}');
      await send(node, D, '{"data":{}}', { authorization: 'Bearer zqwrong' });
      await send(node, D, '{"data":{}}', { authorization: null });
      await send(node, T, '{"data":{}}', { authorization: null });
      // Wrong methods and unknown paths have none.
      await send(node, D, undefined, {}, 'GET');
      await send(node, '/health', undefined, {}, 'GET');
      await send(node, '/nope', '{}');
      await node.stop();
      const { lines: all, torn } = readAudit(file);
      expect(torn).toEqual([]);
      const lines = all.filter(({ requests }) => requests === undefined);
      const from = { remote_address: '127.0.0.1', node: hostname() };
      const ours = { client_id: node.client_id, api_key_id: KEY_ID };
      const their = { client_id: clientId, api_key_id: KEY_ID };
      const line = (
        event: string,
        outcome: string,
        status: number,
        values: number,
        rest: object,
      ) => {
        const about = { event, outcome, status, values, ...rest };
        return { time: TIME, request_id: UUID, ...about, ...from };
      };
      expect(lines).toEqual([
        line('tokenize', 'success', 200, 3, ours),
        line('detokenize', 'success', 200, 3, ours),
        line('detokenize', 'invalid_type', 400, 0, { ...ours, unknown_tokens: 2 }),
        line('detokenize', 'forbidden', 403, 0, their),
        line('tokenize', 'success', 200, 0, their),
        line('tokenize', 'user_limit', 429, 0, their),
        line('tokenize', 'unsupported_media_type', 415, 0, ours),
        line('tokenize', 'payload_too_large', 413, 0, ours),
        line('tokenize', 'invalid_type', 400, 0, ours),
      ]);
      const counted: Record<string, number> = {};
      for (const { event, requests, ...rest } of all.filter((one) => one.requests !== undefined)) {
        counted[event] = (counted[event] ?? 0) + requests;
        const times = { time: TIME, first_at: TIME, last_at: TIME };
        expect(rest).toEqual({ outcome: 'unauthorized', status: 401, ...times, ...from });
      }
      expect(counted).toEqual({ detokenize: 2, tokenize: 1 });
      expect(lines[0].request_id).toBe(body.request_id);
      const shown = blocks('docs/operating/audit.md', 'json').map((text) => JSON.parse(text));
      const raw = linesOfLog(readFileSync(file, 'utf8')).map((text) => JSON.parse(text));
      const written = [raw[1], raw.find(({ requests }) => requests)];
      expect(written.map(Object.keys)).toEqual(shown.map(Object.keys));
      expect(raw.map(({ seq }) => seq)).toEqual(raw.map((_, i) => i + 1));
      const secrets = ['Ann Lee', 'Bob', 'zq', 'stk_', node.api_key, apiKey, ...body.data.zqName];
      for (const secret of secrets) expect(JSON.stringify(all)).not.toContain(secret);
    },
  );
});

describe('the file', () => {
  beforeEach((context) => prepare(kinds().at(-1)!, context));

  test('is made for its owner alone, and is appended to at the next start with the mode that it has', async () => {
    const first = await start();
    await call(first, 'tokenize', {});
    await first.stop();
    expect(statSync(file).mode & 0o777).toBe(0o600);
    chmodSync(file, 0o640);
    const next = await start();
    await call(next, 'tokenize', {}, first.api_key);
    await next.stop();
    expect(statSync(file).mode & 0o777).toBe(0o640);
    expect(readAudit(file).lines).toHaveLength(2);
  });

  test.each([
    ['in a folder that is not there', 'none/audit.log', 'ENOENT'],
    ['that is a folder', 'folder', 'EISDIR'],
  ])('%s is an error at the start', async (_, name, code) => {
    mkdirSync(join(place.folder, 'folder'));
    const path = join(place.folder, name);
    const env = { AUDIT_LOG: path, PORT: '0', OPS_PORT: '0' };
    const { code: exitCode, stderr } = await runCli(['serve'], place, env);
    expect([exitCode, stderr]).toEqual([
      1,
      `standin: The file of AUDIT_LOG, ${path}, cannot be opened for writing (${code}). Let this user write to the file and its folder, or set AUDIT_LOG to another file.\n`,
    ]);
  });

  test('may be standard output: lines of the log stay whole beside it', async () => {
    const node = await start({ AUDIT_LOG: 'stdout', AUDIT_REQUIRED: 'true' });
    await Promise.all(Array.from({ length: 200 }, (_, i) => call(node, 'tokenize', { a: `${i}` })));
    await until(() => logged(node, '"duration_ms"').length === 200, 'the lines of the log');
    expect(logged(node, '"event":"tokenize"')).toHaveLength(200);
    for (const line of linesOfLog(node.output())) expect(() => JSON.parse(line)).not.toThrow();
  });

  test('has the ids of a caller, as the log has them, and the response has none', async () => {
    const trace = '0af7651916cd43dd8448eb211c80319c';
    const span = 'b7ad6b7169203331';
    const ids = { trace_id: trace, parent_id: span, caller_request_id: 'order-7' };
    const headers = { traceparent: `00-${trace}-${span}-01`, 'x-request-id': 'order-7' };
    const all = {
      ...headers,
      tracestate: 'zqzqzqvendor=zqzqzqstate',
      baggage: 'zqzqzqname=zqzqzqbaggage',
    };
    const node = await start();
    const plain = await send(node, T, '{"data":{"a":"Ann Lee"}}');
    const traced = await send(node, T, '{"data":{"a":"Ann Lee"}}', all);
    await send(node, T, '{"data":{"a":1}}', all);
    await send(node, T, '{"data":{}}', { ...all, authorization: null });
    await send(node, T, '{"data":{}}', { traceparent: 'zqzqzq', 'x-request-id': 'zqzqzq zqzqzq' });
    await until(() => logged(node, '"duration_ms"').length === 5, 'the lines of the log');
    await node.stop();
    const { lines } = readAudit(file);
    const audited = lines.filter(({ requests }) => requests === undefined);
    const idsOf = (line: Record<string, string>) =>
      Object.fromEntries(Object.keys(ids).flatMap((id) => (id in line ? [[id, line[id]]] : [])));
    expect(logged(node, '"duration_ms"').map(idsOf)).toEqual([{}, ids, ids, ids, {}]);
    expect(audited.map(idsOf)).toEqual([{}, ids, ids, {}]);
    expect(audited[1].request_id).toBe(traced.headers.get('x-request-id'));
    const shape = ({ status, headers, text }: typeof plain) =>
      JSON.stringify([status, [...headers].filter(([name]) => name !== 'date'), text]).replaceAll(
        /[0-9a-f]{8}-[0-9a-f-]{27}/g,
        'ID',
      );
    expect(shape(traced)).toBe(shape(plain));
    expect(node.output() + JSON.stringify(lines)).not.toMatch(/zqzqzq|"tracestate"|"baggage"/);
  });
});
