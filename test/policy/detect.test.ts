import type { ServerResponse } from 'node:http';
import { json } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { send } from '../support/http.ts';
import { governed } from '../support/policy.ts';
import { logLine } from '../support/served.ts';
import { newPlace, runCli, scrape } from '../support/service.ts';
import { StandIn } from '../support/stand-in.ts';

const POLICY = `
version: 1
kinds:
  mail: { shape: word }
  card: { shape: word, length: 12 }
  phone: { shape: word, length: 14, normalize: [e164], country: DE }
  person: { shape: word, length: 11 }
  staff: { shape: word, length: 13 }
detect: { email: mail, card: card, phone: phone, "/\\\\bS-[0-9]{6}\\\\b/": staff, "/a[^x]*x|a{9}/": staff }
`;
const at = governed(POLICY, {}, { VALUES_LIMIT: '50' });
const tokenize = (data: object, to = at) => to.send('text/tokenize', data);
const refusal = async (data: object, to = at) => {
  const { status, body } = await tokenize(data, to);
  expect(status, JSON.stringify(body)).toBe(400);
  return body.message as string;
};

async function roundTrip(data: { text: string }, to = at) {
  const { status, body } = await tokenize(data, to);
  expect(status, JSON.stringify(body)).toBe(200);
  const { text } = body.data;
  const points = [...text];
  for (const { start, end } of body.data.spans)
    expect(points.slice(start, end).join('')).toMatch(/^[a-z]+_tok$/);
  const back = await to.send('text/detokenize', { text });
  return { text, spans: body.data.spans as { kind: string }[], back: back.body.data.text };
}

const kindsOf = ({ spans }: { spans: readonly { kind: string }[] }) =>
  spans.map(({ kind }) => kind);

test('without spans, the service finds the values of the policy, and all come back', async () => {
  const text = '😀 Ann <ann@example.com>, 4111 1111 1111 1111, S-123456, call +49 170 1234567.';
  const sent = await roundTrip({ text });
  expect(kindsOf(sent)).toEqual(['mail', 'card', 'staff', 'phone']);
  expect(sent.text).toMatch(/^😀 Ann <\w+>, \w+, \w+, call \w+\.$/);
  // The kind normalizes.
  expect(sent.back).toBe(text.replace('+49 170 1234567', '+491701234567'));
  const counts = await scrape(at.service.opsUrl!, 'standin_detections_total');
  expect(Object.values(counts).map(Number)).toEqual([1, 1, 1, 1]);
  expect(Object.keys(counts).join()).toContain('kind="staff",detector="pattern"');
});

test('words of the caller, spans, and both with detect', async () => {
  const text = 'MARIA Weber, ann@example.com and Bo';
  const words = { 'Maria Weber': 'person' };
  const spans = [{ start: 33, end: 35, kind: 'person' }];
  expect(kindsOf(await roundTrip({ text, words } as never))).toEqual(['person', 'mail']);
  expect(kindsOf(await roundTrip({ text, spans } as never))).toEqual(['person']);
  expect(kindsOf(await roundTrip({ text, spans, words } as never))).toEqual(['person', 'person']);
  const all = { text, spans, words, detect: true };
  const sent = await roundTrip(all as never);
  expect(kindsOf(sent)).toEqual(['person', 'mail', 'person']);
  expect(sent.back).toBe(text);
  // A span wins, and the rest of what it cuts is replaced, too.
  const over = [{ start: 13, end: 16, kind: 'person' }];
  const cut = await roundTrip({ text, spans: over, detect: true } as never);
  expect(kindsOf(cut)).toEqual(['person', 'mail']);
  expect(cut.text).not.toContain('example');
  expect(cut.back).toBe(text);
});

test('a token in the text stays, also inside an address', async () => {
  const { text } = await roundTrip({ text: 'ann@example.com' });
  const again = await roundTrip({ text: `${text} and x.${text}@example.com` });
  expect(again.text.split(text).length).toBe(3);
  expect(again.text).not.toContain('example');
});

test('a text in which nothing is found comes back as it is', async () => {
  expect((await tokenize({ text: 'Hello' })).body.data).toEqual({ text: 'Hello', spans: [] });
  expect((await tokenize({ text: '' })).body.data).toEqual({ text: '', spans: [] });
});

