import fc from 'fast-check';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { changesOf } from '../../src/policy/changes.ts';
import { parsePolicy } from '../../src/policy/parse.ts';
import { type DeclaredPolicy, kindsInUse, rightOf, seesAll } from '../../src/policy/policy.ts';
import { MAX_DOCUMENT_BYTES, MAX_FIELDS } from '../../src/policy/schema.ts';
import { SHAPES } from '../../src/shape/kind-settings.ts';

const FULL = `# Who sees what
version: 1
kinds:
  card: { shape: digits, keep_last: 4, check_digits: none, mask: { show: ends, last: 2 } }
  note:
    shape: text
    normalize: [trim, lower_case]
    tokens: random
    time_to_live_s: 86400
fields:
  customer.email: email
  cards[*].number: card
  $.customer["full name"]: text
elsewhere: pass
rights:
  support: { card: masked, "*": full }
  "*": { "*": none }
`;

const NOTE = { normalize: ['trim', 'lower_case'], tokens: 'random', time_to_live_s: 86_400 };
const KINDS = 'text, email, digits, date, uuid, word';
const NEEDS_ELSEWHERE =
  'say what happens to strings at all other paths: add elsewhere: pass (they go through unchanged, in clear) or refuse (they make the request fail) or tokenize (they are tokenized, as text)';

function parsed(text: string): DeclaredPolicy {
  const { policy, mistakes } = parsePolicy(text);
  expect(mistakes).toEqual([]);
  return policy!;
}

/** As `LINE:COLUMN: TEXT`. */
function mistakesOf(text: string): string[] {
  const { policy, mistakes } = parsePolicy(text);
  expect(policy).toBeUndefined();
  return mistakes.map((one) => `${one.line}:${one.column}: ${one.text}`);
}

describe('a policy', () => {
  test('has its kinds with all defaults, its fields and rights', () => {
    const policy = parsed(FULL);
    expect(policy.kinds.map(({ name }) => name)).toEqual([...SHAPES, 'card', 'note']);
    const [card, note] = policy.kinds.slice(-2);
    expect(card).toMatchObject({
      ...{ shape: 'digits', keep_first: 0, keep_last: 4, suffix: true, tokens: null },
      mask: { show: 'ends', first: 0, last: 2 },
    });
    expect(note).toMatchObject(NOTE);
    expect(policy.fields).toEqual([
      { path: 'customer.email', kind: 'email' },
      { path: 'cards[*].number', kind: 'card' },
      { path: '$.customer["full name"]', kind: 'text' },
    ]);
    const support = { card: 'masked', '*': 'full' };
    expect(policy.rights).toEqual({ support, '*': { '*': 'none' } });
    expect(kindsInUse(policy).map(({ name }) => name)).toEqual(['text', 'email', 'card', 'note']);
  });

  test('is the same in JSON, with a byte order mark, and with other line ends', () => {
    const policy = parsed(FULL);
    const json = JSON.stringify({
      $schema: './policy.schema.json',
      version: 1,
      kinds: {
        card: { shape: 'digits', keep_last: 4, mask: { show: 'ends', last: 2 } },
        note: { shape: 'text', ...NOTE },
      },
      fields: Object.fromEntries(policy.fields!.map(({ path, kind }) => [path, kind])),
      elsewhere: 'pass',
      rights: policy.rights,
    });
    for (const text of [json, `\ufeff${FULL}`, FULL.replaceAll('\n', '\r\n')])
      expect(parsed(text)).toEqual(policy);
  });

  test('of before goes on as it is, when its fields do not say what happens elsewhere', () => {
    const before = 'version: 1\nfields: { a: text }';
    const { policy, mistakes } = parsePolicy(before, true);
    expect([policy?.elsewhere, mistakes]).toEqual(['pass', []]);
    expect(parsePolicy('version: 1\nfields: { a: txt }', true).mistakes).toHaveLength(1);
    expect(parsePolicy('version: 1', true).policy?.elsewhere).toBe('tokenize');
  });

  test('may name clients and fields as properties that every object has', () => {
    const text =
      'version: 1\nfields: { __proto__: text }\nelsewhere: pass\nrights: { __proto__: { "*": masked } }';
    const policy = structuredClone(parsed(text));
    expect(policy.fields).toEqual([{ path: '__proto__', kind: 'text' }]);
    const seen = (name: string) => rightOf(policy, { client_id: 'id', name }, 'text');
    expect(['__proto__', 'constructor', 'other'].map(seen)).toEqual(['masked', 'none', 'none']);
  });
});

