import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { Guardrail, MemoryCalls } from '../../src/public/guardrail/calls.ts';
import { replaceStrings } from '../../src/public/guardrail/strings.ts';
import { governed } from '../support/policy.ts';
import { RedisServer, redisServer } from '../support/redis.ts';
import { logged } from '../support/served.ts';
import { insist, startService, until } from '../support/service.ts';

const POLICY = `
version: 1
kinds:
  mail: { shape: word }
  card: { shape: word, length: 12 }
detect: { email: mail, card: card }
`;
const at = governed(
  POLICY,
  {
    other: [],
    writer: ['--can', 'tokenize'],
    reader: ['--can', 'detokenize'],
    slow: ['--rate-limit', '0.001'],
  },
  ({ folder }) => ({
    ...{ GUARDRAIL: 'true', VALUES_LIMIT: '200', UNKNOWN_TOKEN_LIMIT: '0.01' },
    ...{ AUDIT_LOG: join(folder, 'audit.log'), AUDIT_REQUIRED: 'true' },
  }),
);
const PATH = '/beta/litellm_basic_guardrail_api';
const MAIL = 'ann.lee@example.com';
const CARD = '4111 1111 1111 1111';
const TOKEN = /[a-z]{10,12}_tok/;

async function post(
  body: unknown,
  headers: Record<string, string> = { 'x-api-key': at.keys.app! },
  { url }: At = at.service,
) {
  const response = await fetch(url + PATH, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  return { status: response.status, body: (await response.json()) as any };
}

const as = (who: string): Record<string, string> => ({ 'x-api-key': at.keys[who]! });
let calls = 0;
const newCall = () => `0b1e8f0c-${++calls}`;

type At = { readonly url: string };
const sender =
  (type: 'request' | 'response') =>
  (texts: readonly string[], more = {}, headers = as('app'), service: At = at.service) =>
    post({ input_type: type, request_data: {}, texts, ...more }, headers, service);
const asked = sender('request');
const answered = sender('response');

test('texts go as tokens and come back as values, each in its place', async () => {
  const call = { litellm_call_id: newCall() };
  const texts = [`Write to ${MAIL}`, 'nothing', '', `${MAIL}, ${CARD}`, 'é👩 \n"'];
  const { status, body } = await asked(texts, call);
  expect([status, body.action]).toEqual([200, 'GUARDRAIL_INTERVENED']);
  expect(Object.keys(body)).toEqual(['action', 'texts']);
  expect(JSON.stringify(body)).not.toMatch(/example|4111/);
  expect([body.texts.length, body.texts[1], body.texts[2], body.texts[4]]).toEqual([
    5,
    ...texts.filter((_, i) => [1, 2, 4].includes(i)),
  ]);
  const back = await answered(body.texts, call);
  expect(back.body).toEqual({
    action: 'GUARDRAIL_INTERVENED',
    texts,
    stream_holdback_chars: expect.any(Array),
  });
  expect((await asked(['nothing'], call)).body).toEqual({ action: 'NONE', texts: ['nothing'] });
});

test('a response restores only what the request of the same call, client and key had', async () => {
  const [mine, yours] = [{ litellm_call_id: newCall() }, { litellm_call_id: newCall() }];
  const of = (hash: string) => ({ ...mine, request_data: { user_api_key_hash: hash } });
  const { texts } = (await asked([MAIL], mine)).body;
  await asked(['bob@example.org'], yours);
  await asked(['carl@example.org'], mine, as('other'));
  await asked(['dora@example.org'], of('dora'));
  const stays = { action: 'NONE', texts };
  for (const more of [yours, {}, { litellm_call_id: newCall() }, of('dora')])
    expect((await answered(texts, more)).body).toMatchObject(stays);
  expect((await answered(texts, mine, as('other'))).body).toMatchObject(stays);
  expect((await answered(texts, mine)).body.texts).toEqual([MAIL]);
  // Whoever uses the id again has only what is new.
  await asked(['bob@example.org'], mine);
  expect((await answered(texts, mine)).body).toMatchObject(stays);
});

test('a hundred calls at once do not mix', async () => {
  const all = Array.from({ length: 100 }, (_, i) => ({ id: newCall(), mail: `p${i}@example.com` }));
  const sent = await Promise.all(
    all.map(({ id, mail }) => insist(() => asked([mail], { litellm_call_id: id }))),
  );
  const everything = sent.map(({ body }) => body.texts[0]).join(' ');
  await Promise.all(
    all.map(async ({ id, mail }, i) => {
      const { body } = await insist(() => answered([everything], { litellm_call_id: id }));
      expect(body.texts).toEqual([everything.replace(sent[i]!.body.texts[0], mail)]);
    }),
  );
});

test('each prefix of an answer is restored as far as it is whole, and says what it holds back', async () => {
  const call = { litellm_call_id: newCall() };
  const { texts } = (await asked([MAIL], call)).body;
  const token: string = texts[0];
  for (const written of [
    token,
    token[0]!.toUpperCase() + token.slice(1),
    token.toUpperCase(),
    token.replace('_', '\\_'),
  ]) {
    const whole = `é👩 to ${written}, "${written}". 👩`;
    const points = [...whole];
    const prefixes = points.map((_, i) => points.slice(0, i + 1).join(''));
    const { body } = await answered(prefixes, call);
    let sent = '';
    for (const [i, text] of body.texts.entries()) {
      const safe = [...text].slice(0, [...text].length - body.stream_holdback_chars[i]).join('');
      expect(safe.startsWith(sent) || sent.startsWith(safe), `${sent} | ${safe}`).toBe(true);
      if (safe.length > sent.length) sent = safe;
      expect(text.startsWith(sent)).toBe(true);
      expect(body.stream_holdback_chars[i]).toBeLessThanOrEqual(written.length);
    }
    expect(body.texts.at(-1)).toBe(`é👩 to ${MAIL}, "${MAIL}". 👩`);
  }
});

const messages = (args: string, content: unknown = 'Hi') => ({
  structured_messages: [
    { role: 'user', content, name: 'ann' },
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 't', type: 'function', function: { name: 'find', arguments: args } }],
    },
  ],
});

