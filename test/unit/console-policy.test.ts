import { expect, test } from 'vitest';
import type { Client } from '../../src/client-settings.ts';
import { PolicyInForce } from '../../src/ops/console/policy-in-force.ts';
import { parsePolicy } from '../../src/policy/parse.ts';
import {
  type PolicyFollower,
  type PolicySnapshot,
  UnreadablePolicy,
} from '../../src/policy/policy-follower.ts';
import { leaseMs } from '../../src/timeouts.ts';

const CLIENT = { client_id: 'c_1', name: 'support', can_detokenize: true } as Client;

function shown(latest: Partial<PolicySnapshot>): PolicyInForce {
  const snapshot = { policy: undefined, asOfMs: leaseMs(), problem: undefined, ...latest };
  return new PolicyInForce({ latest: snapshot } as unknown as PolicyFollower, 'tok');
}

function policyOf(version: number, document: string) {
  return { version, tag: 'x', ...parsePolicy(document).policy! };
}

test('without a policy there is no version, and no client sees less than everything', () => {
  const none = shown({});
  expect(none.state).toEqual({ version: 0, tag: null, problem: null });
  expect(none.detail).toEqual({
    ...{ version: 0, tag: null, kinds: [], fields: null },
    ...{ elsewhere: 'tokenize', elsewhereWords: 'are tokenized, as text' },
  });
  expect([none.seenBy(CLIENT), none.seenInShort(CLIENT)]).toEqual([null, null]);
});

test('a policy that requests cannot use is a problem, with what to do', () => {
  const unreadable = shown({ problem: new UnreadablePolicy(4, 'line 1'), asOfMs: -Infinity });
  expect(unreadable.state.problem).toMatch(/^Version 4 of the policy .*standin policy apply FILE$/);
  const policy = policyOf(3, 'version: 1');
  expect(shown({ policy, problem: new Error('once') }).state.problem).toBeNull();
  const old = shown({ policy, problem: new Error('for long'), asOfMs: leaseMs() - 5_001 });
  expect(old.state).toEqual({ version: 3, tag: 'x', problem: 'The database does not answer.' });
});

test('examples stay the same while the version does', () => {
  const policy = shown({ policy: policyOf(3, 'version: 1') });
  expect(policy.detail).toBe(policy.detail);
  expect(policy.detail).toMatchObject({ version: 3, kinds: [{ name: 'text' }], fields: null });
});

test('a list of clients names a few kinds of each right, and counts the others', () => {
  const kinds = Array.from({ length: 9 }, (_, i) => `k${i}`);
  const declared = kinds.map((kind) => `${kind}: { shape: digits }`).join(', ');
  const rights = 'rights: { support: { text: full, "*": masked } }';
  const policy = policyOf(1, `version: 1\nkinds: { ${declared} }\n${rights}`);
  expect(shown({ policy }).seenInShort(CLIENT)).toEqual([
    { right: 'full', kinds: ['text'], others: 0 },
    { right: 'masked', kinds: kinds.slice(0, 6), others: 3 },
  ]);
  const blind = { ...CLIENT, can_detokenize: false };
  expect(shown({ policy }).seenInShort(blind)).toBeNull();
});
