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
  const without = ({ environment }: AwsStandIn) => ({
    ...environment,
    ...{ AWS_ACCESS_KEY_ID: '', AWS_SECRET_ACCESS_KEY: '', AWS_EC2_METADATA_DISABLED: 'true' },
  });

  test.each<[string, (url: string) => Changes]>([
    ['a container', (url) => ({ AWS_CONTAINER_CREDENTIALS_FULL_URI: `${url}/container` })],
    [
      'an instance',
      (url) => ({ AWS_EC2_METADATA_DISABLED: '', AWS_EC2_METADATA_SERVICE_ENDPOINT: url }),
    ],
  ])('the credentials of %s', (_, giver) =>
    fixture.withService(AwsStandIn, async (aws) => {
      expect(await fixture.read(without(aws), giver(aws.url))).toEqual(KEK);
      expect(aws.accessKeys).toEqual(['ASIAOFMACHINE']);
    }),
  );

  test('no credentials: an error, and nothing is sent', () =>
    fixture.withService(AwsStandIn, async (aws) => {
      expect(await fixture.problem(without(aws))).toMatch(
        /\(CredentialsProviderError\)\. Check .* AWS_ACCESS_KEY_ID/,
      );
      expect(aws.accessKeys).toEqual([]);
    }));

  test('the region of an alias in AWS_REGION, which an ARN overrides', () =>
    fixture.withService(AwsStandIn, async (aws) => {
      expect(await fixture.read(aws.environment, { AWS_REGION: 'us-east-1' })).toEqual(KEK);
      aws.key = 'alias/standin';
      expect(await fixture.read(aws.environment, { AWS_REGION: 'eu-central-1' })).toEqual(KEK);
    }));

  test.each(['{}', '{"service":"other"}'])(
    'no key for a ciphertext with the context %s',
    (context) =>
      fixture.withService(AwsStandIn, async (aws) => {
        aws.context = context;
        writeFileSync(fixture.file, aws.encrypt(KEK));
        expect(await fixture.problem(aws.environment)).toContain(
          '--encryption-context service=standin',
        );
      }),
  );
});

