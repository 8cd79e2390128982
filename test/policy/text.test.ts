import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  createClient,
  runCli,
  type Service,
  startService,
  until,
  usualPlace,
} from '../support/service.ts';

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

let service: Service;
let auditFile: string;
const keys = new Map<string, string>();

beforeAll(async () => {
  const place = await usualPlace();
  writeFileSync(join(place.folder, 'policy.yaml'), POLICY);
  auditFile = join(place.folder, 'audit.log');
  const limits = { UNKNOWN_TOKEN_LIMIT: '1', VALUES_LIMIT: '50' };
  service = await startService(place, { ...limits, AUDIT_LOG: auditFile, AUDIT_REQUIRED: 'true' });
  for (const name of [
    'app',
    'support',
    'guesser',
    'writer',
    'reader',
    'slow',
    'new',
    'free',
    'poor',
  ])
    keys.set(name, (await createClient(place, '--name', name, ...(OPTIONS[name] ?? []))).api_key);
});
afterAll(async () => {
  await service?.stop();
  service?.place.remove();
});

const OPTIONS: Record<string, readonly string[]> = {
  writer: ['--can', 'tokenize'],
  reader: ['--can', 'detokenize'],
  free: ['--unknown-token-limit', '0'],
  poor: ['--unknown-token-limit', '0.01'],
  slow: ['--rate-limit', '0.001', '--detokenize-limit', '0.001'],
};

async function post(path: string, data: unknown, who = 'app') {
  const response = await fetch(`${service.url}/api/v1/${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${keys.get(who)}`, 'content-type': 'application/json' },
    body: JSON.stringify({ data }),
  });
  return { status: response.status, body: (await response.json()) as any };
}

const tokenize = (data: unknown, who?: string) => post('text/tokenize', data, who);
const detokenize = (data: unknown, who?: string) => post('text/detokenize', data, who);

/** A success waits for its line. */
function lineOf(requestId: string) {
  const lines = readFileSync(auditFile, 'utf8').trim().split('\n');
  return lines.map((one) => JSON.parse(one)).find((one) => one.request_id === requestId);
}

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

test('without a policy the answer says what is missing', async () => {
  const { status, body } = await tokenize({
    text: 'Ann',
    spans: [{ start: 0, end: 3, kind: 'a' }],
  });
  expect(status).toBe(400);
  expect(body.message).toContain('data.spans[0].kind: this vault has no policy');
  expect((await detokenize({ text: 'no token' })).body.data).toEqual({ text: 'no token' });
});