test('refusals name the field and the remedy, and never a word', async () => {
  expect(await refusal({ text: 'a', detect: 'yes' })).toContain('data.detect: must be true or');
  expect(await refusal({ text: 'a', words: ['a'] })).toContain('data.words: must be an object');
  const unknown = await refusal({ text: 'a', words: { Geheim: 'nobody' } });
  expect(unknown).toContain('data.words, word 1: must be a kind of shape word with suffix');
  expect(unknown).not.toContain('Geheim');
  expect(await refusal({ text: 'a', words: { '...': 'person' } })).toContain('a letter or digit');
  const many = Object.fromEntries(Array.from({ length: 1_001 }, (_, i) => [`w${i}`, 'person']));
  expect(await refusal({ text: 'a', words: many })).toContain('more than 1000 words');
  const { w0: _, ...most } = many;
  expect(kindsOf((await tokenize({ text: 'a w7', words: most })).body.data)).toEqual(['person']);
  const word = 'x'.repeat(200);
  expect(kindsOf((await tokenize({ text: word, words: { [word]: 'person' } })).body.data)).toEqual([
    'person',
  ]);
  const longer = { a: 'person', [`${word}x`]: 'person' };
  const said = 'data.words, word 2: must have a letter or digit, and at most 200';
  expect(await refusal({ text: 'a', words: longer })).toContain(said);
  expect(kindsOf((await tokenize({ text: 'abcdefghij_tok '.repeat(50) })).body.data)).toEqual([]);
  expect(await refusal({ text: 'abcdefghij_tok '.repeat(51) })).toContain('more than 50 values or');
  expect((await tokenize({ text: 'a@b.de '.repeat(50) })).body.data.spans).toHaveLength(50);
  expect(await refusal({ text: 'a@b.de '.repeat(51) })).toContain('more than 50 values');
  expect(await refusal({ text: 'a'.repeat(50_000) })).toContain('a pattern of the policy takes');
});

test('a policy without detect finds nothing by itself, and says so', async () => {
  const other = 'version: 1\nkinds: { person: { shape: word } }\n';
  await at.apply(other);
  expect(await refusal({ text: 'a@b.de' })).toContain('an operator can add detect to the policy');
  const [words, spans] = [{ Bo: 'person' }, []];
  expect(await refusal({ text: 'a@b.de', spans, detect: true })).toContain('add detect');
  expect(kindsOf(await roundTrip({ text: 'a@b.de, Bo', words } as never))).toEqual(['person']);
  const none = { text: 'a@b.de', detect: false };
  await at.apply(POLICY);
  expect(kindsOf((await tokenize(none)).body.data)).toEqual([]);
});

/** Stands for the analyzer of Presidio: its route, its fields, offsets in code points. */
const presidio = {
  requests: [] as { text: string; language: string; entities: string[] }[],
  respond: undefined as ((response: ServerResponse) => unknown) | undefined,
};
const SCORES = { Maria: 0.85, Bo: 0.5, Cy: 0.4 };
const analyzer = new StandIn(async (request, response) => {
  const asIs = [request.method, request.url, request.headers['content-type']].join(' ');
  if (asIs !== 'POST /base/analyze application/json') return response.destroy();
  const asked: any = await json(request);
  presidio.requests.push(asked);
  if (presidio.respond) return presidio.respond(response);
  const entities = Object.entries(SCORES).flatMap(([name, score]) => {
    const [before, after] = asked.text.split(name);
    const start = [...before].length;
    const entity = { start, end: start + name.length, score, entity_type: 'PERSON' };
    return after === undefined ? [] : [{ ...entity, analysis_explanation: null }];
  });
  return response.setHeader('content-type', 'application/json').end(JSON.stringify(entities));
});
beforeAll(() => analyzer.open());
afterAll(() => analyzer.stop());
const NAMES = `
version: 1
kinds: { mail: { shape: word }, person: { shape: word, length: 11 } }
detect: { email: mail, PERSON: person }
`;
// The port is known when the service starts.
const named = governed(
  NAMES,
  {},
  () => ({
    PRESIDIO_URL: `${analyzer.url}/base/`,
    PRESIDIO_LANGUAGE: 'de',
    GUARDRAIL: 'true',
  }),
  () => newPlace('embedded'),
);

test('Presidio finds names, in code points, from a score of 0.5 on', async () => {
  const text = '👩🏽 Maria, Bo, Cy: bo@example.com';
  const sent = await roundTrip({ text }, named);
  expect(kindsOf(sent)).toEqual(['person', 'person', 'mail']);
  expect(sent.text).toMatch(/^👩🏽 \w+_tok, \w+_tok, Cy: \w+_tok$/);
  expect(sent.back).toBe(text);
  expect(presidio.requests.at(-1)).toEqual({ text, language: 'de', entities: ['PERSON'] });
});