test('spelling, the old name of normalize, loads from the vault only, and is the same kind', () => {
  const old = FULL.replace('normalize', 'spelling');
  const { policy, mistakes } = parsePolicy(old, true);
  expect([policy, mistakes]).toEqual([parsed(FULL), []]);
  expect(changesOf(policy!, parsed(FULL))).toEqual([]);
  expect(mistakesOf(old)).toEqual(['7:5: spelling is called normalize now: write normalize']);
  const both = parsePolicy(FULL.replace(/normalize.*/, '$&\n    spelling: [trm]'), true);
  expect(both.mistakes[0]?.text).toMatch(/^normalize: trm \(did you mean trim\?\)/);
});

describe('the right of a client to a kind', () => {
  const rights = {
    id_1: { card: 'full' },
    support: { card: 'masked', '*': 'full' },
    '*': { email: 'masked' },
  } as const;
  test.each([
    ['id_1', 'support', 'card', 'full'],
    ['id_1', 'support', 'email', 'none'],
    ['id_2', 'support', 'card', 'masked'],
    ['id_2', 'support', 'email', 'full'],
    ['id_3', 'other', 'email', 'masked'],
    ['id_3', 'other', 'card', 'none'],
    ['id_3', 'constructor', 'email', 'masked'],
  ])('of %s, called %s, to %s is %s', (clientId, name, kind, right) => {
    expect(rightOf({ rights }, { client_id: clientId, name }, kind)).toBe(right);
  });
  test.each([
    [{ '*': 'full' }, true],
    [{ card: 'full', '*': 'full' }, true],
    [{ card: 'masked', '*': 'full' }, false],
    [{ card: 'full' }, false],
    [{ '*': 'masked' }, false],
    [{}, false],
  ] as const)('%j sees every value: %j', (line, isAll) => {
    expect(seesAll({ rights: { a: line } }, 'a')).toBe(isAll);
    expect(seesAll({ rights: { '*': line } }, '*')).toBe(isAll);
    expect(seesAll({ rights: undefined }, null)).toBe(true);
  });
});

const MANY_MISTAKES = `version: 1
kinds:
  5: { shape: text }
  Card: { shape: digit, keep_lst: 4 }
  card:
    shape: digits
    kep_last: 4
    keep: domain
    begins_with: 09
    keep_first: "4"
    mask: { show: domain }
  card: { shape: text }
  text: { shape: text }
  none: {}
  mail: { shape: email, suffix: yes, country: de, normalize: trim, mask: ends }
  list: { shape: text, normalize: [trim, trim], tokens: 5, mask: { show: ends } }
  bad: { shape: text, normalize: [trm], mask: { show: nothing, last: 4 }, time_to_live_s: 0.5 }
feilds: {}
fields:
  a: email
  a.b: email
  "x[0": text
  "b?": card
  c[*]: card
  c[0].x: card
  d: 5
  $.a: emial
rights: { support: { crad: masked, card: mask }, ops: full }
`;
const WHAT_THEY_ARE = `3:3: a name must be text: write it in quotes: "5"
4:3: the name of a kind is a letter a to z, then at most 31 of a to z, 0 to 9 and _
4:18: shape: digit (did you mean digits?) is not known: choose ${KINDS}
4:25: keep_lst (did you mean keep_last?) is not known: choose suffix, normalize, country, tokens, time_to_live_s, mask, keep, keep_first, keep_last, begins_with, check_digits, length
7:5: kep_last (did you mean keep_last?) is not known: choose shape, keep_first, keep_last, begins_with, check_digits, suffix, normalize, country, tokens, time_to_live_s, mask
8:5: keep is an option of the shape email, date, not of digits: leave it out
9:18: begins_with must be text: write it in quotes: "09"
10:17: keep_first must be a whole number, 0 to 11
11:19: show: domain is not known: choose nothing, ends
12:3: card is there twice: leave one out
13:3: text is a kind already, with default options: choose another name
14:3: the kind none needs a shape: ${KINDS}
14:9: the kind none is empty: leave it out, or write what belongs there
15:33: suffix must be true or false
15:47: country must be a country such as DE (ISO 3166-1 alpha-2)
15:62: normalize must be a list, such as [trim]
15:74: mask must be what it shows, such as { show: domain }
16:35: normalize must be a list of different words
16:57: tokens must be one of deterministic, random
16:66: mask must be an end that it shows: add first or last, a number
17:35: normalize: trm (did you mean trim?) is not known: choose trim, lower_case, e164
17:64: last goes with show: ends only: leave it out
17:91: time_to_live_s must be a whole number, 1 to 864000000
18:1: feilds (did you mean fields?) is not known: choose version, kinds, fields, elsewhere, detect, rights
19:1: ${NEEDS_ELSEWHERE}
21:3: fields names a and something inside it: name one of them
22:3: fields: no path at "[0"; write paths like customer.emails[*],name or ["full name"]
23:3: leave out the ?: no field of a policy need be in a request
25:3: fields names c[*] and a single item there: name one of them
26:6: the kind of d must be text: write it in quotes: "5"
27:3: fields names a twice
27:8: the kind emial (did you mean email?) is not known: choose ${KINDS}, Card, card, none, mail, list, bad
28:22: the kind crad (did you mean card?) is not known: choose ${KINDS}, Card, card, none, mail, list, bad
28:42: the right to card: mask is not known: choose full, masked, none
28:55: the rights of ops must be lines of a name, a colon and a value`;