describe('with a policy', () => {
  beforeAll(async () => {
    const applied = await runCli(['policy', 'apply', 'policy.yaml', '--yes'], service.place);
    expect(applied.code, applied.stderr).toBe(0);
    const spans = [{ start: 0, end: 3, kind: 'person' }];
    const isInForce = async () => (await tokenize({ text: 'Ann', spans })).status === 200;
    await until(isInForce, 'the policy in force');
  });

  test('a text there and back, with emoji, quotes, brackets and words beside tokens', async () => {
    const text = '👩🏽 (Ann Lee) wrote: "Mail ann@example.com", Bo\'s 📧 isn\'t known. 我叫Bo';
    const values = { 'Ann Lee': 'person', 'ann@example.com': 'address', "Bo's": 'person' };
    const sent = await tokenized(text, values);
    for (const value of Object.keys(values)) expect(sent).not.toContain(value);
    const { body } = await detokenize({ text: sent });
    expect(body).toMatchObject({ data: { text }, status: 'success', unapplied: [] });
  });

  test('equal values have one token, whatever the order of spans', async () => {
    const text = 'Ann, Bo, Ann';
    const spans = [
      { start: 9, end: 12, kind: 'person' },
      { start: 0, end: 3, kind: 'person' },
    ];
    const { body } = await tokenize({ text, spans });
    const [first, , last] = body.data.text.split(', ');
    expect(first).toBe(last);
    expect(body.data.spans.map(({ start }: { start: number }) => start)).toEqual([0, 20]);
    const random = spans.map((span) => ({ ...span, kind: 'secret' }));
    const { body: more } = await tokenize({ text, spans: random });
    const { body: again } = await tokenize({ text, spans: random });
    expect(more.data.text).not.toBe(again.data.text);
  });

  test('what a model makes of a token still stands for its value', async () => {
    const sent = await tokenized('Ann', { Ann: 'person' });
    const spoken = `${sent.charAt(0).toUpperCase()}${sent.slice(1)}'s mail, ${sent.replace('_', '\\_')}`;
    const { body } = await detokenize({ text: spoken });
    expect(body.data.text).toBe("Ann's mail, Ann");
  });

  test('tokens of other kinds are found when they have no space', async () => {
    const { body } = await post('tokenize', { email: 'ann@example.com' });
    const restored = await detokenize({ text: `Write to <${body.data.email}>.` });
    expect(restored.body.data.text).toBe('Write to <ann@example.com>.');
  });

  test('a word or letters before a token stay', async () => {
    const sent = await tokenized('Dr.Ann or xBo', { Ann: 'person', Bo: 'person' });
    expect((await detokenize({ text: sent })).body.data.text).toBe('Dr.Ann or xBo');
  });

  test('all bytes of a text come back, but those of known tokens', async () => {
    const part = fc.constantFrom(
      ...[
        'MAX_TOK',
        'x\\_tok',
        'Q_Tok',
        '_TOK',
        '\\',
        'abcdefghij\\_TOK',
        'a@b.c_tok',
        '-',
        'é',
        '👩',
      ],
      ...[' ', '\n', '"', 'ABCDEFGHIJKLMN_tok', '_', 'to', 'K'],
    );
    const texts = fc.array(part, { maxLength: 30 }).map((parts) => parts.join(''));
    const isSame = async (text: string, more: boolean) => {
      const { status, body } = await detokenize({ text, more }, 'free');
      expect([status, body.data.text + (body.data.rest ?? '')]).toEqual([200, text]);
    };
    await fc.assert(fc.asyncProperty(texts, fc.boolean(), isSame), { numRuns: 300 });
  });

  test('a token of no right stays as it was written', async () => {
    const sent = (await tokenized('s3cret', { s3cret: 'secret' })).toUpperCase();
    const text = `${sent}, ${sent.replace('_', '\\_')}`;
    const { body } = await detokenize({ text }, 'support');
    expect(body.data.text).toBe(text);
    expect(body.unapplied.map(({ reason }: { reason: string }) => reason)).toEqual([
      'forbidden',
      'forbidden',
    ]);
  });

  test('as many tokens as a text may get come back, of two lengths and glued to letters', async () => {
    const values = Array.from({ length: 50 }, (_, i) => `Ann${i}`);
    const text = `n${values.join(' n')}`;
    const spans = values.map((value, i) => ({
      start: text.indexOf(`n${value}`) + 1,
      end: text.indexOf(`n${value}`) + 1 + value.length,
      kind: i % 2 ? 'person' : 'address',
    }));
    const { body } = await tokenize({ text, spans });
    expect((await detokenize({ text: body.data.text }, 'new')).body).toMatchObject({
      data: { text },
      unapplied: [],
    });
  });

  test('offsets of tokens are right after a value with an emoji', async () => {
    const text = '👩🏽 Ann 👩🏽, Bo';
    const sent = await tokenized(text, { '👩🏽 Ann 👩🏽': 'person', Bo: 'person' });
    expect(sent).toMatch(/^[a-z]{10}_tok, [a-z]{10}_tok$/);
  });

  test('a client sees what its rights say, and the places that it may not see', async () => {
    const text = 'Ann, ann@example.com, s3cret';
    const sent = await tokenized(text, {
      Ann: 'person',
      'ann@example.com': 'address',
      s3cret: 'secret',
    });
    const secret = sent.split(', ')[2]!;
    const { status, body } = await detokenize({ text: sent }, 'support');
    expect(status).toBe(200);
    expect(body.data.text).toBe(`Ann, a ****, ${secret}`);
    const start = sent.indexOf(secret);
    const path = `data.text[${start}:${sent.length}]`;
    expect(body.unapplied).toEqual([{ path, reason: 'forbidden' }]);
    const line = lineOf(body.request_id);
    const seen = { person: { full: 1 }, address: { masked: 1 }, secret: { none: 1 } };
    expect(line).toMatchObject({ outcome: 'success', values: 2, forbidden: 1, seen });
    expect((await detokenize({ text: sent }, 'writer')).status).toBe(403);
  });

  test('rights, limits and audit lines are those of tokenize and detokenize', async () => {
    const sent = await tokenized('Ann', { Ann: 'person' });
    const spans = spansOf('Ann', { Ann: 'person' });
    expect((await tokenize({ text: 'Ann', spans }, 'reader')).status).toBe(403);
    expect((await detokenize({ text: sent }, 'reader')).status).toBe(200);
    const { body } = await detokenize({ text: `${sent} and ${sent}` }, 'support');
    const line = lineOf(body.request_id);
    expect(line).toMatchObject({ event: 'detokenize', values: 2, seen: { person: { full: 2 } } });
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
    const { body } = await detokenize({ text: `👩 ${unknown(0)}` });
    expect(body.data.text).toBe(`👩 ${unknown(0)}`);
    expect(body.unapplied).toEqual([{ path: 'data.text[2:16]', reason: 'unknown' }]);
    const guesses = Array.from({ length: 20 }, (_, i) => unknown(i)).join(' ');
    const statuses: number[] = [];
    for (let i = 0; i < 8; i++) {
      const text = guesses.replaceAll('abc', `ab${String.fromCharCode(100 + i)}`);
      statuses.push((await detokenize({ text }, 'guesser')).status);
    }
    expect(statuses).toContain(429);
  });

  test('a forgotten token stays, and costs nothing, whatever stands before it', async () => {
    const sent = await tokenized('Forgotten', { Forgotten: 'person' });
    const { code, stderr } = await runCli(['forget', '--yes', sent], service.place);
    expect(code, stderr).toBe(0);
    for (const text of [`x${sent}`, `y${sent}`]) {
      const { status, body } = await detokenize({ text }, 'poor');
      expect([status, body.data?.text]).toEqual([200, text]);
      expect(body.unapplied).toEqual([{ path: 'data.text[1:15]', reason: 'unknown' }]);
    }
    const unknown = () => detokenize({ text: 'abcdefghij_tok' }, 'poor');
    expect([(await unknown()).status, (await unknown()).status]).toEqual([200, 429]);
  });

  test('a stream in pieces, cut anywhere', async () => {
    const text = 'Ann Lee wrote to Bo, and "Bo" answered Ann Lee.';
    const sent = await tokenized(text, { 'Ann Lee': 'person', Bo: 'person' });
    for (const size of [1, 3, 7, 11]) {
      let rest = '';
      let restored = '';
      for (let at = 0; at < sent.length; at += size) {
        const more = at + size < sent.length;
        const { body } = await detokenize({ text: rest + sent.slice(at, at + size), more });
        restored += body.data.text;
        rest = body.data.rest ?? '';
      }
      expect(restored).toBe((await detokenize({ text: sent })).body.data.text);
      expect(restored).toContain('Ann Lee wrote to Bo');
    }
  });

  test.each([
    [{ spans: [] }, 'data.text: must be a string'],
    [{ text: 'a' }, 'data.spans: must be a list'],
    [{ text: 'a', spans: [], kind: 'x' }, 'data: has a field that is none of text, spans'],
    [{ text: 'a', spans: ['x'] }, 'data.spans[0]: must be an object'],
    [{ text: 'a', spans: [{ start: 0, end: 2, kind: 'person' }] }, 'end at most 1'],
    [{ text: '👩', spans: [{ start: 0, end: 2, kind: 'person' }] }, 'end at most 1'],
    [{ text: 'a', spans: [{ start: 0, end: 0, kind: 'person' }] }, 'data.spans[0]: start and end'],
    [
      { text: 'a', spans: [{ start: 0.5, end: 1, kind: 'person' }] },
      'data.spans[0]: start and end',
    ],
    [{ text: 'a', spans: [{ start: 0, end: 1, kind: 'mail' }] }, 'must be a kind of shape word'],
    [{ text: 'a', spans: [{ start: 0, end: 1, kind: 'bare' }] }, 'must be a kind of shape word'],
    [{ text: 'a', spans: [{ start: 0, end: 1, kind: 'no' }] }, 'has word, person, address, secret'],
    [
      { text: 'a'.repeat(300), spans: [{ start: 0, end: 300, kind: 'person' }] },
      'data.spans[0]: is longer',
    ],
    [
      {
        text: 'abc',
        spans: [
          { start: 1, end: 3, kind: 'person' },
          { start: 0, end: 2, kind: 'person' },
        ],
      },
      'data.spans[0]: overlaps data.spans[1]',
    ],
    [
      {
        text: 'a'.repeat(60),
        spans: Array.from({ length: 51 }, (_, i) => ({ start: i, end: i + 1, kind: 'person' })),
      },
      'data.spans: has more than 50 spans',
    ],
  ])('refused: %#', async (data, message) => {
    const { status, body } = await tokenize(data);
    expect([status, body.error]).toEqual([400, 'invalid_type']);
    expect(body.message).toContain(message);
  });

  test.each([
    [{ text: 7 }, 'data.text: must be a string'],
    [{ text: 'a', more: 'yes' }, 'data.more: must be true or false'],
    [{ text: 'a_tok '.repeat(51) }, 'data.text: may have more than 50 tokens'],
  ])('detokenize refuses: %#', async (data, message) => {
    const { status, body } = await detokenize(data);
    expect([status, body.error]).toEqual([400, 'invalid_type']);
    expect(body.message).toContain(message);
  });
});
