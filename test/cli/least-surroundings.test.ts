import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, mkdirSync } from 'node:fs';
import { afterEach, expect, test } from 'vitest';
import { toldBy } from '../support/secrecy.ts';
import {
  CLI,
  call,
  firstClient,
  kinds,
  leastPrivilegePlace,
  newBlankPlace,
  type Place,
  type Service,
} from '../support/service.ts';

const NOBODY = 65_534;
const AS_NOBODY = [
  ...['--reuid', String(NOBODY), '--regid', String(NOBODY), '--clear-groups'],
  ...['--no-new-privs', '--inh-caps=-all', '--bounding-set=-all'],
];
/** All file systems read-only but the folders of the arguments, then a user without any right. */
const SCRIPT = `set -e
mount --make-rprivate /
mount --bind / /
if [ -n "$WRITABLE" ]; then mount --bind "$WRITABLE" "$WRITABLE"; fi
mount -o remount,bind,ro /
if touch "$PROBE" 2>/dev/null; then echo 'the file system can be written' >&2; exit 9; fi
cd "$FOLDER"
exec setpriv ${AS_NOBODY.join(' ')} "$NODE" "$CLI" serve`;

const canUnshare =
  process.platform === 'linux' &&
  process.getuid?.() === 0 &&
  spawnSync('unshare', [
    '--mount',
    'sh',
    '-c',
    'mount --make-rprivate / && mount --bind / / && mount -o remount,bind,ro /',
  ]).status === 0 &&
  spawnSync('setpriv', [...AS_NOBODY, process.execPath, CLI, '--version']).status === 0;

const cleanups: (() => void | Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** @param writable the one folder that it may write; empty: none */
async function startConfined(place: Place, writable: string): Promise<Service> {
  for (const path of [place.folder, place.env.KEK_FILE, writable])
    if (path) chownSync(path, NOBODY, NOBODY);
  const { PATH = '' } = process.env;
  const child = spawn('unshare', ['--mount', 'sh', '-c', SCRIPT], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      ...{ PATH, ...place.env, ...place.service?.env },
      ...{ PORT: '0', OPS_PORT: '0', LOG_FORMAT: 'json' },
      ...{ NODE: process.execPath, CLI, WRITABLE: writable, FOLDER: place.folder },
      PROBE: `${place.folder}/probe`,
    },
  });
  let output = '';
  const exit = once(child, 'exit').then(([code, signal]) => (code ?? signal) as number | string);
  cleanups.push(async () => {
    child.kill('SIGTERM');
    await exit;
    expect(toldBy(output, [])).toEqual([]);
  });
  const url = await new Promise<string>((resolve, reject) => {
    const read = (chunk: Buffer) => {
      output += chunk;
      const line = output.split('\n').find((one) => /"msg":"listening".*\}$/.test(one));
      if (line !== undefined) resolve(JSON.parse(line).url);
    };
    child.stdout.on('data', read);
    child.stderr.on('data', read);
    void exit.then((code) => reject(new Error(`serve ended with ${code}:\n${output}`)));
  });
  const { api_key: apiKey } = place.service ?? firstClient(output);
  return { place, url, api_key: apiKey, exit, pid: child.pid! } as Service;
}

async function expectServed(service: Service): Promise<void> {
  const { body } = await call(service, 'tokenize', { name: 'Ann Lee' });
  expect((await call(service, 'detokenize', body.data)).body.data).toEqual({ name: 'Ann Lee' });
}

test.runIf(canUnshare && kinds().includes('server'))(
  'S08: with a server it needs no right in the system, and no file to write',
  async () => {
    const place = await leastPrivilegePlace();
    cleanups.push(place.remove);
    await expectServed(await startConfined(place, ''));
  },
);

test.runIf(canUnshare)(
  'S08: with the embedded database it needs its folder, and no other',
  async () => {
    const place = await newBlankPlace();
    cleanups.push(place.remove);
    mkdirSync(place.env.DATA_DIR!);
    await expectServed(await startConfined(place, place.env.DATA_DIR!));
  },
);
