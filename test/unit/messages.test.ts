import { expect, test } from 'vitest';
import { scopeOf } from '../../src/crypto/scope.ts';
import { CallerError, InternalError, OperatorError, reasonInWords } from '../../src/errors.ts';
import { NO_POLICY } from '../../src/policy/policy.ts';
import { policyOf } from '../../src/policy/policy-follower.ts';
import { PolicyRules, Viewer } from '../../src/policy/rules.ts';
import {
  errorOf,
  failureOf,
  Outbox,
  type Question,
  splitKind,
  viewOf,
} from '../../src/tokens/threads/messages.ts';
import { ThreadRules } from '../../src/tokens/threads/thread-rules.ts';
import type { Value } from '../../src/types.ts';

const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

test('a policy that comes back outlives those that came between', () => {
  const rules = new ThreadRules();
  const policies = Array.from({ length: 20 }, (_, i) =>
    policyOf({
      ...{ version: i, applied_at: new Date(i), applied_by: '' },
      document: `version: 1 # ${i}\n`,
    }),
  );
  const [first] = policies;
  for (const policy of policies) {
    for (const one of [first!, policy]) rules.add(one);
    for (const { tag } of [first!, policy]) {
      const view = { policy: tag, entry: null, space: '', marks: '\u0001' };
      expect(rules.accepted(['Ann Lee'], view)).toEqual(['Ann Lee']);
    }
  }
  for (const { tag } of [NO_POLICY, ...policies.slice(-6)]) {
    const view = { policy: tag, entry: null, space: '', marks: '\u0001' };
    expect(rules.accepted(['Ann Lee'], view)).toEqual(['Ann Lee']);
  }
});

test('kinds go to a thread as marks, and come back with values, as far as the viewer may see them', () => {
  const policy = policyOf({
    ...{ version: 1, applied_at: new Date(1), applied_by: '' },
    document: 'version: 1\nkinds: { day: { shape: date } }\nrights: { some: { day: masked } }\n',
  });
  const threads = new ThreadRules();
  threads.add(policy);
  const rules = new PolicyRules(policy);
  const kinds = ['text', 'day'].map((name) => rules.kind(name));
  const viewed = (line: string | null, space: string, operation: Question['operation']) =>
    viewOf(new Viewer(rules, line, space), kinds, operation)!;
  expect(threads.accepted(['1', '1'], viewed(null, '', 'accept'))).toEqual(['1', null]);
  for (const operation of ['detokenize', 'sizes'] as const) {
    const marks = ['', 'x'].map((space) => viewed(null, space, operation).marks);
    expect(marks).toEqual(['ps', 'ss']);
  }
  const value = '1985-04-12\n' as Value;
  const seen = (line: string | null, ...names: string[]) => {
    const { show } = threads.visibility(viewed(line, '', 'detokenize'));
    return names.map((name) => splitKind(show({ value, scope: scopeOf(name, '') }), rules));
  };
  const all = ['text', 'day', 'gone'];
  expect(seen(null, ...all)).toEqual(all.map((kind) => ({ kind, value })));
  expect(seen('some', ...all).map((one) => one.value)).toEqual([null, '****', null]);
});

test('a failure comes over from a thread with all that an answer and a log need', () => {
  const cause = Object.assign(new Error('x'), { code: '57P01' });
  const passed = (error: Error) => errorOf(structuredClone(failureOf(error)));
  const ours = passed(new InternalError('database_unavailable', { cause }));
  expect(ours).toMatchObject({ reason: 'database_unavailable', cause: { code: '57P01' } });
  const theirs = new CallerError('overloaded', '', 1);
  expect(passed(theirs)).toEqual(theirs);
  expect(passed(new TypeError('secret'))).toMatchObject({ reason: 'unexpected' });
});

test('a failure is told with its remedy where there is one, and without a full stop', () => {
  const cause = new OperatorError('Do this. Then that.');
  expect(reasonInWords(new InternalError('unexpected', { cause }))).toBe('Do this. Then that');
  expect(reasonInWords(new InternalError('database_unavailable'))).toBe('database unavailable');
});

test('the parts of a long turn leave in order, many of them before it ends, and none is lost', async () => {
  const messages: number[][] = [];
  const outbox = new Outbox<number>((parts) => messages.push(parts));
  const sent = Array.from({ length: 5_000 }, (_, i) => i);
  for (const part of sent) outbox.put(part);
  expect(messages.length).toBeGreaterThan(4);
  await nextTurn();
  expect(messages.flat()).toEqual(sent);
  const { length } = messages;
  for (const parts of [[1, 2], [3]]) {
    for (const part of parts) outbox.put(part);
    await nextTurn();
  }
  expect(messages.slice(length)).toEqual([[1, 2], [3]]);
});