test('arguments of tools go as tokens, where a JSON text stays one', async () => {
  const args = `{"to":"\\u0061nn.lee\\u0040example.com\\n","n": 4111111111111111, "x":[1.50,"${MAIL}"],"${'k'}":12345678901234567890}`;
  const { body } = await asked(['Hi'], messages(args));
  const [user, assistant] = body.structured_messages;
  expect(user).toEqual({ role: 'user', content: 'Hi', name: 'ann' });
  expect(assistant.tool_calls[0].function.arguments.replace(new RegExp(TOKEN, 'g'), '*')).toBe(
    '{"to":"*\\n","n": "*", "x":[1.50,"*"],"k":12345678901234567890}',
  );
  const broken = await asked(['Hi'], messages(`{"to": "${MAIL}`));
  expect(JSON.stringify(broken.body)).not.toContain(MAIL);
  // The texts say it all.
  for (const same of [MAIL, [{ type: 'text', text: MAIL }]])
    expect((await asked([MAIL], messages('{}', same))).body.structured_messages).toBe(undefined);
  expect((await asked([MAIL], messages(MAIL))).body.structured_messages).toHaveLength(2);
  const name = { structured_messages: [{ role: 'user', content: '4111111111111111', name: MAIL }] };
  const { content, name: its } = (await asked(['Hi'], name)).body.structured_messages[0];
  expect([content, its]).toEqual([expect.stringMatching(TOKEN), expect.stringMatching(TOKEN)]);
});

