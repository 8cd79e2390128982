import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { has, runTool } from '../support/deploy.ts';
import { ROOT, readText } from '../support/docs.ts';
import { newPlace, type Place, startService } from '../support/service.ts';
import { Authority, hasOpenssl } from '../support/tls.ts';

const DOCKERFILE = 'deploy/docker/Dockerfile';
const HEALTH_CHECK = join(ROOT, 'deploy/docker/healthcheck.mjs');

/** Lines that are no comments. Joins continued ones. */
const linesOf = (path: string) =>
  readText(path)
    .replaceAll(/^#.*\n/gm, '')
    .replaceAll(/\\\n\s*/g, '')
    .split('\n')
    .filter((line) => line !== '');

/** Instructions with their arguments. */
const instructions = () =>
  linesOf(DOCKERFILE).map((line): [name: string, rest: string] => {
    const [, name, rest] = /^([A-Z]+) (.*)$/.exec(line)!;
    return [name!, rest!];
  });

test('the Dockerfile has stages of one base, and ends as a user that is not root', () => {
  const bases = instructions().flatMap(([name, rest]) => (name === 'FROM' ? [rest] : []));
  expect(new Set(bases.map((base) => base.replace(/ AS .*/, ''))).size).toBe(1);
  const version = Number(/^node:(\d+)-/.exec(bases[0]!)![1]);
  expect(version).toBeGreaterThanOrEqual(20);
  expect(instructions().find(([name]) => name === 'USER')![1]).toMatch(/^[1-9]\d*:[1-9]\d*$/);
  const last = instructions().slice(instructions().findLastIndex(([name]) => name === 'FROM'));
  expect(last.filter(([name]) => name === 'RUN')).toEqual([]);
});

test.runIf(has('hadolint', '--version'))('hadolint finds nothing in the Dockerfile', () => {
  expect(runTool('hadolint', DOCKERFILE)).toBe('');
});

test('it copies what is there and let through, and in the end no packages but those of production', () => {
  const isThere = (path: string) => has('sh', '-c', `cd '${ROOT}' && ls -d ${path}`);
  const [first, ...patterns] = linesOf(`${DOCKERFILE}.dockerignore`);
  expect(first).toBe('*');
  const allowed = patterns.map((line) => /^!(.+)$/.exec(line)![1]!);
  expect(allowed.filter((path) => !isThere(path))).toEqual([]);
  const copies = instructions().flatMap(([name, rest]) => (name === 'COPY' ? [rest] : []));
  const taken = copies.filter((rest) => !rest.startsWith('--')).map((rest) => rest.split(' '));
  for (const path of taken.flatMap((words) => words.slice(0, -1)))
    expect(allowed.filter((one) => `${one}/`.startsWith(`${path}/`))).not.toEqual([]);
  expect(copies.filter((rest) => rest.includes('node_modules'))).toEqual([
    '--from=packages /standin/node_modules ./node_modules',
  ]);
  const [, packages] = readText(DOCKERFILE)
    .split(/^FROM .*\n/m)
    .slice(1);
  expect(packages!.match(/^RUN .*/gm)).toEqual([expect.stringMatching(/^RUN npm ci --omit=dev /)]);
});

describe('the health check', () => {
  let place: Place;
  beforeAll(async () => {
    place = await newPlace('embedded');
  });
  afterAll(() => place.remove());

  const check = (env: Record<string, string>, path: string) =>
    spawnSync(process.execPath, [HEALTH_CHECK, path], { env, encoding: 'utf8' });

  test('asks over HTTP', async () => {
    const service = await startService(place);
    const { port } = new URL(service.url);
    expect(check({ PORT: port }, '/health').status).toBe(0);
    const wrong = check({ PORT: port }, '/nothing');
    expect([wrong.status, wrong.stderr]).toEqual([1, 'unhealthy: status 404\n']);
    await service.stop();
    expect(check({ PORT: port }, '/health')).toMatchObject({
      status: 1,
      stderr: 'unhealthy: ECONNREFUSED\n',
    });
  });

  test.runIf(hasOpenssl)(
    'asks over TLS, and with client certificates for a connection',
    async () => {
      const authority = new Authority(place.folder, 'authority');
      const { cert, key } = authority.issue('DNS:standin.example');
      const tls = { TLS_CERT_FILE: cert, TLS_KEY_FILE: key };
      for (const env of [tls, { ...tls, TLS_CLIENT_CA_FILE: authority.ca }]) {
        const service = await startService(place, env);
        const { port } = new URL(service.url);
        expect(check({ ...env, PORT: port, HOST: '0.0.0.0' }, '/health').status).toBe(0);
        await service.stop();
        expect(check({ ...env, PORT: port }, '/health').status).toBe(1);
      }
    },
  );
});
