import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest';
import { applyPolicy } from '../support/policy.ts';
import { postgresBin, query } from '../support/postgres.ts';
import {
  call,
  createClient,
  kinds,
  newPlace,
  runJson,
  type Service,
  startService,
  until,
} from '../support/service.ts';

/** A request by hand, whose body and response come as the test wants. */
class SlowRequest {
  readonly socket: Socket;
  received = '';
  isOver = false;

  constructor({ url }: Service, path: string, apiKey: string, bytes: number) {
    const { hostname, port } = new URL(url);
    this.socket = connect({ host: hostname, port: Number(port) });
    onTestFinished(() => void this.socket.destroy());
    this.socket.on('error', () => {});
    this.socket.on('close', () => {
      this.isOver = true;
    });
    this.socket.on('data', (chunk) => {
      this.received += chunk.toString('latin1');
    });
    const headers = `host: x\r\nauthorization: Bearer ${apiKey}\r\ncontent-type: application/json`;
    this.socket.write(`POST ${path} HTTP/1.1\r\n${headers}\r\ncontent-length: ${bytes}\r\n\r\n`);
  }

  static of(service: Service, path: string, apiKey: string, data: unknown): SlowRequest {
    const body = JSON.stringify({ data });
    const request = new SlowRequest(service, path, apiKey, Buffer.byteLength(body));
    request.socket.write(body);
    return request;
  }

  get status(): number {
    return Number(this.received.split(' ', 2)[1] ?? 0);
  }

  async answered(): Promise<number> {
    await until(() => this.received.includes('\r\n\r\n') || this.isOver, 'a response');
    return this.status;
  }
}

