import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { parseConfig } from '../../src/config/config.ts';
import { defaultBudget } from '../../src/memory.ts';
import {
  boundConnections,
  connectionsWithin,
  type Descriptors,
} from '../../src/public/transport/connections.ts';

const MIB = 1_048_576;
test('the budget is an eighth of the memory, or a quarter of the heap, and 256 MiB at most', () => {
  expect(defaultBudget(MIB, 512 * MIB, 259 * MIB)).toBe(64 * MIB);
  expect(defaultBudget(MIB, 24_000 * MIB, 128 * MIB)).toBe(32 * MIB);
  expect(defaultBudget(MIB, 24_000 * MIB, 4_096 * MIB)).toBe(256 * MIB);
  expect(defaultBudget(MIB, Number.POSITIVE_INFINITY * MIB, 4_096 * MIB)).toBe(256 * MIB);
});

test('the budget has room for a body of any BODY_LIMIT', () => {
  expect(defaultBudget(64 * MIB, 512 * MIB, 259 * MIB)).toBe(256 * MIB);
  const env = { BODY_LIMIT: String(4 * MIB) };
  expect(() => parseConfig({ ...env, MEMORY_BUDGET: String(16 * MIB - 1) })).toThrow(
    'MEMORY_BUDGET is too small for BODY_LIMIT: set it to 16777216 or more, or do not set it.',
  );
  expect(parseConfig({ ...env, MEMORY_BUDGET: String(16 * MIB) }).MEMORY_BUDGET).toBe(16 * MIB);
});

test('connections beyond the bound are closed, and those that ended do not count', async () => {
  const server = createServer();
  let refused = 0;
  const most = { connections: 2, look() {} } as unknown as Descriptors;
  boundConnections(server, most, { connectionRefused: () => refused++ });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const open = async () => {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
    const [own] = (await once(server, 'connection')) as [Socket];
    return { socket, own };
  };
  for (let round = 1; round <= 3; round++) {
    const kept = [await open(), await open()];
    await once((await open()).socket, 'close');
    expect(refused).toBe(round);
    for (const { socket, own } of kept) {
      const ended = once(own, 'close');
      socket.destroy();
      await ended;
    }
  }
});

test('connections leave a reserve of the descriptors, and are 20,000 at most', () => {
  const text = (files: string) =>
    `Limit                     Soft Limit           Hard Limit           Units     \nMax processes             127189               127189               processes \nMax open files            ${files.padEnd(20)} 1048576              files     \n`;
  expect(connectionsWithin(text('1024'), 139)).toBe(885);
  expect(connectionsWithin(text('100'), 139)).toBe(16);
  expect(connectionsWithin(text('1048576'), 139)).toBe(20_000);
  expect(connectionsWithin(text('unlimited'), 139)).toBe(20_000);
  expect(connectionsWithin('', 139)).toBe(20_000);
});
