import type { Server } from 'node:http';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { modelProxy, type ProxyOptions, type RequestEnd } from '#model-proxy';
import { type Asked, echo, ModelProvider, type Reply } from '../support/model-provider.ts';
import { PERSONAL_KINDS, personal, spansOf } from '../support/personal.ts';
import { governed } from '../support/policy.ts';
import { createClient, until } from '../support/service.ts';
import { listen } from '../support/stand-in.ts';
import { Front } from '../support/standin-front.ts';

const KINDS = Object.keys(PERSONAL_KINDS);
const POLICY = `version: 1
kinds:
${KINDS.map((kind) => `  ${kind}: { shape: word }`).join('\n')}
detect:
  email: mail
${KINDS.slice(1)
  .map((kind) => `  ${kind}: ${kind}`)
  .join('\n')}
rights:
  "*": { "*": full }
`;
const KEY = 'key-of-the-provider';
const UNKNOWN_KEY = `stk_${'0'.repeat(28)}3W8MOK`;
const TOKEN = /[a-z]{10}_tok/g;

const vault = governed(POLICY);
let provider: ModelProvider;
let front: Front;
let proxy: Server;
let url: string;
const ends: RequestEnd[] = [];

async function startProxy(more: Partial<ProxyOptions> = {}) {
  const server = modelProxy({
    ...{ upstreamUrl: provider.url, standinUrl: front.url, providerKey: KEY },
    ...{ passesFiles: false, maxBodyBytes: 4 << 20, maxOpen: 200, timeoutMs: 60_000 },
    onEnd: (end) => ends.push(end),
    ...more,
  });
  return { server, url: `http://127.0.0.1:${await listen(server)}` };
}

beforeAll(async () => {
  provider = await ModelProvider.start();
  front = await Front.start(() => vault.service.url);
  ({ server: proxy, url } = await startProxy());
});
afterAll(() => {
  proxy.close();
  proxy.closeAllConnections();
  provider.stop();
  front.stop();
});
afterEach(() => {
  front.failing = undefined;
  provider.reply = echo;
  provider.pieceLength = 5;
  provider.beforePiece = () => {};
  provider.cutAfterBytes = Infinity;
});

const openai = (apiKey = vault.keys.app!, to = url) =>
  new OpenAI({ apiKey, baseURL: `${to}/v1`, maxRetries: 0 });
const anthropic = (apiKey = vault.keys.app!, to = url) =>
  new Anthropic({ apiKey, baseURL: to, maxRetries: 0 });

const said = (content: unknown): any => ({ model: 'm', messages: [{ role: 'user', content }] });

/** The whole answer to a text, by each API, as its own package reads it. */
const ASK: Record<string, (text: string, to?: string, more?: object, key?: string) => any> = {
  chat: (text, to, more, key) =>
    openai(key, to).chat.completions.create({ ...said(text), ...more }),
  'chat, stream': (text, to, more, key) =>
    openai(key, to)
      .chat.completions.stream({ ...said(text), ...more })
      .finalChatCompletion(),
  responses: (text, to, more, key) =>
    openai(key, to).responses.create({ model: 'm', input: text, ...more }),
  'responses, stream': (text, to, more, key) =>
    openai(key, to)
      .responses.stream({ model: 'm', input: text, ...more })
      .finalResponse(),
  messages: (text, to, more, key) =>
    anthropic(key, to).messages.create({ ...said(text), max_tokens: 9, ...more }),
  'messages, stream': (text, to, more, key) =>
    anthropic(key, to)
      .messages.stream({ ...said(text), max_tokens: 9, ...more })
      .finalMessage(),
};
const ROUTES = Object.keys(ASK);

const chat = '/v1/chat/completions';
/** A request as no package of the provider sends it. */
const post = (body: unknown, headers = {}, to = url + chat) =>
  fetch(to, {
    method: 'POST',
    headers: {
      ...{ authorization: `Bearer ${vault.keys.app}`, 'content-type': 'application/json' },
      ...headers,
    },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });

const answered = async (answer: Promise<unknown>) =>
  JSON.parse(JSON.stringify(await answer, (name, value) => (name === '_request_id' ? 0 : value)));

/** The text of the last message, as the provider got it. */
const textOf = ({ body }: Asked): string => body.messages?.at(-1).content ?? body.input;

