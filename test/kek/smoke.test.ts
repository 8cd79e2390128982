import { writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parseKekSettings } from '../../src/config/kek.ts';
import { kekSourceOf } from '../../src/kek/kek-source.ts';
import { AwsStandIn, AzureStandIn, GoogleStandIn } from '../support/clouds.ts';
import { folderOfEachTest, KEK } from '../support/kek.ts';
import { readFileSync } from 'node:fs';
import { Authority, NAMES } from '../support/tls.ts';

const inFolder = folderOfEachTest();
test.each([
  ['aws', AwsStandIn, {}],
  ['google', GoogleStandIn, {}],
  ['google acc', GoogleStandIn, { acc: 1 }],
  ['azure', AzureStandIn, {}],
  ['azure app', AzureStandIn, { app: 1 }],
] as const)('%s', async (_, Service, how: any) => {
  const issued = new Authority(inFolder('.'), 'ca').issue(NAMES);
  const cert = _ === 'aws' ? undefined : { key: readFileSync(issued.key), cert: readFileSync(issued.cert) };
  const service = await new (Service as any)(cert).listen();
  const file = inFolder('kek');
  writeFileSync(file, service.encrypt(KEK));
  const env = { KEK_FILE: file, ...service.environment, NODE_TLS_REJECT_UNAUTHORIZED: '0' };
  if (how.app) Object.assign(env, service.application, { AZURE_CLIENT_SECRET: 'a-secret-of-azure' });
  if (how.acc) {
    writeFileSync(inFolder('acc'), JSON.stringify(service.account), { mode: 0o600 });
    Object.assign(env, { GOOGLE_APPLICATION_CREDENTIALS: inFolder('acc'), HTTPS_PROXY: service.url, NO_PROXY: '' });
  }
  const kek = { ...parseKekSettings(env), environment: env };
  const t = performance.now();
  const got = await kekSourceOf({ kek, dataDir: '', databaseUrl: 'x' }).read().catch((e) => e.message);
  console.log(_, performance.now() - t, got, service.asked.map((a: any) => `${a.method} ${a.path}`));
  service.stop();
  expect(got).toEqual(KEK);
});