test('the country of a kind goes with what is detected as it', () => {
  const kinds = 'kinds: { tel: { shape: word, normalize: [e164], country: DE } }';
  expect(parsed(`version: 1\n${kinds}\ndetect: { phone: tel, email: word }`).detect).toEqual([
    { detector: 'phone', kind: 'tel', country: 'DE' },
    { detector: 'email', kind: 'word', country: null },
  ]);
});

describe('mistakes', () => {
  test('are found all at once, each with its place and the remedy', () => {
    expect(mistakesOf(MANY_MISTAKES).join('\n')).toBe(WHAT_THEY_ARE);
  });

  /** `DOCUMENT => MISTAKE`, with JSON's escapes in the document. */
  const single = String.raw`
 => 1:1: the document is empty: write at least version: 1
# only a comment => 1:1: the document is empty: write at least version: 1
[] => 1:1: the policy must be lines of a name, a colon and a value
a CSV file => 1:1: the policy must be lines of a name, a colon and a value
{} => 1:1: the policy is empty: leave it out, or write what belongs there
fields: { a: text }\nelsewhere: pass => 1:1: the version of the format is missing: add version: 1
version: "1" => 1:10: the version of the format must be 1
version: 2 => 1:10: this program knows version 1 of the format only: use a newer release
version: 1\nfields: { "$[*].a": text }\nelsewhere: pass => 2:11: begin the path with a name: paths lead into a record, also in a list of records
version: 1\n---\nversion: 1 => 2:1: there is a second document: leave out the line ---
%YAML 1.1\n---\nversion: 1 => 1:1: the document says that it is not YAML 1.2: leave out the line %YAML
version: &one 1 => 1:15: a policy has no anchors (&) and aliases (*): write the value here again
version: !one 1 => 1:10: a policy has no tags (!): leave the tag out
version: !!binary 1 => 1:10: a policy has no tags (!): leave the tag out
version: 1 # \u202e => 1:14: the character U+202E is not allowed: leave it out
version: 1 # \u0000 => 1:14: the character U+0000 is not allowed: leave it out
version: 1\nkinds: => 2:7: kinds must be lines of a name, a colon and a value
version: 1\nelsewhere: pass\nfields: {} => 3:9: fields is empty: leave it out, or write what belongs there
version: 1\nfields:\n  a: text => 2:1: ${NEEDS_ELSEWHERE}
version: 1\nelsewhere: pas\nfields: { a: text } => 2:12: elsewhere: pas (did you mean pass?) is not known: choose pass, refuse, tokenize
version: 1\nelsewhere: refuse => 2:1: without fields, every string is tokenized as text: leave elsewhere out
version: 1\nrights: {} => 2:9: rights is empty: leave it out, or write what belongs there
version: 1\nfields: { "a\\ud800": text }\nelsewhere: pass => 2:11: the path has half a surrogate pair: correct the escape
version: 1\nrights:\n  *: { card: full } => 3:4: a name or a value that begins with * or & needs quotes: "*"
version: 1\nkinds:\n\ta: { shape: text } => 3:1: this line is indented with a tab: use spaces
version: 1\nfields:\n  a: text\n    b: text => 3:6: line 4 is indented more than line 3: align them
version: 1\nfields:\n  a: b: c => 3:6: this value has a colon: write it in quotes, or begin a new line with it
{ "version": 1 "rights": { "*": { "*": full } } } => 1:14: a comma or a closing bracket is missing here
version: 1\nfields:\n  a: text\n b: text => 4:1: this line is not indented like those beside it: align them, or close the bracket before it
version: 1\nkinds:\n  a text => 3:3: kinds must be lines of a name, a colon and a value
version: 1\ndetect:\n  emial: word => 3:3: the detector emial (did you mean email?) is not known: choose url, email, iban, card, ip, phone; an entity of Presidio, such as PERSON; or a pattern, such as "/S-[0-9]{6}/"
version: 1\ndetect:\n  email: email => 3:10: the kind email must have shape: word and suffix: true, which texts need
version: 1\ndetect:\n  email: wrd => 3:10: the kind wrd (did you mean word?) is not known: choose text, email, digits, date, uuid, word
version: 1\ndetect:\n  /a: word => 3:3: the pattern must end with a slash, too, such as "/S-[0-9]{6}/"
version: !one "1 => 1:10: a policy has no tags (!): leave the tag out
version: 1\n? [a]\n: x => 2:3: a name must be text
{ version } => 1:3: the version of the format must be 1
version: "1 => 1:12: this is not YAML: missing closing "quote
version: 1\nfields:\n  a:text\n  b: text => 3:3: this line must be a name, a colon, a space and a value
`;
  const rows = single.split('\n').filter(Boolean);
  test.each(rows)('%s', (row) => {
    const [document, mistake] = row.split(' => ');
    expect(mistakesOf(JSON.parse(`"${document!.replaceAll('"', '\\"')}"`))).toEqual([mistake]);
  });

  test('a name of 65 characters is compared with no other, one of 201 is cut: there is room for thousands', () => {
    const name = 'x'.repeat(65);
    const text = `version: 1\nfields: { a: ${name} }\nelsewhere: pass\nkinds: { k: { shape: text } }`;
    expect(mistakesOf(text)).toEqual([`2:14: the kind ${name} is not known: choose ${KINDS}, k`]);
    const most = 'x'.repeat(200);
    const cut = mistakesOf(`version: 1\n${most}: 1\n${most}y: 1`).join();
    expect(cut).toMatch(/:1: x+ is not known.*:1: x{200}[.]{3} is not known/);
  });

  test('are options that do not go together, at the option; a warning is no mistake', () => {
    const kinds = (text: string) => `version: 1\nkinds:\n  one: { ${text} }\n`;
    expect(mistakesOf(kinds('shape: digits, keep_first: 6, keep_last: 6'))).toEqual([
      '3:40: the kind one: keep_last leaves more than 11 digits as they are',
    ]);
    expect(mistakesOf(kinds('shape: email, normalize: [e164]'))).toEqual([
      '3:24: the kind one: normalize e164 makes telephone numbers, which shape email refuses',
    ]);
    expect(mistakesOf(kinds('shape: text, normalize: [e164], country: XX'))).toEqual([
      '3:42: the kind one: country must be a country of ISO 3166-1 in two capitals, like US',
    ]);
    const { policy, warnings } = parsePolicy(kinds('shape: digits, suffix: false'));
    expect(policy?.kinds.at(-1)).toMatchObject({ name: 'one', suffix: false });
    expect(warnings).toEqual([
      { line: 3, column: 3, text: expect.stringMatching(/^the kind one: Without suffix/) },
    ]);
  });

  test('anchors and aliases are refused, so that a short document cannot become a long one', () => {
    const lines = Array.from({ length: 30 }, (_, i) => `  a${i + 1}: &a${i + 1} [*a${i}, *a${i}]`);
    const text = `version: 1\nrights:\n  a0: &a0 { card: full }\n${lines.join('\n')}\n`;
    const mistakes = mistakesOf(text);
    expect(mistakes.length).toBeGreaterThan(30);
    for (const one of mistakes)
      expect(one).toContain('no anchors (&) and aliases (*): write the value here again');
  });

  test('beyond the last that is listed are not looked for: they would compare names for minutes', () => {
    const compared = vi.spyOn(String.prototype, 'toLowerCase');
    onTestFinished(() => compared.mockRestore());
    const kinds = Array.from({ length: 190 }, (_, i) => `  kind_${i}: { shape: text }`);
    const fields = Array.from({ length: 1_000 }, (_, i) => `  field_${i}: kin_${i}_`);
    const text = ['version: 1', 'elsewhere: pass', 'kinds:', ...kinds, 'fields:', ...fields];
    expect(mistakesOf(text.join('\n'))).toHaveLength(50);
    expect(compared.mock.calls.length).toBeLessThan(50 * 250);
  });

  test('a document that is too large, too long or too deep is refused, and not read on', () => {
    const large = `version: 1\n# ${'é'.repeat(MAX_DOCUMENT_BYTES / 2)}`;
    expect(mistakesOf(large)).toEqual(['1:1: a policy has at most 256 KiB']);
    parsed(large.slice(0, -7));
    const lines = Array.from({ length: MAX_FIELDS + 1 }, (_, i) => `  a${i}: text`);
    expect(mistakesOf(`version: 1\nfields:\n${lines.join('\n')}\nelsewhere: pass`)).toEqual([
      '3:3: fields has 1001 lines; at most 1000 are allowed',
    ]);
    const unclosed = `fields:\n[${'  f: text\n'.repeat(20_000)}`;
    const levels = ['['.repeat(200_000), '{a: '.repeat(60_000), '- '.repeat(100_000)];
    for (const text of [...levels, unclosed])
      expect(mistakesOf(text)[0]).toContain('nested too deep');
    const deep = (levels: number) => `a: ${'['.repeat(levels)}${']'.repeat(levels)}`;
    expect(mistakesOf(deep(7)).join()).not.toContain('so deep inside');
    expect(mistakesOf(deep(8)).at(-1)).toContain('1:11: nothing of a policy is so deep inside');
    expect(mistakesOf('a:\n'.repeat(80_000))).toHaveLength(50);
  });

  test('no text makes the parser throw, and a mistake is always in the text', () => {
    const parts = ['version: 1', 'kinds', 'fields', 'elsewhere', 'rights'];
    const words = [...'{}[]:,-#&*!|>%@"\' \n\t?', ...parts];
    const piece = fc.oneof(fc.constantFrom(...words), fc.string({ unit: 'binary' }));
    const texts = fc.array(piece, { maxLength: 40 }).map((pieces) => pieces.join(''));
    fc.assert(
      fc.property(texts, (text) => {
        const { policy, mistakes } = parsePolicy(text);
        expect(policy === undefined).toBe(mistakes.length > 0);
        const lines = text.split('\n').length;
        for (const { line, column } of mistakes) {
          expect(line).toBeGreaterThanOrEqual(1);
          expect(line).toBeLessThanOrEqual(lines);
          expect(column).toBeGreaterThanOrEqual(1);
        }
        expect(Error.stackTraceLimit).toBeGreaterThan(0);
      }),
      { numRuns: 500 },
    );
  });
});

