import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { expectErrorForm } from '../support/http.ts';
import {
  type Place,
  runCli,
  type Service,
  startService,
  until,
  usualPlace,
} from '../support/service.ts';
import { hasTerminal, serveOnTerminal } from '../support/terminal.ts';
import {
  Authority,
  hasOpenssl,
  type Issued,
  type Listening,
  NAMES,
  openssl,
  startMutualTls,
  startTls,
  tlsCall,
  tlsConnect,
  tlsExchange,
  tlsPlace,
} from '../support/tls.ts';

const T = '/api/v1/tokenize';
const SECLEVEL_0 = 'DEFAULT:@SECLEVEL=0';

async function metric(service: Service, name: string): Promise<number> {
  const text = await (await fetch(`${service.opsUrl}/metrics`)).text();
  const line = text.split('\n').find((one) => one.startsWith(`${name} `));
  return Number(line?.slice(name.length + 1) ?? 0);
}

const freeOpsPort = async () => ({
  OPS_PORT: String(await import('../support/processes.ts').then(({ freePort }) => freePort())),
});

describe.skipIf(!hasOpenssl)('with a certificate', () => {
  let tls: Listening;
  beforeAll(async () => {
    const ops = await freeOpsPort();
    tls = await startTls(NAMES, () => ops);
  });
  afterAll(async () => {
    expect((await tlsCall(tls.service, T, tls.trusting, { a: 'b' })).status).toBe(200);
    await tls.service.stop();
    tls.service.place.remove();
  });

  test('requests work as in clear, and the URL says https', async () => {
    const { service, trusting } = tls;
    expect(service.url).toMatch(/^https:/);
    const { body } = await tlsCall(service, T, trusting, { name: 'Ann Lee' });
    const back = await tlsCall(service, '/api/v1/detokenize', trusting, body.data);
    expect(back.body.data).toEqual({ name: 'Ann Lee' });
    expect((await tlsCall(service, '/health', trusting)).body.status).toBe('ok');
    expect((await tlsCall(service, '/health/live', trusting)).status).toBe(200);
  });

  test.runIf(hasTerminal)('the call that a first start prints works as it is', async () => {
    const place = await usualPlace();
    const { cert, key } = tls.files;
    const first = await serveOnTerminal(place, {
      TLS_CERT_FILE: cert,
      TLS_KEY_FILE: key,
    });
    const command = first
      .output()
      .split('\n')
      .find((line) => line.startsWith('  curl '))!;
    expect(command).toContain('--cacert');
    const isInstalled = spawnSync('curl', ['--version']).status === 0;
    if (isInstalled) {
      const { data } = JSON.parse(execFileSync('sh', ['-c', command], { encoding: 'utf8' }));
      expect(data.email).toMatch(/@/);
    }
    await first.stop();
    place.remove();
  });

  test.each(['TLSv1.2', 'TLSv1.3'] as const)('%s is spoken', async (version) => {
    const options = { ...tls.trusting, minVersion: version, maxVersion: version };
    expect((await tlsCall(tls.service, '/health', options)).status).toBe(200);
  });

  test.each(['TLSv1', 'TLSv1.1'] as const)('C26: %s is refused', async (version) => {
    const failures = 'standin_tls_handshake_failures_total{reason="version"}';
    const before = await metric(tls.service, failures);
    // Ciphers of their time: the versions must be all that there is to refuse.
    const old = { minVersion: version, maxVersion: version, ciphers: SECLEVEL_0 } as const;
    await expect(tlsCall(tls.service, '/health', { ...tls.trusting, ...old })).rejects.toThrow(
      /alert protocol version/,
    );
    expect(await metric(tls.service, failures)).toBe(before + 1);
  });

  test('a client that speaks HTTP/2 alone is told so in the handshake', async () => {
    const socket = tlsConnect(tls.service, { ...tls.trusting, ALPNProtocols: ['h2'] });
    const error = await new Promise<Error>((resolve) => socket.once('error', resolve));
    expect(error.message).toMatch(/alert no application protocol/);
  });

  test('HTTP in clear is closed without an answer, and counted', async () => {
    const failures = 'standin_tls_handshake_failures_total{reason="plain_http"}';
    const before = await metric(tls.service, failures);
    const { hostname, port } = new URL(tls.service.url);
    const received = await new Promise<string>((resolve) => {
      const socket = connect(Number(port), hostname, () =>
        socket.write('GET /health HTTP/1.1\r\nHost: a\r\n\r\n'),
      );
      let bytes = '';
      socket.on('data', (chunk) => {
        bytes += chunk.toString('latin1');
      });
      socket.on('error', () => resolve(bytes));
      socket.on('close', () => resolve(bytes));
    });
    expect(received).not.toContain('HTTP/');
    expect(await metric(tls.service, failures)).toBe(before + 1);
  });

  test('what the HTTP parser refuses is answered in JSON', async () => {
    const [answer, ...more] = await tlsExchange(tls.service, tls.trusting, 'NONSENSE\r\n\r\n');
    expect(more).toEqual([]);
    expect(answer!.status).toBe(400);
    expectErrorForm(answer!);
  });

  test('a handshake that does not go on is cut', async () => {
    const failures = 'standin_tls_handshake_failures_total{reason="timeout"}';
    const { hostname, port } = new URL(tls.service.url);
    const socket = connect(Number(port), hostname);
    await new Promise((resolve) => socket.once('close', resolve).resume());
    expect(await metric(tls.service, failures)).toBe(1);
  });

  test('the metric tells when the certificate expires', async () => {
    const days = (await metric(tls.service, 'standin_tls_certificate_expires_seconds')) / 86_400;
    expect(days - Date.now() / 86_400_000).toBeCloseTo(100, 0);
  });
});

