import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { governed } from '../support/policy.ts';
import { runJson } from '../support/service.ts';
import { metric } from '../support/vault.ts';

const POLICY = `
version: 1
kinds:
  person: { shape: word }
  address: { shape: word, length: 14, mask: { show: ends, first: 1 } }
  secret: { shape: word, tokens: random }
  mail: { shape: email }
  bare: { shape: word, suffix: false }
fields: { email: mail }
elsewhere: pass
rights:
  "*": { "*": full }
  support: { person: full, address: masked, mail: full, text: full }
`;
const at = governed(
  POLICY,
  {
    ...{ support: [], guesser: [], new: [] },
    writer: ['--can', 'tokenize'],
    reader: ['--can', 'detokenize'],
    free: ['--unknown-token-limit', '0'],
    poor: ['--unknown-token-limit', '0.01'],
    slow: ['--rate-limit', '0.001', '--detokenize-limit', '0.001'],
  },
  ({ folder }) => ({
    ...{ UNKNOWN_TOKEN_LIMIT: '1', VALUES_LIMIT: '50' },
    ...{ AUDIT_LOG: join(folder, 'audit.log'), AUDIT_REQUIRED: 'true' },
  }),
);

const tokenize = (data: unknown, who?: string) => at.send('text/tokenize', data, who);
const detokenize = (data: unknown, who?: string) => at.send('text/detokenize', data, who);
const restored = async (text: string, who?: string) => (await detokenize({ text }, who)).body;

/** A success waits for its line. */
function lineOf(requestId: string) {
  const lines = readFileSync(join(at.service.place.folder, 'audit.log'), 'utf8').trim().split('\n');
  return lines.map((one) => JSON.parse(one)).find((one) => one.request_id === requestId);
}

const person = (start: number, end: number) => ({ start, end, kind: 'person' });

/** A span of each value in the text, in code points. */
function spansOf(text: string, values: Readonly<Record<string, string>>) {
  return Object.entries(values).map(([value, kind]) => {
    const start = [...text.slice(0, text.indexOf(value))].length;
    return { start, end: start + [...value].length, kind };
  });
}

async function tokenized(text: string, values: Readonly<Record<string, string>>): Promise<string> {
  const { status, body } = await tokenize({ text, spans: spansOf(text, values) });
  expect(status, JSON.stringify(body)).toBe(200);
  for (const { start, end } of body.data.spans)
    expect([...body.data.text].slice(start, end).join('')).toMatch(/^[a-z]+_tok$/);
  return body.data.text;
}

test('a text there and back, with emoji, quotes, brackets and words beside tokens', async () => {
  const long = ' '.repeat(70_000);
  const text = `👩🏽 (Ann Lee) wrote: "Mail ann@example.com", Bo's 📧 isn't known.${long}我叫Bo`;
  const values = { 'Ann Lee': 'person', 'ann@example.com': 'address', "Bo's": 'person' };
  const sent = await tokenized(text, values);
  for (const value of Object.keys(values)) expect(sent).not.toContain(value);
  expect(await restored(sent)).toMatchObject({ data: { text }, status: 'success', unapplied: [] });
});

test('equal values have one token, whatever the order of spans', async () => {
  const text = 'Ann, Bo, Ann';
  const spans = [person(9, 12), person(0, 3)];
  const { data } = (await tokenize({ text, spans })).body;
  const [first, , last] = data.text.split(', ');
  expect(first).toBe(last);
  expect(data.spans.map(({ start }: { start: number }) => start)).toEqual([0, 20]);
  const random = spans.map((span) => ({ ...span, kind: 'secret' }));
  const { body: more } = await tokenize({ text, spans: random });
  const { body: again } = await tokenize({ text, spans: random });
  expect(more.data.text).not.toBe(again.data.text);
});

test('what a model makes of a token still stands for its value', async () => {
  const sent = await tokenized('Ann', { Ann: 'person' });
  const capital = `${sent.charAt(0).toUpperCase()}${sent.slice(1)}`;
  const spoken = `Dr.${capital}'s mail, x${sent.replace('_', '\\_')}`;
  expect((await restored(spoken)).data.text).toBe("Dr.Ann's mail, xAnn");
});

