import { spawn, spawnSync } from 'node:child_process';
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { describe, expect, onTestFinished, test } from 'vitest';
import { isLinux, loaded, newVault, nodesAt, start, stopped } from '../support/fault.ts';
import { childrenOf, isRunning } from '../support/processes.ts';
import { CLI, call, endOf, type Place, runCli, type Service, until } from '../support/service.ts';
import { vaultAddress } from '../support/vault.ts';

function sockets({ env }: Place): string[] {
  return readdirSync(env.DATA_DIR!).filter((name) => name.startsWith('.s.PGSQL.'));
}

function removeSockets(place: Place): void {
  for (const name of sockets(place)) rmSync(join(place.env.DATA_DIR!, name), { force: true });
}

const databaseOf = ({ pid }: Service) => childrenOf(pid)[0]!;

/** Once the service has found the next process: a statement on its way to the last one is a 500. */
async function expectValue(service: Service, token: string, value: string): Promise<void> {
  const restored = () => call(service, 'detokenize', { token }, service.api_key);
  await until(async () => (await restored()).status === 200, 'a token to be given back');
  expect((await restored()).body.data).toEqual({ token: value });
}

const list = (place: Place, env: Record<string, string> = {}) =>
  runCli(['client', 'list', '--json'], place, env);
const HELD = /^standin: Another process has the embedded database in .* open, .*\n$/;

describe('F35: the socket file of the embedded database is removed', () => {
  test('under load, with a second service and commands on the folder: one database, nothing lost', async () => {
    const place = await newVault();
    const at = await loaded(nodesAt(place), 300);
    const { service: first, writers: onFirst } = at;
    removeSockets(place);
    const [second, ...commands] = await Promise.all([start(place), list(place), list(place)]);
    for (const { code, stderr } of commands) {
      expect(code).toBe(0);
      expect(stderr).not.toContain('Unexpected');
    }
    const { writers: onSecond } = await loaded({ ...at, nodes: [second] }, 0);
    for (const writers of [onFirst, onSecond, onFirst]) {
      await writers.progress(300);
      removeSockets(place);
    }
    await onFirst.progress(300);
    await onSecond.progress(300);
    await onFirst.stop();
    await onSecond.stop();
    // Each knows the tokens of the other, now and from the disk.
    expect(await onFirst.verify(second)).toBeGreaterThan(600);
    expect(await onSecond.verify(first)).toBeGreaterThan(600);
    for (const service of [first, second]) await service.stop();
    const last = await start(place);
    await onFirst.verify(last);
    await onSecond.verify(last);
    await onFirst.verifyRows();
    expect(sockets(place)).toHaveLength(1);
    await at.ok('verify');
  });

  test('and its process is stopped: commands and a second service are refused in words', async () => {
    const place = await newVault();
    const service = await start(place);
    const database = databaseOf(service);
    const { token } = (await call(service, 'tokenize', { token: 'Ann Lee' })).body.data;
    const goOn = stopped(database);
    removeSockets(place);
    for (const ended of [
      await list(place),
      await runCli(['serve'], place, { PORT: '0', OPS_PORT: '0' }),
    ]) {
      expect(ended).toEqual({ code: 1, stdout: '', stderr: expect.stringMatching(HELD) });
    }
    goOn();
    await until(() => !isRunning(database), 'the end of the process whose socket is gone');
    await expectValue(service, token, 'Ann Lee');
    expect((await list(place)).code).toBe(0);
    const said = `The socket of the embedded database in ${place.env.DATA_DIR} was removed or replaced.`;
    expect(service.output()).toContain(`\nstandin: ${said} `);
  });

  test.each(['SIGSTOP', 'SIGKILL'] as const)(
    'and the service that started it gets %s: the next service takes over, nothing lost',
    async (signal) => {
      const place = await newVault();
      const { service: first, api_key, writers } = await loaded(nodesAt(place), 300);
      if (signal === 'SIGSTOP') await writers.stop();
      const goOn = signal === 'SIGSTOP' ? stopped(first.pid) : () => first.kill('SIGKILL');
      if (signal === 'SIGKILL') goOn();
      removeSockets(place);
      const second = await start(place);
      await writers.stop();
      await writers.verify(second);
      const { token } = (await call(second, 'tokenize', { token: 'Bob' }, api_key)).body.data;
      if (signal === 'SIGSTOP') {
        goOn();
        await expectValue(first, token, 'Bob');
        await writers.verify(first);
      }
    },
  );
});

