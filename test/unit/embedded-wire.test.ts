import { writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { locateEmbedded } from '../../src/embedded/embedded-database.ts';
import { isReady, socketNumbers, socketPath } from '../../src/embedded/socket.ts';
import { Framer, leavesIdle, simpleQuery, type WirePart } from '../../src/embedded/wire.ts';
import { newFolder } from '../support/folder.ts';

const SSL_REQUEST = startup(80877103);
const GSS_REQUEST = startup(80877104);
const CANCEL_REQUEST = startup(80877102, Buffer.alloc(8));
const STARTUP = startup(3 << 16, Buffer.from('user\0postgres\0\0'));

function startup(code: number, rest = Buffer.alloc(0)): Buffer {
  const packet = Buffer.alloc(8);
  packet.writeInt32BE(8 + rest.length, 0);
  packet.writeInt32BE(code, 4);
  return Buffer.concat([packet, rest]);
}

function message(type: string, body: string | Buffer = ''): Buffer {
  const bytes = Buffer.from(body as string);
  const head = Buffer.alloc(5);
  head.write(type, 0);
  head.writeInt32BE(4 + bytes.length, 1);
  return Buffer.concat([head, bytes]);
}

function group(...messages: Buffer[]): WirePart {
  return { kind: 'group', bytes: Buffer.concat(messages) };
}

function partsOf(...chunks: Buffer[]): WirePart[] {
  const framer = new Framer();
  return chunks.flatMap((chunk) => framer.push(chunk));
}

function oneByteEach(bytes: Buffer): Buffer[] {
  return Array.from(bytes, (byte) => Buffer.from([byte]));
}

const EXTENDED = [message('P', 'parse'), message('B', 'bind'), message('E', 'execute')];

const QUERY = message('Q', 'abc\0');
const LONGEST = Buffer.from([0x51, 0x0f, 0xff, 0xff, 0xff]);
const END: WirePart = { kind: 'end' };
const ASKED: WirePart = { kind: 'encryption_request' };
const STARTED = group(STARTUP);

test.each<[string, Buffer[], WirePart[]]>([
  ['a request for SSL is told, and the start may follow', [SSL_REQUEST, STARTUP], [ASKED, STARTED]],
  ['a request for GSS is told, and the start may follow', [GSS_REQUEST, STARTUP], [ASKED, STARTED]],
  ['a request to cancel is the end', [CANCEL_REQUEST], [END]],
  ['a start-up packet is a group', [STARTUP], [STARTED]],
  ['nothing is given before the group is whole', [STARTUP, ...EXTENDED], [STARTED]],
  ['our own statement is whole', [STARTUP, simpleQuery('abc')], [STARTED, group(QUERY)]],
  ['the longest message is waited for', [STARTUP, LONGEST], [STARTED]],
  ['Terminate is the end', [STARTUP, message('X')], [STARTED, END]],
])('%s', (_, chunks, parts) => {
  expect(partsOf(...chunks)).toEqual(parts);
});

test.each(['Q', 'S', 'H'])('%s ends a group, also where two are in one chunk', (type) => {
  const all = [...EXTENDED, message(type, 'x')];
  const two = Buffer.concat([...all, ...all]);
  expect(partsOf(STARTUP, two)).toEqual([STARTED, group(...all), group(...all)]);
});

test.each([
  ...[-1, 0, 3, 4, 7, 2 ** 31 - 1].map((length) => ({ length, before: [], at: 0 })),
  ...[-1, 0, 3, 268_435_456, 2 ** 31 - 1].map((length) => ({ length, before: [STARTUP], at: 1 })),
])('a length that cannot be is the end: $length at byte $at', ({ length, before, at }) => {
  const bytes = Buffer.alloc(8);
  bytes.writeInt32BE(length, at);
  expect(partsOf(...before, bytes)).toEqual([...before.map((one) => group(one)), END]);
});

describe('chunks', () => {
  const type = fc.constantFrom('P', 'B', 'E', 'D', 'C', 'S', 'Q', 'H', 'p');
  const messages = fc.array(
    fc
      .tuple(type, fc.uint8Array({ maxLength: 60 }))
      .map(([type, body]) => message(type, Buffer.from(body))),
    { maxLength: 20 },
  );

  test('any cutting gives the same parts', () => {
    const opening = fc.constantFrom(
      [STARTUP],
      [SSL_REQUEST, STARTUP],
      [GSS_REQUEST, SSL_REQUEST, STARTUP],
    );
    const cuts = fc.array(fc.nat({ max: 1_500 }), { maxLength: 30 });
    fc.assert(
      fc.property(opening, messages, cuts, (opening, messages, cuts) => {
        const bytes = Buffer.concat([...opening, ...messages]);
        const ends = [...cuts.filter((cut) => cut < bytes.length), bytes.length];
        ends.sort((a, b) => a - b);
        const chunks = ends.map((end, i) => bytes.subarray(i === 0 ? 0 : ends[i - 1], end));
        expect(partsOf(...chunks)).toEqual(partsOf(bytes));
        expect(partsOf(...oneByteEach(bytes))).toEqual(partsOf(bytes));
      }),
    );
  });

  test('a long message is joined once, when it is whole', () => {
    const bytes = message('Q', Buffer.alloc(1024 * 1024, 'x'));
    const chunks = Array.from({ length: 1025 }, (_, i) => bytes.subarray(i * 1024, (i + 1) * 1024));
    const framer = new Framer();
    framer.push(STARTUP);
    const joins = vi.spyOn(Buffer, 'concat');
    const parts = chunks.map((chunk) => framer.push(chunk));
    // Of the chunks, and of the messages of the group.
    expect(joins).toHaveBeenCalledTimes(2);
    joins.mockRestore();
    expect(parts.slice(0, -1).flat()).toEqual([]);
    const [last, ...more] = parts.at(-1)!;
    // toEqual would compare the million bytes one by one.
    expect([last!.kind, more]).toEqual(['group', []]);
    expect(last!.kind === 'group' && last!.bytes.equals(bytes)).toBe(true);
  });
});

describe('an answer leaves the database idle', () => {
  const complete = message('C', 'SELECT 1\0');

  test.each([
    ['when it ends with ReadyForQuery outside a transaction', [complete, message('Z', 'I')], true],
    ['when that is all of it', [message('Z', 'I')], true],
    ['not inside a transaction', [complete, message('Z', 'T')], false],
    ['not inside a failed transaction', [complete, message('Z', 'E')], false],
    ['not before ReadyForQuery', [complete], false],
    ['not when it is empty', [], false],
    ['not when a value ends as it does', [message('D', 'ZabcdI')], false],
    ['not when it is cut', [message('Z', 'I').subarray(1)], false],
  ])('%s', (_, messages, idle) => {
    expect(leavesIdle(Buffer.concat(messages))).toBe(idle);
  });
});

describe('the sockets of a folder', () => {
  const folder = newFolder('sockets');

  test('are listed by their numbers, the highest first', () => {
    const others = ['.s.PGSQL.', '.s.PGSQL.1.lock', 'x.s.PGSQL.4', '_s_PGSQL_5'];
    for (const name of ['.s.PGSQL.9', '.s.PGSQL.10', '.s.PGSQL.2', ...others])
      writeFileSync(`${folder}/${name}`, '');
    expect(socketNumbers(folder)).toEqual([10, 9, 2]);
  });

  test('have paths of 103 bytes at most', async () => {
    const locate = (bytes: number) => locateEmbedded(`/dev/null/${'x'.repeat(bytes - 10)}`, '');
    await expect(locate(87)).rejects.toThrow('ENOTDIR');
    await expect(locate(88)).rejects.toThrow('would have 104 bytes, but the limit is 103.');
  });

  test('that accept and stay silent are not ready', async () => {
    const silent = createServer();
    onTestFinished(() => void silent.close());
    await new Promise<void>((resolve) => silent.listen(socketPath(folder, 77), resolve));
    expect(await isReady(folder, 77, 50)).toBe(false);
  });
});
