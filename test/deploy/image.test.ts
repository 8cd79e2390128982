import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { buildImage, has, type Image, instructions, runTool } from '../support/deploy.ts';
import { ROOT, readText } from '../support/docs.ts';
import { newFolder } from '../support/folder.ts';
import { freePort } from '../support/processes.ts';
import { start } from '../support/running.ts';
import { firstClient, newPlace, type Place, startService } from '../support/service.ts';
import { Authority, hasOpenssl } from '../support/tls.ts';

const HEALTH_CHECK = join(ROOT, 'deploy/docker/healthcheck.mjs');
const SLOW_MS = 480_000;

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
  expect(runTool('hadolint', 'deploy/docker/Dockerfile')).toBe('');
});

/** Installs all packages twice: where somebody waits for it. */
const isWanted = process.env.TEST_IMAGE === '1';

describe.runIf(isWanted)('the tree that the Dockerfile makes', () => {
  const folder = newFolder('image');
  let image: Image;
  beforeAll(() => {
    chmodSync(folder, 0o755);
    image = buildImage(folder);
  }, SLOW_MS);

  test('has the program and the packages of production, and nothing else', () => {
    expect(readdirSync(image.root).sort()).toEqual(['standin', 'var']);
    expect(readdirSync(image.workdir).sort().join(' ')).toBe(
      'LICENSE dist healthcheck.mjs migrations node_modules package.json',
    );
    const lock: Record<string, { dev?: boolean; devOptional?: boolean }> = JSON.parse(
      readText('package-lock.json'),
    ).packages;
    const development = Object.keys(lock).filter((path) => lock[path]!.dev === true);
    expect(development.length).toBeGreaterThan(50);
    const modules = join(image.workdir, 'node_modules');
    const installed = readdirSync(modules, { recursive: true, encoding: 'utf8' })
      .filter((path) => path.endsWith('package.json'))
      .map((path) => join('node_modules', path, '..'));
    expect(installed).toContain('node_modules/fastify');
    expect(installed.filter((path) => development.includes(path))).toEqual([]);
  });

  test('serves as a user without rights who can write nothing of it, and its health check says so', async () => {
    const [uid, gid] = image.user.split(':').map(Number);
    const as = process.getuid?.() === 0 ? { uid: uid!, gid: gid! } : {};
    const words = ['.', '-writable', '-not', '-type', 'l', '-print', '-quit'];
    const writable = spawnSync('find', words, { ...as, cwd: image.workdir, encoding: 'utf8' });
    if (as.uid !== undefined) expect([writable.status, writable.stdout]).toEqual([0, '']);
    const dataDir = join(folder, 'data');
    mkdirSync(dataDir, { mode: 0o700 });
    if (as.uid !== undefined) chownSync(dataDir, uid!, gid!);
    const { PATH } = process.env;
    const env = { ...image.env, PATH, PORT: String(await freePort()), OPS_PORT: '0' };
    const options = { ...as, cwd: image.workdir, env: { ...env, DATA_DIR: dataDir } };
    const check = () => spawnSync(process.execPath, image.health_check.slice(1), options).status;
    expect([image.command[0], image.health_check[0]]).toEqual(['node', 'node']);
    expect(check()).toBe(1);
    const running = start([process.execPath, ...image.command.slice(1)], options);
    await running.wrote(/"msg":"listening"/);
    expect(check()).toBe(0);
    const { api_key: apiKey } = firstClient(running.output());
    const answer = await fetch(`http://127.0.0.1:${env.PORT}/api/v1/tokenize`, {
      method: 'POST',
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ data: { name: 'ann' } }),
    });
    expect(answer.status).toBe(200);
    expect(await running.stop('SIGTERM')).toBe(0);
    expect(check()).toBe(1);
  });
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
