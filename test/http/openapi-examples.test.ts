import pg from 'pg';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { OpenApiDocument } from '../../src/openapi/document.ts';
import type { Examples } from '../../src/openapi/elements.ts';
import { MIN_CALLS } from '../../src/tokens/threads/queue-delay.ts';
import { DocumentSchemas, operationsOf, responseOf } from '../support/docs.ts';
import { parseAnswers, type RawAnswer, rawExchange, retryAfter, send } from '../support/http.ts';
import { Licenser } from '../support/keys.ts';
import { startWithOps } from '../support/ops.ts';
import { applyPolicy, inForce } from '../support/policy.ts';
import { PostgresCluster, postgresBin } from '../support/postgres.ts';
import {
  createClient,
  newPlace,
  type Place,
  type Service,
  until,
  usualPlace,
} from '../support/service.ts';

const RECORDS = ['/api/v1/tokenize', '/api/v1/detokenize', '/api/v1/lookup'];
const TEXTS = ['/api/v1/text/tokenize', '/api/v1/text/detokenize'];
const VAULT = [...RECORDS, ...TEXTS];
/** Bodies that a path accepts: with a name, and with nothing to do. */
const bodyOf = (path: string, data: unknown, spans: unknown, text: unknown) =>
  JSON.stringify({ data: path === TEXTS[0] ? spans : path === TEXTS[1] ? text : data });
const good = (path: string, name = 'Ann Lee') => {
  const spans = [{ start: 0, end: name.length, kind: 'word' }];
  const token = `${name.replace(/\W/, '.')}_tok`;
  return bodyOf(path, { a: name }, { text: name, spans }, { text: token });
};
const empty = (path: string) => bodyOf(path, {}, { text: '', spans: [] }, { text: '' });
const POLICY = '/api/v1/policy';
const ALL = ['--can', 'tokenize,detokenize,lookup'];
/** Longer than the ten seconds that the headers of a request may take, and the look every second. */
const SLOW_MS = 30_000;

