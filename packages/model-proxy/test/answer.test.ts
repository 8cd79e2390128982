import { expect, test } from 'vitest';
import { Answer } from '../src/answer.ts';
import { Tokens } from '../src/restorer.ts';
import { readEvents, type ServerEvent } from '../src/sse.ts';

const TOKEN = 'dmqzkwvhrt_tok';
const VALUE = 'Ann "Nan" Lee';
const CHAT = '/v1/chat/completions';
const JSON_FORMAT = { response_format: { type: 'json_object' } };

let asked = 0;
const restore = async () => {
  asked++;
  return VALUE;
};
const answer = (body = {}) => new Answer(new Tokens([TOKEN]), restore, body);

async function streamed(path: string, data: readonly unknown[], body = {}): Promise<any[]> {
  async function* events(): AsyncGenerator<ServerEvent> {
    for (const one of data) yield { data: one === 'ping' ? one : JSON.stringify(one) };
  }
  const made = [];
  for await (const text of answer(body).stream(path, events()))
    made.push(JSON.parse(text.slice(text.indexOf('data: ') + 6)));
  return made;
}

/** The deltas of one choice that ends after them. */
async function deltasOf(deltas: readonly object[], body = {}): Promise<any[]> {
  const chunks = deltas.map((delta) => ({ choices: [{ index: 0, delta }] }));
  const end = { choices: [{ index: 0, finish_reason: 'stop' }] };
  const made = await streamed(CHAT, [...chunks, end], body);
  return made.slice(0, -1).map(({ choices }) => choices[0].delta);
}

test('lists of strings in a delta come whole and restored, each once', async () => {
  // The text ends as a token begins, so an event follows with what was held back.
  const [first, ...more] = await deltasOf([{ content: 'xd', notes: [`To ${TOKEN}`, 'd', null] }]);
  expect(first).toEqual({ content: 'x', notes: [`To ${VALUE}`, 'd', null] });
  expect(more).toEqual([{ content: 'd' }]);
});

test.each([[['_tok', 'b-a_tok', 'a_tok']], [['a_tok', 'b-a_tok']]])(
  'of tokens that end as others do, the longest is meant: %j',
  (tokens) => {
    expect([...new Tokens(tokens).in('to b-a_tok.')]).toEqual([
      { start: 3, end: 10, token: 'b-a_tok' },
    ]);
    expect([...new Tokens(tokens).in('to A\\_tok.')]).toMatchObject([{ token: 'a_tok' }]);
  },
);

test('signatures and what is signed stay as the provider sent them, in the same event', async () => {
  const signed = { type: 'thinking', thinking: `so ${TOKEN}`, signature: `ab+${TOKEN}/d` };
  const blocks = [{ thinking_blocks: [signed] }, { thinking_blocks: [{ ...signed, type: 'd' }] }];
  expect(await deltasOf(blocks)).toEqual(blocks);
  const events = [
    { type: 'content_block_delta', index: 0, delta: { type: 'signature_delta', signature: 'ad' } },
    { type: 'content_block_stop', index: 0 },
    { type: 'error' },
  ];
  expect(await streamed('/v1/messages', events)).toEqual(events);
  expect(await answer().whole({ content: [signed] })).toEqual({ content: [signed] });
});

test.each(['reasoning', 'reasoning_content', 'refusal'])(
  'values in %s have no escapes, even where the request asked for JSON',
  async (field) => {
    const text = `[${TOKEN}]`;
    expect(await deltasOf([{ [field]: text }], JSON_FORMAT)).toEqual([{ [field]: `[${VALUE}]` }]);
    const made = await answer(JSON_FORMAT).whole({ choices: [{ message: { [field]: text } }] });
    expect(made).toEqual({ choices: [{ message: { [field]: `[${VALUE}]` } }] });
  },
);

test('a token whose value the caller may not see stays as the model wrote it', async () => {
  const hidden = new Answer(new Tokens([TOKEN]), async (token) => token, {});
  expect(await hidden.whole(`a ${TOKEN.toUpperCase()}, b`)).toBe(`a ${TOKEN.toUpperCase()}, b`);
});

test('items of reasoning are prose', async () => {
  const reasoning = (text: string) => ({ type: 'reasoning', content: [{ text: `"${text}"` }] });
  const made = await answer(JSON_FORMAT).whole({ output: [reasoning(TOKEN)] });
  expect(made).toEqual({ output: [reasoning(VALUE)] });
  expect(await answer(JSON_FORMAT).whole([`To ${TOKEN}`])).toEqual([`To ${VALUE}`]);
});

