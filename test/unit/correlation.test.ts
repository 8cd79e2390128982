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
  const most = `cc-${TRACE}-${SPAN}-01-${'x'.repeat(200)}`;
  test.each([...flags, later, most])('%s is taken', (one) => expect(traced(one)).toEqual(IDS));

  const part = `${TRACE}-${SPAN}-01`;
  test.each([
    ...[`00-${part}-`, `00-${part}-00`, `cc-${part}.what`, `ff-${part}`, ` 00-${part}`, ''],
    ...[`00-${'0'.repeat(32)}-${SPAN}-01`, `00-${TRACE}-${'0'.repeat(16)}-01`],
    ...[`00-${TRACE.toUpperCase()}-${SPAN}-01`, `00-${TRACE}-${SPAN}`, `00-${TRACE}-${SPAN}-1`],
    // A header that was sent twice, and one without an end.
    ...[`00-${part}, 00-${part}`, `01-${part}, 01-${part}`, `01-${part}-${'x'.repeat(300)}`],
    ...[`00-${part}\n`, `${most}x`],
  ])('%j is ignored', (header) => expect(traced(header)).toEqual({}));
});

describe('X-Request-Id', () => {
  test.each(['a', 'A-z_0.9:', 'x'.repeat(128), '3f0e-11'])('%s is taken', (id) =>
    expect(named(id)).toEqual({ caller_request_id: id }),
  );

  test.each([
    ...['', 'x'.repeat(129), 'a b', 'a, b', 'a"b', 'a\\b', 'ü', 'a\n', 'a/b', '{}', 'a@b.c'],
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