test('escapes of a text that is JSON hide nothing, also in a JSON text within it', async () => {
  const inner = JSON.stringify({ 'ann.lee@example.com': 4111111111111111 });
  const text = `[{"to": "\\u0061nn.lee\\u0040example.com", "in":${JSON.stringify(inner)}}]`;
  const more = {
    structured_messages: [{ role: 'tool', content: text }],
    litellm_call_id: newCall(),
  };
  const { body } = await asked([text], more);
  const hidden = `[{"to": "*", "in":${JSON.stringify('{"*":"*"}')}}]`;
  expect(body.texts[0].replace(new RegExp(TOKEN, 'g'), '*')).toBe(hidden);
  expect(body.structured_messages).toBe(undefined);
  const back = (await answered(body.texts, more)).body.texts[0];
  expect(JSON.parse(back)[0].to).toBe(MAIL);
});

test('definitions of tools go as tokens, but their names', async () => {
  const parameters = {
    type: 'object',
    properties: { name: { maximum: 4111111111111111, description: MAIL, enum: [MAIL] } },
    required: ['name'],
  };
  const tools = [
    { type: 'function', function: { name: 'find', description: `of ${MAIL}`, parameters } },
  ];
  const { body } = await asked([], { tools });
  const { function: its } = body.tools[0];
  expect(JSON.stringify(its).match(new RegExp(TOKEN, 'g'))).toHaveLength(3);
  expect([its.name, its.parameters.required]).toEqual(['find', ['name']]);
  // A bound is no number of a person, and the schema needs it.
  expect(its.parameters.properties.name.maximum).toBe(4111111111111111);
  const examples = [
    { id: MAIL, data: MAIL, status: `of ${MAIL}`, n: 4111111111111111, type: 'a/4111111111111111' },
  ];
  const other = (await asked([], { tools: [{ examples }] })).body.tools[0].examples[0];
  expect(JSON.stringify(other).match(new RegExp(TOKEN, 'g'))).toHaveLength(4);
  expect(other.type).toBe('a/4111111111111111');
  // What nothing is found in is not sent back; a null says nothing, an empty list has no image.
  const tools65 = [{ ok: [null, 'a'] }, nested(64)];
  const plain = { litellm_call_id: null, images: [], tools: tools65 };
  const none = { action: 'NONE', texts: [] };
  expect((await asked(undefined as never, plain)).body).toEqual(none);
  expect((await answered([])).body).toEqual(none);
});

test('calls of tools are refused only for values in them that no message carries', async () => {
  const calls = (args: string) => ({ tool_calls: [{ function: { name: 'f', arguments: args } }] });
  expect((await asked([], calls('{"a":"b"}'))).body).toEqual({ action: 'NONE', texts: [] });
  const args = `{"a":"${MAIL}"}`;
  const { body } = await asked([], { ...messages(args), ...calls(args) });
  expect(body.structured_messages[1].tool_calls[0].function.arguments).toMatch(TOKEN);
});

test.each([
  ['an image', { images: ['https://example.com/a.png'] }],
  [
    'an image in a message',
    messages('{}', [{ type: 'image_url', image_url: { url: 'https://example.com/a.png' } }]),
  ],
  ['a file', messages('{}', [{ type: 'file', file: { file_id: 'f' } }])],
  [
    'arguments that cannot be carried back',
    { tool_calls: [{ function: { name: 'f', arguments: `{"a":"${MAIL}"}` } }] },
  ],
])('%s is refused', async (what, more) => {
  const { status, body } = await asked(['Hi'], more);
  const blockedReason = expect.stringMatching(
    what.startsWith('arguments') ? /^LiteLLM/ : /^images/,
  );
  expect([status, body]).toEqual([200, { action: 'BLOCKED', blocked_reason: blockedReason }]);
});

