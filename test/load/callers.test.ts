import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import {
  Callers,
  descriptorsOf,
  forSeconds,
  LOAD_SECONDS,
  residentBytes,
  startLeast,
} from '../support/callers.ts';
import { isLinux, lasting, start } from '../support/fault.ts';
import { loop } from '../support/loop.ts';
import { endsWithTest, ownCluster } from '../support/own.ts';
import { freePort, postgresBin } from '../support/postgres.ts';
import {
  call,
  createClient,
  kinds,
  leastPrivilegePlace,
  type Service,
  scrape,
  until,
} from '../support/service.ts';
import { sql } from '../support/vault.ts';

const MIB = 1_048_576;
const HEAP = 'nodejs_heap_size_used_bytes';
/** Tokenizes a value of its own and takes it back: the value, the whole value and nothing else. */
async function roundTrip(callers: Callers, n: number): Promise<void> {
  const value = `round trip of ${n}`;
  const tokenized = await callers.call('tokenize', { value });
  if (tokenized?.status !== 200) return;
  const restored = await callers.call('detokenize', tokenized.body.data);
  if (restored?.status === 200) expect(restored.body.data).toEqual({ value });
}

describe.runIf(isLinux)('many callers', () => {
  test('L01: a thousand that keep their connections are all answered, and leave nothing behind', async () => {
    const service = await startLeast();
    await call(service, 'tokenize', { a: 'first' });
    const base = descriptorsOf(service.pid);
    const callers = new Callers(service, 1_000);
    await forSeconds(LOAD_SECONDS, 1_000, (n) => roundTrip(callers, n));
    expect(callers.count('cut')).toBe(0);
    expect(callers.count(200)).toBeGreaterThan(1_000);
    for (const status of callers.counts.keys()) expect([200, 429, 503]).toContain(status);
    expect(descriptorsOf(service.pid)).toBeGreaterThan(base + 500);
    callers.close();
    await until(() => descriptorsOf(service.pid) <= base + 5, `${base} open files, as before`);
    expect(service.output()).not.toContain('Warning');
  });

  test('L17: a soak leaves open files as they were, and memory that does not grow', async () => {
    const service = await startLeast({ OPS_PORT: String(await freePort()) });
    const callers = new Callers(service, 32);
    await forSeconds(LOAD_SECONDS / 4, 32, (n) => roundTrip(callers, n));
    const base = descriptorsOf(service.pid);
    const [first, second] = [await leastHeap(1), await leastHeap(2)];
    expect(Math.abs(descriptorsOf(service.pid) - base)).toBeLessThanOrEqual(5);
    expect(callers.count(200)).toBe(callers.answered);
    expect(service.output()).not.toMatch(/MaxListenersExceeded|Warning/);
    // A slope of 1 MiB a minute; a heap that breathes hides it in less than some minutes.
    const minutes = LOAD_SECONDS / 2 / 60;
    expect(second - first).toBeLessThanOrEqual(16 * MIB + minutes * MIB);

    /** The least heap in use that a part of the soak saw: what no collection could free. */
    async function leastHeap(part: number): Promise<number> {
      let least = Infinity;
      await forSeconds(LOAD_SECONDS / 2, 32, async (n) => {
        await roundTrip(callers, part * 1e9 + n);
        if (n % 100 === 0) least = Math.min(least, (await scrape(service.opsUrl!, HEAP))['']!);
      });
      return least;
    }
  });

  test('L09: memory does not grow with the vault, and samples of all of it come back', async () => {
    const tokens = Number(process.env.TEST_TOKENS ?? 100_000);
    const batch = 2_500;
    const service = await startLeast();
    const callers = new Callers(service, 4);
    const samples = new Map<string, string>();
    const fill = async (from: number, to: number) => {
      for (let next = from; next < to; next += batch) {
        const values = Array.from({ length: batch }, (_, i) => `value ${next + i} of the vault`);
        const { status, body } = (await callers.call('tokenize', { values }))!;
        expect(status).toBe(200);
        const every = Math.max(1, Math.floor(tokens / 10_000));
        for (let i = 0; i < batch; i += every) samples.set(body.data.values[i], values[i]!);
      }
    };
    await fill(0, tokens / 2);
    const half = residentBytes(service.pid);
    await fill(tokens / 2, tokens);
    expect(residentBytes(service.pid)).toBeLessThanOrEqual(half + 64 * MIB);
    const all = [...samples.keys()];
    expect(all.length).toBeGreaterThanOrEqual(Math.min(10_000, tokens));
    for (let i = 0; i < all.length; i += batch) {
      const part = all.slice(i, i + batch);
      const { body } = (await callers.call('detokenize', { part }))!;
      expect(body.data.part).toEqual(part.map((token) => samples.get(token)));
    }
  });

  test('L10: bodies of ten thousand values are answered, and callers of one value go on meanwhile', async () => {
    const service = await startLeast();
    const small = new Callers(service, 16);
    const large = new Callers(service, 1);
    const LARGE = 10;
    const during: number[] = [];
    const running = loop((n, caller) => roundTrip(small, caller * 1e6 + n), 16);
    await until(() => small.answered > 100, 'small ones are at work');
    for (let i = 0; i < LARGE; i++) {
      const before = small.answered;
      const fields = Array.from({ length: 10_000 }, (_, j) => [`f${j}`, `field ${j} of body ${i}`]);
      const reply = await large.call('tokenize', Object.fromEntries(fields));
      expect(reply?.status).toBe(200);
      during.push(small.answered - before);
    }
    await running.stop();
    expect(small.count(200)).toBe(small.answered);
    // With one after the other, a small one would wait for each large one: one answer a caller.
    for (const answered of during) expect(answered).toBeGreaterThan(16);
  });
});

