import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { echo, ModelProvider } from '../support/model-provider.ts';
import { PERSONAL_KINDS, personal } from '../support/personal.ts';
import { governed } from '../support/policy.ts';
import { freePort } from '../support/processes.ts';
import { example } from '../support/recipes.ts';
import { kinds, NO_LIMITS, ROOT, until } from '../support/service.ts';
import { StandIn } from '../support/stand-in.ts';

/** The result of test/examples/install.sh. */
const LITELLM = join(ROOT, 'build/litellm/bin/litellm');
const isReady = existsSync(join(ROOT, 'build/litellm/ready')) && kinds().includes('server');
const policy = readFileSync(join(example('litellm'), 'policy.yaml'), 'utf8');
const MASTER_KEY = 'sk-0123456789abcdef0123456789abcdef';
const TOKEN = /[a-z]{10}_tok/g;
const HANGS = () => {};
const [MAIL, OTHER] = [PERSONAL_KINDS.mail(0), PERSONAL_KINDS.mail(1)];

describe.runIf(isReady)('LiteLLM with Standin as a guardrail', () => {
  const at = governed(policy, {}, { GUARDRAIL: 'true', ...NO_LIMITS });
  let model: ModelProvider;
  let litellm: ChildProcess;
  let url: string;
  let output = '';
  /** Between LiteLLM and Standin; undefined: nothing is there. */
  let door: (request: IncomingMessage, response: ServerResponse) => unknown;
  let standin: StandIn;
  const answers = (status: number) => (_: unknown, response: ServerResponse) =>
    response.writeHead(status, { 'content-type': 'application/json' }).end('{"error":"x"}');
  const passes = async (request: IncomingMessage, response: ServerResponse) => {
    const { 'content-type': type, 'x-api-key': apiKey } = request.headers;
    const headers = { 'content-type': String(type), 'x-api-key': String(apiKey) };
    const body = await buffer(request);
    const { status, text } = await fetch(at.service.url + request.url, {
      ...{ method: 'POST', headers, body },
    }).then(async (one) => ({ status: one.status, text: await one.text() }));
    response.writeHead(status, { 'content-type': 'application/json' }).end(text);
  };

  beforeAll(async () => {
    model = await ModelProvider.start();
    standin = await new StandIn((request, response) => door(request, response)).open();
    const port = await freePort();
    url = `http://127.0.0.1:${port}`;
    const config = join(example('litellm'), 'config.yaml');
    const args = ['--config', config, '--host', '127.0.0.1', '--port', String(port)];
    const env = {
      ...process.env,
      ...{ LITELLM_LOCAL_MODEL_COST_MAP: 'True', LITELLM_MASTER_KEY: MASTER_KEY },
      ...{ OPENAI_API_BASE: `${model.url}/v1`, OPENAI_API_KEY: 'sk-model' },
      ...{ ANTHROPIC_API_BASE: model.url, ANTHROPIC_API_KEY: 'sk-model' },
      ...{ STANDIN_URL: standin.url, STANDIN_API_KEY: at.keys.app! },
    };
    litellm = spawn(LITELLM, args, { env });
    const read = (bytes: Buffer) => {
      output += bytes;
    };
    litellm.stdout!.on('data', read);
    litellm.stderr!.on('data', read);
    const isUp = async () =>
      (await fetch(`${url}/health/liveliness`).catch(() => undefined))?.ok ?? false;
    await until(isUp, 'LiteLLM').catch((error) => {
      throw new Error(output, { cause: error });
    });
  });
  afterAll(() => {
    litellm?.kill('SIGKILL');
    model?.stop();
    standin?.stop();
  });
  beforeEach(() => {
    door = passes;
    model.reply = echo;
    model.pieceLength = 5;
  });

  const post = (path: string, body: object) =>
    fetch(url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${MASTER_KEY}` },
      body: JSON.stringify(body),
    });
  /** Those that a text has whole. */
  const eventsIn = (text: string) =>
    Array.from(text.matchAll(/^data: (\{.*\})$/gm), ([, data]) => JSON.parse(data!));
  async function send(path: string, body: object) {
    const response = await post(path, body);
    const text = await response.text();
    return { status: response.status, text, events: eventsIn(text) };
  }
  const chat = (content: unknown, more = {}) =>
    send('/v1/chat/completions', { model: 'gpt', messages: [{ role: 'user', content }], ...more });
  const messages = (content: unknown, more = {}) =>
    send('/v1/messages', {
      ...{ model: 'claude', max_tokens: 99, messages: [{ role: 'user', content }], ...more },
    });
  const responses = (input: unknown, more = {}) =>
    send('/v1/responses', { model: 'gpt', input, ...more });
  /** The texts of the choices of a stream of chat completions. */
  const streamed = (events: readonly any[]) => {
    const texts: string[] = [];
    for (const { index, delta } of events.flatMap(({ choices = [] }) => choices))
      texts[index] = (texts[index] ?? '') + (delta.content ?? '');
    return texts;
  };

  test('1,000 values on every route reach no model, and come back', async () => {
    const all = personal(0, 1_000);
    model.pieceLength = 400;
    for (let from = 0; from < all.length; from += 250) {
      const text = all.slice(from, from + 250).join('; ');
      expect(JSON.parse((await chat(text)).text).choices[0].message.content).toBe(text);
      expect(streamed((await chat(text, { stream: true })).events)).toEqual([text]);
      expect(JSON.parse((await messages(text, { system: text })).text).content[0].text).toBe(text);
      expect(
        JSON.parse((await responses(text, { instructions: text })).text).output[0].content[0].text,
      ).toBe(text);
      for (const one of [
        await messages(text, { stream: true }),
        await responses(text, { stream: true }),
      ])
        expect([one.status, holds(one.text, all)]).toEqual([200, []]);
      expect((await send('/v1/embeddings', { model: 'gpt', input: [text, text] })).status).toBe(
        200,
      );
    }
    const paths = new Set(model.asked.map(({ path }) => path));
    expect(paths).toContain('/v1/embeddings');
    expect(holds(model.received(), all)).toEqual([]);
  });

  test('system prompts, tools, their calls and results reach no model in clear', async () => {
    const args = JSON.stringify({ to: MAIL, n: 1 });
    const schema = { type: 'object', properties: { to: { type: 'string', description: OTHER } } };
    const tool = { name: 'f', description: `of ${MAIL}` };
    const calls = [{ id: 't', type: 'function', function: { name: 'f', arguments: args } }];
    const use = { type: 'tool_use', id: 't', name: 'f', input: { to: MAIL } };
    const used = { type: 'tool_result', tool_use_id: 't', content: `sent to ${MAIL}` };
    await send('/v1/chat/completions', {
      ...{ model: 'gpt', tools: [{ type: 'function', function: { ...tool, parameters: schema } }] },
      messages: [
        { role: 'system', content: `from ${MAIL}` },
        { role: 'user', content: [{ type: 'text', text: `to ${OTHER}` }] },
        { role: 'assistant', content: null, tool_calls: calls },
        { role: 'tool', tool_call_id: 't', content: `sent to ${MAIL}` },
      ],
    });
    const { body } = model.asked.at(-1)!;
    expect(JSON.parse(body.messages[2].tool_calls[0].function.arguments)).toEqual({
      to: expect.stringMatching(TOKEN),
      n: 1,
    });
    await send('/v1/messages', {
      ...{ model: 'claude', max_tokens: 9, system: MAIL },
      tools: [{ ...tool, input_schema: schema }],
      messages: [
        { role: 'user', content: `to ${OTHER}` },
        { role: 'assistant', content: [use] },
        { role: 'user', content: [used] },
      ],
    });
    expect(model.asked.at(-1)!.path).toBe('/v1/messages');
    await responses(
      [
        { role: 'user', content: [{ type: 'input_text', text: `to ${OTHER}` }] },
        { type: 'function_call', call_id: 't', name: 'f', arguments: args },
        { type: 'function_call_output', call_id: 't', output: `sent to ${MAIL}` },
      ],
      { tools: [{ type: 'function', ...tool, parameters: schema }], instructions: MAIL },
    );
    expect(model.asked.at(-1)!.path).toBe('/v1/responses');
    expect(holds(model.received(), [MAIL, OTHER])).toEqual([]);
  });

  test('a token is restored wherever it is cut, in capitals, escaped, and in two choices', async () => {
    const forms = (token: string) => [
      token,
      token.toUpperCase(),
      token[0]!.toUpperCase() + token.slice(1),
      token.replace('_', '\\_'),
    ];
    model.reply = ({ body }) => {
      const [token] = body.messages[0].content.match(TOKEN);
      return forms(token)
        .slice(0, body.n)
        .map((one) => ({ text: `é "${one}", {"a":"${one}"} 👩 ${one}` }));
    };
    const all = Array(4).fill(`é "${MAIL}", {"a":"${MAIL}"} 👩 ${MAIL}`);
    for (let length = 1; length <= 16; length++) {
      model.pieceLength = length;
      const { events, text } = await chat(MAIL, { stream: true, n: 4 });
      expect(streamed(events), text.slice(-500)).toEqual(all);
    }
    const { text } = await chat(MAIL, { n: 4 });
    expect(JSON.parse(text).choices.map(({ message }: any) => message.content)).toEqual(all);
  });

  test('a token of another conversation stays a token, in a hundred at once', async () => {
    const mine = personal(0, 100);
    const { body } = await at.send('text/tokenize', { text: 'x@example.org' });
    const stranger = body.data.text;
    expect(stranger).toMatch(TOKEN);
    const all = await Promise.all(mine.map((value) => chat(`${value} and ${stranger}`)));
    expect(all.map(({ text }) => JSON.parse(text).choices[0].message.content)).toEqual(
      mine.map((value) => `${value} and ${stranger}`),
    );
  });

  test('the first restored text leaves before the model has ended', async () => {
    let goOn = HANGS;
    const held = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    model.pieceLength = 5;
    model.beforePiece = (sent) => (sent.length >= 30 ? held : undefined);
    const messages = [{ role: 'user', content: `To ${MAIL} and so on, at length` }];
    const response = await post('/v1/chat/completions', { model: 'gpt', stream: true, messages });
    let text = '';
    for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
      text += chunk;
      if (streamed(eventsIn(text))[0]?.includes(MAIL)) goOn();
    }
    model.beforePiece = HANGS;
    expect(text).toContain('[DONE]');
  });

  test('tool calls of an answer keep their tokens: LiteLLM takes nothing back', async () => {
    model.reply = ({ body }) => [
      { calls: [{ name: 'f', arguments: JSON.stringify({ to: body.messages[0].content }) }] },
    ];
    const { text } = await chat(MAIL);
    expect(JSON.parse(text).choices[0].message.tool_calls[0].function.arguments).toMatch(TOKEN);
  });

  test.each([
    ['stopped', (request: IncomingMessage) => request.socket.destroy()],
    ...[401, 403, 429, 500, 503].map((status) => [String(status), answers(status)] as const),
    ['slow', HANGS],
  ] as const)(
    'Standin %s: no model is asked, and the caller gets an error',
    async (name, answer) => {
      door = answer;
      const before = model.asked.length;
      for (const stream of [false, true]) {
        const { status, text } = await chat(MAIL, { stream });
        expect([status >= 400, text.includes('Generic Guardrail API failed')], text).toEqual([
          true,
          true,
        ]);
        if (/\d/.test(name)) expect(text).toContain(name);
      }
      expect(model.asked.length).toBe(before);
    },
  );

  test('images are refused', async () => {
    const before = model.asked.length;
    const image = { type: 'image_url', image_url: { url: 'https://example.com/a.png' } };
    const { status, text } = await chat([{ type: 'text', text: 'What is it?' }, image]);
    expect([status, text.includes('images and files')], text).toEqual([400, true]);
    expect(model.asked.length).toBe(before);
  });

  test('Standin that fails in the middle of an answer ends it with an error', async () => {
    let count = 0;
    door = (request, response) =>
      ++count > 8 ? answers(500)(request, response) : passes(request, response);
    const { text, events } = await chat(`${MAIL} ${'and so on '.repeat(20)}`, { stream: true });
    expect(text).toContain('Generic Guardrail API failed');
    expect(streamed(events).join('')).not.toMatch(TOKEN);
  });
});

/** Those of these values that a text has. */
function holds(text: string, all: readonly string[]): string[] {
  return all.filter((value) => text.includes(value));
}
