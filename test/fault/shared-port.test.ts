import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { JournalledWriters } from '../support/journal.ts';
import { freePort } from '../support/processes.ts';
import { newerNode } from '../support/program.ts';
import {
  call,
  type Place,
  runCli,
  type Service,
  startService,
  until,
  usualPlace,
} from '../support/service.ts';

let place: Place;
let PORT: string;
let nodes: Service[];
beforeEach(async () => {
  place = await usualPlace();
  PORT = String(await freePort());
  nodes = [];
});
afterEach(async () => {
  // They would wait for the idle connections of this test.
  for (const node of nodes) node.kill('SIGKILL');
  for (const node of nodes) await node.exit;
  place.remove();
});

/** A node on the port of the test. Only the first one on a place knows its API key. */
async function startNode(env: Record<string, string> = {}): Promise<Service> {
  const settings = { PORT, REUSE_PORT: 'true', DRAIN_DELAY_MS: '0', ...env };
  return startService(place, settings, newerNode);
}

/** Whether Linux hands connections that wait at a socket that closes to another one of its port. */
function migrates(): boolean {
  try {
    return readFileSync('/proc/sys/net/ipv4/tcp_migrate_req', 'utf8').trim() === '1';
  } catch {
    return false;
  }
}

/** Asks on a connection of its own, without pause, until `stop`. */
class Strangers {
  answered = 0;
  readonly failures: string[] = [];
  readonly #callers: Promise<void>[];
  #isOver = false;

  constructor(callers: number) {
    this.#callers = Array.from({ length: callers }, () => this.#call());
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#callers);
  }

  async #call(): Promise<void> {
    while (!this.#isOver) {
      const outcome = await statusOnNewConnection();
      if (outcome === '200') this.answered++;
      else this.failures.push(outcome);
    }
  }
}

function statusOnNewConnection(): Promise<string> {
  return new Promise((resolve) => {
    const asked = request(`http://127.0.0.1:${PORT}/health/live`, { agent: false }, (response) => {
      response.resume();
      response.on('end', () => resolve(String(response.statusCode)));
      response.on('error', (error) => resolve(error.message));
    });
    asked.on('error', (error) => resolve(error.message));
    asked.end();
  });
}

const requestsOf = (node: Service) => node.output().split('"duration_ms"').length - 1;

describe.skipIf(newerNode === undefined)('two nodes on one port', () => {
  test('both answer, and each in turn is restarted under load without a failed request', async () => {
    nodes = [await startNode(), await startNode()];
    const { api_key: apiKey } = nodes[0]!;
    const writers = new JournalledWriters(place, () => nodes[0]!, apiKey);
    const strangers = new Strangers(migrates() ? 4 : 0);
    for (const turn of [0, 1, 0, 1]) {
      await writers.progress(200);
      const [leaving, staying] = [nodes[turn]!, nodes[1 - turn]!];
      leaving.kill('SIGTERM');
      expect(await leaving.exit).toBe(0);
      // The other one answers alone; the new one shares the port again.
      const before = requestsOf(staying);
      await until(() => requestsOf(staying) > before + 50, 'answers of the other node');
      nodes[turn] = await startNode();
    }
    await writers.progress(200);
    await writers.stop();
    await strangers.stop();
    expect([...writers.failures]).toEqual([]);
    expect(writers.cuts).toBe(0);
    expect(strangers.failures).toEqual([]);
    if (migrates()) expect(strangers.answered).toBeGreaterThan(100);
    await writers.verify(nodes[0]!, apiKey);
    // New connections go to both.
    const before = nodes.map(requestsOf);
    await until(async () => {
      await statusOnNewConnection();
      return nodes.every((node, i) => requestsOf(node) > before[i]!);
    }, 'answers of both nodes');
  });

  test('one that is killed leaves its port to the other, and no token is lost', async () => {
    nodes = [await startNode(), await startNode()];
    const [first, second] = nodes as [Service, Service];
    const writers = new JournalledWriters(place, () => first, first.api_key);
    await writers.progress(200);
    second.kill('SIGKILL');
    await second.exit;
    await writers.progress(200);
    await writers.stop();
    expect([...writers.failures]).toEqual([]);
    await writers.verify(first, first.api_key);
  });

  test('a caller that is idle while its node leaves has its next answer from the other', async () => {
    nodes = [await startNode()];
    const { api_key: apiKey } = nodes[0]!;
    expect((await call(nodes[0]!, 'tokenize', { a: 'before' }, apiKey)).status).toBe(200);
    nodes.push(await startNode());
    nodes[0]!.kill('SIGTERM');
    await until(() => nodes[0]!.output().includes('"msg":"draining"'), 'the first to leave');
    expect((await call(nodes[0]!, 'tokenize', { a: 'after' }, apiKey)).status).toBe(200);
    expect(await nodes[0]!.exit).toBe(0);
    expect((await call(nodes[1]!, 'tokenize', { a: 'again' }, apiKey)).status).toBe(200);
  });

  test('one whose OPS_PORT is taken ends before it joins, and cuts no caller', async () => {
    const OPS_PORT = String(await freePort());
    nodes = [await startNode({ OPS_PORT })];
    const writers = new JournalledWriters(place, () => nodes[0]!, nodes[0]!.api_key);
    await writers.progress(50);
    await expect(startNode({ OPS_PORT })).rejects.toThrow(
      `Cannot listen on 127.0.0.1:${OPS_PORT} (EADDRINUSE). Stop the program on that port, or set OPS_PORT to another port.`,
    );
    await writers.progress(50);
    await writers.stop();
    expect(writers.cuts).toBe(0);
  });

  test('a port whose node does not share it is refused with the reason', async () => {
    nodes = [await startNode({ REUSE_PORT: 'false' })];
    await expect(startNode()).rejects.toThrow(
      `Cannot listen on 127.0.0.1:${PORT} (EADDRINUSE). The program on that port runs as another user or without REUSE_PORT=true: stop it, or set PORT to another port.`,
    );
  });
});

test('WORKERS is refused with what to do instead', async () => {
  const { code, stderr } = await runCli(['serve'], place, { WORKERS: '2' });
  expect(code).toBe(1);
  expect(stderr).toMatch(/^standin: WORKERS is gone.*more nodes.*REUSE_PORT=true/);
});
