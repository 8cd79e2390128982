import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { KekTimeouts } from '../../packages/kek/src/source.ts';
import { kekTransit, type TransitSettings } from '../../packages/kek/src/transit.ts';
import * as files from '../../src/private-files.ts';
import type { Fault } from '../support/cloud.ts';
import { folderOfEachTest, KEK, problemOf } from '../support/kek.ts';
import { freePort } from '../support/processes.ts';
import { newPlace, runCli, startService } from '../support/service.ts';
import { TransitStandIn } from '../support/transit.ts';

const inFolder = folderOfEachTest();
let transit: TransitStandIn;
let file: string;
let tokenFile: string;
beforeEach(async () => {
  file = inFolder('kek.encrypted');
  tokenFile = inFolder('token');
  transit = await new TransitStandIn().listen();
  writeFileSync(file, `${transit.wrapped('standin', KEK).ciphertext}\n`);
  writeFileSync(tokenFile, `${transit.token}\n`, { mode: 0o600 });
});
afterEach(() => transit.stop());

function source(changes: Partial<TransitSettings> = {}, patience?: KekTimeouts) {
  const settings: TransitSettings = {
    url: transit.url,
    key: 'standin',
    mount: 'transit',
    namespace: undefined,
    caFile: undefined,
    tokenFile,
    token: undefined,
    ...changes,
  };
  return kekTransit(file, settings, files, patience);
}

const problemWith = (changes?: Partial<TransitSettings>, patience?: KekTimeouts) =>
  problemOf(source(changes, patience), [transit.token]);

test('the file is decrypted by the key: its path, its token, its ciphertext', async () => {
  expect(await source().read()).toEqual(KEK);
  expect(transit.asked).toEqual([
    expect.objectContaining({
      method: 'POST',
      path: '/v1/transit/decrypt/standin',
      headers: expect.objectContaining({
        'x-vault-token': transit.token,
        'x-vault-request': 'true',
      }),
      body: JSON.stringify({ ciphertext: readFileSync(file, 'utf8').trim() }),
    }),
  ]);
});

test('a slash after the URL, and a path before the interface, are kept apart', async () => {
  expect(await source({ url: `${transit.url}//` }).read()).toEqual(KEK);
  await problemWith({ url: `${transit.url}/vault/` });
  expect(transit.asked.at(-1)!.path).toBe('/vault/v1/transit/decrypt/standin');
});

test('the token may be given itself; the file goes before it, and is read each time', async () => {
  expect(await source({ tokenFile: undefined, token: transit.token }).read()).toEqual(KEK);
  const both = source({ token: 'an old one' });
  expect(await both.read()).toEqual(KEK);
  writeFileSync(tokenFile, 's.ended');
  await expect(both.read()).rejects.toThrow('(status 403)');
});

test('a namespace is named in its header', async () => {
  transit.namespace = 'team/payments';
  expect(await source({ namespace: 'team/payments' }).read()).toEqual(KEK);
  expect(await problemWith()).toMatch(/status 404.*KEK_TRANSIT_MOUNT and KEK_TRANSIT_NAMESPACE/);
  expect(await problemWith({ namespace: 'other' })).toContain('status 404');
});

test('the ciphertext of a KEK in hex digits, as a KEK file had it, is fine', async () => {
  writeFileSync(
    file,
    transit.wrapped('standin', Buffer.from(`${KEK.toString('hex')}\n`)).ciphertext,
  );
  expect(await source().read()).toEqual(KEK);
});