describe.skipIf(!hasOpenssl)('client certificates', () => {
  let tls: Listening;
  let other: Authority;
  beforeAll(async () => {
    tls = await startMutualTls();
    other = new Authority(tls.service.place.folder, 'other');
  });
  afterAll(async () => {
    await tls.service.stop();
    tls.service.place.remove();
  });

  test('a caller with one is served', async () => {
    expect((await tlsCall(tls.service, T, tls.trusting, { a: 'b' })).status).toBe(200);
  });
  test.each(['TLSv1.2', 'TLSv1.3'] as const)(
    'without one, or with one of another authority, nothing is, /health neither (%s)',
    async (maxVersion) => {
      const { ca } = tls.trusting;
      await expect(tlsCall(tls.service, '/health', { ca, maxVersion })).rejects.toThrow();
      const { cert, key } = other.issue('DNS:caller');
      const wrong = { ca, cert: readFileSync(cert), key: readFileSync(key), maxVersion };
      await expect(tlsCall(tls.service, '/health', wrong)).rejects.toThrow();
    },
  );
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
  test.each([
    [
      'a key of another',
      (one: Issued) => ({ TLS_KEY_FILE: authority.issue(NAMES).key, TLS_CERT_FILE: one.cert }),
      /TLS_KEY_FILE: \S+ does not belong to the certificate\./,
    ],
    [
      'an encrypted key',
      (one: Issued) => ({ TLS_KEY_FILE: encrypted(one.key), TLS_CERT_FILE: one.cert }),
      /TLS_KEY_FILE: \S+ is encrypted; .*openssl pkey/,
    ],
    [
      'a key for a certificate',
      (one: Issued) => ({ TLS_KEY_FILE: one.key, TLS_CERT_FILE: one.key }),
      /TLS_CERT_FILE: \S+ has no certificate in PEM\./,
    ],
    [
      'a certificate for a key',
      (one: Issued) => ({ TLS_KEY_FILE: one.cert, TLS_CERT_FILE: one.cert }),
      /TLS_KEY_FILE: \S+ has no private key in PEM\./,
    ],
    [
      'a certificate that is cut off',
      (one: Issued) => ({ TLS_KEY_FILE: one.key, TLS_CERT_FILE: cutOff(one.cert) }),
      /TLS_CERT_FILE: \S+ has a certificate that is damaged or cut off\./,
    ],
    [
      'a chain in the wrong order',
      (one: Issued) => ({ TLS_KEY_FILE: one.key, TLS_CERT_FILE: behind(one.cert) }),
      /put the certificate of the server first/,
    ],
    [
      'no such file',
      (one: Issued) => ({ TLS_KEY_FILE: one.key, TLS_CERT_FILE: '/nowhere' }),
      /TLS_CERT_FILE: \/nowhere cannot be read \(ENOENT\)\./,
    ],
    [
      'authorities that are none',
      (one: Issued) => ({
        TLS_KEY_FILE: one.key,
        TLS_CERT_FILE: one.cert,
        TLS_CLIENT_CA_FILE: one.key,
      }),
      /TLS_CLIENT_CA_FILE: \S+ has no certificate in PEM\./,
    ],
    [
      'one of two',
      (one: Issued) => ({ TLS_KEY_FILE: one.key }),
      /TLS_CERT_FILE and TLS_KEY_FILE go together/,
    ],
  ])('%s', async (_name, settings, message) => {
    const env = settings(authority.issue(NAMES));
    const { code, stderr } = await runCli(['serve'], place, { PORT: '0', OPS_PORT: '0', ...env });
    expect(stderr).toMatch(message);
    expect(code).toBe(1);
    const doctor = await runCli(['doctor'], place, env);
    expect(doctor.stdout + doctor.stderr).toMatch(message);
    expect(doctor.code).toBe(1);
  });

  test('one that has expired is used, with a warning in the log and of doctor', async () => {
    const { cert, key } = authority.issue(NAMES, 0);
    const env = { TLS_CERT_FILE: cert, TLS_KEY_FILE: key };
    await until(
      async () => (await runCli(['doctor'], place, env)).stdout.includes('certificate expired'),
      'the finding of doctor',
    );
    const service = await startService(place, env);
    await until(() => service.output().includes('TLS certificate expired'), 'a warning');
    expect((await tlsCall(service, '/health', { rejectUnauthorized: false })).status).toBe(200);
    await service.stop();
  });
  test('one that expires within 14 days is warned of', async () => {
    const { cert, key } = authority.issue(NAMES, 14);
    const service = await startService(place, { TLS_CERT_FILE: cert, TLS_KEY_FILE: key });
    await until(() => service.output().includes('certificate expires in 14 days'), 'a warning');
    await service.stop();
  });
});

const canShow = hasOpenssl && hasTerminal;
test.skipIf(!canShow)('the first call names a host that the certificate has', async () => {
  const { place, env } = await tlsPlace('DNS:tokens.example');
  onTestFinished(place.remove);
  const service = await serveOnTerminal(place, env);
  onTestFinished(service.stop);
  const lines = service.output().split('\n');
  const command = lines.find((line) => line.startsWith('  curl '))!;
  expect(command).toMatch(/--connect-to '::127\.0\.0\.1:\d+' 'https:\/\/tokens\.example:\d+\//);
  if (spawnSync('curl', ['--version']).status !== 0) return;
  const { data } = JSON.parse(execFileSync('sh', ['-c', command], { encoding: 'utf8' }));
  expect(data.email).toMatch(/@/);
});