test.skipIf(postgresBin === undefined)(
  'L12: one value that all want is one row and one token, and nobody waits for a lock',
  async () => {
    // A wait of a second is logged, which no statement of one row takes.
    const cluster = await ownCluster({ log_lock_waits: 'on', deadlock_timeout: '1s' });
    const first = await startLeast(
      {},
      await endsWithTest(leastPrivilegePlace(cluster.url('postgres'))),
    );
    const nodes = [first, await start(first.place)];
    const callers = nodes.map((node) => new Callers(node, 32));
    const tokens = new Set<string>();
    await forSeconds(LOAD_SECONDS, 64, async (n) => {
      const reply = await callers[n % 2]!.call('tokenize', { hot: 'one hot value' });
      tokens.add(reply?.body.data.hot);
    });
    for (const one of callers) expect(one.count(200)).toBe(one.answered);
    expect(callers[0]!.answered).toBeGreaterThan(500);
    expect(tokens.size).toBe(1);
    expect(await sql(first.place, 'select 1 from standin.records')).toHaveLength(1);
    expect(readFileSync(cluster.logFile, 'utf8')).not.toMatch(/still waiting|deadlock detected/);
  },
);

test.runIf(kinds().length > 0)(
  'L07: over its limit a client gets its rate and one burst, never more in a second, and others nothing of it',
  async () => {
    // So low that a busy machine asks for much more.
    const RATE = 25;
    const service = await startLeast({ RATE_LIMIT: String(RATE) });
    const { api_key: other } = await createClient(service.place);
    const callers = new Callers(service, 24);
    const others = new Callers(service, 4);
    const pace = setInterval(() => void others.call('tokenize', { a: 'b' }, other), 1_000 / 10);
    const startedMs = performance.now();
    await forSeconds(LOAD_SECONDS, 24, () => callers.call('tokenize', { hot: 'over the limit' }));
    const tookS = (performance.now() - startedMs) / 1_000;
    clearInterval(pace);
    expect([...callers.counts.keys()].sort()).toEqual([200, 429]);
    expect(callers.count(200)).toBeLessThanOrEqual(RATE * tookS * 1.01 + RATE + 1);
    expect(callers.count(200)).toBeGreaterThanOrEqual(RATE * LOAD_SECONDS * 0.99);
    expect(callers.count(429)).toBeGreaterThan(callers.count(200));
    expect([...others.counts.keys()]).toEqual([200]);
    expect(mostInASecond(service)).toBeLessThanOrEqual(2 * RATE + 1);
    // Who waits as long as they are told is let in.
    for (let i = 0; i < 3; i++) {
      const replies = await Promise.all(
        Array.from({ length: 4 * RATE }, () => callers.call('tokenize', {})),
      );
      const { retry_after: retryAfter } = replies.findLast((reply) => reply!.status === 429)!.body;
      await lasting(retryAfter);
      expect((await callers.call('tokenize', {}))!.status).toBe(200);
    }
  },
);

/** Requests of the first client that were let in within one second, by the log: when each came in. */
function mostInASecond(service: Service): number {
  const lines = service.output().split('\n');
  const timesMs = lines
    .filter((line) => line.includes('"status":200') && line.includes(service.client_id))
    .map((line) => JSON.parse(line))
    .map((line) => Date.parse(line.time) - line.duration_ms)
    .sort((a, b) => a - b);
  let most = 0;
  for (let first = 0, last = 0; last < timesMs.length; last++) {
    while (timesMs[last]! - timesMs[first]! > 1_000) first++;
    most = Math.max(most, last - first + 1);
  }
  return most;
}
