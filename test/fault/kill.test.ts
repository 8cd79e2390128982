import { describe, expect, test } from 'vitest';
import { Balancer } from '../support/balancer.ts';
import {
  expectOnlyUnavailable,
  healthOf,
  lasting,
  loaded,
  newScene,
  newVault,
  nodesAt,
  recovery,
  SLACK_MS,
  seconds,
  start,
} from '../support/fault.ts';
import { postgresBin } from '../support/postgres.ts';
import { childrenOf } from '../support/processes.ts';
import { Random } from '../support/random.ts';
import { until } from '../support/service.ts';

const KILLS = 10;
const KILLING_S = seconds(12, 120);
/** A start takes the processor, which other tests use as well: the catalogue asks for 2 s. */
const READY_WITHIN_MS = 2_000 + 2 * SLACK_MS;
const ROLLS = seconds(1, 5);

test.each(['service', 'database'])(
  'kill -9 of the %s, ten times while writing to an embedded database: no acknowledged token is lost',
  async (killed) => {
    const { place, nodes, writers } = await loaded(nodesAt(await newVault()), 0, Infinity);
    for (let i = 0; i < KILLS; i++) {
      await writers.progress(200);
      if (killed === 'service') {
        nodes[0]!.kill('SIGKILL');
        // At once: the old database process may still be ending.
        nodes[0] = await start(place);
      } else {
        await until(() => childrenOf(nodes[0]!.pid).length > 0, 'a database process');
        for (const pid of childrenOf(nodes[0]!.pid)) process.kill(pid, 'SIGKILL');
      }
    }
    expect(await writers.finish(200)).toBeGreaterThan(KILLS * 200);
  },
);

describe.skipIf(postgresBin === undefined)('on a server', () => {
  test('F02: kill -9 of Postgres, ten times while writing: no acknowledged token is lost, and the service stays', async () => {
    const { cluster, service, writers } = await loaded(newScene(), 0, Infinity);
    for (let i = 0; i < KILLS; i++) {
      await writers.progress(500);
      await cluster.crash();
      cluster.startAgain();
      await recovery(service);
    }
    await writers.finish(500);
    expectOnlyUnavailable(writers);
    expect(writers.cuts).toBe(0);
  });

  test('F01: kill -9 of one of two nodes or the other again and again: no acknowledged token is lost or changed, and a node is soon ready', async () => {
    const random = new Random();
    const { nodes, place, writers } = await loaded(newScene({ nodes: 2 }), 0);
    const overMs = performance.now() + KILLING_S * 1_000;
    while (performance.now() < overMs) {
      await lasting(2 + random.below(3_000) / 1_000);
      const killed = random.below(2);
      nodes[killed]!.kill('SIGKILL');
      await nodes[killed]!.exit;
      const killedMs = performance.now();
      nodes[killed] = await start(place);
      expect(await healthOf(nodes[killed]!)).toBe(200);
      expect(performance.now() - killedMs).toBeLessThan(READY_WITHIN_MS);
    }
    await writers.finish(200, nodes[0]);
    expect(writers.cuts).toBeGreaterThan(0);
  });

  test('F16: SIGTERM of one node after the other behind a proxy at 300 requests a second: no call fails, and each ends with 0', async () => {
    const scene = await newScene({ nodes: 2 });
    const { nodes, place, service } = scene;
    const balancer = await Balancer.start(nodes.map((node) => node.url));
    const entrance = { ...service, url: balancer.url };
    const { writers } = await loaded({ ...scene, nodes: [entrance] }, 0, 300);
    for (let i = 0; i < 2 * ROLLS; i++) {
      await writers.progress(300);
      const leaving = nodes[i % 2]!;
      leaving.kill('SIGTERM');
      expect(await leaving.exit).toBe(0);
      await until(() => balancer.turnsOf(leaving.url).includes('gone'), 'the proxy to see it go');
      // It saw 503 while the listener still took connections, and only then was it closed.
      expect(balancer.turnsOf(leaving.url)).toEqual(['200', '503', 'gone']);
      nodes[i % 2] = await start(place);
      await balancer.replace(leaving.url, nodes[i % 2]!.url);
    }
    await writers.finish(300, nodes[0]);
    expect([[...writers.failures], writers.cuts]).toEqual([[], 0]);
  });
});
