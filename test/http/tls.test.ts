import { execFileSync, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import type { ConnectionOptions, TLSSocket } from 'node:tls';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { Certificate } from '../../src/process/certificate.ts';
import { expectErrorForm, rawExchange } from '../support/http.ts';
import { freePort } from '../support/processes.ts';
import { served } from '../support/served.ts';
import { type Place, runCli, scrape, startService, until, usualPlace } from '../support/service.ts';
import { hasTerminal, serveOnTerminal } from '../support/terminal.ts';
import {
  Authority,
  hasOpenssl,
  type Listening,
  NAMES,
  openssl,
  put,
  startMutualTls,
  startTls,
  tlsCall,
  tlsConnect,
  tlsExchange,
  tlsPlace,
} from '../support/tls.ts';

const T = '/api/v1/tokenize';
const SECLEVEL_0 = 'DEFAULT:@SECLEVEL=0';
const hasCurl = spawnSync('curl', ['--version']).status === 0;

/** The call that a first start prints, which works as it is. */
async function firstCall(place: Place, env: Record<string, string>): Promise<string> {
  const service = await serveOnTerminal(place, env);
  onTestFinished(service.stop);
  const lines = service.output().split('\n');
  const command = lines.find((line) => line.startsWith('  curl '))!;
  if (hasCurl) {
    const { data } = JSON.parse(execFileSync('sh', ['-c', command], { encoding: 'utf8' }));
    expect(data.email).toMatch(/@/);
  }
  return command;
}

/** One request on a connection that stays; rejects when it is closed. */
function askOn(socket: TLSSocket): Promise<string> {
  const closed = once(socket, 'close').then(() => Promise.reject(new Error('closed')));
  const response = once(socket, 'data').then(String);
  socket.write('GET /health HTTP/1.1\r\nHost: a\r\n\r\n');
  return Promise.race([response, closed]);
}

describe.skipIf(!hasOpenssl)('with a certificate', () => {
  let tls: Listening;
  const service = served(async () => {
    // The service has its own oldest version, whatever that of Node is.
    const ops = { OPS_PORT: String(await freePort()), NODE_OPTIONS: '--tls-min-v1.0' };
    tls = await startTls(NAMES, () => ops);
    return tls.service;
  });
  afterAll(async () => {
    expect((await tlsCall(service, T, tls.trusting, { a: 'b' })).status).toBe(200);
  });

  const metric = async (name: string, labels = '') =>
    (await scrape(service.opsUrl!, `standin_tls_${name}`))[labels] ?? 0;
  const failures = (reason: string) => metric('handshake_failures_total', `reason="${reason}"`);

  test('requests work as in clear, and the URL says https', async () => {
    const { trusting } = tls;
    expect(service.url).toMatch(/^https:/);
    const { body } = await tlsCall(service, T, trusting, { name: 'Ann Lee' });
    const back = await tlsCall(service, '/api/v1/detokenize', trusting, body.data);
    expect(back.body.data).toEqual({ name: 'Ann Lee' });
    expect((await tlsCall(service, '/health', trusting)).body.status).toBe('ok');
    expect((await tlsCall(service, '/health/live', trusting)).status).toBe(200);
  });

  test.runIf(hasTerminal)('the call that a first start prints works as it is', async () => {
    const place = await usualPlace();
    onTestFinished(place.remove);
    const env = { TLS_CERT_FILE: tls.files.cert, TLS_KEY_FILE: tls.files.key };
    expect(await firstCall(place, env)).toContain('--cacert');
  });

  test.each(['TLSv1', 'TLSv1.1'] as const)('C26: %s is refused', async (version) => {
    const before = await failures('version');
    // Ciphers of their time: the versions must be all that there is to refuse.
    const old = { minVersion: version, maxVersion: version, ciphers: SECLEVEL_0 } as const;
    const refused = tlsCall(service, '/health', { ...tls.trusting, ...old });
    await expect(refused).rejects.toThrow(/alert protocol version/);
    expect(await failures('version')).toBe(before + 1);
  });

  test('a client that speaks HTTP/2 alone is told so in the handshake', async () => {
    const socket = tlsConnect(service, { ...tls.trusting, ALPNProtocols: ['h2'] });
    const [error] = await once(socket, 'error');
    expect(error.message).toMatch(/alert no application protocol/);
    expect(await failures('protocol')).toBe(1);
    const none = { maxVersion: 'TLSv1.2', ciphers: 'NULL-SHA256:@SECLEVEL=0' } as const;
    await once(tlsConnect(service, { ...tls.trusting, ...none }), 'error');
    expect(await failures('cipher')).toBe(1);
  });

  test('HTTP in clear is closed without an answer, and counted', async () => {
    const before = await failures('plain_http');
    const received = await rawExchange(service, 'GET /health HTTP/1.1\r\nHost: a\r\n\r\n');
    expect(received).not.toContain('HTTP/');
    expect(await failures('plain_http')).toBe(before + 1);
  });

  test('what the HTTP parser refuses is answered in JSON', async () => {
    const [answer, ...more] = await tlsExchange(service, tls.trusting, 'NONSENSE\r\n\r\n');
    expectErrorForm(answer!);
    expect([answer!.status, more]).toEqual([400, []]);
  });

  test('a handshake that does not go on is cut', async () => {
    const { hostname, port } = new URL(service.url);
    await once(connect(Number(port), hostname).resume(), 'close');
    expect(await failures('timeout')).toBe(1);
  });

  test('the metric tells when the certificate expires', async () => {
    const days = (await metric('certificate_expires_seconds')) / 86_400;
    expect(days - Date.now() / 86_400_000).toBeCloseTo(100, 0);
  });

  /** The certificate of a new connection. */
  const shown = async () => (await tlsCall(service, '/health', tls.trusting)).fingerprint;

  test('new files are used without a restart, once they fit, and connections go on', async () => {
    const old = await shown();
    const kept = tlsConnect(service, tls.trusting);
    // An answered request first: a connection without one is closed after 10 s.
    expect(await askOn(kept)).toMatch(/^HTTP\/1\.1 200/);
    const next = tls.authority.issue(NAMES);
    copyFileSync(next.cert, tls.files.cert);
    const isTold = (what: string) => () => service.output().includes(`TLS certificate ${what}`);
    await until(isTold('not renewed'), 'the log says that a certificate has no key');
    expect(await shown()).toBe(old);
    copyFileSync(next.key, tls.files.key);
    await until(async () => (await shown()) !== old, 'another certificate');
    await until(isTold('renewed'), 'a line in the log');
    expect(await askOn(kept)).toMatch(/^HTTP\/1\.1 200/);
    kept.destroy();
  });

  test('files that are copied one after the other are no problem: two looks have to find one', () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    onTestFinished(() => void vi.useRealTimers());
    const files = { certificateFile: tls.files.cert, keyFile: tls.files.key };
    const certificate = new Certificate({ ...files, clientCaFile: undefined });
    const told: string[] = [];
    const reason = /^TLS_KEY_FILE: \S+ does not belong to the certificate\. Put/;
    certificate.watch((change) => {
      if ('problem' in change) expect(change.problem).toMatch(reason);
      told.push('pem' in change ? 'renewed' : 'bad');
    });
    const next = tls.authority.issue(NAMES);
    copyFileSync(next.cert, tls.files.cert);
    vi.advanceTimersToNextTimer();
    expect(told).toEqual([]);
    copyFileSync(next.key, tls.files.key);
    vi.advanceTimersToNextTimer();
    expect(told).toEqual(['renewed']);
    // Each time once.
    const { pem } = certificate;
    for (const bad of [['bad'], ['bad', 'bad']]) {
      copyFileSync(tls.authority.issue(NAMES).cert, tls.files.cert);
      for (let look = 0; look < 4; look++) vi.advanceTimersToNextTimer();
      expect(told).toEqual(['renewed', ...bad]);
      expect(certificate.pem).toBe(pem);
      put(next, tls.files);
      vi.advanceTimersToNextTimer();
    }
  });
});

