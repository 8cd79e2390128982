import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { runCommand } from '../support/in-process.ts';
import { freePort } from '../support/processes.ts';
import { served } from '../support/served.ts';
import { startService, usualPlace } from '../support/service.ts';

const env = { INTERFACE_VERSION: '1.0.4', VALUES_LIMIT: '7', BODY_LIMIT: '2048' };
const service = served(async () =>
  startService(await usualPlace(), { ...env, OPS_PORT: String(await freePort()) }),
);

test('a service shows the document of its settings, and the command prints the same', async () => {
  const response = await fetch(`${service.opsUrl}/openapi.json`);
  expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8');
  const shown = await response.text();
  const PORT = new URL(service.url).port;
  const { stdout } = await runCommand(['openapi'], service.place, { ...env, PORT });
  expect(shown).toBe(stdout);
  const { info, servers, components } = JSON.parse(shown);
  expect([info.version, servers[0].url]).toEqual(['1.0.4', service.url]);
  expect(info.description).toContain('more than 7 values');
  expect(info.description).toContain('larger than 2048 bytes');
  expect(components.schemas.DetokenizeAnswer.required).toEqual(['data', 'Status', 'Request_id']);
});

test('openapi --interface-version has the address of HOST, PORT and TLS', async () => {
  const TLS = { TLS_CERT_FILE: 'cert.pem', TLS_KEY_FILE: 'key.pem' };
  for (const [more, url] of [
    [{ HOST: '::1', PORT: '9000' }, 'http://[::1]:9000'],
    [TLS, 'https://127.0.0.1:8080'],
  ] as const) {
    const args = ['openapi', '--interface-version', '1.0.5'];
    const { info, servers } = JSON.parse(
      (await runCommand(args, service.place, { ...env, ...more })).stdout,
    );
    expect([info.version, servers[0].url]).toEqual(['1.0.5', url]);
  }
  const { code, stderr } = await runCommand(['openapi', '--interface-version', '2'], service.place);
  expect([code, stderr]).toEqual([2, expect.stringContaining('1.0.5')]);
});

// test/http/console-access.test.ts has the headers and methods of the ops listener.
test('the reference is on the ops listener alone, and its commands work', async () => {
  for (const path of ['/console/reference', '/openapi.json'])
    expect((await fetch(service.url + path)).status).toBe(404);
  const page = await (await fetch(`${service.opsUrl}/console/reference`)).text();
  const curls = [...page.matchAll(/<pre tabindex="0">(curl .*?)<\/pre>/gs)].map(([, text]) =>
    text!.replaceAll('&quot;', '"').replaceAll('&#39;', "'").replaceAll('&amp;', '&'),
  );
  const answers = curls.map((curl) => {
    const env = { ...process.env, API_KEY: service.api_key };
    return JSON.parse(execFileSync('sh', ['-c', curl], { encoding: 'utf8', env, stdio: 'pipe' }));
  });
  // The tokens that the page shows are those of another vault.
  const unknown = { error: 'invalid_type', message: 'data.name: is not a known token' };
  const refused = { error: 'forbidden' };
  expect(answers).toMatchObject([
    ...[{ data: {} }, unknown, refused],
    ...[{ message: expect.stringContaining('no policy') }, { unapplied: [{}] }],
    { error: 'not_found' },
    ...[{ status: 'ok' }, { status: 'ok' }],
  ]);
});
