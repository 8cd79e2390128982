import { once } from 'node:events';
import { type RequestListener, request, type ServerResponse } from 'node:http';
import { expect, onTestFinished, test } from 'vitest';
import { modelProxy, type ProxyOptions, type RequestEnd } from '#model-proxy';
import { until } from '../support/service.ts';
import { listen, StandIn } from '../support/stand-in.ts';

const authorization = 'Bearer stk_0123456789ABCDEFGHIJKLMNOPQR1KnaxG';
const noPolicy: RequestListener = (_, response) =>
  response.writeHead(404).end('{"error":"not_found"}');

/** A proxy between a provider and a Standin, which says that it has no policy. */
async function proxyOf(answer: RequestListener, options = {}, standin = noPolicy) {
  const [provider, vault] = [await new StandIn(answer).open(), await new StandIn(standin).open()];
  const ends: RequestEnd[] = [];
  const usual: ProxyOptions = {
    ...{ upstreamUrl: provider.url, standinUrl: vault.url, providerKey: 'k', passesFiles: false },
    ...{ maxBodyBytes: 4 << 20, maxOpen: 1, timeoutMs: 60_000, onEnd: (end) => ends.push(end) },
  };
  const server = modelProxy({ ...usual, ...options });
  const url = `http://127.0.0.1:${await listen(server)}/v1`;
  onTestFinished(() => {
    for (const one of [provider, vault]) one.stop();
    server.close();
    server.closeAllConnections();
  });
  const models = async () => {
    const answer = await fetch(`${url}/models`, { headers: { authorization } });
    const { status, headers } = answer;
    return { status, headers, text: await answer.text() };
  };
  return { provider, server, url, ends, models };
}

/** Asks for a stream, and reads nothing of the answer. */
function unread(url: string, messages: object[] = []) {
  const headers = { authorization, 'content-type': 'application/json' };
  const asked = request(`${url}/chat/completions`, { method: 'POST', headers });
  asked.on('error', () => {}).end(JSON.stringify({ stream: true, messages }));
  return asked;
}

test('a caller that reads nothing holds the provider up, and may leave', async () => {
  const delta = { content: 'x'.repeat(1 << 20) };
  const event = `data: ${JSON.stringify({ choices: [{ index: 0, delta }] })}\n\n`;
  let [sent, before, isOver] = [0, 0, false];
  const { server, url, ends } = await proxyOf(async (_, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const closed = once(response, 'close').then(() => {
      isOver = true;
    });
    for (; !response.closed && sent < 64; sent++)
      if (!response.write(event)) await Promise.race([once(response, 'drain'), closed]);
  });
  let answer: ServerResponse | undefined;
  server.on('request', (_, response) => {
    answer = response;
  });
  const asked = unread(url);
  const [{ headers }] = await once(asked, 'response');
  expect(headers).toMatchObject({
    ...{ 'content-type': 'text/event-stream', 'cache-control': 'no-cache' },
  });
  await until(() => {
    const isHeldUp = answer!.writableNeedDrain && sent === before;
    before = sent;
    return isHeldUp;
  }, 'all buffers are full');
  expect(answer!.writableLength).toBeLessThan(2 * event.length);
  asked.destroy();
  await until(() => ends[0]?.reason === 'the caller left' && isOver, 'the provider is left, too');
});

test.each(['policy', 'text/tokenize', 'text/detokenize', 'the provider'])(
  'a caller that leaves ends what was asked for it: %s',
  async (path) => {
    const token = 'dmqzkwvhrt_tok';
    const data = { text: token, spans: [{ start: 0, end: token.length, kind: 'a' }] };
    let held: ServerResponse | undefined;
    const { url, ends } = await proxyOf(
      (_, response) => {
        if (path === 'the provider') held = response;
        else response.end(JSON.stringify({ text: token }));
      },
      {},
      (request, response) => {
        if (request.url!.endsWith(`/${path}`)) held = response;
        else response.end(JSON.stringify({ data }));
      },
    );
    const asked = unread(url, path === 'policy' ? [] : [{ content: 'Ann Lee' }]);
    await until(() => held !== undefined, 'it is asked');
    asked.destroy();
    // Long before the client of Standin would give up by itself.
    await until(() => held!.closed && ends.length === 1, 'all is over', 8_000);
  },
);

test('headers of the provider reach the caller only with its answer, and only those of the API', async () => {
  const beforeMs = performance.now();
  let body = '{}';
  const received: object[] = [];
  const { provider, server, ends, models } = await proxyOf(({ headers }, response) => {
    received.push(headers);
    const its = { 'x-request-id': 'r', 'retry-after-ms': '5', 'set-cookie': 'a=b', 'x-other': 'c' };
    response.writeHead(200, its).end(body);
  });
  const { status, headers } = await models();
  const names = ['content-type', 'x-request-id', 'retry-after-ms', 'set-cookie', 'x-other'];
  expect([status, ...names.map((name) => headers.get(name))]).toEqual([
    ...[200, 'application/json', 'r', '5', null, null],
  ]);
  expect(received[0]).not.toHaveProperty('content-type');
  expect(ends).toEqual([{ path: '/v1/models', status: 200, ms: expect.any(Number) }]);
  expect(ends[0]!.ms).toBeLessThanOrEqual(Math.ceil(performance.now() - beforeMs));
  expect(server.requestTimeout).toBe(30_000);
  body = '[]';
  const failed = await models();
  expect([failed.status, ...names.map((name) => failed.headers.get(name))]).toEqual([
    ...[502, 'application/json', null, null, null, null],
  ]);
  expect(failed.headers.get('connection')).toBe('close');
  expect(failed.text).toContain('The provider answered no JSON object.');
  provider.stop();
  expect((await models()).text).toContain('The provider does not answer (ECONNREFUSED).');
});

test('a refusal for want of room or time says the bound and its option', async () => {
  const full = await proxyOf(noPolicy, { maxOpen: 0 });
  expect((await full.models()).text).toMatch(/There are 0 open requests \(--max-open\)\..*_503/);
  // 2,000 different texts are not too many: Standin is asked, and has no policy.
  const messages = Array.from({ length: 2_000 }, (_, i) => ({ content: `Text ${i}` }));
  const [{ statusCode }] = await once(unread((await proxyOf(noPolicy)).url, messages), 'response');
  expect(statusCode).toBe(503);
  const moved = await proxyOf((_, answer) => answer.writeHead(307).end());
  expect((await moved.models()).text).toMatch(/does not answer \(no reason given\)\..*_502/);
  const late = await proxyOf(noPolicy, { timeoutMs: 20 }, () => {});
  expect((await late.models()).text).toMatch(/took longer than 0\.02 s \(--timeout\)\..*_504/);
});