describe.skipIf(!hasOpenssl)('client certificates', () => {
  let tls: Listening;
  const service = served(async () => {
    tls = await startMutualTls();
    return tls.service;
  });

  test.each(['TLSv1.2', 'TLSv1.3'] as const)(
    'a caller is served with one, and not even for /health without one or with one of another authority (%s)',
    async (maxVersion) => {
      const { ca, ...own } = tls.trusting;
      const other = new Authority(service.place.folder, `other ${maxVersion}`);
      const { cert, key } = other.issue('DNS:caller');
      const wrong = { cert: readFileSync(cert), key: readFileSync(key) };
      const ask = (certificate: object) =>
        tlsCall(service, '/health', { ca, maxVersion, ...certificate } as ConnectionOptions);
      expect((await ask(own)).status).toBe(200);
      await expect(ask({})).rejects.toThrow();
      await expect(ask(wrong)).rejects.toThrow();
    },
  );

  test('another authority in the place of the first is in force without a restart', async () => {
    const { folder } = service.place;
    const clientCa = join(folder, 'clients.pem');
    const before = readFileSync(clientCa);
    const next = new Authority(folder, 'next');
    const { cert, key } = next.issue('DNS:caller');
    const { ca } = tls.trusting;
    const theirs = { ca, cert: readFileSync(cert), key: readFileSync(key) };
    const isServed = (options: ConnectionOptions) =>
      tlsCall(service, '/health/live', options).then(Boolean, () => false);
    expect(await isServed(theirs)).toBe(false);
    copyFileSync(next.ca, clientCa);
    await until(() => isServed(theirs), 'a caller of the new authority is served');
    expect(await isServed(tls.trusting)).toBe(false);
    writeFileSync(clientCa, before);
    await until(() => isServed(tls.trusting), 'a caller of the first authority is served again');
  });
});

