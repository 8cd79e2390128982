import { createServer } from 'node:http';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { JournalledWriters } from '../support/journal.ts';
import { Licenser } from '../support/license.ts';
import { freePort, PostgresCluster, postgres_bin } from '../support/postgres.ts';
import { childrenOf, isRunning, workersOf } from '../support/processes.ts';
import {
  call,
  newPlace,
  type Place,
  runCli,
  type Service,
  startService,
  until,
  usualPlace,
} from '../support/service.ts';
import { sql } from '../support/sql.ts';

const WORKERS = 2;
let place: Place;
let service: Service;
beforeEach(async () => {
  // The server where there is one: it starts at once.
  place = await usualPlace();
});
afterEach(async () => {
  service.kill('SIGKILL');
  await service.exit;
  place.remove();
});

async function start(env: Record<string, string> = {}): Promise<void> {
  service = await startService(place, { WORKERS: String(WORKERS), DRAIN_DELAY_MS: '500', ...env });
}

function logged(message: string): Record<string, any>[] {
  return service
    .output()
    .split('\n')
    .filter((line) => line.startsWith('{') && line.endsWith('}'))
    .map((line) => JSON.parse(line))
    .filter((line) => line.msg === message);
}

/** Requests without pause until `stop`; all that did not get a 200 are failures. */
class Load {
  answered = 0;
  readonly failures: unknown[] = [];
  readonly #callers: Promise<void>[];
  #is_over = false;

  constructor(callers: number) {
    this.#callers = Array.from({ length: callers }, (_, i) => this.#call(i));
  }

  /** Resolves when `count` more were answered. */
  async progress(count: number): Promise<void> {
    const goal = this.answered + count;
    await until(() => this.answered >= goal, `${count} more answers`);
  }

  async stop(): Promise<void> {
    this.#is_over = true;
    await Promise.all(this.#callers);
  }

  async #call(caller: number): Promise<void> {
    for (let n = 0; !this.#is_over; n++) {
      try {
        const { status, body } = await call(service, 'tokenize', { a: `caller ${caller} ${n}` });
        if (status === 200) this.answered++;
        else this.failures.push(body);
      } catch (error) {
        this.failures.push((error as Error).cause ?? error);
        // A failure must not fill the memory with its like.
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
  }
}

/** Values of the series of a metric, by their labels. */
async function scrape(name: string): Promise<Record<string, number>> {
  const text = await (await fetch(`${service.ops_url}/metrics`)).text();
  const series = text.matchAll(new RegExp(`^${name}(?:\\{(.*)\\})? (\\S+)$`, 'gm'));
  return Object.fromEntries([...series].map(([, labels = '', value]) => [labels, Number(value)]));
}

test('all workers answer on one port, and their log lines say which they are', async () => {
  await start();
  expect(workersOf(service.pid)).toHaveLength(WORKERS);
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, i) => call(service, 'tokenize', { a: `${i}` })),
  );
  expect(answers.map(({ status }) => status)).toEqual(Array(20).fill(200));
  const workers = () =>
    new Set([...service.output().matchAll(/"worker":(\d+),"request_id"/g)].map(([, n]) => n));
  await until(() => workers().size === WORKERS, 'lines of all workers');
  expect(logged('listening')).toMatchObject([{ url: service.url, workers: WORKERS }]);
});

test('the limit of a client holds for the sum of what all workers let through', async () => {
  const RATE = 50;
  await start({ WORKERS: '3', RATE_LIMIT: String(RATE) });
  // A machine too busy to answer in 100 ms has each worker count by itself, and says so.
  for (let attempt = 0; ; attempt++) {
    const made = await runCli(['client', 'create', '--name', 'x', '--json'], place);
    const { client_id } = JSON.parse(made.stdout);
    const issued = await runCli(['api-key', 'issue', '--client', client_id, '--json'], place);
    const { api_key } = JSON.parse(issued.stdout);
    // Workers that start take the primary's time, too.
    await until(() => logged(UNSHARED).length === logged(SHARED).length, 'shared limits');
    const unshared = logged(UNSHARED).length;
    const started_at_ms = performance.now();
    const answers = await Promise.all(
      Array.from({ length: 400 }, (_, i) => call(service, 'tokenize', { a: `${i % 5}` }, api_key)),
    );
    const refill = (RATE * (performance.now() - started_at_ms)) / 1000;
    const granted = answers.filter(({ status }) => status === 200).length;
    const refused = answers.filter(({ status }) => status === 429);
    expect(granted + refused.length).toBe(400);
    for (const { body } of refused) expect(body).toEqual({ error: 'user_limit', retry_after: 1 });
    expect(granted).toBeGreaterThanOrEqual(RATE);
    await until(() => linesOf(client_id).length === 400, 'the log lines of the burst');
    expect(new Set(linesOf(client_id)).size).toBe(3);
    if (logged(UNSHARED).length > unshared && attempt < 5) continue;
    expect(granted).toBeLessThanOrEqual(RATE + Math.ceil(refill));
    return;
  }
});

const UNSHARED = 'The primary does not answer: this process limits on its own';
const SHARED = 'The primary answers again: rate limits are shared';

