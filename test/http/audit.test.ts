import { chmodSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { METHODS } from '../../src/public/routes.ts';
import { readAudit } from '../support/audit.ts';
import { blocks } from '../support/docs.ts';
import { send } from '../support/http.ts';
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
let service: Service | undefined;
afterEach(async () => {
  await service?.stop();
  service = undefined;
  place.remove();
});

async function prepare(kind: (typeof place)['kind']): Promise<void> {
  place = await newPlace(kind);
  file = join(place.folder, 'audit.log');
}

describe.each(usualKinds())('the audit log on the %s database', (kind) => {
  beforeEach(() => prepare(kind));

  test('each route that takes an API key has a line for a known one, and the rest of them none', async () => {
    const node = await startService(place, { AUDIT_LOG: file, AUDIT_REQUIRED: 'true' });
    service = node;
    const routes = Object.entries(METHODS).flatMap(([route, methods]) =>
      methods.split(', ').map((method) => ({ route, method })),
    );
    const ids: (string | null)[] = [];
    for (const { route, method } of routes) {
      const body = method === 'POST' ? '{"data":{"text":"a"}}' : undefined;
      const { headers } = await send(node, route, body, {}, method);
      if (route.startsWith('/api/')) ids.push(headers.get('x-request-id'));
    }
    await node.stop();
    const { lines } = readAudit(file);
    expect(lines.map(({ request_id: id }) => id)).toEqual(ids);
    expect(lines.slice(-2)).toEqual(
      lines.slice(-2).map(() => expect.objectContaining({ event: 'policy', status: 404 })),
    );
  });

  test.each(['true', 'false'])(
    'AUDIT_REQUIRED=%s: C28: each request of a known caller has its line, all others of a second one, and no more',
    async (AUDIT_REQUIRED) => {
      const node = await startService(place, { AUDIT_LOG: file, AUDIT_REQUIRED });
      service = node;
      const { api_key: apiKey, client_id: clientId } = await createClient(
        place,
        ...['--can=tokenize', '--rate-limit=0.001'],
      );
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
      const audit = readAudit(file);
      expect(audit.torn).toEqual([]);
      const lines = audit.lines.filter(({ requests }) => requests === undefined);
      const sums = audit.lines.filter(({ requests }) => requests !== undefined);
      const from = { remote_address: '127.0.0.1', node: hostname() };
      const ours = { client_id: node.client_id, api_key_id: KEY_ID };
      const their = { client_id: clientId, api_key_id: KEY_ID };
      const line = (
        event: string,
        outcome: string,
        status: number,
        values: number,
        rest: object,
      ) => ({
        time: TIME,
        ...{ event, outcome, status, request_id: UUID, values, ...rest, ...from },
      });
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
      const counted = new Map<string, number>();
      for (const { event, requests, ...rest } of sums) {
        counted.set(event, (counted.get(event) ?? 0) + requests);
        const times = { time: TIME, first_at: TIME, last_at: TIME };
        expect(rest).toEqual({ outcome: 'unauthorized', status: 401, ...times, ...from });
      }
      expect([...counted]).toEqual([
        ['detokenize', 2],
        ['tokenize', 1],
      ]);
      expect(lines[0].request_id).toBe(body.request_id);
      const shown = blocks('docs/operating/audit.md', 'json').map((block) =>
        Object.keys(JSON.parse(block)),
      );
      const raw = readFileSync(file, 'utf8')
        .trimEnd()
        .split('\n')
        .map((text) => JSON.parse(text));
      expect([raw[1], raw.find(({ requests }) => requests)].map(Object.keys)).toEqual(shown);
      expect(raw.map(({ seq }) => seq)).toEqual(raw.map((_, i) => i + 1));
      const text = JSON.stringify(audit.lines);
      const secrets = ['Ann Lee', 'Bob', 'zq', 'stk_', node.api_key, apiKey];
      for (const secret of [...secrets, ...body.data.zqName]) expect(text).not.toContain(secret);
    },
  );
});

describe('the file', () => {
  beforeEach(() => prepare(kinds().at(-1)!));

  test('is made for its owner alone, and is appended to at the next start', async () => {
    service = await startService(place, { AUDIT_LOG: file });
    const { api_key: apiKey } = service;
    await call(service, 'tokenize', {});
    await service.stop();
    expect(statSync(file).mode & 0o777).toBe(0o600);
    service = await startService(place, { AUDIT_LOG: file });
    await call(service, 'tokenize', {}, apiKey);
    await service.stop();
    expect(readAudit(file).lines).toHaveLength(2);
  });

  test('keeps the mode that it has', async () => {
    writeFileSync(file, '');
    chmodSync(file, 0o640);
    service = await startService(place, { AUDIT_LOG: file });
    await call(service, 'tokenize', {});
    expect(statSync(file).mode & 0o777).toBe(0o640);
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
    const node = await startService(place, { AUDIT_LOG: 'stdout', AUDIT_REQUIRED: 'true' });
    service = node;
    await Promise.all(Array.from({ length: 200 }, (_, i) => call(node, 'tokenize', { a: `${i}` })));
    const objects = () =>
      node
        .output()
        .split('\n')
        .filter((line) => line.startsWith('{'));
    const audited = () => objects().filter((line) => line.includes('"event":"tokenize"'));
    const logged = () => objects().filter((line) => line.includes('"duration_ms"'));
    await until(() => logged().length === 200, 'the lines of the log');
    expect(audited()).toHaveLength(200);
    for (const line of objects()) expect(() => JSON.parse(line)).not.toThrow();
  });
});