describe.skipIf(!hasOpenssl)('the library of Google Cloud takes', () => {
  const credentials = (content: object | string, mode = 0o600): Changes => {
    const path = inFolder('credentials.json');
    writeFileSync(path, JSON.stringify(content));
    chmodSync(path, mode);
    return { GOOGLE_APPLICATION_CREDENTIALS: path };
  };

  test('the key of a service account, unless it was deleted', () =>
    fixture.withService(GoogleStandIn, async (google) => {
      // The library asks a fixed host for tokens.
      const settings = { ...google.environment, HTTPS_PROXY: google.url };
      expect(await fixture.read(settings, credentials(google.account))).toEqual(KEK);
      const { account } = new GoogleStandIn();
      expect(await fixture.problem(settings, credentials(account))).toMatch(
        /^Google Cloud KMS did not .* \(.*400\)\. Check GOOGLE_APPLICATION_CREDENTIALS/,
      );
    }));

  test('a federation with another cloud or cluster, in a file that others may read', () =>
    fixture.withService(GoogleStandIn, async (google) => {
      writeFileSync(inFolder('subject'), 'token-of-the-pod');
      const pool = 'projects/1/locations/global/workloadIdentityPools/p/providers/k';
      const federation = {
        type: 'external_account',
        audience: `//iam.googleapis.com/${pool}`,
        subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
        token_url: `${google.url}/sts`,
        credential_source: { file: inFolder('subject') },
      };
      const settings = credentials(federation, 0o644);
      expect(await fixture.read(google.environment, settings)).toEqual(KEK);
      expect(google.asked.map(({ path }) => path)).toContain('/sts');
    }));

  test('no key that others can read, and says when a file or a machine gives no token', () =>
    fixture.withService(GoogleStandIn, async (google) => {
      const problem = (changes: Changes) => fixture.problem(google.environment, changes);
      expect(await problem(credentials(google.account, 0o644))).toMatch(
        /^GOOGLE_APPLICATION_CREDENTIALS .* is open to others/,
      );
      expect(await problem({ GOOGLE_APPLICATION_CREDENTIALS: inFolder('no') })).toMatch(
        /^GOOGLE_APPLICATION_CREDENTIALS \(.*\/no\) cannot be read \(ENOENT\)/,
      );
      const noMachine = { GCE_METADATA_HOST: `127.0.0.1:${await freePort()}` };
      for (const changes of [credentials('hunter2'), credentials({ type: 'hunter2' }), noMachine]) {
        expect(await problem(changes)).toMatch(
          /^Google Cloud KMS did not .* \(\w+\)\. Check GOOGLE_/,
        );
      }
      expect(google.asked).toEqual([]);
    }));

  test.each([
    ['a wrong checksum', { plaintextCrc32c: '1' }],
    ['no checksum', {}],
  ])('no key with %s', (_, sum) =>
    fixture.withService(GoogleStandIn, async (google) => {
      google.fail(':decrypt', { status: 200, body: { plaintext: KEK.toString('base64'), ...sum } });
      expect(await fixture.problem(google.environment)).toContain('does not have the checksum');
    }),
  );
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

  test('the secret or the federated token of an application, and says when it is wrong', () =>
    fixture.withService(AzureStandIn, async (azure) => {
      const settings = { ...azure.environment, ...azure.application };
      expect(await fixture.read(settings, secret)).toEqual(KEK);
      expect(await fixture.read(settings, tokenFile(azure.federatedToken))).toEqual(KEK);
      settings.AZURE_TOKEN_CREDENTIALS = 'EnvironmentCredential';
      expect(await fixture.problem(settings, { AZURE_CLIENT_SECRET: 'hunter2' })).toMatch(
        /^Azure Key Vault did not .* \(.*AADSTS7000215.*\)\. Check AZURE_TENANT_ID/,
      );
      expect(await fixture.problem(settings, tokenFile('hunter2', 0o644))).toMatch(
        /^AZURE_FEDERATED_TOKEN_FILE .* is open to others/,
      );
    }));

  test('the identity that the user assigned, by AZURE_CLIENT_ID', () =>
    fixture.withService(AzureStandIn, async (azure) => {
      await fixture.read(azure.environment, { AZURE_CLIENT_ID: azure.client });
      expect(azure.asked[0]!.path).toContain(`client_id=${azure.client}`);
    }));

  test.each([
    ['standin.vault.azure.net', 'vault.azure.net'],
    ['standin.managedhsm.azure.net', 'managedhsm.azure.net'],
    ['standin.vault.usgovcloudapi.net', 'vault.usgovcloudapi.net'],
    ['vault.acme.example', 'vault.azure.net'],
  ])('a token for a key at %s that is for %s', (host, resource) =>
    fixture.withService(AzureStandIn, async (azure) => {
      azure.fail('/metadata', azure.error(400), azure.error(400));
      const key = { KEK_AZURE_KEY_ID: `https://${host}/keys/kek/${azure.version}` };
      const only = { AZURE_TOKEN_CREDENTIALS: 'ManagedIdentityCredential' };
      expect(await fixture.problem(azure.environment, key, only)).toMatch(
        /Error.*assign a managed/,
      );
      const { searchParams } = new URL(azure.asked[0]!.path, azure.url);
      expect(searchParams.get('resource')).toBe(`https://${resource}`);
    }),
  );

  test('a key that a managed HSM wrapped with AES', () =>
    fixture.withService(AzureStandIn, async (azure) => {
      writeFileSync(fixture.file, azure.encrypt(KEK, 'A256KW').toString('base64url'));
      const algorithm = { KEK_AZURE_ALGORITHM: 'A256KW' };
      expect(await fixture.read(azure.environment, algorithm)).toEqual(KEK);
    }));

  test('the file that openssl makes as docs/operating/kek.md says', () =>
    fixture.withService(AzureStandIn, async (azure) => {
      writeFileSync(inFolder('standin.pem'), azure.publicKey);
      const [commands] = blocksUnder('docs/operating/kek.md', 'Azure Key Vault');
      const made = /openssl rand.*?kek\.encrypted/s.exec(commands!)![0];
      const script = made.replace('/etc/standin/kek.encrypted', fixture.file);
      execFileSync('sh', ['-e', '-c', script], { cwd: inFolder('.') });
      expect(await fixture.read(azure.environment)).toHaveLength(32);
    }));
});

