import { expect, test } from 'vitest';
import { ask, JSON_TYPE, refusalIn, servedOps } from '../support/ops.ts';
import { ownPlace, ownService } from '../support/own.ts';
import { noteSecrets } from '../support/secrecy.ts';
import { createClient, type Place } from '../support/service.ts';
import { Authority, hasOpenssl } from '../support/tls.ts';

const at = servedOps({ BODY_LIMIT: '2048' });

async function play(
  operation: string,
  body: string | Uint8Array,
  headers: Record<string, string> = {},
  { opsUrl, api_key: apiKey } = at.service,
) {
  const all = { ...JSON_TYPE, 'standin-api-key': apiKey, ...headers };
  const answer = await ask(`${opsUrl}/console/playground/${operation}`, 'POST', all, body);
  return { ...answer, body: JSON.parse(answer.text) };
}

/** Its names are not those of the address that it is called at. */
const tls = ({ folder }: Place) => {
  const authority = new Authority(folder, 'authority');
  const { cert, key } = authority.issue('DNS:tokens.example');
  return { TLS_CERT_FILE: cert, TLS_KEY_FILE: key, TLS_CLIENT_CA_FILE: authority.ca };
};
const started = async (env: (place: Place) => Record<string, string>) => {
  const place = await ownPlace();
  return ownService(place, env(place));
};

test.each(['127.0.0.1', '0.0.0.0', '::', ...(hasOpenssl ? ['TLS'] : [])])(
  'the playground tokenizes and restores with HOST %s, and nothing of it is in the log',
  async (HOST) => {
    const withTls = (place: Place) => ({ ...tls(place), TLS_CLIENT_CA_FILE: '' });
    const service = await started(HOST === 'TLS' ? withTls : () => ({ HOST }));
    const data = { name: 'Ann Leeward-Playground', nested: ['<b>Zoë</b> of the playground'] };
    noteSecrets(data);
    const tokenized = await play('tokenize', JSON.stringify({ data }), {}, service);
    expect(tokenized.status).toBe(200);
    expect(tokenized.body.data.name).toMatch(/_tok$/);
    const sent = JSON.stringify({ data: tokenized.body.data });
    const restored = await play('detokenize', sent, {}, service);
    expect([restored.status, restored.body.data]).toEqual([200, data]);
    expect(service.output().split('listening')[1]).not.toContain(service.api_key);
  },
);

test.skipIf(!hasOpenssl)(
  'the playground says why it cannot call where callers need certificates',
  async () => {
    const { status, body } = await play('tokenize', '{"data":{}}', {}, await started(tls));
    expect([status, body.message]).toEqual([409, expect.stringContaining('TLS_CLIENT_CA_FILE')]);
  },
);

test('the playground passes back what the service says: status, body, request id and when to try again', async () => {
  const { api_key: slow } = await createClient(at.service.place, '--rate-limit', '0.001');
  const wrong = await play('tokenize', '{"data":{}}', { 'standin-api-key': 'stk_wrong' });
  expect([wrong.status, wrong.body]).toEqual([401, { error: 'unauthorized' }]);
  expect(wrong.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
  const none = await play('tokenize', '{"data":{}}', { 'standin-api-key': '' });
  expect(refusalIn(none)).toEqual([401, 'unauthorized']);
  expect(refusalIn(await play('tokenize', '{"data":{"a":1}}'))).toEqual([400, 'invalid_type']);
  // What was refused leaves its place to others: there are five.
  for (let i = 0; i < 6; i++)
    expect((await play('tokenize', '', { 'content-type': 'text/plain' })).status).toBe(415);
  const asSlow = () => play('tokenize', '{"data":{}}', { 'standin-api-key': slow });
  expect((await asSlow()).status).toBe(200);
  const { status, headers } = await asSlow();
  expect([status, headers['retry-after']]).toEqual([429, expect.stringMatching(/^[1-9]\d*$/)]);
  expect(headers['content-security-policy']).toMatch(/^default-src 'none'/);
});

test('the playground takes what BODY_LIMIT allows, byte for byte, and refuses more itself', async () => {
  const body = (length: number) => `{"data":{"a":"b"}${' '.repeat(length - 18)}}`;
  expect((await play('tokenize', body(2_048))).status).toBe(200);
  for (const length of [2_049, 5_000_000])
    expect(refusalIn(await play('tokenize', body(length)))).toEqual([413, 'payload_too_large']);
  const odd = await play('tokenize', Buffer.from('{"data":{"a":"\xff"}}', 'latin1'));
  expect([odd.status, odd.headers['x-request-id']]).toEqual([400, expect.any(String)]);
});