test.each([
  ['arguments', {}],
  ['content', JSON_FORMAT],
  ['content', { text: { format: { type: 'json_schema' } } }],
  ['content', { output_config: { format: { type: 'json_schema' } } }],
  ['content', { output_format: { type: 'json_schema' } }],
])('values in %s that were cut off have the escapes of JSON', async (field, body) => {
  const made: any = await answer(body).whole({ [field]: `{"to": "${TOKEN}", "te` });
  expect(JSON.parse(`${made[field]}xt": 1}`)).toEqual({ to: VALUE, text: 1 });
});

test('names such as __proto__ are names', async () => {
  const body = JSON.parse(`{"__proto__": {"a": "${TOKEN}"}, "constructor": "b"}`);
  const made = await answer().whole(body);
  const expected = JSON.stringify(body).replace(TOKEN, () => JSON.stringify(VALUE).slice(1, -1));
  expect(JSON.stringify(made)).toBe(expected);
  const [delta] = await deltasOf([body]);
  expect(JSON.stringify(delta)).toBe(expected);
});

test('texts that come by turns are apart, and what was held back is alone in its event', async () => {
  const part = (t: string) => ({ content: t, a: [{ t }, { t }], tool_calls: [], b: null });
  const made = JSON.stringify(await deltasOf([part('dmqzkw'), { c: 'x' }, part('vhrt_tok d')]));
  const texts = made
    .replaceAll(JSON.stringify(VALUE).slice(1, -1), '*')
    .match(/(?<=":")[^"]*|null/g);
  expect(texts!.join('|')).toBe('|||null|x|* |* |* |null|d|||null||d||null|||d|null');
  const last = { choices: [{ index: 0, delta: { a: 'x d' }, finish_reason: 'stop' }] };
  expect(await streamed(CHAT, [last])).toEqual([last]);
});

test('a text that was open ends with its last piece, and each token is asked for once', async () => {
  const before = asked;
  const piece = (content: string, more = {}) => ({
    choices: [{ index: 0, delta: { content }, ...more }],
  });
  const end = { finish_reason: 'stop' };
  const made = await streamed(CHAT, [piece(`${TOKEN} dmqzkw`), piece('vhrt_tok', end)]);
  expect(made).toEqual([piece(`${VALUE} `), piece(VALUE, end)]);
  expect(asked - before).toBe(2);
});

test('events have any end of line, the last name and all lines of data, up to the bound', async () => {
  const read = async (text: string) => {
    const made: ServerEvent[] = [];
    const bytes = [...Buffer.from(text)].map((byte) => Uint8Array.of(byte));
    for await (const event of readEvents(ReadableStream.from(bytes), 40)) made.push(event);
    return made;
  };
  const text = 'data: 1\r\nevent: a\nevent: é\rdata:2\n\n: x\n\nid: 5\n\ndata\r\n\r\n';
  expect(await read(text)).toEqual([{ name: 'é', data: '1\n2' }, { data: '' }]);
  expect(await read('x'.repeat(40))).toEqual([]);
  await expect(read('x'.repeat(41))).rejects.toMatchObject({ status: 502 });
});

test('an event with what was held back has a number of its own', async () => {
  const types = ['delta', 'done', 'completed'].map((end) => `response.${end}`);
  const events = types.map((type, i) => ({ type, sequence_number: i, delta: i || 'x d' }));
  const made = await streamed('/v1/responses', events);
  expect(made.map((one) => [one.sequence_number, one.delta]).join()).toBe('0,x ,1,d,2,1,3,2');
});

const chunk = (count: number) => ({
  choices: Array.from({ length: count }, (_, index) => ({ index, delta: { a: 'a' } })),
});
test.each([
  ['no text', chunk(0), 'The answer of the provider ended in the middle.'],
  ['1,000 texts', chunk(1_000), 'The answer of the provider ended in the middle.'],
  ['1,001 texts', chunk(1_001), 'The provider sent too many texts.'],
  ['no JSON', 'ping', 'The provider sent an event without JSON.'],
])('a stream of %s is an error', async (_, event, message) => {
  await expect(streamed(CHAT, [event])).rejects.toMatchObject({ status: 502, message });
});