/** Every status of every operation, with every example of it, is an answer of the real service. */
describe.skipIf(postgresBin === undefined).each(['1.0.5', '1.0.4'])('interface %s', (version) => {
  let cluster: PostgresCluster;
  const services: Service[] = [];
  let service: Service;
  let unlicensed: Service;
  let unaudited: Service;
  let document: OpenApiDocument;
  let schemas: DocumentSchemas;
  const apiKeys: Record<string, string> = {};
  /** The examples that a response had, by place and name. */
  const shown = new Set<string>();

  beforeAll(async () => {
    cluster = await PostgresCluster.start();
    const start = async (place: Place, env: Record<string, string> = {}) => {
      const started = await startWithOps(place, { INTERFACE_VERSION: version, ...env });
      services.push(started);
      return started;
    };
    service = await start(await newPlace('server', cluster.url('postgres')));
    // All kinds, and no field, so that records are as without a policy.
    await applyPolicy(service, 1, 'version: 1');
    const place = await usualPlace();
    const licenser = new Licenser(place.folder);
    await licenser.issue(-1);
    unlicensed = await start(place, licenser.env);
    await applyPolicy(unlicensed, 1, 'version: 1');
    const required = { AUDIT_LOG: '/dev/full', AUDIT_REQUIRED: 'true' };
    unaudited = await start(await usualPlace(), required);
    const slow = ['--rate-limit=1', '--detokenize-limit=1', '--lookup-limit=1'];
    for (const [name, on, ...options] of [
      ['caller', service, ...ALL],
      ['slow', service, ...ALL, ...slow],
      ['tokenizer', service, '--can', 'tokenize'],
      ['detokenizer', service, '--can', 'detokenize'],
      ['auditless', unaudited, ...ALL],
    ] as [string, Service, ...string[]][])
      apiKeys[name] = (await createClient(on.place, ...options)).api_key;
    document = (await (await fetch(`${service.opsUrl}/openapi.json`)).json()) as OpenApiDocument;
    schemas = new DocumentSchemas(document);
  });
  afterAll(async () => {
    for (const one of services) {
      // The database of one of them is gone: nothing to wait for.
      one.kill();
      await one.exit;
      one.place.remove();
    }
    cluster?.stop();
  });

  /** The answer is as the document says: status, headers, schema, and the example itself. */
  function expectShown(path: string, name: string, answer: RawAnswer): void {
    const [method] = Object.keys(document.paths[path]!);
    const { response, at } = responseOf(document, path, method!, String(answer.status));
    const { examples = {} } = response.content['application/json'];
    const body = JSON.parse(answer.text);
    expect(withoutTime(body), path).toEqual(withoutTime(examples[name]!.value));
    expectFit(at, answer);
    shown.add(`${path} ${answer.status} ${name}`);
  }

  function expectFit(at: string[], { headers, text }: RawAnswer): void {
    const isFit = schemas.at(...at, 'content', 'application/json', 'schema');
    expect(isFit(JSON.parse(text)), `${at}: ${JSON.stringify(isFit.errors)}`).toBe(true);
    const ofDocument = document.components.headers;
    for (const [name, header] of Object.entries(ofDocument)) {
      const schema = header.schema as { readonly type?: string };
      const value = headers.get(name);
      const isSaid = name in headersOf(at);
      const mayLack = isSaid && !('required' in header);
      if (!mayLack || value !== null)
        expect([name, value !== null], `${at}`).toEqual([name, isSaid]);
      if (value === null) continue;
      const isHeader = schemas.at('components', 'headers', name, 'schema');
      const parsed = schema.type === 'integer' ? Number(value) : value;
      expect(isHeader(parsed), `${name}: ${value}`).toBe(true);
    }
  }

  function headersOf(at: string[]): object {
    return at.reduce((part: any, name) => part[name], document).headers;
  }

  const caller = () => ({ authorization: `Bearer ${apiKeys.caller}` });
  const ask = (path: string, body: string, apiKey = apiKeys.caller, on = service) => {
    const [method, sent] = path === POLICY ? ['GET', undefined] : ['POST', body];
    return send(on, path, sent, { authorization: `Bearer ${apiKey}` }, method);
  };
  const raw = async (request: string, timeoutMs?: number) => {
    const [answer] = parseAnswers(await rawExchange(service, request, timeoutMs, timeoutMs));
    return answer!;
  };
  const first = (path: string) =>
    `${Object.keys(document.paths[path]!)[0]!.toUpperCase()} ${path} HTTP/1.1\r\nHost: a\r\n`;

  /** The 429 of a request that is sent often. */
  async function limited(ask: () => Promise<RawAnswer>): Promise<RawAnswer> {
    let refusal: RawAnswer | undefined;
    await until(async () => {
      const answers = await Promise.all(Array.from({ length: 4 }, ask));
      refusal = answers.find(({ status }) => status === 429);
      return refusal !== undefined;
    }, 'a 429');
    return refusal!;
  }
  const limit = version === '1.0.5' ? 'user_limit' : 'rate_limit';
  const wrong: Record<string, (path: string) => Promise<RawAnswer>> = {
    // Of any request.
    bad_request: (path) => raw(`${first(path)}Name : a\r\n\r\n`),
    not_found: (path) => send(service, `${path}/more`, good(path)),
    only_post: (path) => send(service, path, good(path), {}, 'PUT'),
    only_get: (path) => send(service, path, good(path), {}, 'PUT'),
    request_timeout: (path) => raw(first(path), SLOW_MS),
    expectation_failed: (path) => raw(`${first(path)}Expect: more\r\n\r\n`),
    headers_too_large: (path) => raw(`${first(path)}A: ${'a'.repeat(17_408)}\r\n\r\n`),
    // Of callers.
    unauthorized: (path) => ask(path, good(path), 'stk_wrong'),
    [limit]: (path) => limited(() => ask(path, empty(path), apiKeys.slow)),
    no_data: (path) => ask(path, '{}'),
    no_json: (path) => ask(path, '{'),
    no_string: (path) => ask(path, '{"data":{"age":7}}'),
    no_text: (path) => ask(path, '{"data":{"text":7}}'),
    precondition_failed: (path) =>
      send(service, path, good(path), { ...caller(), 'if-match': '"another"' }),
    payload_too_large: (path) => ask(path, ' '.repeat(1_048_577)),
    unsupported_media_type: (path) =>
      send(service, path, good(path), { ...caller(), 'content-type': 'text/plain' }),
    unknown_token: (path) => ask(path, '{"data":{"name":"qev mwi_tok"}}'),
    no_tokenize: (path) => ask(path, good(path), apiKeys.detokenizer),
    no_detokenize: (path) => ask(path, good(path), apiKeys.tokenizer),
    no_lookup: (path) => ask(path, good(path), apiKeys.tokenizer),
    license: (path) => ask(path, good(path), unlicensed.api_key, unlicensed),
    audit: (path) => ask(path, empty(path), apiKeys.auditless, unaudited),
  };
  test.each(Object.keys(wrong))('A45: %s, of each path that can have it', async (name) => {
    const paths = said().flatMap((one) => (one.name === name ? [one.path] : []));
    expect(paths).not.toEqual([]);
    await Promise.all(paths.map(async (path) => expectShown(path, name, await wrong[name]!(path))));
  });

  test('the examples of requests get answers like those shown, there and back', async () => {
    const [tokenize, detokenize] = VAULT.map((path) => document.paths[path]!.post!);
    const examplesOf = ({ requestBody }: typeof tokenize & object) =>
      Object.entries(requestBody!.content['application/json'].examples!) as [
        string,
        Examples[string],
      ][];
    const restores = new Map(examplesOf(detokenize!));
    expect(examplesOf(tokenize!).map(([name]) => name)).toEqual([...restores.keys()]);
    for (const [name, { value }] of examplesOf(tokenize!)) {
      const answer = await ask(VAULT[0]!, JSON.stringify(value));
      expectLike(VAULT[0]!, name, answer);
      expectLike(VAULT[2]!, name, await ask(VAULT[2]!, JSON.stringify(value)));
      // The tokens of the example are those of another vault; sent as they are, they are unknown.
      const sent = JSON.parse(answer.text).data;
      const ofExample = restores.get(name)!.value as { data: unknown };
      expect(shapeOf(sent)).toEqual(shapeOf(ofExample.data));
      expect((await ask(VAULT[1]!, JSON.stringify(ofExample))).status).toBe(400);
      const restored = await ask(VAULT[1]!, JSON.stringify({ data: sent }));
      expectLike(VAULT[1]!, name, restored);
      expect(JSON.parse(restored.text).data).toEqual((value as { data: unknown }).data);
    }
  });

  test('the examples of texts get answers like those shown, there and back', async () => {
    const [tokenize, detokenize] = TEXTS;
    const ofRequest = (path: string): any =>
      document.paths[path]!.post!.requestBody!.content['application/json'].examples!.text!.value;
    const answer = await ask(tokenize!, JSON.stringify(ofRequest(tokenize!)));
    expectLike(tokenize!, 'text', answer);
    const { text } = JSON.parse(answer.text).data;
    expect(shapeOf(text)).toBe(shapeOf(ofRequest(detokenize!).data.text));
    expectLike(detokenize!, 'text', await ask(detokenize!, JSON.stringify({ data: { text } })));
  });

  /** A success: the same names in the same order as in the example, and data of the same shape. */
  function expectLike(path: string, name: string, answer: RawAnswer): void {
    const { response, at } = responseOf(document, path, 'post', '200');
    expect(answer.status).toBe(200);
    expectFit(at, answer);
    const example = response.content['application/json'].examples![name]!.value as any;
    const body = JSON.parse(answer.text);
    expect(Object.keys(body)).toEqual(Object.keys(example));
    expect(Object.values(body)).toContain(answer.headers.get('x-request-id'));
    expect(shapeOf(body.data)).toEqual(shapeOf(example.data));
    shown.add(`${path} 200 ${name}`);
  }

  test('503 of what would wait too long', async () => {
    const locker = new pg.Client({ connectionString: service.place.env.DATABASE_URL });
    await locker.connect();
    await locker.query('begin; lock table standin.records in access exclusive mode');
    const refusals = new Map<string, RawAnswer>();
    const tokenize = async (path: string, i: number) => {
      const answer = await ask(path, good(path, `Ann ${i}`));
      if (answer.status === 503) refusals.set(path, answer);
      return answer.status;
    };
    let isOver = false;
    onTestFinished(async () => {
      isOver = true;
      await locker.end();
    });
    // Each waits until it is refused or given up, so that there are always too many, however slow the machine.
    const callers = Array.from({ length: 2 * MIN_CALLS }, async (_, i) => {
      while (!isOver)
        if ((await tokenize(VAULT[i % VAULT.length]!, i)) === 503) await retryAfter(1);
    });
    const late: Promise<number>[] = [];
    await until(async () => {
      const more = VAULT.map((path, i) => tokenize(path, i));
      late.push(...more);
      await Promise.race([...more, new Promise((resolve) => setTimeout(resolve, 50))]);
      return refusals.size === VAULT.length;
    }, 'refusals');
    isOver = true;
    await locker.end();
    await Promise.all([...callers, ...late]);
    for (const path of VAULT) expectShown(path, 'overloaded', refusals.get(path)!);
  });

  const policy = (apiKey = apiKeys.caller) => ask(POLICY, '', apiKey);

  test('the policy', async () => {
    await applyPolicy(service, 2, 'version: 1\nfields: { a: text }\nelsewhere: refuse');
    await inForce(service, 2);
    const { response, at } = responseOf(document, POLICY, 'get', '200');
    const answer = await policy();
    expectFit(at, answer);
    const example = response.content['application/json'].examples!.fields!.value;
    expect(Object.keys(JSON.parse(answer.text))).toEqual(Object.keys(example as object));
    shown.add(`${POLICY} 200 fields`);
  });

  test('A46: health, with its database, without, and when it is back', async () => {
    const get = (path: string) => send(service, path, undefined, { authorization: null }, 'GET');
    expectShown('/health', 'ok', await get('/health'));
    await cluster.crash();
    expectShown('/health', 'error', await get('/health'));
    expectShown('/health/live', 'ok', await get('/health/live'));
    for (const path of VAULT) expectShown(path, 'database', await ask(path, good(path)));
    let failed: RawAnswer | undefined;
    await until(async () => {
      failed = await policy();
      return failed.status === 500;
    }, 'a policy that is too old');
    expectShown(POLICY, 'database', failed!);
    cluster.startAgain();
    await until(async () => (await get('/health')).status === 200, 'a 200 of /health');
  });

  const said = () =>
    operationsOf(document).flatMap(({ path, method, operation }) =>
      Object.keys(operation.responses).flatMap((status) => {
        const { response } = responseOf(document, path, method, status);
        return Object.entries(response.content['application/json'].examples ?? {})
          .filter(([, { summary }]) => isOf(summary, operation.operationId))
          .map(([name]) => ({ path, status, name }));
      }),
    );
  test('nothing that the document shows is left', () => {
    const all = said().map(({ path, status, name }) => `${path} ${status} ${name}`);
    expect([...shown].toSorted()).toEqual(all.toSorted());
  });
});

/** Of a message that only some operations have, the summary of the example says so. */
function isOf(summary: string, operation: string): boolean {
  const only = /, of (.+) only$/.exec(summary)?.[1];
  return only === undefined || only.split(', ').includes(operation);
}

function withoutTime(body: any): unknown {
  return 'timestamp' in body ? { ...body, timestamp: 'then' } : body;
}

/** Letters and digits alike: what a token has in common with its example. */
function shapeOf(data: unknown): unknown {
  return JSON.parse(
    JSON.stringify(data, (_name, json) =>
      typeof json === 'string' ? json.replaceAll(/[A-Za-z]/g, 'a').replaceAll(/\d/g, '0') : json,
    ),
  );
}