test('a connection that leaves a transaction open for 30 s is cut, and one that ended its own is not, also when its service is gone', async () => {
  const place = await newVault();
  const service = await start(place);
  const database = databaseOf(service);
  const [other, idle] = [0, 1].map(() => new pg.Client(vaultAddress(place)).on('error', () => {}));
  for (const one of [other!, idle!]) {
    await one.connect();
    onTestFinished(() => one.end());
    await one.query('begin');
    if (one === other) await one.query('rollback');
  }
  await new Promise((resolve) => idle!.on('end', resolve as () => void));
  service.kill('SIGKILL');
  await until(() => !isRunning(service.pid), 'the end of the service');
  for (let one = 0; one < 9; one++)
    expect((await other!.query(`select ${one} as one`)).rows).toEqual([{ one }]);
  await other!.end();
  await until(() => !isRunning(database), 'the end of the database that nobody uses');
});

const NAMESPACES = ['--mount', '--pid', '--net', '--fork'];
const canUnshare = isLinux && spawnSync('unshare', [...NAMESPACES, 'true']).status === 0;

/** A command as in a container of its own that has the volume. */
function runApart(args: readonly string[], place: Place, env: Record<string, string> = {}) {
  const settings = Object.entries({ ...place.env, ...env }).map((entry) => entry.join('='));
  const command = ['env', ...settings, process.execPath, CLI, ...args];
  return endOf(spawn('unshare', [...NAMESPACES, ...command], { cwd: place.folder }));
}

describe.skipIf(!canUnshare)('F35: containers that share the folder', () => {
  test('have one database, also when its socket is gone', async () => {
    const place = await newVault();
    const service = await start(place);
    const { code, stdout } = await runApart(['client', 'list', '--json'], place);
    expect([code, JSON.parse(stdout)]).toMatchObject([0, [{ name: 'first' }]]);
    const goOn = stopped(databaseOf(service));
    removeSockets(place);
    const refused = await runApart(['client', 'list'], place);
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringMatching(HELD) });
    goOn();
    await until(async () => (await call(service, 'tokenize', { a: 'b' })).status === 200, 'a 200');
  });

  test('without flock(1), a process that others took the folder from writes nothing more, and verify says so', async () => {
    const place = await newVault();
    const withoutFlock = { PATH: place.folder };
    const service = await start(place, withoutFlock);
    const { token } = (await call(service, 'tokenize', { token: 'Ann Lee' })).body.data;
    const database = databaseOf(service);
    const goOn = stopped(database);
    removeSockets(place);
    // In one network namespace a socket without a file is the lock.
    expect((await list(place, withoutFlock)).stderr).toMatch(HELD);
    const created = await runApart(['client', 'create', '--name', 'apart'], place, withoutFlock);
    expect(created.code).toBe(0);
    goOn();
    await until(() => !isRunning(database), 'the end of the process that lost the folder');
    await expectValue(service, token, 'Ann Lee');
    const clients = JSON.parse((await list(place)).stdout);
    expect(clients).toMatchObject([{ name: 'first' }, { name: 'apart' }]);
    const said = /^standin: Two processes had .* at the same time \(noticed \S+Z\)\. /m;
    const verified = await runCli(['verify'], place);
    expect(verified).toMatchObject({ code: 1, stderr: expect.stringMatching(said) });
  });
});
