import pg from 'pg';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { OpenApiDocument } from '../../src/openapi/document.ts';
import type { Example } from '../../src/openapi/errors.ts';
import { MIN_CALLS } from '../../src/tokens/threads/queue-delay.ts';
import { DocumentSchemas, operationsOf, responseOf } from '../support/docs.ts';
import { parseAnswers, type RawAnswer, rawExchange, retryAfter, send } from '../support/http.ts';
import { Licenser } from '../support/keys.ts';
import { applyPolicy } from '../support/policy.ts';
import { freePort, PostgresCluster, postgresBin } from '../support/postgres.ts';
import {
  createClient,
  newPlace,
  type Service,
  startService,
  until,
  usualPlace,
} from '../support/service.ts';

const RECORDS = ['/api/v1/tokenize', '/api/v1/detokenize', '/api/v1/lookup'];
const TEXTS = ['/api/v1/text/tokenize', '/api/v1/text/detokenize'];
const VAULT = [...RECORDS, ...TEXTS];
const DATA: Readonly<Record<string, (name: string) => string>> = {
  [TEXTS[0]!]: (name) =>
    `{"data":{"text":"${name}","spans":[{"start":0,"end":${name.length},"kind":"word"}]}}`,
  [TEXTS[1]!]: (name) => `{"data":{"text":"${name.replace(/\W/, '.')}_tok"}}`,
};
/** A body that this path accepts. */
const good = (path: string, name = 'Ann Lee') => DATA[path]?.(name) ?? `{"data":{"a":"${name}"}}`;
const EMPTY: Readonly<Record<string, string>> = {
  [TEXTS[0]!]: '{"data":{"text":"","spans":[]}}',
  [TEXTS[1]!]: '{"data":{"text":""}}',
};
const empty = (path: string) => EMPTY[path] ?? '{"data":{}}';
const POLICY = '/api/v1/policy';
const ALL = ['--can', 'tokenize,detokenize,lookup'];
/** Longer than the ten seconds that the headers of a request may take, and the look every second. */
const SLOW_MS = 30_000;

