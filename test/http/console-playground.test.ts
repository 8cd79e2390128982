import { afterEach, describe, expect, test } from 'vitest';
import { ask, type OpsAnswer, type OpsService, startWithOps } from '../support/ops.ts';
import { noteSecrets } from '../support/secrecy.ts';
import { type Place, usualPlace } from '../support/service.ts';
import { Authority, hasOpenssl } from '../support/tls.ts';

let service: OpsService;
afterEach(async () => {
  await service.stop();
  service.place.remove();
});

async function start(
  env: (place: Place) => Record<string, string> = () => ({}),
): Promise<OpsService> {
  const place = await usualPlace();
  service = await startWithOps(place, { ...env(place) });
  return service;
}

async function play(
  operation: string,
  body: string | Uint8Array,
  headers: Record<string, string> = {},
): Promise<OpsAnswer & { body: any }> {
  const answer = await ask(
    `${service.opsUrl}/console/playground/${operation}`,
    'POST',
    { 'content-type': 'application/json', 'standin-api-key': service.api_key, ...headers },
    body,
  );
  return { ...answer, body: JSON.parse(answer.text) };
}

async function roundTrip(): Promise<void> {
  const data = { name: 'Ann Leeward-Playground', nested: ['<b>Zoë</b> of the playground'] };
  noteSecrets(data);
  const tokenized = await play('tokenize', JSON.stringify({ data }));
  expect(tokenized.status).toBe(200);
  expect(tokenized.body.data.name).toMatch(/_tok$/);
  const restored = await play('detokenize', JSON.stringify({ data: tokenized.body.data }));
  expect([restored.status, restored.body.data]).toEqual([200, data]);
}

describe('the playground', () => {
  test.each(['127.0.0.1', '0.0.0.0', '::'])(
    'tokenizes and restores on HOST=%s, and nothing of it is in the log',
    async (HOST) => {
      await start(() => ({ HOST }));
      await roundTrip();
      expect(service.output()).not.toContain('Leeward');
      expect(service.output().split('listening')[1]).not.toContain(service.api_key);
    },
  );

  test('passes back what the service says: status, body, request id and when to try again', async () => {
    await start(() => ({ RATE_LIMIT: '0.001' }));
    const wrong = await play('tokenize', '{"data":{}}', { 'standin-api-key': 'stk_wrong' });
    expect([wrong.status, wrong.body]).toEqual([401, { error: 'unauthorized' }]);
    expect(wrong.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
    const none = await play('tokenize', '{"data":{}}', { 'standin-api-key': '' });
    expect([none.status, none.body.error]).toEqual([401, 'unauthorized']);
    const invalid = await play('tokenize', '{"data":{"a":1}}');
    expect([invalid.status, invalid.body.error]).toEqual([400, 'invalid_type']);
    // What was refused leaves its place to others: there are five.
    for (let i = 0; i < 6; i++)
      expect((await play('tokenize', '', { 'content-type': 'text/plain' })).status).toBe(415);
    const limited = await play('tokenize', '{"data":{}}');
    expect([limited.status, limited.headers['retry-after']]).toEqual([
      429,
      expect.stringMatching(/^[1-9]\d*$/),
    ]);
    expect(limited.headers['content-security-policy']).toMatch(/^default-src 'none'/);
  });

  test('takes what BODY_LIMIT allows, byte for byte, and refuses more itself', async () => {
    await start(() => ({ BODY_LIMIT: '2048' }));
    const body = (length: number) => `{"data":{"a":"b"}${' '.repeat(length - 18)}}`;
    expect((await play('tokenize', body(2_048))).status).toBe(200);
    const refused = await play('tokenize', body(2_049));
    expect([refused.status, refused.body.error]).toEqual([413, 'payload_too_large']);
    const huge = await play('tokenize', body(5_000_000));
    expect([huge.status, huge.body.error]).toEqual([413, 'payload_too_large']);
    const odd = await play('tokenize', Buffer.from('{"data":{"a":"\xff"}}', 'latin1'));
    expect([odd.status, odd.headers['x-request-id']]).toEqual([400, expect.any(String)]);
  });
});

describe.skipIf(!hasOpenssl)('the playground of a service with TLS', () => {
  /** Its names are not those of the address that it is called at. */
  const files = (place: Place, names = 'DNS:tokens.example') => {
    const authority = new Authority(place.folder, 'authority');
    const { cert, key } = authority.issue(names);
    return { authority, env: { TLS_CERT_FILE: cert, TLS_KEY_FILE: key } };
  };

  test('calls the service within the process, whatever the name in its certificate', async () => {
    await start((place) => files(place).env);
    await roundTrip();
  });

  test('that asks callers for certificates says why it cannot call', async () => {
    await start((place) => {
      const { authority, env } = files(place);
      return { ...env, TLS_CLIENT_CA_FILE: authority.ca };
    });
    const { status, body } = await play('tokenize', '{"data":{}}');
    expect(status).toBe(409);
    expect(body.message).toContain('TLS_CLIENT_CA_FILE');
  });
});
