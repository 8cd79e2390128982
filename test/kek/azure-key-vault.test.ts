import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, rmSync, writeFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  type AzureCredentials,
  type AzureKeyVaultSettings,
  kekAzureKeyVault,
} from '../../packages/kek/src/azure-key-vault.ts';
import type { KekTimeouts } from '../../packages/kek/src/source.ts';
import * as files from '../../src/private-files.ts';
import { AzureStandIn, azureError, CLIENT, entraError, SECRET, TENANT } from '../support/azure.ts';
import type { Fault } from '../support/cloud.ts';
import { blocksUnder } from '../support/docs.ts';
import { folderOfEachTest, KEK, problemOf } from '../support/kek.ts';
import { freePort } from '../support/processes.ts';
import { newPlace, runCli, startService } from '../support/service.ts';

const APPLICATION = { tenantId: TENANT, clientId: CLIENT, secret: SECRET };
const inFolder = folderOfEachTest();
let azure: AzureStandIn;
let file: string;
let tokenFile: string;
beforeEach(async () => {
  file = inFolder('kek.wrapped');
  tokenFile = inFolder('token');
  azure = await new AzureStandIn().listen();
  writeFileSync(file, `${azure.wrap(KEK).toString('base64')}\n`);
  writeFileSync(tokenFile, `${azure.federatedToken}\n`, { mode: 0o600 });
});
afterEach(() => azure.stop());

type Changes = Partial<Omit<AzureKeyVaultSettings, 'credentials'>> & Partial<AzureCredentials>;

function source(changes: Changes = {}, patience?: KekTimeouts) {
  const { keyId = azure.keyId, algorithm = 'RSA-OAEP-256', ...credentials } = changes;
  const settings: AzureKeyVaultSettings = {
    keyId,
    algorithm,
    credentials: {
      authority: azure.url,
      identityHost: azure.url,
      tenantId: undefined,
      clientId: undefined,
      federatedTokenFile: undefined,
      secret: undefined,
      ...credentials,
    },
  };
  return kekAzureKeyVault(file, settings, files, patience);
}

const problemWith = (changes?: Changes, patience?: KekTimeouts) =>
  problemOf(source(changes, patience), [azure.accessToken, azure.federatedToken, SECRET]);

describe('the KEK is unwrapped', () => {
  test('with the managed identity of the machine', async () => {
    expect(await source().read()).toEqual(KEK);
    expect(azure.asked.map(({ method, path }) => `${method} ${path}`)).toEqual([
      'GET /metadata/identity/oauth2/token?api-version=2018-02-01&resource=https%3A%2F%2Fvault.azure.net',
      `POST /keys/kek/${azure.version}/unwrapkey?api-version=7.4`,
    ]);
  });

  test('with an identity that the user assigned', async () => {
    azure.assignedId = CLIENT;
    expect(await source({ clientId: CLIENT }).read()).toEqual(KEK);
    expect(await problemWith()).toMatch(
      /status 400.*does not have the managed identity: assign one/,
    );
  });

  test('with a secret', async () => {
    expect(await source(APPLICATION).read()).toEqual(KEK);
    expect(azure.asked[0]!.path).toBe(`/${TENANT}/oauth2/v2.0/token`);
  });

  test('with the token of a workload identity, read each time, before a secret', async () => {
    const settings = { ...APPLICATION, secret: 'an old one', federatedTokenFile: tokenFile };
    const workload = source(settings);
    expect(await workload.read()).toEqual(KEK);
    writeFileSync(tokenFile, 'a.b.c');
    await expect(workload.read()).rejects.toThrow('(status 401)');
  });

  test('by AES key wrap of a managed HSM', async () => {
    writeFileSync(file, azure.wrap(KEK, 'A256KW').toString('base64url'));
    expect(await source({ algorithm: 'A256KW' }).read()).toEqual(KEK);
  });

  test.each([
    ['raw', (blob: Buffer) => blob],
    ['in base64 in lines', (blob: Buffer) => blob.toString('base64').replaceAll(/.{64}/g, '$&\n')],
  ])('from a file that is %s, with a KEK in hex digits', async (_, form) => {
    writeFileSync(file, form(azure.wrap(Buffer.from(`${KEK.toString('hex')}\n`))));
    expect(await source({ authority: `${azure.url}/` }).read()).toEqual(KEK);
  });

  test('after failures of the network, of the servers and a spent quota', async () => {
    azure.fail('/metadata', 'hang up', azureError(429, 'TooManyRequests'));
    azure.fail('/unwrapkey', azureError(503, 'ServiceUnavailable'), 'cut short');
    expect(await source({}, { attemptMs: 4_000, totalMs: 60_000 }).read()).toEqual(KEK);
    expect(azure.asked).toHaveLength(6);
  });
});

