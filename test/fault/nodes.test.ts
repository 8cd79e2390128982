import { describe, expect, test } from 'vitest';
import { Balancer } from '../support/balancer.ts';
import {
  lasting,
  newCluster,
  newVault,
  newWriters,
  SLACK_MS,
  seconds,
  start,
  timeoutFor,
} from '../support/fault.ts';
import { postgresBin } from '../support/postgres.ts';
import { Random } from '../support/random.ts';
import { type Service, until } from '../support/service.ts';

const KILLING_S = seconds(12, 120);
/** A start takes the processor, which other tests use as well: the catalogue asks for 2 s. */
const READY_WITHIN_MS = 2_000 + 2 * SLACK_MS;
const ROLLS = seconds(1, 5);

describe.skipIf(postgresBin === undefined)('two nodes', () => {
  test(
    'F01: kill -9 of one or the other again and again: no acknowledged token is lost or changed, and a node is soon ready',
    async () => {
      const random = new Random();
      const place = await newVault(await newCluster());
      const nodes: Service[] = [await start(place), await start(place)];
      const { api_key: apiKey } = nodes[0]!;
      let n = 0;
      const writers = newWriters(() => nodes[n++ % 2]!, apiKey, place);
      const overMs = performance.now() + KILLING_S * 1_000;
      while (performance.now() < overMs) {
        await lasting(2 + random.below(3_000) / 1_000);
        const killed = random.below(2);
        nodes[killed]!.kill('SIGKILL');
        await nodes[killed]!.exit;
        const killedMs = performance.now();
        nodes[killed] = await start(place);
        expect((await fetch(`${nodes[killed]!.url}/health`)).status).toBe(200);
        expect(performance.now() - killedMs).toBeLessThan(READY_WITHIN_MS);
      }
      await writers.progress(200);
      await writers.stop();
      expect(writers.cuts).toBeGreaterThan(0);
      await writers.verify(nodes[0]!, apiKey);
      await writers.verifyRows(place);
    },
    timeoutFor(KILLING_S * 2),
  );

  test(
    'F16: SIGTERM of one after the other behind a proxy at 300 requests a second: no call fails, and each ends with 0',
    async () => {
      const place = await newVault(await newCluster());
      const nodes = [await start(place), await start(place)];
      const { api_key: apiKey } = nodes[0]!;
      const balancer = await Balancer.start(nodes.map((node) => node.url));
      const writers = newWriters({ ...nodes[0]!, url: balancer.url }, apiKey, place, {
        requestsPerS: 300,
      });
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
      await writers.progress(300);
      await writers.stop();
      expect([...writers.failures]).toEqual([]);
      expect(writers.cuts).toBe(0);
      await writers.verify(nodes[0]!, apiKey);
      await writers.verifyRows(place);
    },
    timeoutFor(40 * ROLLS),
  );
});