describe('what is refused is named with its status and what to do', () => {
  test('a token that may not', async () => {
    writeFileSync(tokenFile, 's.other');
    expect(await problemWith()).toMatch(
      /status 403.*may not update transit\/decrypt\/standin: renew the token in VAULT_TOKEN_FILE/,
    );
  });

  test('another key, or none', async () => {
    transit.wrapped('other');
    for (const key of ['other', 'none'])
      expect(await problemWith({ key })).toMatch(/status 400.*check KEK_TRANSIT_KEY and KEK_FILE/);
  });

  test('another mount', async () => {
    expect(await problemWith({ mount: 'keys/transit' })).toMatch(/status 404.*KEK_TRANSIT_MOUNT/);
  });

  test('sealed', async () => {
    transit.isSealed = true;
    expect(await problemWith()).toMatch(/status 503.*unseal it/);
    expect(transit.asked).toHaveLength(3);
  });

  test.each([
    [307, /The server redirects: set KEK_TRANSIT_URL to the active node/],
    [418, /Check KEK_TRANSIT_URL/],
  ])('status %i', async (status, remedy) => {
    transit.fail('', { status, body: { errors: ['secret words'] } });
    expect(await problemWith()).toMatch(remedy);
  });

  test.each([{}, null, { data: null }, { data: { plaintext: 1 } }, 'hunter2'])(
    '200 with %j',
    async (body) => {
      transit.fail('', { status: 200, body });
      expect(await problemWith()).toMatch(
        /answered 200 without a plaintext.*Check KEK_TRANSIT_URL\.$/,
      );
    },
  );

  test('a plaintext that is no KEK', async () => {
    writeFileSync(file, transit.wrapped('standin', Buffer.from('hunter2')).ciphertext);
    const problem = await problemWith();
    expect(problem).toMatch(/must be 32 bytes, or 64 hex digits; it has 7 bytes/);
  });
});

describe('the network', () => {
  test('two failures are tried again, and not seen', async () => {
    transit.fail('', 'hang up', { status: 502, body: {} });
    expect(await source().read()).toEqual(KEK);
    expect(transit.asked).toHaveLength(3);
  });

  test('an attempt that gets no answer is given up for another', async () => {
    transit.fail('', 'be silent');
    expect(await source({}, { attemptMs: 500, totalMs: 60_000 }).read()).toEqual(KEK);
  });

  test('three failures are an error that names the URL', async () => {
    transit.fail('', 'hang up', 'hang up', 'hang up', 'hang up');
    expect(await problemWith()).toBe(
      `Vault or OpenBao cannot be reached at ${transit.url} (ECONNRESET). Check KEK_TRANSIT_URL and the network, and start again.`,
    );
    expect(transit.faults).toHaveLength(1);
  });

  test('no answer is an error when the time is up', async () => {
    transit.fail('', ...(Array(5).fill('be silent') as Fault[]));
    expect(await problemWith({}, { attemptMs: 100, totalMs: 150 })).toContain(
      '(no answer in time)',
    );
  });

  test('nobody there', async () => {
    const url = `http://127.0.0.1:${await freePort()}`;
    expect(await problemWith({ url })).toContain(`${url} (ECONNREFUSED)`);
  });

  test('an answer without end is not read to the end', async () => {
    const failure = { status: 200, body: { data: { plaintext: 'A'.repeat(100_000) } } };
    transit.fail('', failure, failure, failure);
    expect(await problemWith()).toMatch(/cannot be reached.*\(failed\)/);
  });
});

