import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type AwsKmsSettings, kekAwsKms } from '../../packages/kek/src/aws-kms.ts';
import type { KekTimeouts } from '../../packages/kek/src/source.ts';
import * as files from '../../src/private-files.ts';
import type { Fault } from '../support/cloud.ts';
import { folderOfEachTest, KEK, problemOf } from '../support/kek.ts';
import { error, KmsStandIn, REGION } from '../support/kms.ts';
import { freePort } from '../support/processes.ts';
import { makeVault, newPlace, type Place, runCli, startService } from '../support/service.ts';

const SECRETS = ['a-secret', 'another-secret', 'FwoGZXIvYXdzEXAMPLE'];
const inFolder = folderOfEachTest();
let kms: KmsStandIn;
let keyId: string;
let file: string;
beforeEach(async () => {
  file = inFolder('kek.encrypted');
  kms = await new KmsStandIn().listen();
  keyId = kms.addKey();
  writeFileSync(file, kms.encrypt(keyId, KEK).toString('base64'));
});
afterEach(() => kms.stop());

function source(changes: Partial<AwsKmsSettings> = {}, patience?: KekTimeouts) {
  const { url: endpoint, credentials } = kms;
  const settings = { keyId, region: REGION, endpoint, credentials, ...changes };
  return kekAwsKms(file, settings as AwsKmsSettings, files, patience);
}

const problemWith = (changes?: Partial<AwsKmsSettings>, patience?: KekTimeouts) =>
  problemOf(source(changes, patience), [...SECRETS, 'secret-name']);

describe('the file may have', () => {
  test.each([
    ['the ciphertext as KMS gives it', (blob: Buffer) => blob],
    ['its base64 and a line end', (blob: Buffer) => `${blob.toString('base64')}\n`],
    [
      'its base64 in lines',
      (blob: Buffer) => blob.toString('base64').replaceAll(/.{76}/g, '$&\r\n'),
    ],
  ])('%s', async (_, form) => {
    writeFileSync(file, form(kms.encrypt(keyId, KEK)));
    expect(await source().read()).toEqual(KEK);
  });

  test('the ciphertext of a KEK in hex digits, as a KEK file had it', async () => {
    writeFileSync(file, kms.encrypt(keyId, Buffer.from(`${KEK.toString('hex')}\n`)));
    expect(await source().read()).toEqual(KEK);
  });
});

test('the key may be named by its ARN; the request is the Decrypt of KMS, signed', async () => {
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
  await source().read();
  const before = timers();
  expect(await source({ keyId: kms.arnOf(keyId) }).read()).toEqual(KEK);
  // One that is left would keep a command from ending.
  expect(timers()).toBe(before);
  const { accessKeyId } = kms.credentials;
  expect(kms.operations.at(-1)).toEqual({ target: 'TrentService.Decrypt', accessKeyId });
});

test('temporary credentials go with their session token', async () => {
  expect(await source({ credentials: kms.temporary as never }).read()).toEqual(KEK);
});

describe('what KMS refuses is named with its code and what to do', () => {
  test('another secret: the signature is wrong', async () => {
    const credentials = { ...kms.credentials, secretAccessKey: 'a-secret' } as never;
    expect(await problemWith({ credentials })).toMatch(
      /\(InvalidSignatureException\).*AWS_SECRET_ACCESS_KEY/,
    );
  });

  test('another region: the signature is for there', async () => {
    expect(await problemWith({ region: 'us-east-1' })).toContain('(InvalidSignatureException)');
  });

  test('an unknown access key', async () => {
    const credentials = { ...kms.credentials, accessKeyId: 'AKIANOBODY' } as never;
    expect(await problemWith({ credentials })).toMatch(
      /\(UnrecognizedClientException\)\. Check AWS_ACCESS_KEY_ID/,
    );
  });

  test('a key that is not there', async () => {
    const missing = '00000000-0000-4000-8000-000000000000';
    expect(await problemWith({ keyId: missing })).toMatch(
      /\(NotFoundException\).*check KEK_AWS_KMS_KEY_ID and AWS_REGION/,
    );
  });

  test('a file that another key has encrypted', async () => {
    expect(await problemWith({ keyId: kms.addKey() })).toMatch(
      /\(IncorrectKeyException\)\. KEK_FILE was encrypted with another key/,
    );
  });

  test.each([
    ['no context', {}],
    ['another context', { service: 'other' }],
  ])('a ciphertext with %s', async (_, context) => {
    writeFileSync(file, kms.encrypt(keyId, KEK, context as Record<string, string>));
    expect(await problemWith()).toMatch(/\(InvalidCiphertextException\).*--encryption-context/);
  });

  test('a ciphertext that was changed', async () => {
    const blob = kms.encrypt(keyId, KEK);
    blob[60]! ^= 1;
    writeFileSync(file, blob);
    expect(await problemWith()).toMatch(/\(InvalidCiphertextException\).*was changed/);
  });

  test.each([
    [
      'AccessDeniedException',
      /Allow kms:Decrypt on KEK_AWS_KMS_KEY_ID, with the encryption context/,
    ],
    ['DisabledException', /Enable KEK_AWS_KMS_KEY_ID/],
    ['KMSInvalidStateException', /cancel its deletion/],
    ['ExpiredTokenException', /AWS_SESSION_TOKEN/],
    ['InvalidKeyUsageException', /symmetric/],
    [
      'SomethingNewException',
      /status 400, from http.* look this code up in the documentation of AWS KMS/,
    ],
  ])('%s', async (name, remedy) => {
    kms.fail(
      '/',
      ...(Array(3).fill(error(name, 'User: arn:aws:iam::1:user/secret-name')) as Fault[]),
    );
    const problem = await problemWith();
    expect(problem).toContain(`(${name}`);
    expect(problem).toMatch(remedy);
  });
});

