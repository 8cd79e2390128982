import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { correlationOf } from '../../src/public/tracing.ts';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const SPAN = 'b7ad6b7169203331';
const IDS = { trace_id: TRACE, parent_id: SPAN };
const traced = (traceparent: string) => correlationOf({ traceparent }, 'tok');
const named = (id: string) => correlationOf({ 'x-request-id': id }, 'tok');

describe('traceparent', () => {
  const later = `cc-${TRACE}-${SPAN}-01-what-the-future-will-be-like`;
  const flags = ['00-01', '00-00', '00-ff', '01-03'].map((one) =>
    one.replace('-', `-${TRACE}-${SPAN}-`),
  );
  test.each([...flags, later])('%s is taken', (header) => expect(traced(header)).toEqual(IDS));

  test.each([
    ['another length', `00-${TRACE}-${SPAN}-01-`],
    ['a field more in version 00', `00-${TRACE}-${SPAN}-01-00`],
    ['no hyphen after the flags of a later version', `cc-${TRACE}-${SPAN}-01.what`],
    ['version ff', `ff-${TRACE}-${SPAN}-01`],
    ['a trace of zeros', `00-${'0'.repeat(32)}-${SPAN}-01`],
    ['a span of zeros', `00-${TRACE}-${'0'.repeat(16)}-01`],
    ['capitals', `00-${TRACE.toUpperCase()}-${SPAN}-01`],
    ['spaces', ` 00-${TRACE}-${SPAN}-01`],
    ['no flags', `00-${TRACE}-${SPAN}`],
    ['flags of one digit', `00-${TRACE}-${SPAN}-1`],
    ['two headers', `00-${TRACE}-${SPAN}-01, 00-${TRACE}-${SPAN}-01`],
    ['two headers of a later version', `01-${TRACE}-${SPAN}-01, 01-${TRACE}-${SPAN}-01`],
    ['no end', `01-${TRACE}-${SPAN}-01-${'x'.repeat(300)}`],
    ['a line end', `00-${TRACE}-${SPAN}-01\n`],
    ['nothing', ''],
  ])('with %s is ignored', (_, header) => expect(traced(header)).toEqual({}));
});

describe('X-Request-Id', () => {
  test.each(['a', 'A-z_0.9:', 'x'.repeat(128), '3f0e-11'])('%s is taken', (id) =>
    expect(named(id)).toEqual({ caller_request_id: id }),
  );

  test.each([
    ...[
      '',
      'x'.repeat(129),
      'a b',
      'a, b',
      'a"b',
      'a\\b',
      'ü',
      'a\n',
      'a/b',
      '{}',
      'ann@example.com',
    ],
    ...['stk_0123456789ABCDEFGHIJKLMNOPQR1KnaxG', 'x-stk_0', 'abcdefghij_tok'],
  ])('%j is ignored', (id) => expect(named(id)).toEqual({}));

  test('whatever is sent, nothing in it needs escaping in JSON', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.string(), (id, parent) => {
        const ids = correlationOf({ 'x-request-id': id, traceparent: parent }, 'tok');
        for (const one of Object.values(ids)) expect(JSON.stringify(one)).toBe(`"${one}"`);
      }),
    );
  });
});

test('the ids of both headers come together', () => {
  const headers = { traceparent: `00-${TRACE}-${SPAN}-01`, 'x-request-id': 'order-7' };
  expect(correlationOf(headers, 'tok')).toEqual({ ...IDS, caller_request_id: 'order-7' });
});