/** The workers of the log lines of a client. */
function linesOf(client_id: string): string[] {
  const line = new RegExp(`"worker":(\\d),"request_id":"[^"]*","client_id":"${client_id}"`, 'g');
  return [...service.output().matchAll(line)].map(([, worker]) => worker!);
}

test('metrics are those of one service: sums, kept when a worker dies; gauges once; processes apart', async () => {
  const licenser = new Licenser(place.folder);
  await licenser.issue(90);
  await start({ ...licenser.env, OPS_PORT: String(await freePort()) });
  const SENT = 40;
  await Promise.all(
    Array.from({ length: SENT }, (_, i) => call(service, 'tokenize', { a: `${i}` })),
  );
  const sums = async () => ({
    requests: await scrape('standin_requests_total'),
    values: await scrape('standin_values_total'),
    duration: await scrape('standin_request_duration_seconds_count'),
    slowest: Object.values(await scrape('standin_request_duration_seconds_bucket')).at(-1),
  });
  const expected = {
    requests: { 'route="/api/v1/tokenize",status="200"': SENT },
    values: { 'operation="tokenize"': SENT },
    duration: { 'route="/api/v1/tokenize"': SENT },
    slowest: SENT,
  };
  expect(await sums()).toEqual(expected);
  await until(async () => (await scrape('standin_vault_rows'))[''] === SENT, 'all records');
  const days = await scrape('standin_license_days_left');
  expect(days['']).toBeGreaterThan(89);
  expect(days['']).toBeLessThanOrEqual(90);
  const processes = async () => Object.keys(await scrape('process_resident_memory_bytes')).sort();
  const all = ['worker="1"', 'worker="2"', 'worker="primary"'];
  expect(await processes()).toEqual(all);
  expect(await scrape('standin_worker_restarts_total')).toEqual({ '': 0 });

  process.kill(workersOf(service.pid)[0]!, 'SIGKILL');
  await until(() => logged('worker started').length === 1, 'another worker');
  expect(await sums()).toEqual(expected);
  expect(await scrape('standin_worker_restarts_total')).toEqual({ '': 1 });
  expect(await processes()).toEqual(all);
});

describe('a worker that is killed', () => {
  test('is replaced while the others answer, and no acknowledged token is lost', async () => {
    await start();
    const writers = new JournalledWriters(place, () => service, service.api_key);
    for (let i = 1; i <= 5; i++) {
      await writers.progress(100);
      process.kill(workersOf(service.pid)[i % WORKERS]!, 'SIGKILL');
      await until(() => logged('worker started').length === i, 'another worker');
    }
    await writers.progress(100);
    await writers.stop();
    await writers.verify(service, service.api_key);
    expect([...writers.failures]).toEqual([]);
    expect(logged('worker ended').map((line) => line.ended_with)).toEqual(Array(5).fill('SIGKILL'));
    expect(workersOf(service.pid)).toHaveLength(WORKERS);
  });

  test('leaves no caller waiting, not even those that it had not seen yet', async () => {
    await start();
    const [stopped] = workersOf(service.pid);
    process.kill(stopped!, 'SIGSTOP');
    const alive = () => fetch(`${service.url}/health/live`, { headers: { connection: 'close' } });
    const asked = Array.from({ length: 10 }, alive);
    const settled: string[] = [];
    for (const one of asked) {
      one.then(
        () => settled.push('answered'),
        () => settled.push('cut'),
      );
    }
    await until(() => settled.length === 9, 'the answers of the other worker');
    process.kill(stopped!, 'SIGKILL');
    await until(() => settled.length === 10, 'the last one');
    expect(settled.toSorted()).toEqual([...Array(9).fill('answered'), 'cut']);
  });

  test('with all others comes back on the same port', async () => {
    await start();
    for (const pid of workersOf(service.pid)) process.kill(pid, 'SIGKILL');
    await until(() => logged('worker started').length === WORKERS, 'all workers');
    expect((await call(service, 'tokenize', { a: 'b' })).status).toBe(200);
  });

  test('and cannot be replaced ends the service after five tries, which says why', async () => {
    await start();
    await sql(place, 'alter table standin.api_keys rename to gone');
    process.kill(workersOf(service.pid)[0]!, 'SIGKILL');
    expect(await service.exit).toBe(1);
    expect(logged('worker could not start')).toHaveLength(5);
    expect(logged('workers cannot start, ending')).toMatchObject([
      { problems: ['A worker could not start (42P01).'] },
    ]);
  });

  test.skipIf(postgres_bin === undefined)('is replaced while the database is down', async () => {
    const cluster = await PostgresCluster.start();
    try {
      place.remove();
      place = await newPlace('server', cluster.url('postgres'));
      await start();
      await cluster.crash();
      for (const pid of workersOf(service.pid)) process.kill(pid, 'SIGKILL');
      await until(() => logged('worker started').length === WORKERS, 'all workers');
      const { body } = await call(service, 'tokenize', { a: 'Ann' });
      expect(body).toEqual({ error: 'internal_error', message: 'database unavailable' });
      cluster.startAgain();
      const answers = async () => (await call(service, 'tokenize', { a: 'Ann' })).status;
      await until(async () => (await answers()) === 200, 'an answer');
    } finally {
      cluster.stop();
    }
  });
});

