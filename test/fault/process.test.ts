import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, onTestFinished, test } from 'vitest';
import {
  healthOf,
  isLinux,
  isShed,
  lasting,
  loaded,
  nodesAt,
  recovery,
  SLACK_MS,
  start,
  times,
  UNAVAILABLE,
} from '../support/fault.ts';
import { ownPlace } from '../support/own.ts';
import { call, type Place, until } from '../support/service.ts';

const CONNECTS = times(1_000, 1_000);
const NOFILE = 256;
const STALL_S = 5;
const SABOTEUR = pathToFileURL(join(import.meta.dirname, '../support/saboteur.mjs')).href;

/** Where Debian and others put it. */
const libfaketime = ['lib/x86_64-linux-gnu', 'lib/aarch64-linux-gnu', 'lib64']
  .map((folder) => `/usr/${folder}/faketime/libfaketimeMT.so.1`)
  .find((path) => existsSync(path));

async function begin(env?: (place: Place) => Record<string, string>) {
  const place = await ownPlace();
  return loaded(nodesAt(place, 1, env?.(place)), 200);
}

describe.skipIf(libfaketime === undefined)('the clock of a node', () => {
  test('F13: steps by an hour and by ten years, both ways: nobody is locked out, nothing is lost, and only what has expired has', async () => {
    const place = await ownPlace();
    const clock = join(place.folder, 'clock');
    const setClock = (offset: string) => writeFileSync(clock, offset);
    setClock('+0');
    const { service, json, tokenized } = await nodesAt(place, 1, {
      DETOKENIZE_LIMIT: '50',
      LD_PRELOAD: libfaketime!,
      FAKETIME_TIMESTAMP_FILE: clock,
      FAKETIME_NO_CACHE: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
    });
    const { client_id: clientId, api_key: apiKey } = service;
    const { api_key: shortKey } = await json(`api-key issue --client ${clientId} --expires 2d`);
    const { token } = await tokenized({ token: 'Ann Lee' });
    const statusOf = async (key: string) => {
      const { status, body } = await call(service, 'detokenize', { token }, key);
      if (status === 200) expect(body.data.token).toBe('Ann Lee');
      return status;
    };
    await until(async () => (await statusOf(shortKey)) === 200, 'the short key');
    for (const [offset, hours] of [
      ['+1h', 1],
      ['-1h', -1],
      ['+87600h', 87_600],
      ['-87600h', -87_600],
      ['+0', 0],
    ] as const) {
      setClock(offset);
      const expectedMs = Date.now() + hours * 3_600_000;
      const { timestamp } = (await (await fetch(`${service.url}/health`)).json()) as any;
      expect(Math.abs(Date.parse(timestamp) - expectedMs)).toBeLessThan(60_000);
      // The bucket is emptied before and after the step: tokens come back by the time that went by, no more.
      const burst = async () => {
        const statuses = await Promise.all(Array.from({ length: 150 }, () => statusOf(apiKey)));
        return statuses.filter((status) => status === 200).length;
      };
      expect(await burst()).toBeGreaterThan(0);
      expect(await burst()).toBeLessThan(150);
      await until(async () => (await statusOf(apiKey)) === 200, 'a 200', 2_000 + SLACK_MS);
      // One that ends in two days has ended in ten years, and is as good as before when that was not true.
      const expected = hours > 48 ? 401 : 200;
      await until(async () => (await statusOf(shortKey)) === expected, `${expected}`, 5_000);
    }
    expect(service.output()).not.toMatch(/"status":5\d\d/);
  });
});

describe('a process that is half alive', () => {
  test('F25: whose event loop stands still fails its health check, and goes on after', async () => {
    const { service, writers } = await begin();
    service.kill('SIGSTOP');
    const probe = fetch(`${service.url}/health`, { signal: AbortSignal.timeout(1_500) });
    await expect(probe).rejects.toThrow();
    await lasting(STALL_S - 1.5);
    service.kill('SIGCONT');
    await recovery(service, 2_000);
    expect(await healthOf(service)).toBe(200);
    // The time of a request that the stop caught may be over, or the turn that it came in lasted as
    // long as the stop. Its answer says so.
    await writers.progress(3_000);
    const others = [...writers.failures].filter((one) => one !== UNAVAILABLE && !isShed(one));
    expect(others).toEqual([]);
    writers.failures.clear();
    await writers.finish(1_000);
    expect([[...writers.failures], writers.cuts]).toEqual([[], 0]);
  });

  test.each(['main throw', 'main reject', 'vault throw', 'vault reject', 'vault exit'])(
    'F25: in which this happens (thread and fault: %s) ends with 1, and loses nothing',
    async (order) => {
      const sabotageOf = ({ folder }: Place) => join(folder, 'sabotage');
      const { place, nodes, service, writers } = await begin((of) => {
        return { NODE_OPTIONS: `--import=${SABOTEUR}`, SABOTAGE: sabotageOf(of) };
      });
      writeFileSync(sabotageOf(place), order);
      expect(await service.exit).toBe(1);
      expect(service.output()).toContain('unexpected failure, ending');
      nodes[0] = await start(place);
      await writers.finish();
    },
  );
});

describe.skipIf(!isLinux)('the files that a process may open', () => {
  test('F26: are used up by 1,000 connections: it goes on for those that it has, and takes new ones when it can', async () => {
    const { service, writers } = await begin();
    execFileSync('prlimit', ['--pid', `${service.pid}`, `--nofile=${NOFILE}:${NOFILE}`]);
    const { hostname, port } = new URL(service.url);
    const sockets = Array.from({ length: CONNECTS }, () =>
      connect(Number(port), hostname).on('error', () => {}),
    );
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy();
    });
    await Promise.all(
      sockets.map((socket) => Promise.race([once(socket, 'connect'), once(socket, 'close')])),
    );
    await writers.progress(200);
    for (const socket of sockets) socket.resetAndDestroy();
    await recovery(service, 2_000);
    await writers.finish(200);
    expect([...writers.failures]).toEqual([]);
    // A caller from somewhere else, on a connection of its own.
    const other = await fetch(`${service.url}/health`, { headers: { connection: 'close' } });
    expect(other.status).toBe(200);
  });
});