/** The vault itself cannot be reached, so only the request for a token is seen. */
test.each([
  ['standin.vault.azure.net', 'vault.azure.net'],
  ['standin.managedhsm.azure.net', 'managedhsm.azure.net'],
  ['standin.vault.usgovcloudapi.net', 'vault.usgovcloudapi.net'],
  ['vault.acme.example', 'vault.azure.net'],
])('the token for a key at %s is for %s', async (host, resource) => {
  azure.fail('/metadata', { status: 404, body: '' });
  await problemWith({ keyId: `https://${host}/keys/kek/${azure.version}` });
  const { searchParams } = new URL(azure.asked[0]!.path, azure.url);
  expect(searchParams.get('resource')).toBe(`https://${resource}`);
  expect(azure.asked).toHaveLength(1);
});

describe('what Key Vault refuses is named with its status and what to do', () => {
  test('a file that another key has wrapped, or for another algorithm', async () => {
    const other = new AzureStandIn();
    writeFileSync(file, other.wrap(KEK));
    expect(await problemWith()).toMatch(/status 400.*check KEK_AZURE_KEY_ID, KEK_AZURE_ALGORITHM/);
    writeFileSync(file, azure.wrap(KEK));
    expect(await problemWith({ algorithm: 'A256KW' })).toContain('(status 400)');
  });

  test('a version that is not there', async () => {
    const keyId = azure.keyId.replace(azure.version, '0'.repeat(32));
    expect(await problemWith({ keyId })).toMatch(/status 404.*no such key or version/);
  });

  test.each<[number, string, RegExp]>([
    [401, 'Unauthorized', /check AZURE_TENANT_ID, which must be the tenant of the vault/],
    [403, 'Forbidden', /give it the role Key Vault Crypto Service Encryption User/],
    [302, 'Found', /Check KEK_AZURE_KEY_ID/],
  ])('%i %s', async (status, code, remedy) => {
    azure.fail('/unwrapkey', azureError(status, code));
    const problem = await problemWith();
    expect(problem).toMatch(remedy);
    expect(problem).toContain(`(status ${status})`);
    expect(azure.asked).toHaveLength(2);
  });

  test.each<[number, RegExp]>([
    [429, /The vault gets too many requests/],
    [500, /Check KEK_AZURE_KEY_ID/],
  ])('%i, three times', async (status, remedy) => {
    azure.fail('/unwrapkey', ...Array(4).fill(azureError(status, 'X')));
    expect(await problemWith({}, { attemptMs: 4_000, totalMs: 60_000 })).toMatch(remedy);
    expect(azure.faults).toHaveLength(1);
  });

  test.each<[string, unknown]>([
    ['no value', { kid: 'x' }],
    ['a value that is no text', { value: 7 }],
    ['no JSON', '<html>secret words</html>'],
    ['half of it', '{"value": "c2VjcmV0'],
  ])('200 with %s', async (_, body) => {
    azure.fail('/unwrapkey', { status: 200, body });
    expect(await problemWith()).toMatch(/answered 200 without value: check KEK_AZURE_KEY_ID/);
  });

  test('a key that is no KEK', async () => {
    writeFileSync(file, azure.wrap(Buffer.from('hunter2')));
    const problem = await problemWith();
    expect(problem).toMatch(/must be 32 bytes, or 64 hex digits; it has 7 bytes/);
  });
});

