import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { InvalidValueError, type Span, Standin, StandinError, UnauthorizedError } from '#client';
import { startWithPolicy } from '../support/policy.ts';
import { postgresBin } from '../support/postgres.ts';
import { createClient, kinds, type Service } from '../support/service.ts';

const POLICY = `
version: 1
kinds:
  person: { shape: word }
  secret: { shape: word }
rights:
  support: { person: full }
  "*": { "*": full }
`;
const TEXT = '👩🏽 (Ann Lee) wrote: "📧 s3cret", Bo isn\'t known. 我叫Bo 👋';
const VALUES = { 'Ann Lee': 'person', s3cret: 'secret', Bo: 'person' };
const spans: Span[] = Object.entries(VALUES).map(([value, kind]) => {
  const start = TEXT.indexOf(value);
  return { start, end: start + value.length, kind };
});

describe.skipIf(postgresBin === undefined || !kinds().includes('server'))('text', () => {
  let service: Service;
  let standin: Standin;
  let support: Standin;
  beforeAll(async () => {
    service = await startWithPolicy(POLICY);
    standin = new Standin({ url: service.url, apiKey: service.api_key });
    const { api_key: apiKey } = await createClient(service.place, '--name', 'support');
    support = new Standin({ url: service.url, apiKey });
  });
  afterAll(() => service.stop());

  const streamed = async (chunks: AsyncIterable<string> | Iterable<string>, client = standin) => {
    const pieces: string[] = [];
    for await (const piece of client.detokenizeStream(chunks)) pieces.push(piece);
    return pieces;
  };

  test('there and back, with offsets as JavaScript counts them', async () => {
    const tokenized = await standin.tokenizeText(TEXT, spans);
    for (const value of ['Ann Lee', 's3cret']) expect(tokenized.text).not.toContain(value);
    expect(tokenized.spans.map(({ kind }) => kind)).toEqual(['person', 'secret', 'person']);
    for (const { start, end } of tokenized.spans)
      expect(tokenized.text.slice(start, end)).toMatch(/^[a-z]{10}_tok$/);
    const restored = await standin.detokenizeText(tokenized.text);
    expect(restored).toEqual({ text: TEXT, unapplied: [] });
  });

  test('what stays is told by its offsets in the text that was passed', async () => {
    const { text, spans: found } = await standin.tokenizeText(TEXT, spans);
    const restored = await support.detokenizeText(`${text} nobodythere_tok`);
    const [, { start, end } = { start: 0, end: 0 }] = found;
    expect(restored.unapplied[0]).toEqual({ start, end, reason: 'forbidden' });
    expect(restored.unapplied[1]).toMatchObject({ reason: 'unknown', end: text.length + 16 });
    expect(restored.text).toContain(text.slice(start, end));
    expect(restored.text).toContain('Ann Lee');
  });

  test.each([
    ['known tokens', TEXT],
    ['what only looks like a token', 'enum { EOF_TOK, NUM_TOK };\nmax\\_tok = "5"; // \\_TOK'],
  ])(
    'a stream of %s, cut anywhere, also in a surrogate pair, gives all bytes',
    async (_, whole) => {
      const text = whole === TEXT ? (await standin.tokenizeText(TEXT, spans)).text : whole;
      for (let at = 0; at <= text.length; at++) {
        const pieces = await streamed([text.slice(0, at), text.slice(at)]);
        expect(pieces.join(''), `cut at ${at}`).toBe(whole);
      }
      const chunks = text.match(/[\s\S]{1,4}/g)!;
      expect((await streamed(ReadableStream.from(chunks))).join('')).toBe(whole);
      expect(await streamed([])).toEqual([]);
    },
  );

  test('a stream gives what is sure at once', async () => {
    const { text } = await standin.tokenizeText('Ann Lee is here', [
      { start: 0, end: 7, kind: 'person' },
    ]);
    const stream = standin.detokenizeStream([`${text.slice(0, 5)}`, `${text.slice(5)}. `, 'x']);
    expect(await stream.next()).toEqual({ done: false, value: 'Ann Lee is here. ' });
  });

  test('a stream that is left early, or fails, ends its source', async () => {
    let ended = 0;
    async function* source(error?: Error) {
      try {
        yield 'one ';
        if (error) throw error;
        yield 'two ';
      } finally {
        ended++;
      }
    }
    for await (const piece of standin.detokenizeStream(source())) {
      expect(piece).toBe('one ');
      break;
    }
    const apiKey = 'stk_00000000000000000000000000003W8MOK';
    const stranger = new Standin({ url: service.url, apiKey });
    await expect(streamed(source(), stranger)).rejects.toBeInstanceOf(UnauthorizedError);
    await expect(streamed(source(new Error('of the model')))).rejects.toThrow('of the model');
    expect(ended).toBe(3);
  });

  test.each<[string, Span, string]>([
    ['behind the end', { start: 0, end: TEXT.length + 1, kind: 'person' }, 'spans[0]: start must'],
    ['empty', { start: 6, end: 6, kind: 'person' }, 'spans[0]: start must be below end'],
    ['a half of a pair', { start: 1, end: 6, kind: 'person' }, 'spans[0]: start must be below end'],
    ['no offset', { start: 0.5, end: 6, kind: 'person' }, 'spans[0]: start must be below end'],
    ['no kind', { start: 0, end: 2, kind: 'nobody' }, 'spans[0].kind: must be a kind of shape'],
  ])('refused: %s', async (_, span, message) => {
    const refusal = standin.tokenizeText(TEXT, [span]);
    await expect(refusal).rejects.toBeInstanceOf(InvalidValueError);
    await expect(refusal).rejects.toThrow(`data.${message}`);
  });

  test('an answer of another server is refused', async () => {
    const answers = ['{}', '{"data":{"text":7}}', '{"data":{"text":"a"},"unapplied":[{}]}', 'x'];
    for (const text of answers) {
      const fetch = async () => ({ status: 200, headers: new Headers(), text: async () => text });
      const other = new Standin({ url: service.url, apiKey: service.api_key, fetch });
      await expect(other.detokenizeText('a')).rejects.toMatchObject({ code: 'bad_answer' });
      await expect(other.tokenizeText('a', [])).rejects.toBeInstanceOf(StandinError);
    }
  });
});