test('tokens of other kinds are found when they have no space', async () => {
  const { email } = (await at.send('tokenize', { email: 'ann@example.com' })).body.data;
  const { data } = await restored(`Write to <${email}>.`);
  expect(data.text).toBe('Write to <ann@example.com>.');
});

test('all bytes of a text come back, but those of known tokens', async () => {
  const parts = [
    ...['MAX_TOK', 'x\\_tok', 'Q_Tok', '_TOK', '\\', 'abcdefghij\\_TOK', 'a@b.c_tok', '-', 'é'],
    ...['👩', ' ', '\n', '"', 'ABCDEFGHIJKLMN_tok', '_', 'to', 'K'],
  ];
  const texts = fc.array(fc.constantFrom(...parts), { maxLength: 30 }).map((all) => all.join(''));
  const isSame = async (text: string, more: boolean) => {
    const { status, body } = await detokenize({ text, more }, 'free');
    expect([status, body.data.text + (body.data.rest ?? '')]).toEqual([200, text]);
  };
  await fc.assert(fc.asyncProperty(texts, fc.boolean(), isSame), { numRuns: 300 });
});

test('a token of no right stays as it was written', async () => {
  const sent = (await tokenized('s3cret', { s3cret: 'secret' })).toUpperCase();
  const text = `${sent}, ${sent.replace('_', '\\_')}`;
  const { data, unapplied } = await restored(text, 'support');
  expect(data.text).toBe(text);
  const forbidden = expect.objectContaining({ reason: 'forbidden' });
  expect(unapplied).toEqual([forbidden, forbidden]);
});

test('as many tokens as a text may get come back, of two lengths and glued to letters', async () => {
  const values = Array.from({ length: 50 }, (_, i) => `Ann${i}`);
  const text = `n${values.join(' n')}`;
  const spans = values.map((value, i) => {
    const start = text.indexOf(`n${value}`) + 1;
    return { start, end: start + value.length, kind: i % 2 ? 'person' : 'address' };
  });
  const sent = (await tokenize({ text, spans })).body.data.text;
  expect(await restored(sent, 'new')).toMatchObject({ data: { text }, unapplied: [] });
});

test('offsets of tokens are right after a value with an emoji', async () => {
  const text = '👩🏽 Ann 👩🏽, Bo';
  const sent = await tokenized(text, { '👩🏽 Ann 👩🏽': 'person', Bo: 'person' });
  expect(sent).toMatch(/^[a-z]{10}_tok, [a-z]{10}_tok$/);
});

test('a client sees what its rights say, and the places that it may not see', async () => {
  const values = { Ann: 'person', 'ann@example.com': 'address', s3cret: 'secret' };
  const sent = await tokenized('Ann, ann@example.com, s3cret', values);
  const secret = sent.split(', ')[2]!;
  const { status, body } = await detokenize({ text: sent }, 'support');
  expect([status, body.data.text]).toEqual([200, `Ann, a ****, ${secret}`]);
  const path = `data.text[${sent.indexOf(secret)}:${sent.length}]`;
  expect(body.unapplied).toEqual([{ path, reason: 'forbidden' }]);
  expect(lineOf(body.request_id)).toMatchObject({
    ...{ outcome: 'success', values: 2, forbidden: 1 },
    seen: { person: { full: 1 }, address: { masked: 1 }, secret: { none: 1 } },
  });
  expect((await detokenize({ text: sent }, 'writer')).status).toBe(403);
});

test('rights, limits and audit lines are those of tokenize and detokenize', async () => {
  const sent = await tokenized('Ann', { Ann: 'person' });
  const spans = [person(0, 3)];
  expect((await tokenize({ text: 'Ann', spans }, 'reader')).status).toBe(403);
  expect((await detokenize({ text: sent }, 'reader')).status).toBe(200);
  const { request_id: id } = await restored(`${sent} and ${sent}`, 'support');
  const line = { event: 'detokenize', values: 2, seen: { person: { full: 2 } } };
  expect(lineOf(id)).toMatchObject(line);
  for (const ask of [
    () => tokenize({ text: 'Ann', spans }, 'slow'),
    () => detokenize({ text: sent }, 'slow'),
  ]) {
    expect((await ask()).status).toBe(200);
    expect(await ask()).toMatchObject({ status: 429, body: { error: 'user_limit' } });
  }
});