describe('the changes from one policy to the next', () => {
  const words = (before: DeclaredPolicy, after: string) =>
    changesOf(before, parsed(after)).map((one) => `${one.what}: ${one.before} -> ${one.after}`);
  const CARD = 'digits, keep_last 4, mask ends first 0 last 2';
  const NOTE_WORDS = 'text, normalize trim and lower_case, tokens random, time_to_live_s 86400';

  test('are what is added, removed and different, and nothing for another order or comment', () => {
    const before = parsed(FULL);
    const [first, second] = ['  customer.email: email\n', '  cards[*].number: card\n'];
    const after = FULL.replace('keep_last: 4', 'keep_last: 2')
      .replace(first, '  phone: digits\n')
      .replace('card: masked', 'card: full');
    expect(words(before, after)).toEqual([
      `kind card: ${CARD} -> ${CARD.replace('4', '2')}`,
      'field customer.email: email -> null',
      'right of support to card: masked -> full',
      'field phone: null -> digits',
    ]);
    const moved = FULL.replace('# Who', '# Which client').replace(first + second, second + first);
    expect(words(before, moved)).toEqual([]);
    const gone = [`kind card: ${CARD} -> null`, `kind note: ${NOTE_WORDS} -> null`];
    expect(words(before, 'version: 1').slice(0, 2)).toEqual(gone);
  });
});
