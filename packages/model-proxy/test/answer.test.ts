import { expect, test } from 'vitest';
import { Answer } from '../src/answer.ts';
import { Restorer, Tokens } from '../src/restorer.ts';
import { readEvents } from '../src/sse.ts';

const TOKENS = new Tokens(['abcdefghij_tok', 'bcdefghijk_tok']);
const restore = async (token: string) => (token.startsWith('a') ? 'Ann "A" Lee' : 'Bo');

async function restored(isJson: boolean, ...pieces: string[]): Promise<string[]> {
  const restorer = new Restorer(TOKENS, restore, isJson);
  const made = [];
  for (const piece of pieces) made.push(await restorer.feed(piece));
  return [...made, restorer.end()];
}

test.each([
  ['whole', ['to abcdefghij_tok!'], ['to Ann "A" Lee!', '']],
  ['cut', ['to abc', 'defghij_', 'tok.'], ['to ', '', 'Ann "A" Lee.', '']],
  ['at the end, at once', ['to abcdefghij_tok', ' x'], ['to Ann "A" Lee', ' x', '']],
  ['in Markdown, cut', ['ABCDEFGHIJ', '\\', '_TOK'], ['', '', 'Ann "A" Lee', '']],
  ['two, the second begins in the first', ['abcdefghijk_tok'], ['aBo', '']],
  ['never complete', ['so abcdefghij', '_to'], ['so ', '', 'abcdefghij_to']],
  ['another', ['so abcdefghix', '_tok'], ['so abcdefghix', '_tok', '']],
])('a token in a text: %s', async (_name, pieces, expected) => {
  expect(await restored(false, ...pieces)).toEqual(expected);
});

test('in JSON, a value has its escapes, and an escape before a token is none of its letters', async () => {
  const json = JSON.stringify({ a: 'to\nabcdefghij_tok', b: 'abcdefghij\\_tok' });
  for (let cut = 0; cut <= json.length; cut++) {
    const made = (await restored(true, json.slice(0, cut), json.slice(cut))).join('');
    expect(JSON.parse(made)).toEqual({ a: 'to\nAnn "A" Lee', b: 'Ann "A" Lee' });
  }
});

async function* bytesOf(text: string, length: number) {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += length) yield bytes.subarray(at, at + length);
}

async function eventsOf(path: string, text: string, length: number): Promise<string[]> {
  const answer = new Answer(TOKENS, restore, {});
  const made = [];
  for await (const one of answer.stream(path, readEvents(bytesOf(text, length), 10_000)))
    made.push(one);
  return made;
}

const CHAT = '/v1/chat/completions';
const chunk = (content: string, finishReason: string | null = null) => ({
  choices: [{ index: 0, delta: { content }, finish_reason: finishReason }],
});
const line = (data: object) => `data: ${JSON.stringify(data)}`;

test('events in any form: CRLF, comments, data in two lines, cut anywhere', async () => {
  const text =
    `: hi\r\n\r\n${line(chunk('é abcdefghij_tok bcd'))}\r\n\r\n` +
    'data: {"choices":\ndata: [{"index":0,"delta":{"content":"efgh"},"finish_reason":"stop"}]}\n\n' +
    'data: [DONE]\n\n';
  for (let length = 1; length < 20; length++)
    expect(await eventsOf(CHAT, text, length)).toEqual([
      `${line(chunk('é Ann "A" Lee '))}\n\n`,
      `${line(chunk('bcdefgh', 'stop'))}\n\n`,
      'data: [DONE]\n\n',
    ]);
});

test.each([
  ['without an end', `${line(chunk('a'))}\n\n`, /ended in the middle/],
  ['without JSON', 'data: {"a\n\n', /without JSON/],
  ['too large', `data: ${'a'.repeat(20_000)}`, /larger than/],
])('a stream %s is refused', async (_name, text, message) => {
  await expect(eventsOf(CHAT, text, 1_000)).rejects.toThrow(message);
});

test('events of responses stay numbered, with the event for what was held back', async () => {
  const delta = { type: 'response.output_text.delta', item_id: 'i', output_index: 0 };
  const events = [
    { ...delta, content_index: 0, delta: 'so abc', sequence_number: 0 },
    {
      ...delta,
      type: 'response.output_text.done',
      content_index: 0,
      text: 'so abc',
      sequence_number: 1,
    },
    { type: 'response.completed', response: { output: [] }, sequence_number: 2 },
  ];
  const text = events.map((event) => `${line(event)}\n\n`).join('');
  const made = (await eventsOf('/v1/responses', text, 50)).map((one) => JSON.parse(one.slice(6)));
  expect(made.map((one) => [one.sequence_number, one.delta ?? one.text])).toEqual([
    [0, 'so '],
    [1, 'abc'],
    [2, 'so abc'],
    [3, undefined],
  ]);
});