describe('the network', () => {
  test('two failures are tried again, and not seen', async () => {
    kms.fail('/', 'hang up', error('KMSInternalException', 'busy', 500));
    expect(await source().read()).toEqual(KEK);
  });

  test('three are an error that names the endpoint', async () => {
    kms.fail('/', 'hang up', 'hang up', 'hang up', 'hang up');
    expect(await problemWith()).toBe(
      `AWS KMS cannot be reached at ${kms.url} (ECONNRESET). Check the network, KEK_AWS_KMS_ENDPOINT and AWS_REGION, and start again.`,
    );
    expect(kms.faults).toHaveLength(1);
  });

  test('a failure of KMS that stays is an error', async () => {
    kms.fail('/', ...(Array(3).fill(error('KMSInternalException', 'busy', 500)) as Fault[]));
    expect(await problemWith()).toMatch(/\(KMSInternalException, status 500, from http/);
  });

  test('nobody there', async () => {
    const endpoint = `http://127.0.0.1:${await freePort()}`;
    expect(await problemWith({ endpoint })).toContain(`${endpoint} (ECONNREFUSED)`);
  });

  test('no answer is an error when the time is up', async () => {
    kms.fail('/', ...(Array(5).fill('be silent') as Fault[]));
    expect(await problemWith({}, { attemptMs: 100, totalMs: 1_500 })).toMatch(
      /^AWS KMS (cannot be reached at|, or the source of its credentials)/,
    );
  });
});

describe('a file that cannot be the ciphertext of a KEK', () => {
  test('in clear is not sent anywhere', async () => {
    for (const content of [KEK, KEK.toString('hex'), `${KEK.toString('hex')}\n`]) {
      writeFileSync(file, content);
      expect(await problemWith()).toMatch(
        /contains a key-encryption key in clear.*Nothing was sent\.$/,
      );
    }
    expect(kms.operations).toEqual([]);
  });

  test('missing', async () => {
    rmSync(file);
    expect(await problemWith()).toMatch(/cannot be read from .* \(ENOENT\)\. Set KEK_FILE/);
  });

  test('of other bytes than a KEK has', async () => {
    writeFileSync(file, kms.encrypt(keyId, Buffer.from('hunter2')));
    const problem = await problemWith();
    expect(problem).toMatch(/must be 32 bytes, or 64 hex digits; it has 7 bytes/);
  });
});

describe('the program', () => {
  let place: Place;
  let env: Record<string, string>;
  beforeEach(async () => {
    place = await newPlace('embedded');
    env = { KEK_FILE: file, KEK_AWS_KMS_KEY_ID: kms.arnOf(keyId), KEK_AWS_KMS_ENDPOINT: kms.url };
  });
  afterEach(() => place.remove());
  const given = () => ({
    AWS_ACCESS_KEY_ID: kms.credentials.accessKeyId,
    AWS_SECRET_ACCESS_KEY: kms.credentials.secretAccessKey,
  });

  test('with credentials in .env makes a vault, asks KMS once a start, and doctor names the key', async () => {
    const lines = Object.entries({ ...env, ...given() }).map(([name, text]) => `${name}=${text}\n`);
    writeFileSync(join(place.folder, '.env'), lines.join(''));
    const service = await startService(place);
    expect(kms.operations).toHaveLength(1);
    for (const secret of SECRETS) expect(service.output()).not.toContain(secret);
    await service.stop();
    const { code, stdout } = await runCli(['doctor'], place);
    expect(code).toBe(0);
    expect(stdout).toContain(`${file}, decrypted by AWS KMS key ${env.KEK_AWS_KMS_KEY_ID} in`);
    expect(stdout).toContain('opens all 4 keys');
  });

  test.each(['container', 'instance'] as const)(
    'takes the credentials of its %s',
    async (giver) => {
      await makeVault(place);
      const giverEnv = giver === 'container' ? kms.containerEnv : kms.instanceEnv;
      const { code, stderr } = await runCli(['keyring', 'status'], place, { ...env, ...giverEnv });
      expect({ code, stderr: stderr.includes('standin:') }).toEqual({ code: 0, stderr: false });
      expect(kms.operations.map((one) => one.accessKeyId)).toEqual([kms.temporary.accessKeyId]);
    },
  );

  test('without credentials says so, and writes nothing', async () => {
    await makeVault(place);
    const off = { AWS_EC2_METADATA_DISABLED: 'true' };
    const { code, stderr } = await runCli(['client', 'list'], place, { ...env, ...off });
    expect(code).toBe(1);
    expect(stderr).toMatch(/\(CredentialsProviderError\)\. There are no credentials\. Check AWS_/);
    expect(kms.operations).toEqual([]);
  });
});
