import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import pg from 'pg';
import { beforeEach, describe, expect, inject, onTestFinished, test } from 'vitest';
import { applyPolicy, inForce } from '../support/policy.ts';
import { postgresBin, query } from '../support/postgres.ts';
import { served } from '../support/served.ts';
import {
  call,
  createClient,
  kinds,
  newPlace,
  runJson,
  startService,
  until,
} from '../support/service.ts';

const D = 'detokenize';
const PLAIN = 'version: 1\n';
const withRight = (right: string) => `version: 1\nrights: { "*": { "*": ${right} } }\n`;

describe.skipIf(postgresBin === undefined || !kinds().includes('server'))('F41: rights', () => {
  const service = served(async () =>
    startService(await newPlace('server', inject('serverUrl')), { REQUEST_TIMEOUT: '120' }),
  );
  let version = 0;
  beforeEach(() => comesInForce(PLAIN));

  /** A request by hand, whose body and response come as the test wants. */
  class SlowRequest {
    readonly socket: Socket;
    received = '';
    isOver = false;

    constructor(path: string, apiKey: string, data: unknown) {
      const { hostname, port } = new URL(service.url);
      this.socket = connect({ host: hostname, port: Number(port) });
      onTestFinished(() => void this.socket.destroy());
      this.socket.on('error', () => {});
      this.socket.on('close', () => {
        this.isOver = true;
      });
      this.socket.on('data', (chunk) => {
        this.received += chunk.toString('latin1');
      });
      this.begin(path, apiKey, JSON.stringify({ data }));
    }

    begin(path: string, apiKey: string, body: string): void {
      const head = [`POST /api/v1/${path} HTTP/1.1`, 'host: x', `authorization: Bearer ${apiKey}`];
      const type = ['content-type: application/json', `content-length: ${body.length}`];
      this.socket.write(`${[...head, ...type].join('\r\n')}\r\n\r\n${body.slice(0, -1)}`);
    }

    /** Sends the last byte of the body. */
    end(): this {
      this.socket.write('}');
      return this;
    }

    /** Resolves when the response has begun. Its reader takes no more. */
    async paused(): Promise<this> {
      await once(this.socket, 'data');
      this.socket.pause();
      return this;
    }

    get length(): number {
      return Number(/content-length: (\d+)/i.exec(this.received)![1]);
    }

    /** The status of the response. */
    async answered(): Promise<number> {
      await until(() => this.received.includes('\r\n\r\n') || this.isOver, 'a response');
      return Number(this.received.split(' ', 2)[1] ?? 0);
    }
  }

  const newClient = (...options: string[]) => createClient(service.place, ...options);
  const disable = (clientId: string) => runJson(service.place, 'client', 'disable', clientId);
  const owner = (text: string, values: unknown[] = []) =>
    query(service.place.env.DATABASE_URL!, text, values as never);
  const refused = async (apiKey: string, status: number) => {
    const asks = async () => (await call(service, D, {}, apiKey)).status === status;
    await until(asks, `status ${status}`);
  };
  const apply = (document: string) => applyPolicy(service, ++version, document);
  const comesInForce = async (document: string) => {
    await apply(document);
    await inForce(service, version);
  };
  const tokenOf = async () => (await call(service, 'tokenize', { a: 'Ann Lee' })).body.data;

  /** Tokens of so many values of 50,000 characters. */
  async function largeTokens(count: number, character: string): Promise<{ values: string[] }> {
    const values = Array.from({ length: count }, (_, i) => `${i} `.padEnd(50_000, character));
    const tokens: string[] = [];
    for (let from = 0; from < count; from += 15) {
      const part = { values: values.slice(from, from + 15) };
      tokens.push(...(await call(service, 'tokenize', part)).body.data.values);
    }
    return { values: tokens };
  }

  /** Requests that wait for their statement. The result lets it go on, at the latest at the end. */
  async function held(apiKeys: readonly string[], data: unknown) {
    const lock = new pg.Client({ connectionString: service.place.env.DATABASE_URL! });
    await lock.connect();
    let isHeld = true;
    const release = async () => {
      if (isHeld) await lock.end();
      isHeld = false;
    };
    onTestFinished(release);
    await lock.query('begin; lock table standin.records in access exclusive mode');
    const requests = apiKeys.map((apiKey) => new SlowRequest(D, apiKey, data).end());
    const waits =
      "select 1 from pg_locks where relation = 'standin.records'::regclass and not granted";
    await until(async () => (await owner(waits)).length > 0, 'a statement that waits');
    const statuses = () => Promise.all(requests.map((request) => request.answered()));
    return { release, requests, statuses };
  }

  test('100 requests without the last byte of their body get 401 when it comes after the client was disabled, and store nothing', async () => {
    const lookup = ['--can', 'tokenize,detokenize,lookup'];
    const { client_id: clientId, api_key: apiKey } = await newClient(...lookup);
    const values = Array.from({ length: 100 }, (_, i) => `late ${i}`);
    const { data: tokens } = (await call(service, 'tokenize', { values }, apiKey)).body;
    const requests = [
      ...Array.from({ length: 97 }, () => new SlowRequest(D, apiKey, tokens)),
      new SlowRequest('lookup', apiKey, { values }),
      new SlowRequest('text/detokenize', apiKey, { text: tokens.values.join(' ') }),
      new SlowRequest('tokenize', apiKey, { new: 'never seen before' }),
    ];
    await disable(clientId);
    await refused(apiKey, 401);
    for (const request of requests) request.end();
    for (const request of requests) expect(await request.answered()).toBe(401);
    expect(requests.filter(({ received }) => received.includes('late'))).toEqual([]);
    const other = await newClient(...lookup);
    const found = await call(service, 'lookup', { a: 'never seen before' }, other.api_key);
    expect(found.body.data).toEqual({ a: null });
  });

  test.each([
    ['masked', 200],
    ['full', 200],
    ['none', 403],
  ])('a new policy with the right %s is that of a look-up under way: %i', async (right, status) => {
    const data = await tokenOf();
    const { release, requests, statuses } = await held([service.api_key], data);
    await comesInForce(withRight(right));
    await release();
    expect(await statuses()).toEqual([status]);
    const [{ received }] = requests as [SlowRequest];
    expect(received.includes('Ann Lee')).toBe(right === 'full');
    expect(received.includes('****')).toBe(right === 'masked');
  });

  test('that were taken away while the vault looked the values up: 401 and 403', async () => {
    const [one, two] = [await newClient(), await newClient()];
    const { release, statuses } = await held([one.api_key, two.api_key], await tokenOf());
    const update = 'update standin.clients set';
    const where = 'where client_id = $1';
    await owner(`${update} disabled_at = now() ${where}`, [one.client_id]);
    await owner(`${update} can_detokenize = false ${where}`, [two.client_id]);
    await refused(one.api_key, 401);
    await refused(two.api_key, 403);
    await release();
    expect(await statuses()).toEqual([401, 403]);
  });

  test('end a large response before its next piece: nothing more leaves, though its reader takes nothing', async () => {
    const tokens = await largeTokens(300, 'x');
    for (const policy of [undefined, withRight('masked')]) {
      const { client_id: clientId, api_key: apiKey } = await newClient();
      const request = await new SlowRequest(D, apiKey, tokens).end().paused();
      expect(request.length).toBeGreaterThan(14_000_000);
      if (policy === undefined) await disable(clientId);
      else await apply(policy);
      // The promise: no byte leaves later than this.
      await owner('select pg_sleep(6)');
      request.socket.resume();
      await until(() => request.isOver, 'the end of the connection');
      expect(request.received.length).toBeLessThan(request.length);
    }
  });

  test('are not those of an unrelated change: a large response goes on when the policy shows the client the same', async () => {
    const tokens = await largeTokens(60, 'y');
    const request = await new SlowRequest(D, service.api_key, tokens).end().paused();
    await comesInForce('version: 1\nrights: { "*": { text: full } }\n');
    request.socket.resume();
    await until(() => request.received.length > request.length, 'all of it');
    expect(request.isOver).toBe(false);
  });

  test('of a node that stood still with the values in its socket are read again before it answers', async () => {
    const [client, other] = [await newClient(), await newClient()];
    const { release, statuses } = await held([client.api_key, other.api_key], await tokenOf());
    process.kill(service.pid, 'SIGSTOP');
    onTestFinished(() => void process.kill(service.pid, 'SIGCONT'));
    await release();
    await disable(client.client_id);
    await apply(withRight('none'));
    // The leases end while it stands still.
    await owner('select pg_sleep(5.5)');
    process.kill(service.pid, 'SIGCONT');
    expect(await statuses()).toEqual([401, 403]);
  });

  test('are judged when an earlier response of the connection has left', async () => {
    const { client_id: clientId, api_key: apiKey } = await newClient();
    const tokens = await largeTokens(100, 'z');
    const data = await tokenOf();
    const request = new SlowRequest(D, service.api_key, tokens).end();
    request.begin(D, apiKey, JSON.stringify({ data }));
    await request.end().paused();
    await disable(clientId);
    await refused(apiKey, 401);
    request.socket.resume();
    await until(() => request.received.includes('HTTP/1.1 401'), 'the second response');
    expect(request.received).not.toContain('Ann Lee');
  });
});