const request = (texts: unknown, more = {}) => ({ input_type: 'request', texts, ...more });
const nested = (levels: number) => JSON.parse(`${'['.repeat(levels)}${']'.repeat(levels)}`);
test.each<[string, unknown, number?]>([
  ['no type', {}],
  ['another type', { input_type: 'other' }],
  ['texts of another type', request([1])],
  ['an unpaired surrogate', '{"input_type":"request","texts":["\\ud800"]}'],
  ['an unpaired surrogate in a tool', request([], { tools: ['\ud800'] })],
  ['a call id of another type', request([], { litellm_call_id: 5 })],
  ['a call id that is too long', request([], { litellm_call_id: 'x'.repeat(257) })],
  ['too many strings in the JSON of one', request([`[${Array(20_000).fill('[]')}]`])],
  ['too many strings', request([], { tools: Array(20_001).fill('a') })],
  ['too many values', request(Array.from({ length: 201 }, (_, i) => `a${i}@example.com`))],
  ['deep messages', request([], { structured_messages: nested(66) })],
  ['no JSON', '{'],
  ['a body that is too large', request(['x'.repeat(1_100_000)]), 413],
])('%s is no 2xx', async (_, body, status = 400) => {
  expect((await post(body)).status).toBe(status);
});

test('API key, rights and limits hold as for texts', async () => {
  const bearer = (who: string) => ({ authorization: `Bearer ${at.keys[who]}` });
  for (const [headers, status] of [
    [{}, 401],
    [{ 'x-api-key': 'stk_wrong' }, 401],
    [bearer('app'), 200],
    [{ ...as('app'), ...bearer('app') }, 200],
    [{ ...as('app'), ...bearer('other') }, 401],
    [as('reader'), 403],
    [as('slow'), 200],
    [as('slow'), 429],
  ] as const)
    expect((await asked(['x'], {}, headers)).status).toBe(status);
  expect((await answered(['x'], {}, as('writer'))).status).toBe(403);
  expect((await answered(['x'], {}, as('reader'))).status).toBe(200);
  // No other route takes this header.
  const { status } = await fetch(`${at.service.url}/api/v1/policy`, { headers: as('app') });
  expect(status).toBe(401);
});

test('tokens of nobody cost no guesses', async () => {
  for (let i = 0; i < 20; i++)
    expect((await answered([`abcdefghi${String.fromCharCode(97 + i)}_tok`])).status).toBe(200);
});

test('audit log and log have the id of the call, unless it could be a secret', async () => {
  const id = newCall();
  await asked([MAIL], { litellm_call_id: id });
  await answered(['x'], { litellm_call_id: id });
  await asked([MAIL], { litellm_call_id: at.keys.app });
  const text = readFileSync(join(at.service.place.folder, 'audit.log'), 'utf8');
  const lines = text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  const its = lines.filter((line) => line.litellm_call_id === id);
  expect(its.map(({ event, outcome, values }) => [event, outcome, values])).toEqual([
    ['tokenize', 'success', 1],
    ['detokenize', 'success', 0],
  ]);
  expect(text + at.service.output()).not.toContain(at.keys.app);
  await until(async () => logged(at.service, id).length === 2, 'both lines of the log');
});

test('an answer of an unknown call is said once a second', async () => {
  const lines = () => logged(at.service, 'whose calls are unknown');
  const before = lines().length;
  await Promise.all(Array.from({ length: 5 }, () => answered(['x'], { litellm_call_id: 'gone' })));
  await until(async () => lines().length > before, 'a line');
});

/** Another node, until the test ends. */
async function startNode(env: Record<string, string>): Promise<At> {
  const service = await startService(at.service.place, env);
  onTestFinished(() => service.stop());
  return service;
}

test('without the setting, there is no such path', async () => {
  expect((await asked(['x'], {}, as('app'), await startNode({}))).status).toBe(404);
});

test('GUARDRAIL_IMAGES=pass lets images through, as they are', async () => {
  const node = await startNode({ GUARDRAIL: 'true', GUARDRAIL_IMAGES: 'pass' });
  const image = { type: 'image_url', image_url: { url: `https://example.com/?${MAIL}` } };
  const more = { images: ['x'], ...messages(`["${MAIL}"]`, [image]) };
  const { structured_messages: rows } = (await asked(['Hi'], more, as('app'), node)).body;
  expect(rows[0].content).toEqual([image]);
  expect(rows[1].tool_calls[0].function.arguments).toMatch(TOKEN);
});