test('an unknown token stays, is named by code points, and costs its budget', async () => {
  const unknown = (i: number) => `abcdefgh${String.fromCharCode(97 + i)}j_tok`;
  const { data, unapplied } = await restored(`👩 ${unknown(0)}`);
  expect(data.text).toBe(`👩 ${unknown(0)}`);
  expect(unapplied).toEqual([{ path: 'data.text[2:16]', reason: 'unknown' }]);
  const guesses = Array.from({ length: 20 }, (_, i) => unknown(i)).join(' ');
  const statuses: number[] = [];
  for (const other of 'defghijk') {
    const text = guesses.replaceAll('abc', `ab${other}`);
    statuses.push((await detokenize({ text }, 'guesser')).status);
  }
  expect(statuses).toContain(429);
});

test('when guesses have spent the budget, no other candidate of a place is looked up', async () => {
  const before = await metric(at.service, 'standin_unknown_tokens_total');
  const places = Array.from({ length: 50 }, (_, i) => {
    const two = String.fromCharCode(97 + (i % 10), 97 + Math.floor(i / 10));
    return `zzzzzz${two}cdefghij_tok`;
  });
  const { status } = await detokenize({ text: places.join(' ') }, 'new');
  expect(status).toBe(429);
  expect(await metric(at.service, 'standin_unknown_tokens_total')).toBe(before + 100);
});

test('a forgotten token stays, and costs nothing, whatever stands before it', async () => {
  const sent = await tokenized('Forgotten', { Forgotten: 'person' });
  await runJson(at.service.place, 'forget', '--yes', sent);
  for (const text of [`x${sent}`, `y${sent}`]) {
    const { status, body } = await detokenize({ text }, 'poor');
    expect([status, body.data?.text]).toEqual([200, text]);
    expect(body.unapplied).toEqual([{ path: 'data.text[1:15]', reason: 'unknown' }]);
  }
  const unknown = async () => (await detokenize({ text: 'abcdefghij_tok' }, 'poor')).status;
  expect([await unknown(), await unknown()]).toEqual([200, 429]);
});

const of = (kind: string) => ({ text: 'a', spans: [{ start: 0, end: 1, kind }] });
const at60 = Array.from({ length: 51 }, (_, i) => person(i, i + 1));
test.each<[string, string, unknown]>([
  ['tokenize', 'data.text: must be a string', { spans: [] }],
  ['tokenize', 'data.spans: must be a list', { text: 'a', spans: null }],
  ['tokenize', 'the policy has no detect', { text: 'a' }],
  ['tokenize', 'data: has a field that is none of text, spans', { ...of('person'), kind: 'x' }],
  ['tokenize', 'data.spans[0]: must be an object', { text: 'a', spans: ['x'] }],
  ['tokenize', 'end at most 1', { text: 'a', spans: [person(0, 2)] }],
  ['tokenize', 'end at most 1', { text: '👩', spans: [person(0, 2)] }],
  ['tokenize', 'data.spans[0]: start and end', { text: 'a', spans: [person(0, 0)] }],
  ['tokenize', 'data.spans[0]: start and end', { text: 'a', spans: [person(0.5, 1)] }],
  ['tokenize', 'must be a kind of shape word', of('mail')],
  ['tokenize', 'must be a kind of shape word', of('bare')],
  ['tokenize', 'has word, person, address, secret', of('no')],
  ['tokenize', 'data.spans[0]: is longer', { text: 'a'.repeat(300), spans: [person(0, 300)] }],
  ['tokenize', '[0]: overlaps data.spans[1]', { text: 'abc', spans: [person(1, 3), person(0, 2)] }],
  ['tokenize', 'data.spans: has more than 50 spans', { text: 'a'.repeat(60), spans: at60 }],
  ['detokenize', 'data.text: must be a string', { text: 7 }],
  ['detokenize', 'data.more: must be true or false', { text: 'a', more: 'yes' }],
  ['detokenize', 'data.text: may have more than 50 tokens', { text: 'a_tok '.repeat(51) }],
])('text/%s: %s', async (to, message, data) => {
  const { status, body } = await at.send(`text/${to}`, data);
  expect([status, body.error]).toEqual([400, 'invalid_type']);
  expect(body.message).toContain(message);
});