test('kill -9 of the primary ends all processes, and the port is free', async () => {
  place.remove();
  place = await newPlace('embedded');
  await start();
  const load = new Load(8);
  await load.progress(50);
  const children = childrenOf(service.pid);
  expect(children).toHaveLength(WORKERS + 1);
  service.kill('SIGKILL');
  await until(() => !children.some(isRunning), 'the end of all processes');
  await load.stop();
  const other = createServer();
  await new Promise<void>((resolve, reject) => {
    other.once('error', reject);
    other.listen(Number(new URL(service.url).port), '127.0.0.1', resolve);
  });
  other.close();
});

describe('SIGHUP', () => {
  test('renews all workers one after the other, and no request fails', async () => {
    await start();
    const old = workersOf(service.pid);
    const load = new Load(8);
    for (let round = 1; round <= 2; round++) {
      await load.progress(50);
      service.kill('SIGHUP');
      await until(() => logged('rolling restart done').length === round, 'its end', 60_000);
    }
    await load.progress(50);
    await load.stop();
    expect(load.failures).toEqual([]);
    const renewed = workersOf(service.pid);
    expect(renewed).toHaveLength(WORKERS);
    expect(renewed.filter((pid) => old.includes(pid))).toEqual([]);
    expect(logged('worker started').map(({ worker }) => worker)).toEqual([1, 2, 1, 2]);
    expect(logged('worker ended')).toEqual([]);
  });

  test('leaves the old workers when new ones cannot start', async () => {
    await start();
    const old = workersOf(service.pid);
    await sql(place, 'alter table standin.api_keys rename to gone');
    service.kill('SIGHUP');
    const given_up = 'worker could not start, the old one stays';
    await until(() => logged(given_up).length === 1, 'the end of the restart');
    expect(workersOf(service.pid)).toEqual(old);
    await sql(place, 'alter table standin.gone rename to api_keys');
    expect((await call(service, 'tokenize', { a: 'b' })).status).toBe(200);
    service.kill('SIGHUP');
    await until(() => logged('rolling restart done').length === 1, 'another restart', 60_000);
  });

  test('does not end a service that is one process, and is answered in its log', async () => {
    await start({ WORKERS: '1' });
    expect(workersOf(service.pid)).toEqual([]);
    service.kill('SIGHUP');
    const said = 'nothing to restart one by one: WORKERS is 1';
    await until(() => logged(said).length === 1, 'the line');
    expect((await call(service, 'tokenize', { a: 'b' })).status).toBe(200);
  });
});

describe('the end of a service with workers', () => {
  test('SIGTERM under load: first /health says 503 while requests are answered, then it ends with 0', async () => {
    await start({ DRAIN_DELAY_MS: '4000' });
    const children = childrenOf(service.pid);
    const writers = new JournalledWriters(place, () => service, service.api_key);
    await writers.progress(100);
    service.kill('SIGTERM');
    const health = async () => (await fetch(`${service.url}/health`)).status;
    await until(async () => (await health()) === 503, '/health to say 503');
    // Connections go to all workers in turn.
    for (let i = 0; i < 2 * WORKERS; i++) expect(await health()).toBe(503);
    expect((await call(service, 'tokenize', { a: 'Ann' })).status).toBe(200);
    expect(await service.exit).toBe(0);
    expect(children.filter(isRunning)).toEqual([]);
    await writers.stop();
    service = await startService(place);
    const { api_key } = JSON.parse(
      (await runCli(['client', 'create', '--name', 'x', '--json'], place)).stdout,
    );
    await writers.verify(service, api_key);
  });

  test('what is in flight at SIGINT is answered', async () => {
    await start();
    const values = Array.from({ length: 5_000 }, (_, i) => `in flight ${i}`);
    const answers = [call(service, 'tokenize', { values }), call(service, 'tokenize', { values })];
    const first = await Promise.race(answers);
    service.kill('SIGINT');
    expect(first.status).toBe(200);
    expect([200, 503]).toContain((await answers[1]!).status);
    expect(await service.exit).toBe(0);
  });

  test('a worker that does not answer does not keep the service', async () => {
    await start({ DRAIN_DELAY_MS: '0' });
    const load = new Load(8);
    await load.progress(50);
    process.kill(workersOf(service.pid)[0]!, 'SIGSTOP');
    service.kill('SIGTERM');
    expect(await service.exit).toBe(0);
    await load.stop();
  });
});

test('a port in use is named, and the exit code is 1', async () => {
  await start();
  const { port } = new URL(service.url);
  const other = await newPlace('embedded');
  const ended = await runCli(['serve'], other, { WORKERS: '2', PORT: port, OPS_PORT: '0' });
  other.remove();
  expect(ended).toEqual({
    code: 1,
    stdout: '',
    stderr: `standin: Cannot listen on 127.0.0.1:${port} (EADDRINUSE). Stop what listens there, or set PORT to another port.\n`,
  });
});
