import { expect, test } from 'vitest';
import { CallerError, InternalError, OperatorError, reasonInWords } from '../../src/errors.ts';
import { policyOf } from '../../src/policy/policy-follower.ts';
import { errorOf, failureOf, Outbox } from '../../src/tokens/threads/messages.ts';
import { ThreadRules } from '../../src/tokens/threads/thread-rules.ts';

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
  outbox.put(1);
  outbox.put(2);
  await nextTurn();
  expect(messages.slice(length)).toEqual([[1, 2]]);
});
