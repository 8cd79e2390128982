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
  const [workers, ended] = [[] as any[], [] as number[]];
  const start = (data: { readonly connections: number }) => {
    const thread = connections.push(data.connections) - 1;
    const postMessage = (message: any) => {
      for (const { id, bytes, question } of unpackCalls(message)) {
        counts[thread] += `${question.texts.length},${bytes} `;
        const failed = { id, failure: { reason: 'database_unavailable' } };
        const { texts } = question;
        const answer = texts[0] === 'bad' ? [failed] : [id, texts.length, ...texts];
        setImmediate(() => workers[thread].emit('message', answer));
      }
    };
    const terminate = () => new Promise(setImmediate).then(() => ended.push(thread));
    workers.push(Object.assign(new EventEmitter(), { postMessage, terminate }));
    return workers.at(-1);
  };
  const vault = { token_suffix: 'tok', databaseConnections: 13 } as any;
  const client = new VaultClient({ vault } as any, { check() {}, failed() {} }, {} as any, start);
  const sizes = (count: number) => client.sizes({ texts: numbered(count), kinds: [] }, PLAIN);
  /** The texts and bytes of each call to each thread since the last time. */
  const asked = () => counts.splice(0, 2, '', '');
  return { client, connections, asked, sizes, workers, ended };
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
  await client.find(['5'.padStart(20_000), '6'.padStart(9_000)], PLAIN, 1e9);
  expect(asked()).toEqual(['1,576000 ', '1,1280000 ']);
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

test('what fails waits no more; a thread that ends is thrown, but for close, which ends both', async () => {
  const { client, workers, ended, sizes } = setUp();
  const texts = ['bad'] as any[];
  const failed = { reason: 'database_unavailable' };
  await expect(client.sizes({ texts, kinds: [] }, PLAIN)).rejects.toMatchObject(failed);
  expect(await sizes(100_001)).toHaveLength(100_001);
  expect(() => workers[0].emit('error', new Error('broken'))).toThrow('broken');
  expect(() => workers[1].emit('exit')).toThrow('a vault thread ended');
  await client.close();
  expect(ended).toEqual([0, 1]);
  expect(() => workers[1].emit('exit')).not.toThrow();
});
