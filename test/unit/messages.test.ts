import { describe, expect, test } from 'vitest';
import { CallerError, InternalError } from '../../src/errors.ts';
import { errorOf, failureOf } from '../../src/service/threads/messages.ts';

describe('failures between threads', () => {
  test('come over with all that an answer and a log need', () => {
    const cause = Object.assign(new Error('x'), { code: '57P01' });
    const ours = errorOf(
      structuredClone(failureOf(new InternalError('database_unavailable', { cause }))),
    );
    expect(ours).toMatchObject({ reason: 'database_unavailable', cause: { code: '57P01' } });
    const theirs = errorOf(structuredClone(failureOf(new CallerError('overloaded', '', 1))));
    expect(theirs).toEqual(new CallerError('overloaded', '', 1));
    expect(errorOf(structuredClone(failureOf(new TypeError('secret'))))).toMatchObject({
      reason: 'unexpected',
    });
  });
});