/** Every status of every operation, with every example of it, is an answer of the real service. */
describe.skipIf(postgresBin === undefined).each(['1.0.5', '1.0.4'])('interface %s', (version) => {
  let cluster: PostgresCluster;
  let service: Service;
  let unlicensed: Service;
  let unaudited: Service;
  /** An API key of it. */
  let auditless: string;
  let document: OpenApiDocument;
  let schemas: DocumentSchemas;
  const others = new Map<string, string>();
  /** What was shown of each example, by place and name. */
  const shown = new Set<string>();

  beforeAll(async () => {
    cluster = await PostgresCluster.start();
    const env = { INTERFACE_VERSION: version };
    service = await startService(await newPlace('server', cluster.url('postgres')), {
      ...env,
      OPS_PORT: String(await freePort()),
    });
    for (const [name, ...options] of [
      ['caller', ...ALL],
      ['slow', ...ALL, '--rate-limit=1', '--detokenize-limit=1', '--lookup-limit=1'],
      ['tokenizer', '--can', 'tokenize'],
      ['detokenizer', '--can', 'detokenize'],
    ]) {
      others.set(name!, (await createClient(service.place, ...options)).api_key);
    }
    // All kinds, and no field, so that records are as without a policy.
    await applyPolicy(service, 1, 'version: 1');
    const place = await usualPlace();
    const licenser = new Licenser(place.folder);
    await licenser.issue(-1);
    unlicensed = await startService(place, { ...env, ...licenser.env });
    await applyPolicy(unlicensed, 1, 'version: 1');
    unaudited = await startService(await usualPlace(), {
      ...env,
      AUDIT_LOG: '/dev/full',
      AUDIT_REQUIRED: 'true',
    });
    auditless = (await createClient(unaudited.place, ...ALL)).api_key;
    document = (await (await fetch(`${service.opsUrl}/openapi.json`)).json()) as OpenApiDocument;
    schemas = new DocumentSchemas(document);
  });
  afterAll(async () => {
    for (const one of [service, unlicensed, unaudited]) {
      // The database of one of them is gone: nothing to wait for.
      one?.kill();
      await one?.exit;
      one?.place.remove();
    }
    cluster?.stop();
  });

  /** The answer is as the document says: status, headers, schema, and the example itself. */
  function expectShown(path: string, name: string, answer: RawAnswer): void {
    const [method] = Object.keys(document.paths[path]!);
    const { response, at } = responseOf(document, path, method!, String(answer.status));
    const { examples } = response.content['application/json'];
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
      const { schema } = header;
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

  const post = (path: string, body: string, apiKey = others.get('caller'), on = service) =>
    send(on, path, body, { authorization: `Bearer ${apiKey}` });
  const raw = async (request: string, patienceMs?: number) => {
    const [answer] = parseAnswers(await rawExchange(service, request, patienceMs, patienceMs));
    return answer!;
  };
  const first = (path: string) =>
    `${Object.keys(document.paths[path]!)[0]!.toUpperCase()} ${path} HTTP/1.1\r\nHost: a\r\n`;

  /** What brings an error about that any request can have, by its code. */
  const ANY: Record<string, (path: string) => Promise<RawAnswer>> = {
    bad_request: (path) => raw(`${first(path)}Name : a\r\n\r\n`),
    not_found: (path) => send(service, `${path}/more`, good(path)),
    method_not_allowed: (path) => send(service, path, good(path), {}, 'PUT'),
    request_timeout: (path) => raw(first(path), SLOW_MS),
    expectation_failed: (path) => raw(`${first(path)}Expect: more\r\n\r\n`),
    headers_too_large: (path) => raw(`${first(path)}A: ${'a'.repeat(17_408)}\r\n\r\n`),
  };
  test.each(Object.keys(ANY))('%s, on every path', async (code) => {
    await Promise.all(
      Object.keys(document.paths).map(async (path) => {
        const only = VAULT.includes(path) ? 'only_post' : 'only_get';
        const name = code === 'method_not_allowed' ? only : code;
        expectShown(path, name, await ANY[code]!(path));
      }),
    );
  });

  const limit = version === '1.0.5' ? 'user_limit' : 'rate_limit';
  const OF_VAULT: Record<string, (path: string) => Promise<RawAnswer>> = {
    no_data: (path) => post(path, '{}'),
    no_json: (path) => post(path, '{'),
    unauthorized: (path) => post(path, good(path), 'stk_wrong'),
    precondition_failed: (path) =>
      send(service, path, good(path), {
        authorization: `Bearer ${others.get('caller')}`,
        'if-match': '"another"',
      }),
    payload_too_large: (path) => post(path, ' '.repeat(1_048_577)),
    unsupported_media_type: (path) => {
      const authorization = `Bearer ${others.get('caller')}`;
      return send(service, path, good(path), { authorization, 'content-type': 'text/plain' });
    },
    [limit]: async (path) => {
      let refusal: RawAnswer | undefined;
      await until(async () => {
        const asked = Array.from({ length: 4 }, () => post(path, empty(path), others.get('slow')));
        refusal = (await Promise.all(asked)).find(({ status }) => status === 429);
        return refusal !== undefined;
      }, 'a 429');
      return refusal!;
    },
    audit: (path) => post(path, empty(path), auditless, unaudited),
  };
  test.each(Object.keys(OF_VAULT))('%s, of all operations', async (name) => {
    for (const path of VAULT) expectShown(path, name, await OF_VAULT[name]!(path));
  });

  test('what only one of the operations answers', async () => {
    const unknown = await post(VAULT[1]!, '{"data":{"name":"qev mwi_tok"}}');
    expectShown(VAULT[1]!, 'unknown_token', unknown);
    const { api_key: apiKey } = unlicensed;
    const expectOnly = async (path: string, name: string, who: string) =>
      expectShown(path, name, await post(path, good(path), others.get(who)));
    for (const path of [RECORDS[0]!, TEXTS[0]!]) {
      expectShown(path, 'license', await post(path, good(path), apiKey, unlicensed));
      await expectOnly(path, 'no_tokenize', 'detokenizer');
    }
    for (const path of [RECORDS[1]!, TEXTS[1]!])
      await expectOnly(path, 'no_detokenize', 'tokenizer');
    await expectOnly(RECORDS[2]!, 'no_lookup', 'tokenizer');
    for (const path of RECORDS)
      expectShown(path, 'no_string', await post(path, '{"data":{"age":7}}'));
    for (const path of TEXTS) expectShown(path, 'no_text', await post(path, '{"data":{"text":7}}'));
  });

  test('the examples of requests get answers like those shown, there and back', async () => {
    const [tokenize, detokenize] = VAULT.map((path) => document.paths[path]!.post!);
    const examplesOf = ({ requestBody }: typeof tokenize & object) =>
      Object.entries(requestBody!.content['application/json'].examples) as [string, Example][];
    const restores = new Map(examplesOf(detokenize!));
    expect(examplesOf(tokenize!).map(([name]) => name)).toEqual([...restores.keys()]);
    for (const [name, { value }] of examplesOf(tokenize!)) {
      const answer = await post(VAULT[0]!, JSON.stringify(value));
      expectLike(VAULT[0]!, name, answer);
      expectLike(VAULT[2]!, name, await post(VAULT[2]!, JSON.stringify(value)));
      // The tokens of the example are those of another vault; sent as they are, they are unknown.
      const sent = JSON.parse(answer.text).data;
      const ofExample = restores.get(name)!.value as { data: unknown };
      expect(shapeOf(sent)).toEqual(shapeOf(ofExample.data));
      expect((await post(VAULT[1]!, JSON.stringify(ofExample))).status).toBe(400);
      const restored = await post(VAULT[1]!, JSON.stringify({ data: sent }));
      expectLike(VAULT[1]!, name, restored);
      expect(JSON.parse(restored.text).data).toEqual((value as { data: unknown }).data);
    }
  });

  test('the examples of texts get answers like those shown, there and back', async () => {
    const [tokenize, detokenize] = TEXTS;
    const ofRequest = (path: string): any =>
      document.paths[path]!.post!.requestBody!.content['application/json'].examples.text!.value;
    const answer = await post(tokenize!, JSON.stringify(ofRequest(tokenize!)));
    expectLike(tokenize!, 'text', answer);
    const { text } = JSON.parse(answer.text).data;
    expect(shapeOf(text)).toBe(shapeOf(ofRequest(detokenize!).data.text));
    expectLike(detokenize!, 'text', await post(detokenize!, JSON.stringify({ data: { text } })));
  });

  /** A success: the same names in the same order as in the example, and data of the same shape. */
  function expectLike(path: string, name: string, answer: RawAnswer): void {
    const { response, at } = responseOf(document, path, 'post', '200');
    expect(answer.status).toBe(200);
    expectFit(at, answer);
    const example = response.content['application/json'].examples[name]!.value as any;
    const body = JSON.parse(answer.text);
    expect(Object.keys(body)).toEqual(Object.keys(example));
    expect(shapeOf(body.data)).toEqual(shapeOf(example.data));
    shown.add(`${path} 200 ${name}`);
  }

  test('503 of what would wait too long', async () => {
    const locker = new pg.Client({ connectionString: service.place.env.DATABASE_URL });
    await locker.connect();
    await locker.query('begin; lock table standin.records in access exclusive mode');
    const refusals = new Map<string, RawAnswer>();
    const ask = async (path: string, i: number) => {
      const answer = await post(path, good(path, `Ann ${i}`));
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
      while (!isOver) if ((await ask(VAULT[i % VAULT.length]!, i)) === 503) await retryAfter(1);
    });
    const late: Promise<number>[] = [];
    await until(async () => {
      const more = VAULT.map((path, i) => ask(path, i));
      late.push(...more);
      await Promise.race([...more, new Promise((resolve) => setTimeout(resolve, 50))]);
      return refusals.size === VAULT.length;
    }, 'refusals');
    isOver = true;
    await locker.end();
    await Promise.all([...callers, ...late]);
    for (const path of VAULT) expectShown(path, 'overloaded', refusals.get(path)!);
  });

  const policy = (apiKey = others.get('caller')) =>
    send(service, POLICY, undefined, { authorization: `Bearer ${apiKey}` }, 'GET');

  test('the policy', async () => {
    expectShown(POLICY, 'unauthorized', await policy('stk_wrong'));
    let refusal: RawAnswer | undefined;
    await until(async () => {
      const asked = Array.from({ length: 4 }, () => policy(others.get('slow')));
      refusal = (await Promise.all(asked)).find(({ status }) => status === 429);
      return refusal !== undefined;
    }, 'a 429');
    expectShown(POLICY, limit, refusal!);
    await applyPolicy(service, 2, 'version: 1\nfields: { a: text }\nelsewhere: refuse');
    const isInForce = async () => (await policy(others.get('detokenizer'))).text.includes('"a"');
    await until(isInForce, 'a policy');
    const { response, at } = responseOf(document, POLICY, 'get', '200');
    const answer = await policy();
    expectFit(at, answer);
    const example = response.content['application/json'].examples.fields!.value;
    expect(Object.keys(JSON.parse(answer.text))).toEqual(Object.keys(example as object));
    shown.add(`${POLICY} 200 fields`);
  });

  test('health, with its database and without', async () => {
    const get = (path: string) => send(service, path, undefined, { authorization: null }, 'GET');
    expectShown('/health', 'ok', await get('/health'));
    await cluster.crash();
    expectShown('/health', 'error', await get('/health'));
    expectShown('/health/live', 'ok', await get('/health/live'));
    for (const path of VAULT) expectShown(path, 'database', await post(path, good(path)));
    let failed: RawAnswer | undefined;
    await until(async () => {
      failed = await policy();
      return failed.status === 500;
    }, 'a policy that is too old');
    expectShown(POLICY, 'database', failed!);
  });

  test('nothing that the document shows is left', () => {
    const said = operationsOf(document).flatMap(({ path, method, operation }) =>
      Object.keys(operation.responses).flatMap((status) => {
        const { response } = responseOf(document, path, method, status);
        return Object.entries(response.content['application/json'].examples)
          .filter(([, { summary }]) => isOf(summary, operation.operationId))
          .map(([name]) => `${path} ${status} ${name}`);
      }),
    );
    expect([...shown].toSorted()).toEqual(said.toSorted());
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
