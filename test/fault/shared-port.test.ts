import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { beforeEach, describe, expect, test } from 'vitest';
import { loaded, start } from '../support/fault.ts';
import { loop } from '../support/loop.ts';
import { ownPlace } from '../support/own.ts';
import { freePort } from '../support/processes.ts';
import { newerNode } from '../support/program.ts';
import { call, type Place, type Service, until } from '../support/service.ts';

let place: Place;
let PORT: string;
beforeEach(async () => {
  place = await ownPlace();
  PORT = String(await freePort());
});

/** A node on the port of the test. Only the first one on a place knows its API key. */
const startNode = (env: Record<string, string> = {}): Promise<Service> =>
  start(place, { PORT, REUSE_PORT: 'true', DRAIN_DELAY_MS: '0', ...env }, newerNode);

const loadOn = async ([first]: readonly Service[], count: number) =>
  (await loaded({ place, nodes: [first!], api_key: first!.api_key }, count, Infinity)).writers;

/** Whether Linux hands connections that wait at a socket that closes to another one of its port. */
function migrates(): boolean {
  try {
    return readFileSync('/proc/sys/net/ipv4/tcp_migrate_req', 'utf8').trim() === '1';
  } catch {
    return false;
  }
}

/** A status or an error, of a request on a connection of its own. */
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
    const nodes = [await startNode(), await startNode()];
    const writers = await loadOn(nodes, 0);
    const outcomes: string[] = [];
    const strangers = loop(
      async () => outcomes.push(await statusOnNewConnection()),
      migrates() ? 4 : 0,
    );
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
    await writers.finish(200);
    await strangers.stop();
    expect([[...writers.failures], writers.cuts]).toEqual([[], 0]);
    expect(outcomes.filter((one) => one !== '200')).toEqual([]);
    if (migrates()) expect(outcomes.length).toBeGreaterThan(100);
    // New connections go to both.
    const before = nodes.map(requestsOf);
    await until(async () => {
      await statusOnNewConnection();
      return nodes.every((node, i) => requestsOf(node) > before[i]!);
    }, 'answers of both nodes');
  });

  test('one that is killed leaves its port to the other, and no token is lost', async () => {
    const nodes = [await startNode(), await startNode()];
    const writers = await loadOn(nodes, 200);
    nodes[1]!.kill('SIGKILL');
    await nodes[1]!.exit;
    await writers.finish(200);
    expect([...writers.failures]).toEqual([]);
  });

  test('a caller that is idle while its node leaves has its next answer from the other', async () => {
    const nodes = [await startNode()];
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
    const nodes = [await startNode({ OPS_PORT })];
    const writers = await loadOn(nodes, 50);
    await expect(startNode({ OPS_PORT })).rejects.toThrow(
      `Cannot listen on 127.0.0.1:${OPS_PORT} (EADDRINUSE). Stop the program on that port, or set OPS_PORT to another port.`,
    );
    await writers.finish(50);
    expect(writers.cuts).toBe(0);
  });

  test('a port whose node does not share it is refused with the reason', async () => {
    await startNode({ REUSE_PORT: 'false' });
    await expect(startNode()).rejects.toThrow(
      `Cannot listen on 127.0.0.1:${PORT} (EADDRINUSE). The program on that port runs as another user or without REUSE_PORT=true: stop it, or set PORT to another port.`,
    );
  });
});