describe('what the provider receives', () => {
  const tool = (values: string[]) => ({
    description: `Sends to ${values[0]}`,
    parameters: {
      type: 'object',
      properties: { to: { type: 'string', description: values[1], default: values[2] } },
      [values[3]!]: values[4],
    },
  });
  const json = (values: string[]) =>
    JSON.stringify({ to: values[0], list: [`a ${values[1]}`], [values[2]!]: 1 }).replace(
      '@',
      '\\u0040',
    );
  const inputOf = ([value]: string[]) => ({ a: [value], card: 4111111111111111 });
  const textPart = (text: string) => [{ type: 'text', text }];
  const plain = (data: string) => ({ type: 'text', media_type: 'text/plain', data });
  const called = (name: string, args: string) => ({
    ...{ id: 'call_1', type: 'function', function: { name, arguments: args } },
  });
  /** A conversation with values wherever the API takes text. Each call takes 40 values. */
  const REQUESTS: Record<string, (take: () => string[], stream: boolean) => Promise<unknown>> = {
    chat: (take, stream) =>
      openai().chat.completions.create({
        ...{ model: 'm', user: take()[0]!, metadata: { person: take()[1]! }, stream },
        stop: take().slice(0, 4),
        tools: [{ type: 'function', function: { name: 'send', ...tool(take()) } }],
        messages: [
          { role: 'system', content: take().join(' and ') },
          { role: 'user', content: [{ type: 'text', text: `(${take().join('), (')})` }] },
          { role: 'assistant', tool_calls: [called('send', json(take()))] },
          { role: 'tool', tool_call_id: 'call_1', content: json(take()) },
          { role: 'user', content: take().join('\n') },
        ],
      } as any),
    responses: (take, stream) =>
      openai().responses.create({
        ...{ model: 'm', instructions: take().join('; '), stream, safety_identifier: take()[0]! },
        metadata: { person: take()[0]! },
        tools: [{ type: 'function', name: 'send', strict: false, ...tool(take()) }],
        input: [
          { role: 'user', content: [{ type: 'input_text', text: take().join(' ') }] },
          { type: 'function_call', call_id: 'c', name: 'send', arguments: json(take()) },
          { type: 'function_call_output', call_id: 'c', output: json(take()) },
          { role: 'user', content: take().join('\n') },
        ],
      } as any),
    messages: (take, stream) => {
      const { description, parameters } = tool(take());
      return anthropic().messages.create({
        ...{ model: 'm', max_tokens: 9, stream, metadata: { user_id: take()[0]! } },
        system: [{ type: 'text', text: take().join('. ') }],
        tools: [{ name: 'send', description, input_schema: parameters as any }],
        messages: [
          { role: 'user', content: take().join(' ') },
          {
            role: 'assistant',
            content: [{ type: 'tool_use', id: 't', name: 'send', input: inputOf(take()) }],
          },
          {
            role: 'user',
            content: [
              { type: 'tool_result', tool_use_id: 't', content: textPart(json(take())) },
              { type: 'document', source: plain(take().join()) },
            ],
          },
          { role: 'user', content: take().join('\n') },
        ],
      } as any);
    },
    embeddings: (take) =>
      openai().embeddings.create({ model: 'm', input: [take().join(), ...take()] }),
  };

  test('has none of 1,000 values, on every route, with and without a stream', async () => {
    let made = 0;
    const values = new Set<string>(['4111111111111111']);
    const take = () => {
      const some = personal(made, 5);
      made += 5;
      for (const value of some) values.add(value);
      return some;
    };
    for (let round = 0; made < 1_000; round++)
      for (const request of Object.values(REQUESTS))
        for await (const _ of toRead(await request(take, round % 2 === 0)));
    expect(made).toBeGreaterThanOrEqual(1_000);
    const received = provider.received();
    expect(received.match(TOKEN)!.length).toBeGreaterThan(700);
    expect([...values].filter((value) => received.includes(value))).toEqual([]);
    expect(received).not.toContain(vault.keys.app);
    expect(received).not.toMatch(/ann\.lee|secret\d/);
  });

  test('its own key, and no header of the caller but those of the API', async () => {
    const headers = { cookie: 'a=b', 'x-person': 'ann' };
    await openai().chat.completions.create(said('hi'), { headers });
    await ASK.messages!('hi');
    const [chat, messages] = provider.asked.slice(-2).map(({ headers }) => headers);
    const type = { 'content-type': 'application/json' };
    expect(chat).toMatchObject({
      authorization: `Bearer ${KEY}`,
      'user-agent': 'standin',
      ...type,
    });
    expect(Object.keys(chat!).filter((name) => /cookie|person|stainless/.test(name))).toEqual([]);
    expect(messages).toMatchObject({
      ...type,
      'x-api-key': KEY,
      'anthropic-version': expect.any(String),
    });
    expect(messages).not.toHaveProperty('authorization');
  });

  test('images, where the setting lets them pass', async () => {
    const passing = await startProxy({ passesFiles: true });
    const part = { type: 'image_url', image_url: { url: 'https://a.example/b.png' } } as const;
    await openai(undefined, passing.url).chat.completions.create(said([part]));
    expect(provider.asked.at(-1)!.body.messages[0].content).toEqual([part]);
    passing.server.close();
  });
});

