import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { CallerError, InternalError } from '../../src/errors.ts';
import { errorOf, failureOf } from '../../src/service/threads/messages.ts';
import { byteaArray } from '../../src/store/bytea-array.ts';
import { Framer, leavesIdle, simpleQuery } from '../../src/store/wire.ts';

describe('bytea arrays', () => {
  test('are what array_recv of PostgreSQL reads', () => {
    const header = '00000001' + '00000000' + '00000011' + '00000002' + '00000001';
    const elements = '00000002' + 'abcd' + '00000001' + 'ff';
    expect(byteaArray([Buffer.from('abcd', 'hex'), '\u00ff']).toString('hex')).toBe(
      header + elements,
    );
    expect(byteaArray([]).toString('hex')).toBe('000000000000000000000011');
  });
});

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

describe('the wire of the embedded server', () => {
  const message = (type: string, body = '') => {
    const head = Buffer.alloc(5);
    head.write(type);
    head.writeInt32BE(4 + body.length, 1);
    return Buffer.concat([head, Buffer.from(body)]);
  };
  const startup = Buffer.from('0000000900030000' + '00', 'hex');
  const encryption = Buffer.from('0000000804d2162f', 'hex');
  const group = [message('P', 'parse'), message('B', 'bind'), message('E'), message('S')];
  const all = [encryption, startup, ...group, simpleQuery('select 1'), message('X')];
  const parts = [
    { kind: 'encryption_request' },
    { kind: 'group', bytes: startup },
    { kind: 'group', bytes: Buffer.concat(group) },
    { kind: 'group', bytes: simpleQuery('select 1') },
    { kind: 'end' },
  ];

  test('all up to Sync is one part, however the bytes are cut', () => {
    const bytes = Buffer.concat(all);
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: bytes.length }), { minLength: 1 }),
        (sizes) => {
          const framer = new Framer();
          const got = [];
          for (let at = 0, i = 0; at < bytes.length; i++) {
            const size = sizes[i % sizes.length]!;
            got.push(...framer.push(bytes.subarray(at, at + size)));
            at += size;
          }
          expect(got).toEqual(parts);
        },
      ),
    );
  });
  test('a message that cannot be is the end', () => {
    const framer = new Framer();
    framer.push(startup);
    expect(framer.push(Buffer.from('Q\u0000\u0000\u0000\u0001', 'latin1'))).toEqual([
      { kind: 'end' },
    ]);
  });
  test('only ReadyForQuery outside a transaction frees the database', () => {
    const ready = (state: string) => Buffer.concat([Buffer.from([1, 2]), message('Z', state)]);
    expect([ready('I'), ready('T'), ready('E'), Buffer.alloc(0)].map(leavesIdle)).toEqual([
      true,
      false,
      false,
      false,
    ]);
  });
});
