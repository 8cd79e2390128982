import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Fault } from '../support/cloud.ts';
import { AwsStandIn, AzureStandIn, GoogleStandIn } from '../support/clouds.ts';
import { type Changes, KEK, KekFixture, PATIENT, problemOf } from '../support/kek.ts';
import { ownPlace } from '../support/own.ts';
import { freePort } from '../support/processes.ts';
import { runCli, startService } from '../support/service.ts';
import { hasOpenssl } from '../support/tls.ts';
import { TransitStandIn } from '../support/transit.ts';

const HEX = KEK.toString('hex');
const fixture = new KekFixture();

const NO_VERSION = '0'.repeat(32);

const SOURCES = [
  {
    name: 'AWS KMS',
    StandIn: AwsStandIn,
    elsewhere: (url: string): Changes => ({ KEK_AWS_KMS_ENDPOINT: url }),
    failure: [500, 'KMSInternalException'],
    refusals: [
      [400, 'AccessDeniedException', /Allow kms:Decrypt on .* with the encryption context/],
      [400, 'NotFoundException', /check KEK_AWS_KMS_KEY_ID and AWS_REGION/],
      [400, 'IncorrectKeyException', /KEK_FILE was encrypted with another key/],
      [400, 'DisabledException', /Enable KEK_AWS_KMS_KEY_ID/],
      [400, 'KMSInvalidStateException', /cancel its deletion/],
      [400, 'ExpiredTokenException', /AWS_SESSION_TOKEN/],
      [400, 'InvalidSignatureException', /AWS_SECRET_ACCESS_KEY/],
      [400, 'InvalidKeyUsageException', /symmetric/],
      [400, 'SomethingNewException', /\(SomethingNewException 400\)\. Check the network, KEK_AWS/],
      [500, 'KMSInternalException', /KMSInternalException 500/],
    ],
    otherKey: /\(InvalidCiphertextException 400\).*was changed.*--encryption-context/,
    withoutKey: [],
  },
  {
    name: 'Google Cloud KMS',
    StandIn: GoogleStandIn,
    elsewhere: (url: string): Changes => ({ KEK_GCP_KMS_ENDPOINT: url }),
    failure: [429],
    refusals: [
      [400, 'FAILED_PRECONDITION', /version of the key is disabled or destroyed/],
      [401, 'UNAUTHENTICATED', /check GOOGLE_APPLICATION_CREDENTIALS, and the clock/],
      [403, 'PERMISSION_DENIED', /roles\/cloudkms\.cryptoKeyDecrypter on KEK_GCP_KMS_KEY/],
      [404, 'NOT_FOUND', /check KEK_GCP_KMS_KEY/],
      [418, 'WHATEVER', /Check KEK_GCP_KMS_ENDPOINT/],
      [429, 'RESOURCE_EXHAUSTED', /The quota of Cloud KMS is spent/],
      [500, 'X', /Check KEK_GCP_KMS_ENDPOINT/],
    ],
    otherKey: /status 400.*check KEK_GCP_KMS_KEY and KEK_FILE/,
    withoutKey: [{ plaintextCrc32c: '0' }, null, '<html>secret words</html>', '{"plaintext": "c2'],
  },
  {
    name: 'Azure Key Vault',
    StandIn: AzureStandIn,
    elsewhere: (url: string): Changes => ({ KEK_AZURE_KEY_ID: `${url}/keys/kek/${NO_VERSION}` }),
    failure: [503],
    refusals: [
      [401, 'Unauthorized', /check AZURE_TENANT_ID, which must be the tenant of the vault/],
      [403, 'Forbidden', /give it the role Key Vault Crypto Service Encryption User/],
      [404, 'KeyNotFound', /no such key or version/],
      [302, 'Found', /Check KEK_AZURE_KEY_ID/],
      [429, 'X', /The vault gets too many requests/],
      [500, 'X', /Check KEK_AZURE_KEY_ID/],
    ],
    otherKey: /status 400.*check KEK_AZURE_KEY_ID, KEK_AZURE_ALGORITHM/,
    withoutKey: [{ kid: 'x' }, { value: 7 }, '<html>secret words</html>', '{"value": "c2VjcmV0'],
  },
  {
    name: 'Vault or OpenBao',
    StandIn: TransitStandIn,
    elsewhere: (url: string): Changes => ({ KEK_TRANSIT_URL: url }),
    failure: [502],
    refusals: [
      [302, '', /The server redirects: set KEK_TRANSIT_URL to the active node/],
      [403, '', /may not update transit\/decrypt\/standin: renew the token in VAULT_TOKEN_FILE/],
      [404, '', /check KEK_TRANSIT_MOUNT and KEK_TRANSIT_NAMESPACE/],
      [418, '', /Check KEK_TRANSIT_URL/],
      [503, '', /sealed, or a standby: unseal it/],
    ],
    otherKey: /status 400.*check KEK_TRANSIT_KEY and KEK_FILE/,
    withoutKey: [{}, null, { data: null }, { data: { plaintext: 1 } }, 'hunter2'],
  },
] as const;