describe('a request that the proxy refuses reaches nobody', () => {
  const padded = (bytes: number) => JSON.stringify(said('hi')).padEnd(bytes);
  const many = (count: number, text = (_: number) => 'hi') => ({
    messages: Array.from({ length: count }, (_, i) => ({ role: 'user', content: text(i) })),
  });

  const [responses, messages] = ['/v1/responses', '/v1/messages'];
  test.each<[number, string, unknown, string?, object?]>([
    [400, 'The body is no JSON object.', []],
    [400, 'The body is no JSON object.', 'null'],
    [400, 'Send Content-Type: application/', said('hi'), chat, { 'content-encoding': 'gzip' }],
    [400, 'Send Content-Type: application/', said('hi'), chat, { 'content-type': 'text/plain' }],
    [400, 'The header anthropic-beta', said('hi'), chat, { 'anthropic-beta': 'a"b' }],
    [400, '*: the proxy does not know', { 'ann@example.com': 1 }],
    [400, 'messages[1].x: the proxy does not know', { messages: [{}, { x: 1 }] }],
    [400, 'messages[0].content[0]: send the item', said([{ type: 'item_reference', id: 'i' }])],
    [400, 'messages[0].content.image_url: images', said({ image_url: 'a' })],
    [400, 'messages[0].audio: images and files are', { messages: [{ audio: {} }] }],
    [400, 'audio: images and files are', { audio: { voice: 'a' } }],
    [400, 'model: goes to the provider as it is', { model: 'ann lee' }],
    [400, 'messages[0].content[0][0]: must be text', said([[5]])],
    [400, 'tools.vector_store_ids: the provider', { tools: { vector_store_ids: 'v' } }],
    [400, 'conversation: the provider would read what', { conversation: 'conv_1' }, responses],
    [400, 'background: the proxy has no path', { background: true }, responses],
    [400, 'mcp_servers: the provider would send', { mcp_servers: {} }, messages],
    [401, 'Send your API key', said('hi'), chat, { 'x-api-key': 'another' }],
    [413, 'More than 2000 different texts, or 50000 in all', many(2_001, String)],
    [413, 'More than 2000 different texts, or 50000 in all', many(50_001)],
    [413, 'More than 4194304 bytes (--max-body-bytes)', padded((4 << 20) + 1)],
  ])('%i %s', async (status, message, body, path, headers) => {
    const before = provider.asked.length;
    const answer = await post(body, headers, url + (path ?? chat));
    const { error } = (await answer.json()) as any;
    expect(`${answer.status} ${error.message}`).toContain(`${status} ${message}`);
    expect(error.message).not.toContain('ann@');
    expect(provider.asked.length).toBe(before);
  });

  test('at the bounds, it passes', async () => {
    for (const body of [padded(4 << 20), many(50_000)]) expect((await post(body)).status).toBe(200);
  });

  test('404 for other paths and methods, and the log has no unknown path', async () => {
    const before = provider.asked.length;
    expect((await post({}, {}, `${url}/v1/files/ann`)).status).toBe(404);
    expect(ends.at(-1)).toMatchObject({ path: '*', status: 404 });
    expect((await fetch(url + chat)).status).toBe(404);
    expect(await (await post({}, {}, `${url}/v1/models`)).text()).toContain('GET is the method');
    expect(provider.asked.length).toBe(before);
  });
});

async function* toRead(answer: any) {
  if (Symbol.asyncIterator in answer) yield* answer;
}

