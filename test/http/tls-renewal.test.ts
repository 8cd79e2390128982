import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ConnectionOptions, TLSSocket } from 'node:tls';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { Authority, has_openssl } from '../support/certificates.ts';
import { workersOf } from '../support/processes.ts';
import { until } from '../support/service.ts';
import {
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
  return new Promise((resolve, reject) => {
    const onClose = () => reject(new Error('closed'));
    socket.once('close', onClose);
    socket.once('data', (bytes) => {
      socket.off('close', onClose);
      resolve(bytes.toString());
    });
    socket.write('GET /health HTTP/1.1\r\nHost: a\r\n\r\n');
  });
}

describe.skipIf(!has_openssl).each([1, 2])('renewal with %i workers', (workers) => {
  let tls: Listening;
  beforeAll(async () => {
    tls = await startTls(NAMES, () => ({ WORKERS: String(workers) }));
  });
  afterAll(async () => {
    await tls.service.stop();
    tls.service.place.remove();
  });
  /** Of as many connections as it takes to meet all workers. */
  const shown = async () => {
    const calls = Array.from({ length: 2 * workers }, () =>
      tlsCall(tls.service, '/health', tls.trusting),
    );
    return new Set((await Promise.all(calls)).map(({ fingerprint }) => fingerprint));
  };

  test('new files are used without a restart, and connections go on', async () => {
    const [old] = await shown();
    const kept = tlsConnect(tls.service, tls.trusting);
    // An answered request first: a connection without one is closed after 10 s.
    expect(await askOn(kept)).toMatch(/^HTTP\/1\.1 200/);
    put(tls.authority.issue(NAMES), tls.files);
    await until(async () => !(await shown()).has(old!), 'another certificate');
    await until(() => tls.service.output().includes('certificate renewed'), 'a line in the log');
    expect(await askOn(kept)).toMatch(/^HTTP\/1\.1 200/);
    kept.destroy();
  });

  test('files that do not fit are logged once, and the old certificate stays', async () => {
    const before = await shown();
    copyFileSync(tls.authority.issue(NAMES).cert, tls.files.cert);
    const told = () => tls.service.output().split('TLS certificate not renewed').length - 1;
    await until(() => told() > 0, 'a line in the log');
    expect(tls.service.output()).toMatch(
      /TLS_KEY_FILE: \S+ does not belong to the certificate\. Put/,
    );
    if (workers > 1) {
      // One that starts now is given the certificate that can be used.
      const [first] = workersOf(tls.service.pid);
      process.kill(first!, 'SIGKILL');
      await until(() => tls.service.output().includes('worker started'), 'another worker');
    }
    expect(before.size).toBe(1);
    expect(await shown()).toEqual(before);
    put(tls.authority.issue(NAMES), tls.files);
    await until(async () => !(await shown()).has([...before][0]!), 'a third certificate');
    expect(told()).toBe(1);
  });
});

test.skipIf(!has_openssl)(
  'another authority in the place of the first is in force without a restart',
  async () => {
    const tls = await startMutualTls();
    onTestFinished(async () => {
      await tls.service.stop();
      tls.service.place.remove();
    });
    const { folder } = tls.service.place;
    const client_ca = join(folder, 'clients.pem');
    const before = readFileSync(client_ca);
    const next = new Authority(folder, 'next');
    const { cert, key } = next.issue('DNS:caller');
    const { ca } = tls.trusting;
    const theirs = { ca, cert: readFileSync(cert), key: readFileSync(key) };
    const isServed = (options: ConnectionOptions) =>
      tlsCall(tls.service, '/health/live', options).then(
        () => true,
        () => false,
      );
    expect(await isServed(theirs)).toBe(false);
    copyFileSync(next.ca, client_ca);
    await until(() => isServed(theirs), 'a caller of the new authority is served');
    expect(await isServed(tls.trusting)).toBe(false);
    writeFileSync(client_ca, before);
    await until(() => isServed(tls.trusting), 'a caller of the first authority is served again');
  },
);
