import { once } from 'node:events';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ConnectionOptions, TLSSocket } from 'node:tls';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { Certificate } from '../../src/process/certificate.ts';
import { served } from '../support/served.ts';
import { until } from '../support/service.ts';
import {
  Authority,
  hasOpenssl,
  type Listening,
  NAMES,
  put,
  startMutualTls,
  startTls,
  tlsCall,
  tlsConnect,
} from '../support/tls.ts';

/** One request on a connection that stays; rejects when it is closed. */
function askOn(socket: TLSSocket): Promise<string> {
  const closed = once(socket, 'close').then(() => Promise.reject(new Error('closed')));
  const response = once(socket, 'data').then(String);
  socket.write('GET /health HTTP/1.1\r\nHost: a\r\n\r\n');
  return Promise.race([response, closed]);
}

describe.skipIf(!hasOpenssl)('renewal', () => {
  let tls: Listening;
  const service = served(async () => {
    tls = await startTls(NAMES);
    return tls.service;
  });
  /** The certificate of a new connection. */
  const shown = async () => (await tlsCall(service, '/health', tls.trusting)).fingerprint;

  test('new files are used without a restart, and connections go on', async () => {
    const old = await shown();
    const kept = tlsConnect(service, tls.trusting);
    // An answered request first: a connection without one is closed after 10 s.
    expect(await askOn(kept)).toMatch(/^HTTP\/1\.1 200/);
    put(tls.authority.issue(NAMES), tls.files);
    await until(async () => (await shown()) !== old, 'another certificate');
    await until(() => service.output().includes('certificate renewed'), 'a line in the log');
    expect(await askOn(kept)).toMatch(/^HTTP\/1\.1 200/);
    kept.destroy();
  });

  test('files that do not fit are logged once, and the old certificate stays', async () => {
    const before = await shown();
    copyFileSync(tls.authority.issue(NAMES).cert, tls.files.cert);
    const told = () => service.output().split('TLS certificate not renewed').length - 1;
    await until(() => told() > 0, 'a line in the log');
    const reason = /TLS_KEY_FILE: \S+ does not belong to the certificate\. Put/;
    expect(service.output()).toMatch(reason);
    expect(await shown()).toBe(before);
    put(tls.authority.issue(NAMES), tls.files);
    await until(async () => (await shown()) !== before, 'a third certificate');
    expect(told()).toBe(1);
  });

  test('files that are copied one after the other are no problem: two looks have to find one', () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    onTestFinished(() => void vi.useRealTimers());
    const files = { certificateFile: tls.files.cert, keyFile: tls.files.key };
    const certificate = new Certificate({ ...files, clientCaFile: undefined });
    const told: string[] = [];
    certificate.watch((change) => void told.push('pem' in change ? 'renewed' : 'bad'));
    const next = tls.authority.issue(NAMES);
    copyFileSync(next.cert, tls.files.cert);
    vi.advanceTimersToNextTimer();
    expect(told).toEqual([]);
    copyFileSync(next.key, tls.files.key);
    vi.advanceTimersToNextTimer();
    expect(told).toEqual(['renewed']);
    // Each time once.
    for (const bad of [['bad'], ['bad', 'bad']]) {
      copyFileSync(tls.authority.issue(NAMES).cert, tls.files.cert);
      for (let look = 0; look < 4; look++) vi.advanceTimersToNextTimer();
      expect(told).toEqual(['renewed', ...bad]);
      put(next, tls.files);
      vi.advanceTimersToNextTimer();
    }
  });
});

test.skipIf(!hasOpenssl)(
  'another authority in the place of the first is in force without a restart',
  async () => {
    const tls = await startMutualTls();
    onTestFinished(async () => {
      await tls.service.stop();
      tls.service.place.remove();
    });
    const { folder } = tls.service.place;
    const clientCa = join(folder, 'clients.pem');
    const before = readFileSync(clientCa);
    const next = new Authority(folder, 'next');
    const { cert, key } = next.issue('DNS:caller');
    const { ca } = tls.trusting;
    const theirs = { ca, cert: readFileSync(cert), key: readFileSync(key) };
    const isServed = (options: ConnectionOptions) =>
      tlsCall(tls.service, '/health/live', options).then(Boolean, () => false);
    expect(await isServed(theirs)).toBe(false);
    copyFileSync(next.ca, clientCa);
    await until(() => isServed(theirs), 'a caller of the new authority is served');
    expect(await isServed(tls.trusting)).toBe(false);
    writeFileSync(clientCa, before);
    await until(() => isServed(tls.trusting), 'a caller of the first authority is served again');
  },
);
