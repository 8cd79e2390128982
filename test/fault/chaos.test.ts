import { expect, test } from 'vitest';
import { Balancer } from '../support/balancer.ts';
import {
  freeze,
  lasting,
  loaded,
  newScene,
  recovery,
  resetMidRequest,
  seconds,
  start,
  UNAVAILABLE,
} from '../support/fault.ts';
import { postgresBin } from '../support/postgres.ts';
import { Random } from '../support/random.ts';

const CHAOS_S = seconds(20, 1_800);
const LONGEST_STOP_S = 6;
const MOST_LOST_REPLIES = 50;
const MOST_RESETS = 200;

/** The rows of the catalogue that a step can be: F02, F04, F06, F08, F16. */
const FAULTS = [
  ...(['postgres killed', 'postgres stopped', 'replies lost'] as const),
  ...(['callers reset', 'node renewed'] as const),
];

interface Step {
  readonly fault: (typeof FAULTS)[number];
  /** Acknowledged tokens before the fault. */
  readonly after: number;
  /** Which of the two nodes the fault hits, if it hits a node. */
  readonly node: number;
  /** The length or the number of the fault, as a share of the maximum, 0 to 1. */
  readonly measure: number;
}

/** The same seed gives the same faults, in the same order, after the same numbers of tokens. */
function* schedule(seed: number): Generator<Step> {
  const random = new Random(seed);
  for (;;) {
    yield {
      fault: random.pick(FAULTS),
      after: 20 + random.below(100),
      node: random.below(2),
      measure: random.below(1_000) / 1_000,
    };
  }
}

async function newWorld() {
  const scene = await newScene({ nodes: 2, isProxied: true });
  const balancer = await Balancer.start(scene.nodes.map((node) => node.url));
  const entrance = { ...scene.service, url: balancer.url };
  const { writers } = await loaded({ ...scene, nodes: [entrance] }, 0);
  return { ...scene, balancer, entrance, writers };
}
type World = Awaited<ReturnType<typeof newWorld>>;

/** Does one thing, and leaves all as it was: only what was written differs. */
const HAPPENINGS: Record<Step['fault'], (world: World, step: Step) => Promise<void>> = {
  'postgres killed': async ({ cluster }) => {
    await cluster.crash();
    cluster.startAgain();
  },
  'postgres stopped': async ({ cluster }, { measure }) => {
    const thaw = freeze(cluster);
    await lasting(measure * LONGEST_STOP_S);
    thaw();
  },
  'replies lost': async ({ proxy }, { measure }) => {
    proxy.dropsLeft = 1 + Math.floor(measure * MOST_LOST_REPLIES);
  },
  'callers reset': async ({ api_key, nodes }, { measure, node }) => {
    const { url } = nodes[node]!;
    const reset = (_: unknown, i: number) => resetMidRequest({ url, api_key }, i, measure);
    await Promise.all(Array.from({ length: Math.floor(measure * MOST_RESETS) }, reset));
  },
  'node renewed': async ({ balancer, nodes, place }, { node }) => {
    const leaving = nodes[node]!;
    leaving.kill('SIGTERM');
    expect(await leaving.exit).toBe(0);
    nodes[node] = await start(place);
    await balancer.replace(leaving.url, nodes[node]!.url);
  },
};

/** What an entrance may say while its nodes or their database are away. */
const ALLOWED = [UNAVAILABLE, '502 {"error":"proxy"}'];

test('F28: a seed gives its schedule again, and another seed another one with every fault in it', () => {
  const first = (seed: number) => {
    const steps = schedule(seed);
    return Array.from({ length: 100 }, () => steps.next().value as Step);
  };
  expect(first(1)).toEqual(first(1));
  expect(first(1)).not.toEqual(first(2));
  expect(new Set(first(1).map(({ fault }) => fault))).toEqual(new Set(FAULTS));
});

test.skipIf(postgresBin === undefined)(
  'F28: chaos: nothing that was acknowledged is lost, no value is taken for another, and no value has two tokens',
  async () => {
    const { CHAOS_SEED, SEED } = process.env;
    const seed = Number(CHAOS_SEED ?? SEED ?? Math.floor(Math.random() * 2 ** 31));
    console.log(`CHAOS_SEED=${seed}`);
    const world = await newWorld();
    const { entrance, proxy, writers } = world;
    const overMs = performance.now() + CHAOS_S * 1_000;
    for (const step of schedule(seed)) {
      if (performance.now() > overMs) break;
      await writers.progress(step.after);
      console.log(JSON.stringify(step));
      await HAPPENINGS[step.fault](world, step);
      await recovery(entrance, 10_000);
      expect(writers.wrong).toEqual([]);
    }
    proxy.dropsLeft = 0;
    const count = await writers.finish(100, world.nodes[0]);
    expect([...writers.failures].filter((failure) => !ALLOWED.includes(failure))).toEqual([]);
    console.log(`${count} tokens, ${writers.restored} read while it went on`);
  },
);