describe.each(ROUTES)('answers of %s equal those without the proxy', (route) => {
  const ask = ASK[route]!;
  /** With and without the proxy. What the model says is made of what it reads. */
  async function same(reply: Reply, more = {}) {
    provider.reply = reply;
    const [mail, card] = personal(0, 2);
    const text = `👋 Write to ${mail}, not ${card}; again ${mail}`;
    const [through, without] = [
      await answered(ask(text, url, more)),
      await answered(ask(text, provider.url, more)),
    ];
    expect(through).toEqual(without);
    expect(JSON.stringify(through)).toContain(mail);
    return through;
  }

  test('wherever a token is cut', async () => {
    for (let length = 1; length <= 16; length++) {
      provider.pieceLength = length;
      await same((asked) => [{ text: `${textOf(asked)}. "${textOf(asked)}"` }]);
    }
  });

  test('where a text ends as a token begins', async () => {
    const [mail] = personal(0, 1);
    provider.pieceLength = 4;
    let half = '';
    provider.reply = (asked) => {
      half = textOf(asked).match(TOKEN)![0]!.slice(0, 6);
      return [{ text: `${textOf(asked)} ${half}` }];
    };
    expect(JSON.stringify(await answered(ask(`To ${mail}`)))).toContain(`To ${mail} ${half}"`);
  });

  test.each([
    ['in capitals', (token: string) => token.toUpperCase()],
    ['with a capital', (token: string) => token[0]!.toUpperCase() + token.slice(1)],
    ['in Markdown', (token: string) => `**${token.replace('_', '\\_')}**`],
    ['in JSON', (token: string) => `{"to": "${token}", "all": ["\\n${token}"]}`],
  ])('%s', async (_name, written) => {
    // Without the proxy, the values are written as the tokens are, except for what restoring undoes.
    const [mail, card] = personal(0, 2);
    for (const length of [1, 4, 7]) {
      provider.pieceLength = length;
      provider.reply = (asked) => [{ text: textOf(asked).replace(TOKEN, written) }];
      const made = JSON.stringify(await answered(ask(`To ${mail}, ${card}.`)));
      const shown = (value: string) => written('a_tok').replace(/a\\?_tok/gi, () => value);
      expect(made).toContain(JSON.stringify(`To ${shown(mail!)}, ${shown(card!)}.`).slice(1, -1));
    }
  });

  test('in the arguments of tools, with escapes, beside a text', async () => {
    for (const length of [1, 3, 8]) {
      provider.pieceLength = length;
      await same((asked) => {
        const said = textOf(asked);
        const [first] = said.match(/\S+(?=,)/)!;
        const sent = JSON.stringify({ to: first, text: `Dear\n${said}\\${first}` });
        const calls = [
          { name: 'send', arguments: sent },
          { name: 'note', arguments: JSON.stringify([first]) },
        ];
        return [{ text: said, calls }];
      });
    }
  });
});

test('models pass, for callers that Standin knows', async () => {
  const { data } = await openai().models.list();
  expect(data.map(({ id }) => id)).toEqual(['m']);
  const before = provider.asked.length;
  await expect(openai(UNKNOWN_KEY).models.list()).rejects.toMatchObject({ status: 401 });
  expect(provider.asked.length).toBe(before);
  // There is no policy.
  front.failing = ['/policy', 404];
  expect((await openai().models.list()).data.length).toBe(1);
});

describe('when Standin fails', () => {
  const [mail] = personal(0, 1);
  /** The caller gets this status and reason, the provider no request, and nobody the value. */
  async function refused(route: string, status: number, reason: string, key?: string, to = url) {
    const before = provider.asked.length;
    const error: any = await ASK[route]!(`Write to ${mail}`, to, {}, key).then(
      (answer: unknown) => expect(answer).toBe('no answer'),
      (error: unknown) => error,
    );
    expect([error.status, error.message]).toEqual([status, expect.stringContaining(reason)]);
    expect(provider.asked.length).toBe(before);
    expect(`${error.message} ${JSON.stringify(error)}`).not.toContain(mail);
  }

  test.each(ROUTES)('%s: 401, 403, 413, 500', async (route) => {
    await refused(route, 401, 'API key is unknown', UNKNOWN_KEY);
    const { api_key } = await createClient(vault.service.place, '--can', 'detokenize');
    await refused(route, 403, 'may not tokenize', api_key);
    front.failing = ['/text/tokenize', 500];
    await refused(route, 503, '500 internal_error');
    front.failing = ['/text/tokenize', 413];
    await refused(route, 400, '413 internal_error');
  });

  test('429, stopped, slow', async () => {
    const silent = await ModelProvider.start();
    const away = await startProxy({ standinUrl: silent.url });
    silent.stop();
    const stopped = refused('messages, stream', 503, 'ECONNREFUSED', undefined, away.url);
    front.failing = ['/text/tokenize', 429];
    await refused('chat', 429, 'exceeded a limit');
    expect((await post(said('hi'))).headers.get('retry-after')).toBe('60');
    await stopped;
    away.server.close();
    front.failing = ['/text/tokenize', 0];
    await refused('responses', 503, 'no answer');
  });

  test('Presidio away: the caller reads why', async () => {
    await vault.apply(POLICY.replace('detect:', 'detect:\n  PERSON: mail'));
    for (const route of ROUTES) await refused(route, 503, 'PRESIDIO_URL is not set');
    await vault.apply(POLICY);
  });

  test.each(ROUTES)('%s: in the middle, an error and no value', async (route) => {
    front.failing = ['/text/detokenize', 500];
    const error: any = await ASK[route]!(`Write to ${mail}`).catch((error: unknown) => error);
    expect(error).toBeInstanceOf(Error);
    expect(error.message).toContain('500 internal_error');
    expect(JSON.stringify(ends.at(-1))).not.toContain(mail);
  });

  test.each(ROUTES.filter((name) => name.endsWith('stream')))(
    '%s: the provider ends in the middle',
    async (route) => {
      provider.cutAfterBytes = 900;
      provider.reply = (asked) => [{ text: textOf(asked).repeat(20) }];
      await expect(ASK[route]!(`Write to ${mail}`)).rejects.toThrow(
        /ended in the middle|The proxy failed/,
      );
    },
  );
});

