import { expect, test } from 'vitest';
import { InvalidValueError } from '#client';
import { failureBody, failureEvent, failureOf, ProxyError } from '../src/failures.ts';
import { replaceTexts } from '../src/request.ts';
import { ROUTES } from '../src/routes.ts';

const BODIES = {
  '/v1/chat/completions':
    '{"messages":{"tool_calls":{"custom":{"name":"n","input":"T"}},"function_call":{"name":null,"arguments":"T"},"annotations":"T"},"functions":{"description":"T"},"prediction":{"type":"n","content":"T"},"response_format":{"type":"n","json_schema":{"description":"T","schema":"T"}},"web_search_options":{"search_context_size":5,"user_location":"T"},"tools":{"custom":{"description":"T"}}}',
  '/v1/responses':
    '{"background":false,"input":[{"summary":"T","arguments":"{\\"a_b\\": [\\"T\\"], \\"T T\\": 1}"}],"text":{"verbosity":"n","format":{"schema":{"T T":"T"}}}}',
  '/v1/messages':
    '{"system":{"source":{"type":"content","content":"T"}},"stop_sequences":["T"],"output_config":{"effort":"n","format":{"schema":"T"}},"output_format":{"schema":"T"}}',
};
test.each(Object.entries(BODIES))(
  'the texts in seldom fields of %s are replaced, all others stay',
  (route, body) => {
    const replace = (text: string) => text.replaceAll('T', '*');
    const made = replaceTexts(JSON.parse(body), ROUTES[route]!, { replace, passesFiles: false });
    expect(JSON.stringify(made)).toBe(replace(body));
  },
);

test('a failure has the form and the names of its API, as an answer and as an event', () => {
  const [responses, messages] = ['/v1/responses', '/v1/messages'];
  const types = [400, 401, 403, 404, 413, 429, 503].flatMap((status) =>
    [responses, messages].map((path) => failureBody(path, new ProxyError(status, '')).error.type),
  );
  expect(types.join(' ').replaceAll('_error', '')).toBe(
    'invalid_request invalid_request authentication authentication permission permission invalid_request not_found invalid_request request_too_large rate_limit rate_limit server api',
  );
  const of = (path: string) => failureEvent(path, new ProxyError(503, 'm'));
  expect(JSON.stringify([of('/v1/chat/completions'), of(responses), of(messages)])).toBe(
    '[{"data":{"error":{"message":"m","type":"server_error","param":null,"code":"standin_503"}}},{"name":"error","data":{"type":"error","code":"standin_503","message":"m","param":null,"error":{"message":"m","type":"server_error","param":null,"code":"standin_503"}}},{"name":"error","data":{"type":"error","error":{"type":"api_error","message":"m"}}}]',
  );
});

test.each([
  [
    new InvalidValueError('data.text', 'is x', { code: 'invalid_type', attempts: 1 }),
    400,
    'text: is x',
  ],
  [new RangeError('Ann Lee'), 413, 'too deep or too long'],
  [{ code: 'EPIPE', name: 'Error' }, 500, 'failed (EPIPE)'],
  [{ code: 'Ann Lee', name: 'TypeError' }, 500, 'failed (TypeError)'],
])('of a failure, the caller learns the kind and no text of others: %o', (error, status, said) => {
  const { message, ...made } = failureOf(error);
  expect([made.status, message]).toEqual([status, expect.stringContaining(said)]);
  expect(message).toContain('Nothing was sent to the provider that Standin did not check first.');
});