describe.skipIf(!hasOpenssl).each(SOURCES)('$name', (source) => {
  const { name, StandIn, elsewhere, failure, refusals, otherKey, withoutKey } = source;
  let service: InstanceType<typeof StandIn>;
  const problemWith = (changes: Changes = {}, timeouts = PATIENT) =>
    problemOf(fixture.sourceOf({ ...service.environmentHere, ...changes }, timeouts));
  beforeEach(async () => {
    service = await new StandIn(fixture.pem).open();
    writeFileSync(fixture.file, service.encrypt(KEK));
  });
  afterEach(() => service.stop());

  test('decrypts KEK_FILE: raw or in base64, a KEK of 32 bytes or in hex digits', async () => {
    const inHex = service.encrypt(Buffer.from(`${HEX}\n`));
    const base64 = inHex.toString('base64');
    const lines = [base64.replaceAll(/.{64}/g, '$&\r\n'), `${base64}\n`];
    const others = StandIn === TransitStandIn ? [] : lines;
    for (const content of [service.encrypt(KEK), inHex, ...others]) {
      writeFileSync(fixture.file, content);
      expect(await fixture.sourceOf(service.environmentHere).read()).toEqual(KEK);
    }
    expect(await fixture.sourceOf(service.environment, PATIENT, true).read()).toEqual(KEK);
  });

  test('two failures of the network and the service are tried again, and not seen', async () => {
    const [status, code] = failure;
    service.fail(service.path, 'hang up', service.error(status, code!));
    expect(await fixture.sourceOf(service.environmentHere).read()).toEqual(KEK);
    expect(service.faults).toEqual([]);
  });

  test('three failures of the network are an error that names the setting', async () => {
    service.fail(service.path, 'hang up', 'cut short', 'hang up', 'hang up');
    expect(await problemWith()).toMatch(/^.*ECONNRESET\)\. Check .*KEK_/);
    expect(service.faults).toHaveLength(1);
    const nowhere = elsewhere(`http://127.0.0.1:${await freePort()}`);
    expect(await problemWith(nowhere)).toMatch(/ECONNREFUSED\)\. Check .*KEK_/);
  });

  test('no response is an error when the time is up', async () => {
    const timeouts = { attemptMs: 300, totalMs: 1_000 };
    service.fail(service.path, ...(Array(20).fill('be silent') as Fault[]));
    const late = /\((TimeoutError|AbortError|no response in time)/;
    // By the time of each attempt, and by that of all.
    expect(await problemWith({}, { ...PATIENT, attemptMs: 600 })).toMatch(late);
    // Three attempts, of which a busy machine may not send each.
    expect([17, 18]).toContain(service.faults.length);
    expect(await problemWith({}, { ...PATIENT, totalMs: 300 })).toMatch(late);
    const inThread = problemOf(fixture.sourceOf(service.environment, timeouts, true));
    expect(await inThread).toMatch(/did not respond within 1 s|TimeoutError|in time/);
  });

  test.each<readonly [number, string, RegExp]>(refusals)(
    'a refusal says what to do: %i %s',
    async (status, code, remedy) => {
      service.fail(service.path, ...(Array(3).fill(service.error(status, code)) as Fault[]));
      const problem = await problemWith();
      expect(problem).toMatch(remedy);
      expect(problem).toContain(StandIn === AwsStandIn ? `(${code}` : `(status ${status})`);
    },
  );

  test('the ciphertext of another key is an error that names the settings', async () => {
    writeFileSync(fixture.file, new StandIn(fixture.pem).encrypt(KEK));
    expect(await problemWith()).toMatch(otherKey);
  });

  test('a KEK in clear is sent nowhere', async () => {
    for (const content of [KEK, HEX, `${HEX}\n`]) {
      writeFileSync(fixture.file, content);
      expect(await problemWith()).toMatch(/in clear, but KEK_\w+ is set.*Nothing was sent\.$/);
    }
    expect(service.asked).toEqual([]);
  });

  test('what is no KEK, or no file, is an error', async () => {
    writeFileSync(fixture.file, service.encrypt(Buffer.from('hunter2')));
    expect(await problemWith()).toMatch(/must be 32 bytes, or 64 hex digits; it has 7 bytes/);
    rmSync(fixture.file);
    expect(await problemWith()).toMatch(/cannot be read from .* \(ENOENT\)\. Set KEK_FILE/);
  });

  test.runIf(withoutKey.length > 0)(
    'a 200 without a key, or without end, is an error',
    async () => {
      for (const body of withoutKey) {
        service.fail(service.path, { status: 200, body });
        expect(await problemWith()).toMatch(/responded without a key\. Check KEK_/);
      }
      service.fail(service.path, ...Array(3).fill({ status: 200, body: 'A'.repeat(100_000) }));
      expect(await problemWith()).toMatch(/cannot be reached at .* \(failed\)/);
    },
  );

  test('the program asks once a start, and doctor names the source and its problem', async () => {
    const place = await ownPlace('embedded');
    const settings = { KEK_FILE: fixture.file, ...service.environment };
    const env = { NODE_EXTRA_CA_CERTS: fixture.ca };
    // In `.env`, also the settings that only the library of a cloud reads.
    const lines = Object.entries(settings).map(([name, text]) => `${name}=${text}\n`);
    writeFileSync(join(place.folder, '.env'), lines.join(''));
    const started = await startService(place, env);
    const decryptions = service.asked.filter(
      ({ method, path }) => method === 'POST' && path.includes(service.path),
    );
    expect(decryptions).toHaveLength(1);
    const doctor = async () => (await runCli(['doctor'], place, env)).stdout;
    expect(await doctor()).toContain(`${fixture.sourceOf(settings, PATIENT, true).place} (`);
    service.fail(service.path, service.error(403, 'AccessDeniedException'));
    expect(await doctor()).toMatch(new RegExp(`^PROBLEM +key-encryption key: ${name}`, 'm'));
    await started.stop();
    expect(started.output()).not.toMatch(/a-secret|s\.test-token/);
  });
});
