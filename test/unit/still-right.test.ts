import { describe, expect, test } from 'vitest';
import { parsePolicy } from '../../src/policy/parse.ts';
import { PolicyRules, Viewer } from '../../src/policy/rules.ts';
import type { Exchange } from '../../src/public/exchange.ts';
import { isStillRight } from '../../src/public/rights.ts';

const KINDS = '{ card: { shape: digits, mask: { show: ends, last: 4 } }, mail: { shape: email } }';
const CLIENT = { client_id: 'client_1', name: 'app', space: '', can_detokenize: true };

function rulesOf(rights: string, kinds = KINDS): PolicyRules {
  const document = `version: 1\nkinds: ${kinds}\nrights: { ${rights} }\n`;
  return new PolicyRules({ version: 1, tag: document, ...parsePolicy(document).policy! });
}

/** An exchange whose values were shown by `before`, and is judged by `now` and `found`. */
function shownBy(before: PolicyRules, now: unknown, kinds?: string[], found: object = CLIENT) {
  const counts = kinds && new Map(kinds.map((kind) => [kind, 1]));
  const viewer = Viewer.of(before, CLIENT as never);
  return {
    ...{ caller: { client: CLIENT }, operation: 'detokenize', request: { headers: {} } },
    shown: { viewer, kinds: counts, hidden: new Map() },
    context: {
      authenticator: { find: () => (found instanceof Promise ? found : { client: found }) },
      policies: { current: () => now },
    },
  } as unknown as Exchange;
}

describe('an answer leaves when its caller would see the same values now', () => {
  const both = ['card', 'mail'];
  test.each<[string, string, string[] | undefined, boolean]>([
    [
      'app: { card: full, mail: full }',
      'app: { card: full, mail: full }, b: { card: none }',
      both,
      true,
    ],
    ['app: { card: full, mail: full }', 'app: { card: none, mail: full }', both, false],
    ['app: { card: full, mail: full }', 'app: { card: full, mail: none }', both, false],
    ['app: { card: full, mail: full }', 'app: { card: full, mail: none }', ['card'], true],
    ['app: { card: full, mail: full }', 'app: { card: masked, mail: full }', both, false],
    ['app: { card: masked, mail: full }', 'app: { card: masked, "*": full }', both, true],
    ['app: { card: masked }', 'app: { card: full }', ['card'], true],
    ['app: { card: masked }', 'app: { card: none }', ['card'], false],
    ['app: { card: full }', '"*": { card: full }', ['card'], true],
    ['app: { card: full }', '"*": { card: full }', undefined, false],
  ])('%s, then %s, of %j: %s', (before, now, kinds, expected) => {
    expect(isStillRight(shownBy(rulesOf(before), rulesOf(now), kinds))).toBe(expected);
  });

  test('a mask that shows more, or less, is another value', () => {
    const before = rulesOf('app: { card: masked }');
    const other = rulesOf('app: { card: masked }', KINDS.replace('last: 4', 'last: 2'));
    expect(isStillRight(shownBy(before, other, ['card']))).toBe(false);
  });

  test('by the same policy everything is the same, unless the client has another line of it', () => {
    const rules = rulesOf('app: { card: full }, late: { card: none }');
    expect(isStillRight(shownBy(rules, rules))).toBe(true);
    expect(isStillRight(shownBy(rules, rules, ['card'], { ...CLIENT, name: 'late' }))).toBe(false);
  });

  test('by a policy without rights, and before an API key was accepted', () => {
    const before = rulesOf('app: { card: masked }');
    const after = new PolicyRules({ ...before.policy, rights: undefined });
    expect(isStillRight(shownBy(before, after))).toBe(true);
    expect(isStillRight({ ...shownBy(before, before), caller: null } as never)).toBe(true);
  });
});

describe('a caller is judged again', () => {
  const rules = rulesOf('app: { card: full }');
  test.each<[object, string]>([
    [{ client_id: 'client_2' }, 'overloaded'],
    [{ space: 'tenant' }, 'overloaded'],
    [{ can_detokenize: false }, 'forbidden'],
  ])('%j since then: %s', (change, code) => {
    const exchange = shownBy(rules, rules, ['card'], { ...CLIENT, ...change });
    expect(() => isStillRight(exchange)).toThrow(expect.objectContaining({ code }));
  });

  test('also one who was read late, and whose policy was: both are waited for', async () => {
    const found = Promise.resolve({ client: { ...CLIENT, name: 'late' } });
    const exchange = shownBy(rules, Promise.resolve(rules), ['card'], found);
    expect(await isStillRight(exchange)).toBe(false);
    expect(exchange.caller!.client.name).toBe('late');
    const gone = shownBy(rules, rules, ['card'], Promise.reject(new Error('gone')));
    await expect(isStillRight(gone)).rejects.toThrow('gone');
  });
});
