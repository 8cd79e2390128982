import { spawnSync } from 'node:child_process';
import { chownSync, mkdirSync } from 'node:fs';
import { expect, test } from 'vitest';
import { endsWithTest } from '../support/own.ts';
import { start } from '../support/running.ts';
import { toldBy } from '../support/secrecy.ts';
import {
  CLI,
  call,
  firstClient,
  kinds,
  leastPrivilegePlace,
  newBlankPlace,
  type Place,
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

/**
 * A service without rights is started there, and works.
 * @param writable the one folder that it may write; empty: none
 */
async function expectServed(place: Place, writable = ''): Promise<void> {
  for (const path of [place.folder, place.env.KEK_FILE, writable])
    if (path) chownSync(path, NOBODY, NOBODY);
  const { PATH = '' } = process.env;
  const service = start(['unshare', '--mount', 'sh', '-c', SCRIPT], {
    cwd: '/',
    env: {
      ...{ PATH, ...place.env, ...place.service?.env },
      ...{ PORT: '0', OPS_PORT: '0', LOG_FORMAT: 'json' },
      ...{ NODE: process.execPath, CLI, WRITABLE: writable, FOLDER: place.folder },
      PROBE: `${place.folder}/probe`,
    },
  });
  const { url } = JSON.parse(await service.wrote(/^(\{.*"msg":"listening".*\})$/m));
  const at = { url, api_key: (place.service ?? firstClient(service.output())).api_key };
  const { body } = await call(at, 'tokenize', { name: 'Ann Lee' });
  expect((await call(at, 'detokenize', body.data)).body.data).toEqual({ name: 'Ann Lee' });
  expect(await service.stop('SIGTERM')).toBe(0);
  expect(toldBy(service.output(), [])).toEqual([]);
}

test.runIf(canUnshare && kinds().includes('server'))(
  'S08: with a server it needs no right in the system, and no file to write',
  async () => expectServed(await endsWithTest(leastPrivilegePlace())),
);

test.runIf(canUnshare)(
  'S08: with the embedded database it needs its folder, and no other',
  async () => {
    const place = await endsWithTest(newBlankPlace());
    mkdirSync(place.env.DATA_DIR!);
    await expectServed(place, place.env.DATA_DIR!);
  },
);