describe.skipIf(!hasOpenssl)('the files are looked at before anything is opened', () => {
  let place: Place;
  let authority: Authority;
  beforeAll(async () => {
    place = await usualPlace();
    authority = new Authority(place.folder, 'authority');
  });
  afterAll(() => place.remove());

  const encrypted = (key: string) => {
    const file = `${key}.encrypted`;
    openssl('pkey', '-in', key, '-aes256', '-passout', 'pass:x', '-out', file);
    return file;
  };
  const cutOff = (cert: string) => {
    const file = `${cert}.cut`;
    writeFileSync(file, readFileSync(cert, 'utf8').slice(0, -100));
    return file;
  };
  const behind = (cert: string) => {
    const file = `${cert}.behind`;
    writeFileSync(file, readFileSync(authority.ca, 'utf8') + readFileSync(cert, 'utf8'));
    return file;
  };
  /** The settings of the key, the certificate and the authorities of callers. */
  const use = (TLS_KEY_FILE: string, TLS_CERT_FILE?: string, TLS_CLIENT_CA_FILE?: string) => ({
    TLS_KEY_FILE,
    ...(TLS_CERT_FILE && { TLS_CERT_FILE }),
    ...(TLS_CLIENT_CA_FILE && { TLS_CLIENT_CA_FILE }),
  });
  const another = () => authority.issue(NAMES).key;
  type Settings = (key: string, cert: string) => Record<string, string>;
  test.each<[string, Settings, RegExp]>([
    ['a key of another', (_, cert) => use(another(), cert), /KEY_FILE: \S+ does not belong to the/],
    ['an encrypted key', (key, cert) => use(encrypted(key), cert), /KEY_FILE: \S+ is encr.*l pkey/],
    ['a key as certificate', (key) => use(key, key), /CERT_FILE: \S+ has no certificate in PEM\./],
    ['a certificate as key', (_, cert) => use(cert, cert), /KEY_FILE: \S+ has no private key in/],
    ['a cut certificate', (key, cert) => use(key, cutOff(cert)), /CERT_FILE: \S+ .* or cut off\./],
    ['a wrong order', (key, cert) => use(key, behind(cert)), /put .* of the server first/],
    ['no such file', (key) => use(key, '/nowhere'), /CERT_FILE: \/nowhere cannot .* \(ENOENT\)\./],
    [
      'a key as authority',
      (key, cert) => use(key, cert, key),
      /CA_FILE: \S+ has no certificate in/,
    ],
    ['one of two files', (key) => use(key), /TLS_CERT_FILE and TLS_KEY_FILE go together/],
  ])('%s ends serve and doctor with 1, and the reason', async (_name, settings, message) => {
    const { key, cert } = authority.issue(NAMES);
    const env = settings(key, cert);
    for (const command of ['serve', 'doctor']) {
      const ports = command === 'serve' ? { PORT: '0', OPS_PORT: '0' } : {};
      const { code, stdout, stderr } = await runCli([command], place, { ...ports, ...env });
      expect([code, stdout + stderr]).toEqual([1, expect.stringMatching(message)]);
    }
  });

  test('one that ends in more than 14 days has no warning, and the last day is one', () => {
    const warnings = [15, 1].map((days) => {
      const { cert: certificateFile, key: keyFile } = authority.issue(NAMES, days);
      return new Certificate({ certificateFile, keyFile, clientCaFile: undefined }).warning();
    });
    expect(warnings).toEqual([undefined, 'TLS certificate expires in 1 day']);
    vi.useFakeTimers({ toFake: ['Date'] });
    onTestFinished(() => void vi.useRealTimers());
    const { cert: certificateFile, key: keyFile } = authority.issue(NAMES, 1);
    const made = new Certificate({ certificateFile, keyFile, clientCaFile: undefined });
    const ends = made.expiresAt.toISOString();
    vi.setSystemTime(made.expiresAt);
    expect(made.warning()).toBe(`TLS certificate expired ${ends}`);
    vi.setSystemTime(0);
    expect(made.warning()).toMatch(/^TLS certificate is not valid before \d{4}-.*Z$/);
  });

  test.each([
    [0, 'expired'],
    [14, 'expires in 14 days'],
  ])(
    'one that ends in %d days is used, with a warning in the log and of doctor',
    async (days, words) => {
      const { cert, key } = authority.issue(NAMES, days);
      const env = { TLS_CERT_FILE: cert, TLS_KEY_FILE: key };
      await until(
        async () => (await runCli(['doctor'], place, env)).stdout.includes(`certificate ${words}`),
        'the finding of doctor',
      );
      const service = await startService(place, env);
      await until(() => service.output().includes(`TLS certificate ${words}`), 'a warning');
      expect((await tlsCall(service, '/health', { rejectUnauthorized: false })).status).toBe(200);
      await service.stop();
    },
  );
});

test.skipIf(!hasOpenssl || !hasTerminal)(
  'the first call names a host that the certificate has',
  async () => {
    const { place, env } = await tlsPlace('DNS:tokens.example');
    onTestFinished(place.remove);
    expect(await firstCall(place, env)).toMatch(
      /--connect-to '::127\.0\.0\.1:\d+' 'https:\/\/tokens\.example:\d+\//,
    );
  },
);
