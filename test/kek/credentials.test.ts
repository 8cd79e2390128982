import { execFileSync } from 'node:child_process';
import { chmodSync, rmSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { parseKekSettings } from '../../src/config/kek.ts';
import { crc32c } from '../../src/kek/google.ts';
import { kekTransit } from '../../src/kek/transit.ts';
import { AwsStandIn, AzureStandIn, GoogleStandIn } from '../support/clouds.ts';
import { blocksUnder } from '../support/docs.ts';
import { type Changes, KEK, KekFixture, problemOf } from '../support/kek.ts';
import { freePort } from '../support/processes.ts';
import { hasOpenssl } from '../support/tls.ts';
import { TransitStandIn } from '../support/transit.ts';

const fixture = new KekFixture();
const { inFolder } = fixture;

describe.skipIf(!hasOpenssl)('the library of AWS finds', () => {
  test('credentials of a container and of an instance; without any, it sends nothing', async () => {
    const NONE = { AWS_ACCESS_KEY_ID: '', AWS_EC2_METADATA_DISABLED: 'true' };
    const { service: aws, read, problem } = await fixture.serve(AwsStandIn);
    expect(await problem(NONE)).toMatch(
      /\(CredentialsProviderError\)\. Check .* AWS_ACCESS_KEY_ID/,
    );
    expect(aws.accessKeys).toEqual([]);
    const container = { AWS_CONTAINER_CREDENTIALS_FULL_URI: `${aws.url}/container` };
    const role = { AWS_EC2_METADATA_SERVICE_ENDPOINT: aws.url, AWS_EC2_METADATA_DISABLED: '' };
    for (const giver of [container, role]) expect(await read(NONE, giver)).toEqual(KEK);
    expect(aws.accessKeys).toEqual(['ASIAOFMACHINE', 'ASIAOFMACHINE']);
  });

  test('the region of an alias in AWS_REGION, which an ARN overrides', async () => {
    const { service: aws, read } = await fixture.serve(AwsStandIn);
    expect(await read({ AWS_REGION: 'us-east-1' })).toEqual(KEK);
    aws.key = 'alias/standin';
    expect(await read({ AWS_REGION: 'eu-central-1' })).toEqual(KEK);
  });

  test.each(['{}', '{"service":"other"}'])(
    'no key for a ciphertext with the context %s',
    async (context) => {
      const { service: aws, problem } = await fixture.serve(AwsStandIn);
      aws.context = context;
      writeFileSync(fixture.file, aws.encrypt(KEK));
      expect(await problem()).toContain('--encryption-context service=standin');
    },
  );
});

describe.skipIf(!hasOpenssl)('the library of Google Cloud takes', () => {
  const credentials = (content: object | string, mode = 0o600): Changes => {
    const path = inFolder('credentials.json');
    writeFileSync(path, JSON.stringify(content));
    chmodSync(path, mode);
    return { GOOGLE_APPLICATION_CREDENTIALS: path };
  };

  test('the key of a service account, unless it was deleted', async () => {
    const { service: google, read, problem } = await fixture.serve(GoogleStandIn);
    // The library asks a fixed host for tokens.
    const proxy = { HTTPS_PROXY: google.url };
    expect(await read(proxy, credentials(google.account))).toEqual(KEK);
    const { account } = new GoogleStandIn();
    expect(await problem(proxy, credentials(account))).toMatch(
      /^Google Cloud KMS did not .* \(.*400\)\. Check GOOGLE_APPLICATION_CREDENTIALS/,
    );
  });

  test('a federation with another cloud or cluster, in a file that others may read', async () => {
    const { service: google, read } = await fixture.serve(GoogleStandIn);
    writeFileSync(inFolder('subject'), 'token-of-the-pod');
    const pool = 'projects/1/locations/global/workloadIdentityPools/p/providers/k';
    const federation = {
      type: 'external_account',
      audience: `//iam.googleapis.com/${pool}`,
      subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
      token_url: `${google.url}/sts`,
      credential_source: { file: inFolder('subject') },
    };
    expect(await read(credentials(federation, 0o644))).toEqual(KEK);
    expect(google.asked.map(({ path }) => path)).toContain('/sts');
  });

  test('no key that others can read, and says when a file or a machine gives no token', async () => {
    const { service: google, problem } = await fixture.serve(GoogleStandIn);
    const isOpen = /^GOOGLE_APPLICATION_CREDENTIALS .* is open to others/;
    expect(await problem(credentials(google.account, 0o644))).toMatch(isOpen);
    const noFile = { GOOGLE_APPLICATION_CREDENTIALS: inFolder('no') };
    const unreadable = /^GOOGLE_APPLICATION_CREDENTIALS \(.*\/no\) cannot be read \(ENOENT\)/;
    expect(await problem(noFile)).toMatch(unreadable);
    const noMachine = { GCE_METADATA_HOST: `127.0.0.1:${await freePort()}` };
    const refused = /^Google Cloud KMS did not .* \(\w+\)\. Check GOOGLE_/;
    for (const changes of [credentials('hunter2'), credentials({ type: 'hunter2' }), noMachine])
      expect(await problem(changes)).toMatch(refused);
    expect(google.asked).toEqual([]);
  });

  test.each([{ plaintextCrc32c: '1' }, {}])('no key with the checksum in %j', async (sum) => {
    const { service: google, problem } = await fixture.serve(GoogleStandIn);
    google.fail(':decrypt', { status: 200, body: { plaintext: KEK.toString('base64'), ...sum } });
    expect(await problem()).toContain('does not have the checksum');
  });
});

/** RFC 3720, appendix B.4, and the check value of the CRC catalogue. */
test.each([
  [Buffer.alloc(32), 0x8a9136aa],
  [Buffer.alloc(32, 0xff), 0x62a8ab43],
  [Buffer.from('123456789'), 0xe3069283],
])('CRC32C of %o', (bytes, sum) => {
  expect(crc32c(bytes)).toBe(sum);
});

describe.skipIf(!hasOpenssl)('the library of Azure takes', () => {
  const secret = { AZURE_CLIENT_SECRET: 'a-secret-of-azure' };
  const tokenFile = (content: string, mode = 0o600): Changes => {
    writeFileSync(inFolder('token'), content);
    chmodSync(inFolder('token'), mode);
    return { AZURE_FEDERATED_TOKEN_FILE: inFolder('token') };
  };

  test('the secret or the federated token of an application, and says when it is wrong', async () => {
    const { service: azure, read, problem } = await fixture.serve(AzureStandIn);
    const { application } = azure;
    expect(await read(application, secret)).toEqual(KEK);
    expect(await read(application, tokenFile(azure.federatedToken))).toEqual(KEK);
    const only = { ...application, AZURE_TOKEN_CREDENTIALS: 'EnvironmentCredential' };
    expect(await problem(only, { AZURE_CLIENT_SECRET: 'hunter2' })).toMatch(
      /^Azure Key Vault did not .* \(.*AADSTS7000215.*\)\. Check AZURE_TENANT_ID/,
    );
    const isOpen = /^AZURE_FEDERATED_TOKEN_FILE .* is open to others/;
    expect(await problem(only, tokenFile('hunter2', 0o644))).toMatch(isOpen);
  });

  test('the identity that AZURE_CLIENT_ID names, among several of a machine', async () => {
    const { service: azure, read } = await fixture.serve(AzureStandIn);
    expect(await read({ AZURE_CLIENT_ID: azure.client })).toEqual(KEK);
    expect(azure.asked[0]!.path).toContain(`client_id=${azure.client}`);
  });

  test.each([
    ['standin.vault.azure.net', 'vault.azure.net'],
    ['standin.managedhsm.azure.net', 'managedhsm.azure.net'],
    ['standin.vault.usgovcloudapi.net', 'vault.usgovcloudapi.net'],
    ['vault.acme.example', 'vault.azure.net'],
  ])('a token for a key at %s that is for %s', async (host, resource) => {
    const { service: azure, problem } = await fixture.serve(AzureStandIn);
    azure.fail('/metadata', azure.error(400), azure.error(400));
    const key = { KEK_AZURE_KEY_ID: `https://${host}/keys/kek/${azure.version}` };
    const only = { AZURE_TOKEN_CREDENTIALS: 'ManagedIdentityCredential' };
    expect(await problem(key, only)).toMatch(/Error.*assign a managed/);
    const { searchParams } = new URL(azure.asked[0]!.path, azure.url);
    expect(searchParams.get('resource')).toBe(`https://${resource}`);
  });

  test('a key that a managed HSM wrapped with AES', async () => {
    const { service: azure, read } = await fixture.serve(AzureStandIn);
    writeFileSync(fixture.file, azure.encrypt(KEK, 'A256KW').toString('base64url'));
    expect(await read({ KEK_AZURE_ALGORITHM: 'A256KW' })).toEqual(KEK);
  });

  test('the file that openssl makes as docs/operating/kek.md says', async () => {
    const { service: azure, read } = await fixture.serve(AzureStandIn);
    writeFileSync(inFolder('standin.pem'), azure.publicKey);
    const [commands] = blocksUnder('docs/operating/kek.md', 'Azure Key Vault');
    const made = /openssl rand.*?kek\.encrypted/s.exec(commands!)![0];
    const script = made.replace('/etc/standin/kek.encrypted', fixture.file);
    execFileSync('sh', ['-e', '-c', script], { cwd: inFolder('.') });
    expect(await read()).toHaveLength(32);
  });
});

describe.skipIf(!hasOpenssl)('transit', () => {
  const inFile = (setting: string, content: string): Changes => {
    writeFileSync(inFolder(setting), content, { mode: 0o600 });
    return { [setting]: inFolder(setting) };
  };

  test('the token is read from VAULT_TOKEN_FILE each time, before VAULT_TOKEN', async () => {
    const { service: transit, problem } = await fixture.serve(TransitStandIn);
    const tokenFile = inFile('VAULT_TOKEN_FILE', `${transit.token}\n`);
    const changes = { VAULT_TOKEN: 'hunter2', ...tokenFile };
    const source = fixture.sourceOf({ ...transit.environment, ...changes });
    expect(await source.read()).toEqual(KEK);
    inFile('VAULT_TOKEN_FILE', 'hunter2');
    await expect(source.read()).rejects.toThrow('(status 403)');
    const notOne = /^VAULT_TOKEN_FILE \(.*\) must contain one token/;
    for (const content of ['', '\n', 'a\nb', 'a b', 'é'])
      expect(await problem(changes, inFile('VAULT_TOKEN_FILE', content))).toMatch(notOne);
    chmodSync(tokenFile.VAULT_TOKEN_FILE!, 0o644);
    expect(await problem(changes)).toMatch(/^VAULT_TOKEN_FILE .* is open to others: /);
    rmSync(tokenFile.VAULT_TOKEN_FILE!);
    expect(await problem(changes)).toMatch(/cannot be read \(ENOENT\)/);
    expect(transit.asked).toHaveLength(2);
  });

  test('the namespace, the mount and the key are those of the settings', async () => {
    const { service: transit, read, problem } = await fixture.serve(TransitStandIn);
    transit.namespace = 'team/payments';
    const team = { KEK_TRANSIT_NAMESPACE: 'team/payments' };
    expect(await read(team)).toEqual(KEK);
    expect(await problem()).toContain('status 404');
    const noMount = /status 404.*KEK_TRANSIT_MOUNT and KEK_TRANSIT_NAMESPACE/;
    expect(await problem(team, { KEK_TRANSIT_MOUNT: 'eu/transit' })).toMatch(noMount);
    expect(await problem(team, { KEK_TRANSIT_KEY: 'none' })).toContain('status 400');
  });

  test('only what looks like its ciphertext is sent', async () => {
    const { service: transit, problem } = await fixture.serve(TransitStandIn);
    for (const content of ['', 'vault:v1:', 'vault:v1:a b', 'vault:v1:AAAA\nvault:v1:AAAA']) {
      writeFileSync(fixture.file, content);
      expect(await problem()).toMatch(/begins with vault:v1: /);
    }
    expect(transit.asked).toEqual([]);
  });

  test('a certificate of another authority, or for another name, is not trusted', async () => {
    const { service: transit, read, problem } = await fixture.serve(TransitStandIn);
    const builtIn = parseKekSettings({ KEK_FILE: fixture.file, ...transit.environment });
    expect(await problemOf(kekTransit(fixture.file, builtIn))).toMatch(
      /\([A-Z_]*(SIGN|ISSUER|VERIFY)[A-Z_]*\)\. Its certificate is not trusted: name its authority/,
    );
    const otherName = { KEK_TRANSIT_URL: transit.url.replace('127.0.0.1', '[::ffff:127.0.0.1]') };
    expect(await problem(otherName)).toContain('ERR_TLS_CERT_ALTNAME');
    const noCertificate = inFile('KEK_TRANSIT_CA_FILE', 'hunter2');
    expect(await problem(noCertificate)).toMatch(/contains no certificate/);
    expect(transit.asked).toEqual([]);
    expect(await read({ KEK_TRANSIT_CA_FILE: fixture.ca })).toEqual(KEK);
  });
});