describe.skipIf(!hasOpenssl)('transit', () => {
  const inFile = (setting: string, content: string): Changes => {
    writeFileSync(inFolder(setting), content, { mode: 0o600 });
    return { [setting]: inFolder(setting) };
  };

  test('the token is read from VAULT_TOKEN_FILE each time, before VAULT_TOKEN', () =>
    fixture.withService(TransitStandIn, async (transit) => {
      const tokenFile = inFile('VAULT_TOKEN_FILE', `${transit.token}\n`);
      const settings = { ...transit.environment, VAULT_TOKEN: 'hunter2', ...tokenFile };
      const source = fixture.sourceOf(settings);
      expect(await source.read()).toEqual(KEK);
      inFile('VAULT_TOKEN_FILE', 'hunter2');
      await expect(source.read()).rejects.toThrow('(status 403)');
      for (const content of ['', '\n', 'a\nb', 'a b', 'é']) {
        expect(await fixture.problem(settings, inFile('VAULT_TOKEN_FILE', content))).toMatch(
          /^VAULT_TOKEN_FILE \(.*\) must contain one token/,
        );
      }
      chmodSync(tokenFile.VAULT_TOKEN_FILE!, 0o644);
      expect(await fixture.problem(settings)).toMatch(/^VAULT_TOKEN_FILE .* is open to others: /);
      rmSync(tokenFile.VAULT_TOKEN_FILE!);
      expect(await fixture.problem(settings)).toMatch(/cannot be read \(ENOENT\)/);
      expect(transit.asked).toHaveLength(2);
    }));

  test('the namespace, the mount and the key are those of the settings', () =>
    fixture.withService(TransitStandIn, async (transit) => {
      transit.namespace = 'team/payments';
      const settings = { ...transit.environment, KEK_TRANSIT_NAMESPACE: 'team/payments' };
      expect(await fixture.read(settings)).toEqual(KEK);
      expect(await fixture.problem(transit.environment)).toContain('status 404');
      expect(await fixture.problem(settings, { KEK_TRANSIT_MOUNT: 'eu/transit' })).toMatch(
        /status 404.*KEK_TRANSIT_MOUNT and KEK_TRANSIT_NAMESPACE/,
      );
      expect(await fixture.problem(settings, { KEK_TRANSIT_KEY: 'none' })).toContain('status 400');
    }));

  test('only what looks like its ciphertext is sent', () =>
    fixture.withService(TransitStandIn, async (transit) => {
      for (const content of ['', 'vault:v1:', 'vault:v1:a b', 'vault:v1:AAAA\nvault:v1:AAAA']) {
        writeFileSync(fixture.file, content);
        expect(await fixture.problem(transit.environment)).toMatch(/begins with vault:v1: /);
      }
      expect(transit.asked).toEqual([]);
    }));

  test('a certificate of another authority, or for another name, is not trusted', () =>
    fixture.withService(TransitStandIn, async (transit) => {
      const { environment } = transit;
      const builtIn = parseKekSettings({ KEK_FILE: fixture.file, ...environment });
      expect(await problemOf(kekTransit(fixture.file, builtIn))).toMatch(
        /\([A-Z_]*(SIGN|ISSUER|VERIFY)[A-Z_]*\)\. Its certificate is not trusted: name its authority/,
      );
      const otherName = { KEK_TRANSIT_URL: transit.url.replace('127.0.0.1', '[::ffff:127.0.0.1]') };
      expect(await fixture.problem(environment, otherName)).toContain('ERR_TLS_CERT_ALTNAME');
      const noCertificate = inFile('KEK_TRANSIT_CA_FILE', 'hunter2');
      expect(await fixture.problem(environment, noCertificate)).toMatch(/contains no certificate/);
      expect(transit.asked).toEqual([]);
      expect(await fixture.read(environment, { KEK_TRANSIT_CA_FILE: fixture.ca })).toEqual(KEK);
    }));
});