test('the memory of a node keeps as many calls as it may, for an hour', () => {
  let nowMs = 0;
  const kept = new MemoryCalls(3 * 301, () => nowMs);
  for (let i = 0; i < 10; i++) kept.put(`${i}`, 'x'.repeat(100));
  expect([6, 7, 9].map((i) => kept.get(`${i}`)?.length)).toEqual([undefined, 100, 100]);
  kept.put('9', 'new');
  expect([kept.get('7')?.length, kept.get('9')]).toEqual([100, 'new']);
  nowMs = 3_599_999;
  expect(kept.get('9')).toBe('new');
  nowMs++;
  expect(kept.get('9')).toBe(undefined);
  // What is older is not kept until its room is needed.
  kept.put('10', 'x');
  nowMs = 0;
  expect(kept.get('8')).toBe(undefined);
  kept.close();
  expect(kept.get('10')).toBe(undefined);
});

test('unknown calls of a second are one number, and the next second begins at 0', () => {
  vi.useFakeTimers({ toFake: ['setTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const counts: number[] = [];
  const guardrail = new Guardrail(new MemoryCalls(), false, (count) => counts.push(count));
  for (const times of [3, 1]) {
    for (let i = 0; i < times; i++) guardrail.countUnknown();
    vi.advanceTimersByTime(999);
    expect(counts).not.toContain(times);
    vi.advanceTimersByTime(1);
  }
  vi.advanceTimersByTime(5_000);
  expect(counts).toEqual([3, 1]);
});

test('whole numbers of seven digits or more are text, others are numbers', () => {
  const numbers = [999_999, -999_999, 1_000_000.5, 1_000_000, -1_000_000, 7_654_321];
  const replace = (text: string) => (text === '7654321' ? text : '*');
  expect(replaceStrings(numbers, { path: '', replace })).toEqual([
    ...[999_999, -999_999, 1_000_000.5, '*', '*', 7_654_321],
  ]);
});

test.skipIf(redisServer === undefined)(
  'nodes share calls in Redis, and refuse without it',
  async () => {
    const redis = await RedisServer.start();
    onTestFinished(() => redis.stop());
    const env = { GUARDRAIL: 'true', REDIS_URL: redis.url };
    const [one, two] = await Promise.all([startNode(env), startNode(env)]);
    const call = { litellm_call_id: newCall() };
    const ask = () => asked([MAIL], call, as('app'), one);
    const { texts } = (await ask()).body;
    const answer = () => answered(texts, call, as('app'), two);
    expect((await answer()).body.texts).toEqual([MAIL]);
    expect(await redis.command('KEYS *')).not.toContain(call.litellm_call_id);
    redis.freeze();
    expect([(await ask()).status, (await answer()).status]).toEqual([503, 503]);
    redis.thaw();
    await until(async () => (await answer()).status === 200, 'Redis');
  },
);

test('a policy that cannot find values now: no texts, and the reason', async () => {
  await at.apply(POLICY.replace(/detect: .*/, ''));
  expect((await asked(['Maria'])).body.message).toContain('the policy has no detect');
  await at.apply(POLICY.replace('detect: {', 'detect: { PERSON: mail,'));
  const { status, body } = await asked(['Maria']);
  expect(status).toBe(500);
  expect(body).toEqual({
    error: 'internal_error',
    message: 'the policy names an entity of Presidio, but PRESIDIO_URL is not set',
  });
  await at.apply(POLICY);
});

test('a body has 20,000 strings at most; the answer names the field and a remedy', async () => {
  const many = Array.from({ length: 20_001 }, () => 'a');
  expect((await asked(many.slice(1), { litellm_call_id: 'x'.repeat(256) })).status).toBe(200);
  const { status, body } = await asked(many);
  expect(status).toBe(400);
  expect(body.message).toMatch(/^texts: must have at most 20000 strings.*; send fewer/);
  expect(await answered(many)).toEqual({ status, body });
  expect((await asked([`[${Array(19_999).fill('[]')}]`])).status).toBe(200);
});
