import { expect, test } from 'vitest';
import { consequencesOf } from '../../src/policy/changes.ts';
import { parsePolicy } from '../../src/policy/parse.ts';
import { NO_POLICY } from '../../src/policy/policy.ts';

const parsed = (text: string) => parsePolicy(`version: 1\n${text}`, true).policy!;
const client = (name: string) => ({
  ...{ client_id: `id_${name}`, name },
  ...{ can_detokenize: true, disabled_at: null as Date | null },
});

/** Between two policies, for these clients, which all detokenize. */
function between(before: string | undefined, after: string, ...names: string[]): string[] {
  const old = before === undefined ? NO_POLICY : parsed(before);
  return consequencesOf(old, parsed(after), names.map(client));
}

const KIND = 'kinds: { card: { shape: digits } }\n';
const fields = (elsewhere: string, ...paths: string[]) =>
  `fields: { ${paths.map((path) => `"${path}": email`).join(', ')} }\nelsewhere: ${elsewhere}\n`;

const CLEAR = 'go through unchanged, in clear.';
const REFUSED = 'make the request fail.';
const TEXTS = 'are tokenized, as text.';
const others = (will: string, today: string) =>
  `Strings that no field names will ${will} Today they ${today}`;
const lost = (path: string, will: string) =>
  `${path} will ${will} Today it is tokenized, as email.`;
const VALUES =
  'Requests of the form {"data":{"values":[...]}}, which clients without a policy send, will follow the fields. Today all their strings are tokenized, as text.';
const some = fields('pass', 'a.b', 'c[*].d', 'e[3]', 'f', 'g.h', 'i.j');
const renamed = fields('pass', 'a.B', 'c[0].d', 'e[*]', '$.f', 'g', 'i[*]');
const withValues = fields('pass', 'a', 'values[0]');

test.each<[string, string | undefined, string, string[]]>([
  ['nothing', undefined, fields('tokenize', 'a'), []],
  ['texts go through', undefined, fields('pass', 'a'), [others(CLEAR, TEXTS)]],
  ['no texts', fields('tokenize', 'a'), fields('refuse', 'a'), [others(REFUSED, TEXTS)]],
  ['no clear', 'fields: { a: email }', fields('refuse', 'a'), [others(REFUSED, CLEAR)]],
  ['renamed fields', some, renamed, ['a.b', 'c[*].d', 'g.h', 'i.j'].map((one) => lost(one, CLEAR))],
  ['no field', fields('refuse', 'a', 'b'), fields('refuse', 'a'), [lost('b', REFUSED)]],
  ['a path begins with values', fields('pass', 'a'), withValues, [VALUES]],
  ['a path began with values before', withValues, fields('pass', 'a', 'values[*]'), []],
  ['fields that are left out are texts', fields('refuse', 'a'), fields('tokenize', 'b'), []],
  [
    'a detector is gone, and another one moves to a kind',
    'detect: { email: word, ip: word, "/a1/": word }',
    'kinds: { mail: { shape: word } }\ndetect: { email: mail, PERSON: word }',
    ['ip', '/a1/'].map((one) => `${one} in texts will stay in clear. Today it is found, as word.`),
  ],
  ['the end of a policy', fields('pass', 'a'), '', []],
])('what will be in clear or refused: %s', (_, before, after, expected) => {
  expect(between(before, after)).toEqual(expected);
});

const rights = (text: string) => (text === '' ? '' : `rights: { ${text} }`);
const ALL_FULL = '"*": { "*": full }';
const TWO = 'support: { card: masked, text: full }';
const seen = (before: string, after: string) =>
  between(before, after, 'support').filter((text) => text.includes('will see'));

test.each([
  ['', `x: { "*": full }`, 'less: every kind full -> none'],
  ['', TWO, 'less: card full -> masked; all other kinds full -> none'],
  ['support: { "*": masked }', 'x: { "*": none }', 'less: every kind masked -> none'],
  ['"*": { "*": masked }', ALL_FULL, 'more: every kind masked -> full'],
  ['"*": { card: none, "*": full }', '', 'more: card none -> full'],
])('with rights { %s }, then { %s }, support will see %s', (before, after, text) => {
  expect(seen(KIND + rights(before), KIND + rights(after))).toEqual([`support will see ${text}.`]);
});

test('a new kind is no loss, and nobody sees more by it', () => {
  const after = KIND + rights('"*": { text: full, card: full }');
  expect(seen(rights('"*": { text: full }'), after)).toEqual([]);
});

test('equal losses are one sentence, and who keeps its right is in none', () => {
  const after = rights('first: { "*": full }, "*": { "*": full, text: masked }');
  expect(between(undefined, after, 'billing', 'shop', 'first')).toEqual([
    'billing, shop will see less: text full -> masked.',
  ]);
});

test('a kind that is removed says what its readers see then, unless everybody sees everything', () => {
  const before = `${KIND}rights: { "*": { "*": masked } }`;
  expect(between(before, 'rights: { "*": { "*": masked } }', 'support')).toEqual([
    'The kind card is removed, its values stay: only a right to "*" will show them, and masked will show ****.',
  ]);
  expect(between(KIND, '', 'support')).toEqual([]);
});

test('a client that cannot detokenize loses nothing, and is there to be named', () => {
  const after = parsed('rights: { intake: { "*": none }, gone: { "*": none } }');
  const clients = [
    { ...client('intake'), can_detokenize: false },
    { ...client('gone'), disabled_at: new Date() },
  ];
  expect(consequencesOf(NO_POLICY, after, clients)).toEqual([]);
});

test('names of rights that no client has are listed, with the one that was probably meant', () => {
  const named = (...names: string[]) =>
    rights([...names, '*'].map((name) => `"${name}": { "*": full }`).join(', '));
  expect(between('', named('suport', 'nobody', 'id_support', 'support'), 'support')).toEqual([
    'No client of the vault is called suport (did you mean support?), nobody: nobody will have these rights.',
  ]);
  const many = Array.from({ length: 25 }, (_, i) => `client${i}`);
  const [text] = between('', named(...many));
  expect(text).toContain('client19 and 5 more: ');
  expect(between('', named(...many.slice(0, 20)))[0]).toContain('client19: nobody');
});
