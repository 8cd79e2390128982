import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { expect, test } from 'vitest';
import type { Sample } from '#console';
import type { CurrentState } from '../../src/ops/console/current-state.ts';
import { EventStreams } from '../../src/ops/console/events.ts';
import type { Sampler } from '../../src/ops/console/sampler.ts';
import type { OpsContext } from '../../src/ops/web.ts';

const MIB = 1_048_576;

test('a reader that does not read is cut off, and another has every sample', async () => {
  // The sampler of a service would take hours for so much.
  const sampler = { samples: [] } as unknown as Sampler;
  const state = { read: async () => [] };
  const streams = new EventStreams(sampler, state as unknown as CurrentState);
  const responses: ServerResponse[] = [];
  const server = createServer((request, response) => {
    responses.push(response);
    const c = { env: { incoming: request, outgoing: response }, body: () => new Response() };
    void streams.open(c as unknown as OpsContext, () => true);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const open = async () => {
    const known = responses.length;
    const socket = connect(port, '127.0.0.1', () =>
      socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n'),
    );
    while (responses.length === known) await new Promise((resolve) => setImmediate(resolve));
    return { socket, response: responses.at(-1)! };
  };
  const idle = await open();
  idle.socket.pause();
  const reading = await open();
  let got = 0;
  reading.socket.on('data', (chunk: Buffer) => {
    // One of each sample, and nowhere else.
    got += chunk.toString('latin1').split('}').length - 1;
  });
  let sent = 0;
  for (; !idle.response.destroyed && sent < 640; sent++) {
    sampler.onSample({ filler: 'x'.repeat(MIB / 16) } as unknown as Sample);
    while (got <= sent) await new Promise((resolve) => setImmediate(resolve));
  }
  expect(idle.response.destroyed).toBe(true);
  expect([reading.response.destroyed, got]).toEqual([false, sent]);
  streams.close();
  await once(reading.socket, 'end');
  for (const { socket } of [idle, reading]) socket.destroy();
  server.close();
});
