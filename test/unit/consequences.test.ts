import { expect, test } from 'vitest';
import { consequencesOf } from '../../src/policy/consequences.ts';
import { parsePolicy } from '../../src/policy/parse.ts';

const parsed = (text: string) => parsePolicy(`version: 1\n${text}`, true).policy!;
const client = (name: string) => ({
  ...{ client_id: `id_${name}`, name },
  ...{ can_detokenize: true, disabled_at: null as Date | null },
});

/** Between two policies, for these clients, which all detokenize. */
function between(before: string | undefined, after: string, ...names: string[]): string[] {
  const old = before === undefined ? undefined : parsed(before);
  return consequencesOf(old, parsed(after), names.map(client));
}

const KIND = 'kinds: { card: { shape: digits } }\n';
const fields = (elsewhere: string, ...paths: string[]) =>
  `fields: { ${paths.map((path) => `"${path}": email`).join(', ')} }\nelsewhere: ${elsewhere}\n`;

test.each([
  ['nothing', undefined, fields('tokenize', 'a'), []],
  [
    'strings that were tokenized go through',
    undefined,
    fields('pass', 'a'),
    [
      'Strings that no field names will go through unchanged, in clear. Today they are tokenized, as text.',
    ],
  ],
  [
    'strings that were tokenized are refused',
    fields('tokenize', 'a'),
    fields('refuse', 'a'),
    ['Strings that no field names will make the request fail. Today they are tokenized, as text.'],
  ],
  [
    'a version of before passed them, and says so when they are refused',
    'fields: { a: email }',
    fields('refuse', 'a'),
    [
      'Strings that no field names will make the request fail. Today they go through unchanged, in clear.',
    ],
  ],
  [
    'a field that is left out, or renamed, goes through',
    fields('pass', 'a.b', 'c[*].d', 'e[3]', 'f'),
    fields('pass', 'a.B', 'c[0].d', 'e[*]', '$.f'),
    [
      'a.b will go through unchanged, in clear. Today it is tokenized, as email.',
      'c[*].d will go through unchanged, in clear. Today it is tokenized, as email.',
    ],
  ],
  [
    'a field that is left out is refused',
    fields('refuse', 'a', 'b'),
    fields('refuse', 'a'),
    ['b will make the request fail. Today it is tokenized, as email.'],
  ],
  [
    'a path begins with values, which clients without a policy send',
    fields('pass', 'a'),
    fields('pass', 'a', 'values[0]'),
    [
      'Requests of the form {"data":{"values":[...]}}, which clients without a policy send, will follow the fields. Today all their strings are tokenized, as text.',
    ],
  ],
  ['fields that are left out are texts', fields('refuse', 'a'), fields('tokenize', 'b'), []],
  ['the end of a policy', fields('pass', 'a'), '', []],
])('what will be in clear or refused: %s', (_, before, after, expected) => {
  expect(between(before, after)).toEqual(expected);
});

test.each([
  [
    'a first policy cuts a client off from everything',
    undefined,
    `${KIND}rights: { support: { "*": full } }`,
    ['first will see less: every kind full -> none.'],
    ['support', 'first'],
  ],
  [
    'some kinds, by what becomes of them',
    undefined,
    `${KIND}rights: { support: { card: masked, text: full } }`,
    ['support will see less: card full -> masked; all other kinds full -> none.'],
    ['support'],
  ],
  [
    'equal losses are one sentence',
    undefined,
    'rights: { "*": { "*": full, text: masked } }',
    ['billing, shop will see less: text full -> masked.'],
    ['billing', 'shop'],
  ],
  [
    'a client that is left out falls to the others',
    'rights: { support: { "*": masked }, "*": { "*": none } }',
    'rights: { "*": { "*": none } }',
    ['support will see less: every kind masked -> none.'],
    ['support'],
  ],
  [
    'a client sees more, also of kinds that were removed',
    'rights: { "*": { "*": masked } }',
    'rights: { "*": { "*": full } }',
    ['support will see more: every kind masked -> full.'],
    ['support'],
  ],
  [
    'the rights end',
    `${KIND}rights: { "*": { card: none, "*": full } }`,
    KIND,
    ['support will see more: card none -> full.'],
    ['support'],
  ],
  [
    'a new kind is no loss, and nobody sees more by it',
    'rights: { "*": { text: full } }',
    `${KIND}rights: { "*": { text: full, card: full } }`,
    [],
    ['support'],
  ],
])('who will see less or more: %s', (_, before, after, expected, clients) => {
  const own = between(before, after, ...clients);
  expect(own.filter((text) => text.includes('will see'))).toEqual(expected);
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
  expect(consequencesOf(undefined, after, clients)).toEqual([]);
});

test('names of rights that no client has are listed, with the one that was probably meant', () => {
  const rights = (...names: string[]) =>
    `rights: { ${names.map((name) => `"${name}": { "*": full }`).join(', ')}, "*": { "*": full } }`;
  expect(between('', rights('suport', 'nobody', 'id_support', 'support'), 'support')).toEqual([
    'No client of the vault is called suport (did you mean support?), nobody: nobody will have these rights.',
  ]);
  const many = Array.from({ length: 25 }, (_, i) => `client${i}`);
  const [text] = between('', rights(...many));
  expect(text).toContain('client19 and 5 more: ');
});
