import { chmodSync, writeFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { crc32c, type GcpKmsSettings, kekGcpKms } from '../../packages/kek/src/gcp-kms.ts';
import type { KekTimeouts } from '../../packages/kek/src/source.ts';
import * as files from '../../src/private-files.ts';
import type { Fault } from '../support/cloud.ts';
import { GcpStandIn, googleError, KEY } from '../support/gcp.ts';
import { folderOfEachTest, KEK, problemOf } from '../support/kek.ts';
import { freePort } from '../support/processes.ts';
import { newPlace, runCli, startService } from '../support/service.ts';

const inFolder = folderOfEachTest();
let gcp: GcpStandIn;
let file: string;
let credentialsFile: string;
beforeEach(async () => {
  file = inFolder('kek.encrypted');
  credentialsFile = inFolder('account.json');
  gcp = await new GcpStandIn().listen();
  writeFileSync(file, `${gcp.encrypt(KEK).toString('base64')}\n`);
  writeFileSync(credentialsFile, JSON.stringify(gcp.account), { mode: 0o600 });
});
afterEach(() => gcp.stop());

function source(changes: Partial<GcpKmsSettings> = {}, patience?: KekTimeouts) {
  const settings: GcpKmsSettings = {
    key: KEY,
    endpoint: gcp.url,
    credentialsFile,
    metadataHost: gcp.host,
    ...changes,
  };
  return kekGcpKms(file, settings, files, patience);
}

const problemWith = (changes?: Partial<GcpKmsSettings>, patience?: KekTimeouts) =>
  problemOf(source(changes, patience), [gcp.accessToken, 'PRIVATE KEY']);

/** RFC 3720, appendix B.4, and the check value of the CRC catalogue. */
test.each([
  [Buffer.alloc(32), 0x8a9136aa],
  [Buffer.alloc(32, 0xff), 0x62a8ab43],
  [Buffer.from(Array.from({ length: 32 }, (_, i) => i)), 0x46dd794e],
  [Buffer.from('123456789'), 0xe3069283],
])('CRC32C of %o', (bytes, sum) => {
  expect(crc32c(bytes)).toBe(sum);
});

describe('the KEK is decrypted', () => {
  test('with the key of a service account: an assertion for a token, then Decrypt', async () => {
    expect(await source().read()).toEqual(KEK);
    expect(gcp.asked.map(({ method, path }) => `${method} ${path}`)).toEqual([
      'POST /token',
      `POST /v1/${KEY}:decrypt`,
    ]);
  });

  test('with the identity of the machine, from its metadata server', async () => {
    expect(await source({ credentialsFile: undefined }).read()).toEqual(KEK);
    expect(gcp.asked[0]).toMatchObject({
      method: 'GET',
      path: '/computeMetadata/v1/instance/service-accounts/default/token',
      headers: { 'metadata-flavor': 'Google' },
    });
  });

  test.each([
    ['raw', (blob: Buffer) => blob],
    ['in base64 in lines', (blob: Buffer) => blob.toString('base64').replaceAll(/.{20}/g, '$&\n')],
  ])('from a file that is %s, with a KEK in hex digits', async (_, form) => {
    writeFileSync(file, form(gcp.encrypt(Buffer.from(`${KEK.toString('hex')}\n`))));
    expect(await source({ endpoint: `${gcp.url}/` }).read()).toEqual(KEK);
  });

  test('after failures of the network, of the servers and a spent quota', async () => {
    gcp.fail('/token', 'hang up', googleError(503, 'UNAVAILABLE'));
    gcp.fail(':decrypt', googleError(429, 'RESOURCE_EXHAUSTED'), 'cut short');
    expect(await source({}, { attemptMs: 4_000, totalMs: 60_000 }).read()).toEqual(KEK);
    expect(gcp.asked).toHaveLength(6);
  });
});

describe('what Cloud KMS refuses is named with its status and what to do', () => {
  test('another key has encrypted the file', async () => {
    const key = KEY.replace('/kek', '/other');
    gcp.encrypt(KEK, key);
    expect(await problemWith({ key })).toMatch(/status 400.*check KEK_GCP_KMS_KEY and KEK_FILE/);
  });

  test('a key that is not there', async () => {
    expect(await problemWith({ key: KEY.replace('/kek', '/none') })).toMatch(
      /status 404.*check KEK_GCP_KMS_KEY/,
    );
  });

  test.each<[number, string, RegExp]>([
    [400, 'FAILED_PRECONDITION', /version of the key is disabled or destroyed/],
    [401, 'UNAUTHENTICATED', /check GOOGLE_APPLICATION_CREDENTIALS, and the clock/],
    [403, 'PERMISSION_DENIED', /roles\/cloudkms\.cryptoKeyDecrypter on KEK_GCP_KMS_KEY/],
    [418, 'WHATEVER', /Check KEK_GCP_KMS_ENDPOINT/],
  ])('%i %s', async (status, code, remedy) => {
    gcp.fail(':decrypt', googleError(status, code));
    const problem = await problemWith();
    expect(problem).toMatch(remedy);
    expect(problem).toContain(`(status ${status})`);
    expect(gcp.asked).toHaveLength(2);
  });

  test.each<[number, RegExp]>([
    [429, /The quota of Cloud KMS is spent/],
    [500, /Check KEK_GCP_KMS_ENDPOINT/],
  ])('%i, three times', async (status, remedy) => {
    gcp.fail(':decrypt', ...Array(4).fill(googleError(status, 'X')));
    expect(await problemWith({}, { attemptMs: 4_000, totalMs: 60_000 })).toMatch(remedy);
    expect(gcp.faults).toHaveLength(1);
  });
});

describe('an answer that is not as it must be', () => {
  test.each<[string, unknown]>([
    ['no plaintext', { plaintextCrc32c: '0' }],
    ['an empty one', { plaintext: '' }],
    ['null', null],
    ['no JSON', '<html>secret words</html>'],
    ['half of it', '{"plaintext": "c2VjcmV0'],
  ])('%s', async (_, body) => {
    gcp.fail(':decrypt', { status: 200, body });
    expect(await problemWith()).toMatch(
      /answered 200 without plaintext: check KEK_GCP_KMS_ENDPOINT/,
    );
  });

  test.each([
    ['a wrong checksum', { plaintextCrc32c: '1' }],
    ['no checksum', {}],
    ['the checksum of something else', { plaintextCrc32c: String(crc32c(Buffer.from('x'))) }],
  ])('%s', async (_, sum) => {
    const body = { plaintext: KEK.toString('base64'), ...sum };
    gcp.fail(':decrypt', { status: 200, body });
    expect(await problemWith()).toMatch(/does not have the checksum that it names/);
  });

  test('a plaintext that is no KEK', async () => {
    writeFileSync(file, gcp.encrypt(Buffer.from('hunter2')).toString('base64'));
    const problem = await problemWith();
    expect(problem).toMatch(/must be 32 bytes, or 64 hex digits; it has 7 bytes/);
  });

  test('one without end is not read to the end', async () => {
    gcp.fail(':decrypt', ...Array(3).fill({ status: 200, body: 'A'.repeat(100_000) }));
    expect(await problemWith()).toMatch(/Google Cloud KMS cannot be reached at .* \(failed\)/);
  });
});

describe('the credentials', () => {
  test('a key of a service account that was deleted', async () => {
    const other = await new GcpStandIn().listen();
    const account = { ...other.account, token_uri: gcp.account.token_uri };
    writeFileSync(credentialsFile, JSON.stringify(account));
    expect(await problemWith()).toMatch(
      /token server of Google Cloud .*status 400.*make another key for GOOGLE_APPLICATION_CREDENTIALS/,
    );
    other.stop();
  });

  test.each<[string, unknown]>([
    ['of a user', { type: 'authorized_user', client_id: 'x', refresh_token: 'secret words' }],
    ['of a federation', { type: 'external_account', audience: 'x' }],
    ['that send the assertion in clear', { token_uri: 'http://oauth2.example/token' }],
    ['without a key', { private_key: undefined }],
    ['that are no JSON', 'hunter2'],
  ])('%s', async (_, change) => {
    const content = typeof change === 'string' ? change : { ...gcp.account, ...(change as object) };
    writeFileSync(credentialsFile, JSON.stringify(content));
    const problem = await problemWith();
    expect(problem).toMatch(
      /^GOOGLE_APPLICATION_CREDENTIALS .* is not the key of a service account/,
    );
    expect(gcp.asked).toEqual([]);
  });

  test('with a key that is none', async () => {
    writeFileSync(credentialsFile, JSON.stringify({ ...gcp.account, private_key: 'hunter2' }));
    expect(await problemWith()).toMatch(/has a private_key that is not an RSA key in PEM/);
  });

  test('in a file that is missing or open to others', async () => {
    expect(await problemWith({ credentialsFile: inFolder('no') })).toMatch(
      /^GOOGLE_APPLICATION_CREDENTIALS \(.*\/no\) cannot be read \(ENOENT\)/,
    );
    chmodSync(credentialsFile, 0o644);
    expect(await problemWith()).toMatch(/^GOOGLE_APPLICATION_CREDENTIALS .* is open to others/);
  });

  test.each<[string, Fault, RegExp]>([
    ['no service account', { status: 404, body: '' }, /status 404.*no service account: attach one/],
    ['no token', { status: 200, body: {} }, /answered 200 without access_token: check GOOGLE_/],
    [
      'another server',
      { status: 200, body: { access_token: 'x' } },
      /is no metadata server of Google Cloud: set GOOGLE_APPLICATION_CREDENTIALS/,
    ],
  ])('of a machine with %s', async (_, fault, problem) => {
    gcp.fail('/computeMetadata', fault);
    expect(await problemWith({ credentialsFile: undefined })).toMatch(problem);
  });

  test('of a machine that is not in Google Cloud', async () => {
    const metadataHost = `127.0.0.1:${await freePort()}`;
    expect(await problemWith({ credentialsFile: undefined, metadataHost })).toMatch(
      /metadata server of Google Cloud cannot be reached at .*\(ECONNREFUSED\)\. Check GOOGLE_/,
    );
  });
});

test('no answer is an error when the time of all requests is up', async () => {
  gcp.fail(':decrypt', ...(Array(5).fill('be silent') as Fault[]));
  expect(await problemWith({}, { attemptMs: 300, totalMs: 500 })).toContain('(no answer in time)');
});

test('a KEK in clear is not sent anywhere', async () => {
  writeFileSync(file, KEK.toString('hex'));
  expect(await problemWith()).toMatch(/in clear, but KEK_GCP_KMS_KEY is set.*Nothing was sent\.$/);
  expect(gcp.asked).toEqual([]);
});

test('the program makes a vault with it, and doctor says what is wrong', async () => {
  const place = await newPlace('embedded');
  const env = {
    KEK_FILE: file,
    KEK_GCP_KMS_KEY: KEY,
    KEK_GCP_KMS_ENDPOINT: gcp.url,
    GCE_METADATA_HOST: gcp.host,
  };
  await (await startService(place, env)).stop();
  const fine = await runCli(['doctor'], place, env);
  expect(fine.stdout).toContain(`${file}, decrypted by Google Cloud KMS key ${KEY} (`);
  gcp.fail(':decrypt', googleError(403, 'PERMISSION_DENIED'));
  expect((await runCli(['doctor'], place, env)).stdout).toMatch(
    /^PROBLEM +key-encryption key: Google Cloud KMS .* \(status 403\)/m,
  );
  place.remove();
});