test.each([400, 429, 529])('failures of the provider pass: %i', async (status) => {
  provider.reply = () => status;
  await expect(ASK.chat!('hi')).rejects.toMatchObject({ status });
  await expect(ASK['messages, stream']!('hi')).rejects.toMatchObject({ status });
});

test('an answer or an event beyond --max-body-bytes is a failure', async () => {
  const small = await startProxy({ maxBodyBytes: 1_000 });
  provider.pieceLength = 100_000;
  provider.reply = () => [{ text: 'x'.repeat(100_000) }];
  await expect(ASK.chat!('hi', small.url)).rejects.toMatchObject({ status: 502 });
  const cut = ASK['chat, stream']!('hi', small.url);
  await expect(cut).rejects.toThrow('An event of the provider is larger');
  small.server.close();
});

describe('conversations', () => {
  test.each(ROUTES)('%s: a token of another one stays a token', async (route) => {
    const { body } = await vault.send('text/tokenize', { text: 'stranger@example.com' });
    const foreign = body.data.text;
    expect(foreign).toMatch(TOKEN);
    const [mail] = personal(0, 1);
    const made = JSON.stringify(
      await answered(ASK[route]!(`${mail} ${foreign} ${foreign.toUpperCase()}`)),
    );
    expect(made).toContain(`${mail} ${foreign} ${foreign.toUpperCase()}`);
    expect(made).not.toContain('stranger');
  });

  test('a hundred at once never mix, even when the model names the tokens of all', async () => {
    const seen = new Set<string>();
    provider.pieceLength = 60;
    let waiting = 0;
    provider.reply = async (asked) => {
      for (const token of textOf(asked).match(TOKEN)!) seen.add(token);
      waiting++;
      await until(() => waiting === 100, 'all a hundred asked');
      return [{ text: `${[...seen].join(' ')}: ${textOf(asked)}` }];
    };
    const texts = Array.from({ length: 100 }, (_, i) => personal(2_000 + i * 3, 3).join(' | '));
    const answers = await Promise.all(
      texts.map((text, i) => answered(ASK[ROUTES[i % ROUTES.length]!]!(text))),
    );
    for (const [i, answer] of answers.entries()) {
      const made = JSON.stringify(answer);
      const own = new Set(spansOf(texts[i]!).map(({ start, end }) => texts[i]!.slice(start, end)));
      const found = spansOf(made).map(({ start, end }) => [...made].slice(start, end).join(''));
      expect(found.length).toBeGreaterThan(0);
      expect(found.filter((value) => !own.has(value))).toEqual([]);
      expect(made).toContain(texts[i]);
    }
  });
});

describe('streams', () => {
  test('hold back less than one token', async () => {
    const values = personal(12, 4);
    let clear = '';
    let sentTokens = '';
    let tokens: string[] = [];
    provider.reply = (asked) => {
      tokens = textOf(asked).match(TOKEN)!;
      return [{ text: textOf(asked) }];
    };
    // The next piece waits until the caller has all of the pieces before but a part of a token.
    provider.beforePiece = async (sent) => {
      sentTokens = sent;
      const restored = tokens.reduce((text, token, i) => text.replace(token, values[i]!), sent);
      const hasText = () => restored.length - clear.length < tokens[0]!.length;
      await until(hasText, 'the text before', 10_000);
      expect(restored.startsWith(clear) || clear.startsWith(restored)).toBe(true);
    };
    provider.pieceLength = 2;
    const text = `First ${values.join(' then ')} and some words after it.`;
    const stream = await openai().chat.completions.create({ ...said(text), stream: true });
    for await (const { choices } of stream as any) clear += choices[0]?.delta.content ?? '';
    expect(clear).toBe(text);
    expect(sentTokens.length).toBeGreaterThan(50);
  });
});
