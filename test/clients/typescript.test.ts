import { inspect } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type DetokenizeTextOptions, type Span, Standin, StandinError } from '#client';
import { ALL_CASES, type CaseRun, CaseServices, type CaseTask } from '../support/client-cases.ts';
import { newFolder } from '../support/folder.ts';

const folder = newFolder('cases');
let services: CaseServices;
let run: CaseRun;
beforeAll(async () => {
  services = await CaseServices.start(folder);
  run = await services.prepare(ALL_CASES);
  for (const task of run.tasks) run.note([await outcomeOf(task)]);
});
afterAll(async () => {
  run.stop();
  await services.stop();
});

type Text = { text: string; spans: Span[] | Record<string, string>; after?: string };

/** A text that goes there and back, whole and in streams of two chunks. */
async function textOf(client: Standin, { text, spans, after = '' }: Text) {
  const named = Object.entries(Array.isArray(spans) ? {} : spans).map(([value, kind]) => {
    const start = text.indexOf(value);
    return { start, end: start + value.length, kind };
  });
  const made = await client.tokenizeText(text, Array.isArray(spans) ? spans : named);
  const sent = made.text + after;
  const back = await client.detokenizeText(sent);
  const streamed = new Set([back.text]);
  for (let cut = 0; cut <= sent.length; cut++)
    streamed.add(await streamOf(client, [sent.slice(0, cut), sent.slice(cut)]));
  return {
    kinds: made.spans.map(({ kind }) => kind),
    tokens: made.spans.map(({ start, end }) => made.text.slice(start, end)),
    text: back.text,
    left: back.unapplied.map(({ start, end, reason }) => [sent.slice(start, end), reason]),
    streams: streamed.size,
  };
}

async function streamOf(client: Standin, chunks: string[], options?: DetokenizeTextOptions) {
  let text = '';
  for await (const piece of client.detokenizeStream(chunks, options)) text += piece;
  return text;
}

/** Two persons of a conversation, and which of them come back. */
async function conversationOf(client: Standin, [one, two]: [string, string]) {
  const spanOf = ({ length }: string) => [{ start: 0, end: length, kind: 'person' }];
  const begun = await client.tokenizeText(one, spanOf(one), { conversation: true });
  const { conversation } = begun;
  const grown = await client.tokenizeText(two, spanOf(two), { conversation });
  const mail = `${begun.text}, ${grown.text}`;
  const back = async (options: object) => client.detokenizeText(mail, options);
  const first = await back({ conversation });
  return {
    both: (await back({ conversation: grown.conversation })).text,
    first: first.text,
    reasons: first.unapplied.map(({ reason }) => reason),
    named: (await back({ only: [grown.text], conversation })).text,
    none: (await back({ only: [] })).text,
    streamed: await streamOf(client, mail.match(/.{1,5}/g)!, { conversation }),
  };
}

async function outcomeOf({ name, call, url, api_key: apiKey, options, data }: CaseTask) {
  const { timeout_ms: timeoutMs, max_values: maxValues, max_bytes: maxBytes, ...more } = options;
  const { policy, fields } = more;
  const own = fields === undefined ? {} : { fields };
  try {
    const given: any = { url, apiKey, timeoutMs, maxValues, maxBytes, policy };
    const client: any = new Standin(given);
    if (call === 'text') return { name, data: await textOf(client, data) };
    if (call === 'conversation') return { name, data: await conversationOf(client, data) };
    if (call === 'policy_in_force') return { name, data: await client.policyInForce() };
    if (call === 'health') return { name, data: { ...(await client.health()) } };
    if (call === 'lookup') return { name, data: await client.lookup(data) };
    if (call === 'detokenize') return { name, data: await client.detokenize(data, own) };
    if (call === 'detokenize_lenient')
      return { name, ...(await client.detokenize(data, { ...own, lenient: true })) };
    const tokens = await client.tokenize(data, own);
    if (call === 'tokenize') return { name, tokens };
    return { name, tokens, data: await client.detokenize(tokens, own) };
  } catch (error) {
    const text = inspect(error);
    if (error instanceof TypeError) return { name, error: { class: 'usage', text } };
    expect(error).toBeInstanceOf(StandinError);
    const { attempts, code, status, detail } = error as StandinError;
    const { name: kind, path, reason, kind: forbidden } = error as any;
    const facts = { class: kind, attempts, code, status, detail, path, reason, kind: forbidden };
    return { name, error: { ...facts, text } };
  }
}

test.each(ALL_CASES.map((one) => [one.name, one] as const))('A47: %s', (_, one) => run.judge(one));