describe.skipIf(postgresBin === undefined || !kinds().includes('server'))('F41: rights', () => {
  let service: Service;
  let url: string;
  let version = 0;
  beforeAll(async () => {
    const place = await newPlace('server', inject('serverUrl'));
    url = place.env.DATABASE_URL!;
    service = await startService(place, { REQUEST_TIMEOUT: '120' });
  });
  afterAll(async () => {
    await service.stop();
    service.place.remove();
  });

  const newClient = (...options: string[]) => createClient(service.place, ...options);
  const disable = (clientId: string) => runJson(service.place, 'client', 'disable', clientId);
  const refused = async (apiKey: string, status: number) => {
    const asks = async () => (await call(service, 'detokenize', {}, apiKey)).status === status;
    await until(asks, `status ${status}`);
  };
  const apply = (document: string) => applyPolicy(service, ++version, document);
  const inForce = async (document: string) => {
    await apply(document);
    const isIn = async () => {
      const response = await fetch(`${service.url}/api/v1/policy`, {
        headers: { authorization: `Bearer ${service.api_key}` },
      });
      return response.ok && ((await response.json()) as { version: number }).version === version;
    };
    await until(isIn, 'the policy');
  };

  /** Statements on records wait, at most until the test ends. */
  async function hold(): Promise<() => Promise<void>> {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    let isHeld = true;
    const release = async () => {
      if (isHeld) await client.end();
      isHeld = false;
    };
    onTestFinished(release);
    await client.query('begin; lock table standin.records in access exclusive mode');
    return release;
  }
  const held = () =>
    until(async () => {
      const waits =
        "select 1 from pg_locks where relation = 'standin.records'::regclass and not granted";
      return (await query(url, waits)).length > 0;
    }, 'a statement that waits');

  test('100 requests without the last byte of their body get 401 when it comes after the client was disabled, and store nothing', async () => {
    const { client_id: clientId, api_key: apiKey } = await newClient(
      '--can',
      'tokenize,detokenize,lookup',
    );
    const values = Array.from({ length: 100 }, (_, i) => `late ${i}`);
    const { data: tokens } = (await call(service, 'tokenize', { values }, apiKey)).body;
    const rest = new Map<SlowRequest, string>();
    const begin = (path: string, data: unknown) => {
      const body = JSON.stringify({ data });
      const request = new SlowRequest(service, `/api/v1/${path}`, apiKey, body.length);
      request.socket.write(body.slice(0, -1));
      rest.set(request, body.slice(-1));
    };
    for (let i = 0; i < 97; i++) begin('detokenize', tokens);
    begin('lookup', { values });
    begin('text/detokenize', { text: tokens.values.join(' ') });
    begin('tokenize', { new: 'never seen before' });
    await disable(clientId);
    await refused(apiKey, 401);
    for (const [request, last] of rest) request.socket.write(last);
    for (const request of rest.keys()) expect(await request.answered()).toBe(401);
    expect([...rest.keys()].filter(({ received }) => received.includes('late'))).toEqual([]);
    const other = await newClient('--can', 'tokenize,lookup');
    const found = await call(service, 'lookup', { a: 'never seen before' }, other.api_key);
    expect(found.body.data).toEqual({ a: null });
  });

  test('that were taken away while the vault looked the values up: 401, 403, and what the new policy shows', async () => {
    const [one, two, three] = [await newClient(), await newClient(), await newClient()] as const;
    await inForce('version: 1\n');
    const { data } = (await call(service, 'tokenize', { a: 'Ann Lee' })).body;
    const others = ['masked', 'full', 'none'].map((right) => `"*": { "*": ${right} }`);
    for (const right of others) {
      await inForce('version: 1\n');
      const release = await hold();
      const request = SlowRequest.of(service, '/api/v1/detokenize', three.api_key, data);
      await held();
      await inForce(`version: 1\nrights:\n  ${right}\n`);
      await release();
      const status = await request.answered();
      if (right.includes('none')) expect(status).toBe(403);
      else {
        expect(status).toBe(200);
        expect(request.received.includes('Ann Lee')).toBe(right.includes('full'));
        expect(request.received.includes('****')).toBe(right.includes('masked'));
      }
    }
    await inForce('version: 1\n');
    const release = await hold();
    const requests = [one, two].map(({ api_key: apiKey }) =>
      SlowRequest.of(service, '/api/v1/detokenize', apiKey, data),
    );
    await held();
    await query(url, 'update standin.clients set disabled_at = now() where client_id = $1', [
      one.client_id,
    ]);
    await query(url, 'update standin.clients set can_detokenize = false where client_id = $1', [
      two.client_id,
    ]);
    await refused(one.api_key, 401);
    await refused(two.api_key, 403);
    await release();
    expect(await Promise.all(requests.map((request) => request.answered()))).toEqual([401, 403]);
  });

  test('end a large response before its next piece: nothing more leaves, though its reader takes nothing', async () => {
    await inForce('version: 1\n');
    const values = Array.from({ length: 300 }, (_, i) => `${i} `.padEnd(50_000, 'x'));
    const tokens: string[] = [];
    for (let from = 0; from < values.length; from += 15) {
      const part = values.slice(from, from + 15);
      tokens.push(...(await call(service, 'tokenize', { values: part })).body.data.values);
    }
    for (const policy of [undefined, 'version: 1\nrights: { "*": { "*": masked } }\n']) {
      const { client_id: clientId, api_key: apiKey } = await newClient();
      const request = SlowRequest.of(service, '/api/v1/detokenize', apiKey, { values: tokens });
      await once(request.socket, 'data');
      request.socket.pause();
      const length = Number(/content-length: (\d+)/i.exec(request.received)![1]);
      expect(length).toBeGreaterThan(14_000_000);
      if (policy === undefined) await disable(clientId);
      else await apply(policy);
      // The promise: no byte leaves later than this.
      await query(url, 'select pg_sleep(6)');
      request.socket.resume();
      await until(() => request.isOver, 'the end of the connection');
      expect(request.received.length).toBeLessThan(length);
    }
  });

  test('are not those of an unrelated change: a large response goes on when the policy shows the client the same', async () => {
    await inForce('version: 1\n');
    const values = Array.from({ length: 60 }, (_, i) => `${i} `.padEnd(50_000, 'y'));
    const tokens: string[] = [];
    for (let from = 0; from < values.length; from += 15) {
      const part = values.slice(from, from + 15);
      tokens.push(...(await call(service, 'tokenize', { values: part })).body.data.values);
    }
    const request = SlowRequest.of(service, '/api/v1/detokenize', service.api_key, {
      values: tokens,
    });
    await once(request.socket, 'data');
    request.socket.pause();
    await inForce('version: 1\nrights: { "*": { text: full } }\n');
    request.socket.resume();
    const length = Number(/content-length: (\d+)/i.exec(request.received)![1]);
    await until(() => request.received.length > length, 'all of it');
    expect(request.isOver).toBe(false);
  });

  test('of a node that stood still with the values in its socket are read again before it answers', async () => {
    const { client_id: clientId, api_key: apiKey } = await newClient();
    const other = await newClient();
    await inForce('version: 1\n');
    const { data } = (await call(service, 'tokenize', { a: 'Ann Lee' })).body;
    const release = await hold();
    const requests = [apiKey, other.api_key].map((key) =>
      SlowRequest.of(service, '/api/v1/detokenize', key, data),
    );
    await held();
    process.kill(service.pid, 'SIGSTOP');
    onTestFinished(() => void process.kill(service.pid, 'SIGCONT'));
    await release();
    await disable(clientId);
    await apply('version: 1\nrights: { "*": { "*": none } }\n');
    // The leases end while it stands still.
    await query(url, 'select pg_sleep(5.5)');
    process.kill(service.pid, 'SIGCONT');
    expect(await Promise.all(requests.map((request) => request.answered()))).toEqual([401, 403]);
  });

  test('are judged when an earlier response of the connection has left', async () => {
    await inForce('version: 1\n');
    const { client_id: clientId, api_key: apiKey } = await newClient();
    const values = Array.from({ length: 100 }, (_, i) => `${i} `.padEnd(50_000, 'z'));
    const tokens: string[] = [];
    for (let from = 0; from < values.length; from += 15) {
      const part = values.slice(from, from + 15);
      tokens.push(...(await call(service, 'tokenize', { values: part })).body.data.values);
    }
    const { data } = (await call(service, 'tokenize', { a: 'Ann Lee' })).body;
    const request = SlowRequest.of(service, '/api/v1/detokenize', service.api_key, {
      values: tokens,
    });
    const body = JSON.stringify({ data });
    request.socket.write(
      `POST /api/v1/detokenize HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${apiKey}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    await once(request.socket, 'data');
    request.socket.pause();
    await disable(clientId);
    await refused(apiKey, 401);
    request.socket.resume();
    await until(() => request.received.includes('HTTP/1.1 401'), 'the second response');
    expect(request.received).not.toContain('Ann Lee');
  });
});