describe('files that are not as they must be', () => {
  test('a KEK in clear is not sent anywhere', async () => {
    for (const content of [KEK, KEK.toString('hex')]) {
      writeFileSync(file, content);
      expect(await problemWith()).toMatch(
        /in clear, but KEK_TRANSIT_URL is set.*Nothing was sent\.$/,
      );
    }
    expect(transit.asked).toEqual([]);
  });

  test.each(['', 'vault:v1:', 'hunter2', 'vault:v1:a b', 'vault:v1:AAAA\nvault:v1:AAAA'])(
    'no ciphertext: %j',
    async (content) => {
      writeFileSync(file, content);
      expect(await problemWith()).toMatch(/begins with vault:v1: .*datakey\/wrapped/);
      expect(transit.asked).toEqual([]);
    },
  );

  test.each(['', '\n', 'a\nb', 'a b', 'é'])('no token: %j', async (content) => {
    writeFileSync(tokenFile, content);
    expect(await problemWith()).toMatch(/^VAULT_TOKEN_FILE \(.*\) must contain one token/);
    expect(transit.asked).toEqual([]);
  });

  test('missing ones are named by their settings', async () => {
    expect(await problemWith({ tokenFile: inFolder('no') })).toMatch(
      /^VAULT_TOKEN_FILE \(.*\/no\) cannot be read \(ENOENT\)/,
    );
    expect(await problemWith({ caFile: inFolder('no') })).toMatch(/^KEK_TRANSIT_CA_FILE .*ENOENT/);
    rmSync(file);
    expect(await problemWith()).toMatch(/ENOENT.*Set KEK_FILE/);
  });

  test('a token that others can read is refused', async () => {
    chmodSync(tokenFile, 0o644);
    expect(await problemWith()).toMatch(/^VAULT_TOKEN_FILE .* is open to others: .* chmod 600 /);
  });
});

const hasOpenssl = spawnSync('openssl', ['version']).status === 0;

describe.skipIf(!hasOpenssl)('TLS', () => {
  let tls: TransitStandIn;
  let caFile: string;
  beforeEach(async () => {
    caFile = inFolder('ca.pem');
    const keyFile = inFolder('key.pem');
    const name = ['-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1'];
    const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
    const out = ['-keyout', keyFile, '-out', caFile, '-days', '2'];
    execFileSync('openssl', ['req', '-x509', ...key, ...name, ...out], { stdio: 'ignore' });
    const pem = { key: readFileSync(keyFile), cert: readFileSync(caFile) };
    tls = await new TransitStandIn(pem).listen();
    writeFileSync(file, tls.wrapped('standin', KEK).ciphertext);
  });
  afterEach(() => tls.stop());

  test('with its authority in KEK_TRANSIT_CA_FILE it is trusted', async () => {
    expect(await source({ url: tls.url, caFile }).read()).toEqual(KEK);
  });

  test('without it is not, and is told nothing', async () => {
    expect(await problemWith({ url: tls.url })).toMatch(
      /\([A-Z_]*SIGNED[A-Z_]*\)\. Its certificate is not trusted: name its authority in KEK_TRANSIT_CA_FILE/,
    );
    expect(tls.asked).toEqual([]);
  });

  test('with another name in its certificate is not', async () => {
    const url = tls.url.replace('127.0.0.1', 'localhost');
    expect(await problemWith({ url, caFile })).toMatch(/\(ERR_TLS_CERT_ALTNAME_INVALID\)/);
    expect(tls.asked).toEqual([]);
  });

  test.each(['', 'hunter2'])('no certificate in KEK_TRANSIT_CA_FILE: %j', async (content) => {
    writeFileSync(caFile, content);
    expect(await problemWith({ url: tls.url, caFile })).toMatch(
      /^KEK_TRANSIT_CA_FILE \(.*\) contains no certificate in PEM/,
    );
    expect(tls.asked).toEqual([]);
  });
});

test('the program makes a vault with it, asks once a start, and goes on when it is gone', async () => {
  const place = await newPlace('embedded');
  const env = {
    KEK_FILE: file,
    KEK_TRANSIT_URL: transit.url,
    KEK_TRANSIT_KEY: 'standin',
    VAULT_TOKEN_FILE: tokenFile,
  };
  const service = await startService(place, env);
  expect(transit.asked).toHaveLength(1);
  transit.isSealed = true;
  const { pid } = service;
  expect((await runCli(['doctor'], place, env)).stdout).toMatch(
    /^PROBLEM +key-encryption key: Transit key standin of http.* \(status 503\)/m,
  );
  transit.isSealed = false;
  expect((await runCli(['doctor'], place, env)).stdout).toContain(
    `${file}, decrypted by transit key standin of ${transit.url} (`,
  );
  expect(service.pid).toBe(pid);
  await service.stop();
  expect(service.output()).not.toContain(transit.token);
  place.remove();
});