test('Presidio has eight texts of a request at a time', async () => {
  const waiting: ServerResponse[] = [];
  let most = 0;
  presidio.respond = async (response) => {
    if (waiting.push(response) !== 8) return;
    // Time for more of them to come.
    await fetch(`${named.service.url}/health`);
    most = Math.max(most, waiting.length);
    for (const one of waiting.splice(0)) one.end('[]');
  };
  const texts = Array.from({ length: 40 }, (_, i) => `Hello ${i}`);
  const body = { input_type: 'request', texts };
  const guardrail = '/beta/litellm_basic_guardrail_api';
  const { status } = await send(named.service, guardrail, JSON.stringify(body));
  presidio.respond = undefined;
  expect([status, most]).toEqual([200, 8]);
});

test('Presidio is asked only for a policy that names an entity of it, and a text that is not blank', async () => {
  await named.apply(NAMES.replace(', PERSON: person', ''));
  const before = presidio.requests.length;
  await roundTrip({ text: 'Maria, bo@example.com' }, named);
  await named.apply(NAMES);
  await roundTrip({ text: ' \n' }, named);
  expect(presidio.requests.length).toBe(before);
});

const NONSENSE: readonly [what: string, status: number, body: string][] = [
  ['another status', 503, '[]'],
  ['no JSON', 200, 'Maria'],
  ['no list', 200, '{"error":"x"}'],
  ['an offset behind the text', 200, '[{"start":0,"end":99,"score":1,"entity_type":"PERSON"}]'],
  ['half a code point', 200, '[{"start":0.5,"end":1,"score":1,"entity_type":"PERSON"}]'],
  ['an entity that nobody asked for', 200, '[{"start":0,"end":1,"score":1,"entity_type":"X"}]'],
  ['an empty stretch', 200, '[{"start":1,"end":1,"score":1,"entity_type":"PERSON"}]'],
  ['null in the list', 200, '[null]'],
  ['more than 16 MiB', 200, '[]'.padEnd(2 ** 24 + 1)],
  ['a score in words', 200, '[{"start":0,"end":1,"score":"1","entity_type":"PERSON"}]'],
];

/** Refused; the log says why, without the text. */
async function refusedWith(code: string) {
  const { status, body, headers } = await tokenize({ text: 'Maria' }, named);
  expect([status, body.message]).toEqual([500, 'Presidio unavailable']);
  const line = await logLine(named.service, headers.get('x-request-id')!, '"reason"');
  expect(line).toMatchObject({ reason: 'presidio_unavailable', code });
  expect(named.service.output()).not.toContain('Maria');
}

test.each(NONSENSE)('Presidio with %s: the text is refused', async (_, status, body) => {
  presidio.respond = (response) => response.writeHead(status).end(body);
  await refusedWith(status === 200 ? 'BAD_ANSWER' : 'STATUS_503');
  presidio.respond = undefined;
  await roundTrip({ text: 'Maria' }, named);
});

test('Presidio that is silent or away: the text is refused, and another is not', async () => {
  presidio.respond = () => {};
  await refusedWith('TIMEOUT');
  presidio.respond = (response) => response.destroy();
  await refusedWith('UND_ERR_SOCKET');
  const spans = [{ start: 0, end: 5, kind: 'person' }];
  expect((await tokenize({ text: 'Maria', spans }, named)).status).toBe(200);
  presidio.respond = undefined;
});

test('a policy that names an entity without PRESIDIO_URL: the remedy, for callers and doctor', async () => {
  await at.apply(NAMES);
  const { status, body } = await tokenize({ text: 'Maria' });
  expect([status, body.message]).toEqual([
    500,
    'the policy names an entity of Presidio, but PRESIDIO_URL is not set',
  ]);
  const doctor = async (PRESIDIO_URL = '') =>
    (await runCli(['doctor'], at.service.place, { PRESIDIO_URL })).stdout;
  expect(await doctor()).toMatch(
    /^PROBLEM {2}policy: Version \d+ detects PERSON, an entity of Presidio, but PRESIDIO_URL is not set, so texts are refused. Set it, or remove/m,
  );
  expect(await doctor(`${analyzer.url}/base/`)).toMatch(/^ok {7}policy: version \d+$/m);
  await at.apply(POLICY);
});
