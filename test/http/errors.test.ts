import { afterAll, beforeAll, expect, test } from 'vitest';
import { CALLER_ERRORS } from '../../src/errors.ts';
import { METHODS } from '../../src/public/routes.ts';
import { MAX_HEADERS } from '../../src/public/transport/listener.ts';
import {
  expectErrorForm,
  parseAnswers,
  type RawAnswer,
  rawExchange,
  send,
} from '../support/http.ts';
import {
  leastPrivilegePlace,
  runJson,
  type Service,
  startService,
  until,
} from '../support/service.ts';

const T = '/api/v1/tokenize';
const GOOD = '{"data":{"a":"Ann Lee"}}';
/** What the message of an error must tell its caller to do. */
const HELP = {
  bad_request: 'check its first line, headers and length',
  forbidden:
    'this client may not detokenize; an operator can allow it: standin client update CLIENT --can',
  not_found:
    'the paths are /api/v1/tokenize, /api/v1/detokenize, /api/v1/lookup, /api/v1/text/tokenize, /api/v1/text/detokenize, /api/v1/policy, /health and /health/live',
  method_not_allowed: 'this path takes POST',
  precondition_failed: 'GET /api/v1/policy',
  payload_too_large: '1048576 bytes (BODY_LIMIT)',
  unsupported_media_type: 'Content-Type: application/json',
  expectation_failed: 'Expect: 100-continue',
  headers_too_large: `16 KiB, and fewer than ${MAX_HEADERS} headers`,
};

let service: Service;
beforeAll(async () => {
  service = await startService(await leastPrivilegePlace());
});
afterAll(async () => {
  await service.stop();
  service.place.remove();
});

const command = (...args: string[]) => runJson(service.place, ...args);

test('A45: every error that a request alone can bring about has its status and the form of all', async () => {
  const raw = async (text: string): Promise<RawAnswer> => {
    const [answer] = parseAnswers(await rawExchange(service, text));
    expectErrorForm(answer!);
    return answer!;
  };
  const slow = await command('client', 'create', '--name', 'slow', '--rate-limit', '0.001');
  const limited = { authorization: `Bearer ${slow.api_key}` };
  expect((await send(service, T, GOOD, limited)).status).toBe(200);
  const only = await command('client', 'create', '--name', 'only', '--can', 'tokenize');
  const oneWay = { authorization: `Bearer ${only.api_key}` };
  const answers = new Map<string, RawAnswer>([
    ['bad_request', await raw('GET / HTTP/1.1\r\nHost : a\r\n\r\n')],
    ['invalid_type', await send(service, T, '{')],
    ['unauthorized', await send(service, T, GOOD, { authorization: null })],
    ['forbidden', await send(service, '/api/v1/detokenize', GOOD, oneWay)],
    ['not_found', await send(service, '/nowhere', GOOD)],
    ['method_not_allowed', await send(service, T, undefined, {}, 'PUT')],
    ['precondition_failed', await send(service, T, GOOD, { 'if-match': '*' })],
    ['payload_too_large', await send(service, T, ' '.repeat(1_048_577))],
    ['unsupported_media_type', await send(service, T, GOOD, { 'content-type': 'text/plain' })],
    ['expectation_failed', await raw('GET /health HTTP/1.1\r\nHost: a\r\nExpect: b\r\n\r\n')],
    ['user_limit', await send(service, T, GOOD, limited)],
    [
      'headers_too_large',
      await raw(`GET / HTTP/1.1\r\nHost: a\r\nA: ${'a'.repeat(17_408)}\r\n\r\n`),
    ],
  ]);
  // What a request alone does not: a caller that is slow, a queue that is full, interface 1.0.4.
  const others = ['request_timeout', 'overloaded', 'rate_limit'];
  expect([...answers.keys(), ...others].sort()).toEqual(Object.keys(CALLER_ERRORS).sort());
  for (const path of Object.keys(METHODS)) expect(HELP.not_found.split(/[ ,]+/)).toContain(path);
  for (const [code, words] of Object.entries(HELP)) {
    expect(JSON.parse(answers.get(code)!.text).message).toContain(words);
  }
  for (const [code, { status, text }] of answers) {
    expect([code, JSON.parse(text).error]).toEqual([code, code]);
    expect([code, status]).toEqual([
      code,
      CALLER_ERRORS[code as keyof typeof CALLER_ERRORS].status,
    ]);
  }
});

test('A29: a revoked API key and that of a disabled client are told nothing else', async () => {
  const { client_id: clientId, api_key: revoked } = await command(
    'client',
    'create',
    '--name',
    'former',
  );
  const apiKeys = await command('api-key', 'list', '--client', clientId);
  await command('api-key', 'revoke', apiKeys[0].api_key_id);
  const disabled = await command('client', 'create', '--name', 'disabled');
  await command('client', 'disable', disabled.client_id);
  for (const apiKey of [revoked, disabled.api_key]) {
    const authorization = `Bearer ${apiKey}`;
    const ask = () => send(service, T, GOOD, { authorization });
    await until(async () => (await ask()).status === 401, 'a 401', 10_000);
    const answer = await ask();
    expect(answer.text).toBe('{"error":"unauthorized"}\n');
    expect(answer.headers.get('www-authenticate')).toBe(
      'Bearer realm="standin", error="invalid_token", error_description="the API key or JWT is unknown, expired or revoked"',
    );
  }
});
