import { readdirSync } from 'node:fs';
import { afterEach, expect, test } from 'vitest';
import { childrenOf, isRunning } from '../support/processes.ts';
import {
  call,
  newPlace,
  type Place,
  runCli,
  type Service,
  startService,
  until,
} from '../support/service.ts';

let place: Place;
let service: Service;
afterEach(async () => {
  service.kill('SIGKILL');
  await service.exit;
  place.remove();
});

async function start(env: Record<string, string> = {}): Promise<void> {
  place = await newPlace('embedded');
  service = await startService(place, env);
}

test('the embedded database ends when its parent is killed', async () => {
  await start();
  const children = childrenOf(service.pid);
  expect(children).toHaveLength(1);
  service.kill('SIGKILL');
  await until(() => !children.some(isRunning), 'the end of the database process');
});

test('commands started at once on a stale socket all succeed, on one database', async () => {
  await start();
  service.kill('SIGKILL');
  for (const pid of childrenOf(service.pid)) process.kill(pid, 'SIGKILL');
  await service.exit;
  const names = Array.from({ length: 6 }, (_, i) => `c${i}`);
  const ended = await Promise.all(
    names.map((name) => runCli(['client', 'create', '--name', name, '--json'], place)),
  );
  expect(ended.map(({ code, stderr }) => `${code}${stderr}`)).toEqual(names.map(() => '0'));
  service = await startService(place);
  const { stdout } = await runCli(['client', 'list', '--json'], place);
  const listed = JSON.parse(stdout).map((client: { name: string }) => client.name);
  expect(listed.toSorted()).toEqual([...names, 'first'].toSorted());
  const sockets = readdirSync(place.env.DATA_DIR!).filter((name) => name.startsWith('.s.PGSQL.'));
  expect(sockets).toHaveLength(1);
});

test('SIGTERM: first /health says 503 while requests are answered, then it ends with 0', async () => {
  await start({ DRAIN_DELAY_MS: '1500' });
  service.kill('SIGTERM');
  const health = async () => (await fetch(`${service.url}/health`)).status;
  await until(async () => (await health()) === 503, '/health to say 503');
  const answer = await call(service, 'tokenize', { a: 'Ann Lee' });
  expect(answer.status).toBe(200);
  expect(answer.headers.get('connection')).toBe('close');
  expect(await service.exit).toBe(0);
});

test('what is in flight at SIGINT is answered', async () => {
  await start();
  const values = Array.from({ length: 5_000 }, (_, i) => `in flight ${i}`);
  const answers = [call(service, 'tokenize', { values }), call(service, 'tokenize', { values })];
  await until(() => /"msg":"listening"/.test(service.output()), 'its start');
  const first = await Promise.race(answers);
  service.kill('SIGINT');
  expect(first.status).toBe(200);
  expect([200, 503]).toContain((await answers[1]!).status);
  expect(await service.exit).toBe(0);
});

test('kill -USR1 opens no debugger', async () => {
  await start();
  service.kill('SIGUSR1');
  expect((await call(service, 'tokenize', { a: 'b' })).status).toBe(200);
  expect(service.output()).not.toContain('Debugger listening');
});