describe('the credentials', () => {
  test.each<[string, Changes]>([
    ['a secret', { secret: 'another' }],
    ['a client', { clientId: TENANT }],
    ['a tenant', { tenantId: CLIENT }],
  ])('%s that is wrong', async (_, changes) => {
    expect(await problemWith({ ...APPLICATION, ...changes })).toMatch(
      /Microsoft Entra ID at .* refused.*status 40[01].*Check AZURE_TENANT_ID, AZURE_CLIENT_ID/,
    );
  });

  test('Entra ID is away', async () => {
    azure.fail('/oauth2/v2.0/token', ...Array(3).fill(entraError(503, 'temporarily_unavailable')));
    expect(await problemWith(APPLICATION)).toMatch(/Microsoft Entra ID .*status 503/);
    const authority = `http://127.0.0.1:${await freePort()}`;
    expect(await problemWith({ ...APPLICATION, authority })).toMatch(
      /Entra ID cannot be reached at .*\(ECONNREFUSED\)\. Check AZURE_AUTHORITY_HOST/,
    );
  });

  test('a machine that is not in Azure', async () => {
    const identityHost = `http://127.0.0.1:${await freePort()}`;
    expect(await problemWith({ identityHost })).toMatch(
      /managed identity of Azure cannot be reached at .*Check AZURE_CLIENT_SECRET or AZURE_FED/,
    );
  });

  test.each(['', 'hunter2', 'a.b.c\nd.e.f'])('a token file with %j', async (content) => {
    writeFileSync(tokenFile, content);
    const problem = await problemWith({ ...APPLICATION, federatedTokenFile: tokenFile });
    expect(problem).toMatch(/^AZURE_FEDERATED_TOKEN_FILE \(.*\) must contain one JWT/);
    expect(azure.asked).toEqual([]);
  });

  test('a token file that is missing or open to others', async () => {
    const settings = { ...APPLICATION, federatedTokenFile: tokenFile };
    chmodSync(tokenFile, 0o644);
    expect(await problemWith(settings)).toMatch(/^AZURE_FEDERATED_TOKEN_FILE .* is open to others/);
    rmSync(tokenFile);
    expect(await problemWith(settings)).toMatch(/cannot be read \(ENOENT\)/);
  });
});

const hasOpenssl = spawnSync('openssl', ['version']).status === 0;

test.skipIf(!hasOpenssl)('openssl makes the file, as kek.md says', async () => {
  writeFileSync(inFolder('standin.pem'), azure.publicKey);
  const [commands] = blocksUnder('docs/operating/kek.md', 'Azure Key Vault');
  const made = /openssl rand.*?kek\.encrypted/s.exec(commands!)![0];
  const script = made.replace('/etc/standin/kek.encrypted', file);
  execFileSync('sh', ['-e', '-c', script], { cwd: inFolder('.') });
  expect(await source().read()).toHaveLength(32);
});

test('no answer is an error when the time of all requests is up', async () => {
  azure.fail('/unwrapkey', ...(Array(5).fill('be silent') as Fault[]));
  expect(await problemWith({}, { attemptMs: 300, totalMs: 500 })).toContain('(no answer in time)');
});

test('a KEK in clear is not sent anywhere', async () => {
  writeFileSync(file, KEK.toString('hex'));
  expect(await problemWith()).toMatch(/in clear, but KEK_AZURE_KEY_ID is set.*Nothing was sent\.$/);
  expect(azure.asked).toEqual([]);
});

test('the program makes a vault with it, and doctor says what is wrong', async () => {
  const place = await newPlace('embedded');
  const env = {
    KEK_FILE: file,
    KEK_AZURE_KEY_ID: azure.keyId,
    AZURE_TENANT_ID: TENANT,
    AZURE_CLIENT_ID: CLIENT,
    AZURE_CLIENT_SECRET: SECRET,
    AZURE_AUTHORITY_HOST: azure.url,
  };
  const service = await startService(place, env);
  await service.stop();
  expect(service.output()).not.toContain(SECRET);
  expect((await runCli(['doctor'], place, env)).stdout).toContain(
    `${file}, decrypted by Azure key ${azure.keyId} (`,
  );
  azure.fail('/unwrapkey', azureError(403, 'Forbidden'));
  expect((await runCli(['doctor'], place, env)).stdout).toMatch(
    /^PROBLEM +key-encryption key: Azure Key Vault .* \(status 403\)/m,
  );
  place.remove();
});
