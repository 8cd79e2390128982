import { EventEmitter } from 'node:events';
import { expect, test } from 'vitest';
import { NO_POLICY } from '../../src/policy/policy.ts';
import { PolicyRules, Viewer } from '../../src/policy/rules.ts';
import { unpackCalls } from '../../src/tokens/threads/messages.ts';
import { VaultClient } from '../../src/tokens/threads/vault-client.ts';

const PLAIN = new Viewer(new PolicyRules(NO_POLICY), null, '');
const numbered = (count: number) => Array.from({ length: count }, (_, i) => `${i}`) as any[];

/** A client, and what it asks its threads: each answers in the next turn. */
function setUp() {
  const [connections, counts] = [[] as number[], ['', '']];
  const start = (data: { readonly connections: number }) => {
    const thread = connections.push(data.connections) - 1;
    const postMessage = (message: any) => {
      for (const { id, bytes, question } of unpackCalls(message)) {
        counts[thread] += `${question.texts.length},${bytes} `;
        setImmediate(() => worker.emit('message', [id, question.texts.length, ...question.texts]));
      }
    };
    const worker: any = Object.assign(new EventEmitter(), { postMessage });
    return worker;
  };
  const vault = { token_suffix: 'tok', databaseConnections: 13 } as any;
  const client = new VaultClient({ vault } as any, { check() {}, failed() {} }, {} as any, start);
  const sizes = (count: number) => client.sizes({ texts: numbered(count), kinds: [] }, PLAIN);
  /** The texts and bytes of each call to each thread since the last time. */
  const asked = () => counts.splice(0, 2, '', '');
  return { client, connections, asked, sizes };
}

test('small calls go to the first thread, pieces to the less busy one; a piece has 250 texts and a mebibyte', async () => {
  const { client, connections, asked, sizes } = setUp();
  expect(connections).toEqual([5, 4]);
  expect((await Promise.all([64, 64, 65, 600].map(sizes))).flat()).toHaveLength(793);
  expect(asked()).toEqual(['64,0 64,0 250,0 ', '65,0 250,0 100,0 ']);
  // Numbers, as JSON that a thread may answer with.
  const texts = [1, 2, 3, 4].map((digit) => `${digit}`.padStart(8_192));
  expect(await client.find([...texts, '5'.padStart(20_000)], PLAIN, 1e9)).toEqual([1, 2, 3, 4, 5]);
  expect(asked()).toEqual(['2,1048576 ', '2,1048576 1,1280000 ']);
  for (const count of [16, 17])
    await client.accept({ texts: numbered(count), kinds: [] }, PLAIN, 1e9);
  expect(asked()).toEqual(['16,262144 ', '17,278528 ']);
});

test('5,000 calls or 100,000 texts wait at most; what is larger goes when nothing waits', async () => {
  const { sizes } = setUp();
  for (const all of [[100_001], [40_000, 60_000], Array(5_000).fill(1)]) {
    const taken = all.map(sizes);
    await expect(sizes(1)).rejects.toMatchObject({ code: 'overloaded', retryAfterS: 1 });
    await Promise.all(taken);
  }
});
