import { execFileSync } from 'node:child_process';
import {
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ROOT, readText } from '../support/docs.ts';
import { newFolder } from '../support/folder.ts';
import { install, PACK_TIMEOUT_MS, pack, plainEnvironment, run } from '../support/package.ts';
import { freePort, owner } from '../support/processes.ts';
import { type Command, type Surroundings, start } from '../support/running.ts';
import { firstClient } from '../support/service.ts';

const VERSION: string = JSON.parse(readText('package.json')).version;

const folder = newFolder('installed');
/** Where the package is installed, in node_modules. */
const home = join(folder, 'home');
let isInstalled: boolean;
beforeAll(async () => {
  isInstalled = await install((await pack(folder)).tarball, home);
}, PACK_TIMEOUT_MS);
beforeEach(({ skip }) => {
  if (!isInstalled) skip('no registry');
});

/** Starts the service by a command line, and resolves when it listens. */
async function serve(command: Command, { env, ...where }: Partial<Surroundings>) {
  const settings = { ...plainEnvironment(), PORT: String(await freePort()), OPS_PORT: '0', ...env };
  const service = start(command, { cwd: home, ...where, env: settings });
  await service.wrote(/"msg":"listening"/);
  return {
    url: await service.wrote(/"url":"([^"]+)"/),
    api_key: firstClient(service.output()).api_key,
    /** Ctrl-C in its terminal: everything in the foreground gets SIGINT. */
    interrupt: async () => {
      await service.stop('SIGINT');
      expect(service.output()).toContain('"msg":"stopped"');
    },
  };
}

test('brings nothing that only its authors need', () => {
  const { packages } = JSON.parse(readText('package-lock.json'));
  const tools = Object.keys(packages[''].devDependencies).filter(
    (name) => packages[`node_modules/${name}`].dev,
  );
  expect(tools).toContain('vitest');
  for (const tool of tools) expect(existsSync(join(home, 'node_modules', tool)), tool).toBe(false);
});

test('npx standin serve runs in that folder with a database of its own, as the help says, and ends on Ctrl-C', async () => {
  const version = await run('npx', ['standin', '--version'], { cwd: home });
  expect(version).toMatchObject({ code: 0, stdout: `${VERSION}\n` });
  const service = await serve(['npx', 'standin', 'serve'], {});
  const { stdout: help } = await run('npx', ['standin', '--help'], { cwd: home });
  expect(help).toContain(`Documents: ${join(home, 'node_modules/standin/docs')}`);
  const curl = /curl .*?}'/s.exec(help)![0].replace('http://127.0.0.1:8080', service.url);
  const env = { API_KEY: service.api_key };
  const tokenized = JSON.parse((await run('sh', ['-c', curl], { cwd: home, env })).stdout);
  expect(tokenized.data.email).toMatch(/^[a-z]{3}@[a-z]{7}\.[a-z]{3}_tok$/);
  const back = curl
    .replace('/tokenize', '/detokenize')
    .replace('ann@example.com', tokenized.data.email);
  const restored = JSON.parse((await run('sh', ['-c', back], { cwd: home, env })).stdout);
  expect(restored.data).toEqual({ email: 'ann@example.com' });
  const doctor = await run('npx', ['standin', 'doctor'], { cwd: home });
  expect(doctor.code).toBe(0);
  expect(doctor.stdout).toMatch(/^ok +clients: 1 enabled, 1 live API key$/m);
  await service.interrupt();
  expect(readdirSync(home).sort()).toEqual([
    'data',
    'node_modules',
    'package-lock.json',
    'package.json',
  ]);
  expect(statSync(join(home, 'data')).mode & 0o777).toBe(0o700);
});

test('it needs to write nowhere but in its data folder: read-only, of another user, over symbolic links', async () => {
  const place = join(folder, 'place');
  mkdirSync(place);
  if (owner.uid !== undefined) chownSync(place, owner.uid, owner.gid!);
  execFileSync('chmod', ['-R', 'a-w', join(home, 'node_modules')]);
  execFileSync('chmod', ['a+rx', folder, home]);
  const linked = join(folder, 'standin');
  symlinkSync(join(home, 'node_modules/.bin/standin'), linked);
  const OPS_PORT = String(await freePort());
  const where = { cwd: place, env: { OPS_PORT }, ...owner };
  const service = await serve([linked, 'serve'], where);
  const response = await fetch(`${service.url}/health`);
  expect(response.status).toBe(200);
  // So are the console and, of another package, its charts.
  for (const page of ['metrics', '', 'assets/uplot.js']) {
    const { status } = await fetch(`http://127.0.0.1:${OPS_PORT}/${page}`);
    expect({ page, status }).toEqual({ page, status: 200 });
  }
  expect(await run(linked, ['client', 'list'], where)).toMatchObject({ code: 0, stderr: '' });
  await service.interrupt();
  expect(readdirSync(place)).toEqual(['data']);
});

const USE = `import { Standin, StandinError } from 'standin/client';
const standin = new Standin({ url: 'http://127.0.0.1:1', apiKey: 'stk_0123456789ABCDEFGHIJKLMNOPQR1KnaxG' });
export async function use(): Promise<string> {
  const { email, tags } = await standin.tokenize({ email: 'ann@example.com', tags: ['a'] });
  // @ts-expect-error a number is no string to replace
  await standin.tokenize({ age: 7 }).catch((error: unknown) => error instanceof StandinError);
  // @ts-expect-error there is no such field
  await standin.tokenize({ email }).then(({ phone }) => phone);
  const list: string[] = tags;
  return email + list.join();
}
`;

describe('standin/client', () => {
  test.each([
    ['nodenext', { types: ['node'], typeRoots: [join(ROOT, 'node_modules/@types')] }],
    ['bundler', { types: [], lib: ['es2022', 'dom'], module: 'preserve' }],
  ])(
    'has its types in a TypeScript project with moduleResolution %s',
    async (resolution, options) => {
      const project = join(home, `project-${resolution}`);
      mkdirSync(project);
      writeFileSync(join(project, 'package.json'), '{ "type": "module" }');
      writeFileSync(join(project, 'use.ts'), USE);
      const compilerOptions = {
        module: resolution,
        moduleResolution: resolution,
        target: 'es2022',
        strict: true,
        noEmit: true,
        ...options,
      };
      writeFileSync(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions }));
      const tsc = join(ROOT, 'node_modules/.bin/tsc');
      const { code, stdout } = await run(tsc, ['-p', '.'], { cwd: project });
      expect(stdout).toBe('');
      expect(code).toBe(0);
    },
  );

  /** Runs a module of the folder that the package is installed in. */
  const script = (text: string) => run(process.execPath, ['-e', text], { cwd: home });

  test('is there for ES modules and for require, and is all that can be imported', async () => {
    const names =
      "import('standin/client').then((module) => console.log(Object.keys(module).join()))";
    const imported = await script(names);
    expect(imported.stdout).toMatch(/\bStandin\b.*\bStandinError\b/);
    const required = await script("console.log(Object.keys(require('standin/client')).join())");
    expect(required.stdout).toBe(imported.stdout);
    for (const other of [
      'standin',
      'standin/dist/cli.js',
      'standin/dist/crypto/kek.js',
      'standin/dist/bulk/run.js',
    ])
      expect((await script(`import('${other}')`)).stderr).toContain(
        'ERR_PACKAGE_PATH_NOT_EXPORTED',
      );
  });
});
