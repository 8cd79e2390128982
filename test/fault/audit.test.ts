import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  constants,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { errorCode } from '../../src/errors.ts';
import { admin, adminPlace } from '../support/admin.ts';
import { AuditedLoad, idsOf, readAudit, verifyAudit } from '../support/audit.ts';
import { canMount, newDisk } from '../support/disk.ts';
import { healthOf, loaded, nodesAt } from '../support/fault.ts';
import { endsWithTest, held, ownPlace, ownService, vaultAt } from '../support/own.ts';
import {
  type Answer,
  call,
  kinds,
  type Place,
  runJson,
  type Service,
  until,
} from '../support/service.ts';
import { metric, sql } from '../support/vault.ts';

const UNAVAILABLE = { error: 'internal_error', message: 'audit log unavailable' };
let place: Place;
let service: Service;
let file: string;
let apiKey: string;
beforeEach(() => settle(ownPlace()));

async function settle(newPlace: Promise<Place>): Promise<void> {
  place = await newPlace;
  file = join(place.folder, 'audit.log');
}

async function start(env: Record<string, string> = {}): Promise<Service> {
  service = await ownService(place, { AUDIT_LOG: file, AUDIT_REQUIRED: 'true', ...env });
  return service;
}

const failures = () => metric(service, 'standin_audit_failures_total');
const untilLost = (lines: number) =>
  until(async () => (await failures()) === lines, 'a failure for each line');

/** A token of Ann Canary, made by another service while nothing is wrong. */
async function newToken(): Promise<string> {
  const { service: other, tokenized } = await vaultAt(place);
  const { a } = await tokenized({ a: 'Ann Canary' });
  await other.stop();
  apiKey = other.api_key;
  return a;
}

/** A status, with the body of an answer that has no value. */
async function detokenized(token: string): Promise<readonly [number, unknown]> {
  const { status, body } = await call(service, 'detokenize', { a: token }, apiKey);
  return [status, body.data ?? body];
}
const DONE = [200, { a: 'Ann Canary' }];
const REFUSED = [500, UNAVAILABLE];
const untilDone = (token: string) =>
  until(async () => (await detokenized(token))[0] === 200, 'an answer with a line');

/** Repeats what is done at once, until it would have to wait. */
function untilAgain(work: () => unknown): void {
  try {
    for (;;) work();
  } catch (error) {
    if (errorCode(error) !== 'EAGAIN') throw error;
  }
}

const hasPipes = spawnSync('mkfifo', ['--version']).status === 0;

describe('F12: where nothing can be written', () => {
  test('no value leaves when the line is required', async () => {
    const token = await newToken();
    await start({ AUDIT_LOG: '/dev/full' });
    expect(await detokenized(token)).toEqual(REFUSED);
    const { status, body } = await call(service, 'tokenize', { a: 'Bob' }, apiKey);
    expect([status, body]).toEqual(REFUSED);
    // A request that gives nothing out is answered as ever.
    expect((await detokenized('nope_tok'))[0]).toBe(400);
    await untilLost(5);
    const said = service.output().match(/"code":"ENOSPC","msg":"the audit log cannot be written"/g);
    expect(said).toHaveLength(1);
    // Nor a line for each request besides that of every request.
    expect(service.output()).not.toContain('audit_unavailable');
  });

  test('requests go on when it is not required, and every lost line is counted', async () => {
    const token = await newToken();
    await start({ AUDIT_LOG: '/dev/full', AUDIT_REQUIRED: 'false' });
    for (let i = 0; i < 5; i++) expect(await detokenized(token)).toEqual(DONE);
    await untilLost(5);
  });
});

/** Reads a pipe to its end; `output` is what it has read. */
function readerOf(pipe: string) {
  const child = spawn('cat', [pipe], { stdio: ['ignore', 'pipe', 'ignore'] });
  let output = '';
  child.stdout.on('data', (chunk) => {
    output += chunk;
  });
  const end = async () => {
    child.kill('SIGKILL');
    await once(child, 'close');
  };
  return { output: () => output, end };
}

describe('F12: an act of an administrator', () => {
  beforeEach(() => settle(endsWithTest(adminPlace())));
  const act = (method: string, path: string, body?: unknown) =>
    admin(service.opsUrl!, method, path, body);
  const clients = () => runJson(place, 'client', 'list');

  test('is not done where its attempt cannot be written, when lines are required', async () => {
    const token = await newToken();
    await start({ AUDIT_LOG: '/dev/full' });
    for (const [method, path, body] of [
      ['PUT', '/clients/billing', {}],
      ['DELETE', '/clients/first', undefined],
      ['POST', '/clients/first/api-keys', {}],
      ['PUT', '/policy', { document: 'version: 1\n' }],
      ['POST', '/keyring/rotate', {}],
      ['POST', '/forget', { tokens: [token] }],
    ] as const) {
      const refused = await act(method, path, body);
      expect([path, refused.status, refused.body]).toEqual([path, ...REFUSED]);
    }
    expect(await clients()).toMatchObject([{ name: 'first', disabled_at: null }]);
    expect(await runJson(place, 'api-key', 'list')).toHaveLength(1);
    const keys = await runJson(place, 'keyring', 'status');
    expect(keys.filter((key: any) => key.purpose === 'dek')).toHaveLength(1);
    await service.stop();
    await start();
    expect(await detokenized(token)).toEqual(DONE);
  });

  test('is done without its lines when they are not required', async () => {
    await start({ AUDIT_LOG: '/dev/full', AUDIT_REQUIRED: 'false' });
    expect((await act('PUT', '/clients/billing', {})).status).toBe(201);
    await untilLost(2);
  });

  test('has its attempt on the disk before it is done', async () => {
    await start();
    const { headers } = await act('PUT', '/clients/billing', {});
    await act('GET', '/clients/billing');
    const { lines } = readAudit(file);
    const common = { event: 'admin', admin: 'terraform', act: 'client.put' };
    const request = { ...common, request_id: headers['x-request-id'] };
    expect(lines).toEqual([
      // The path could be anything, so only an id of the vault is named.
      expect.objectContaining({ ...request, target: null, outcome: 'attempt' }),
      expect.objectContaining({ ...request, outcome: 'success', status: 201 }),
      expect.objectContaining({ act: 'client.get', outcome: 'success', status: 200 }),
    ]);
    expect(lines[0]).not.toHaveProperty('status');
  });

  test.skipIf(!hasPipes || !kinds().includes('server'))(
    'whose end cannot be written says that it was done',
    async () => {
      execFileSync('mkfifo', [file]);
      const reader = readerOf(file);
      await start();
      const release = await held(place, 'lock table standin.clients in access exclusive mode');
      const acting = act('PUT', '/clients/billing', {});
      await until(() => reader.output().includes('"outcome":"attempt"'), 'its attempt');
      await reader.end();
      await release();
      const { status, body } = await acting;
      expect([status, body.message]).toEqual([500, expect.stringContaining('the act was done')]);
      expect(await clients()).toContainEqual(expect.objectContaining({ name: 'billing' }));
    },
  );
});

describe.skipIf(!hasPipes)('F12: a pipe', () => {
  beforeEach(() => {
    execFileSync('mkfifo', [file]);
  });

  test('whose reader ends: no value leaves until there is another; the service goes on', async () => {
    const token = await newToken();
    await start();
    expect(await detokenized(token)).toEqual(REFUSED);
    for (let round = 0; round < 2; round++) {
      const reader = readerOf(file);
      await untilDone(token);
      const { status, headers } = await call(service, 'detokenize', { a: token }, apiKey);
      expect(status).toBe(200);
      const requestId = headers.get('x-request-id')!;
      await until(() => reader.output().includes(requestId), 'its line');
      await reader.end();
      for (let i = 0; i < 4; i++) expect(await detokenized(token)).toEqual(REFUSED);
    }
    expect(await failures()).toBeGreaterThan(0);
    const reader = readerOf(file);
    await untilDone(token);
    const ended = () => service.output().includes('"the audit log can be written again"');
    await until(ended, 'the log says that it ended');
    await reader.end();
  });

  test.skipIf(!kinds().includes('server'))(
    'that takes a line late: no value leaves when the client was disabled meanwhile',
    async () => {
      const token = await newToken();
      const pipe = openSync(file, constants.O_RDWR | constants.O_NONBLOCK);
      onTestFinished(() => closeSync(pipe));
      await start();
      // A failure does not wait for its line.
      const failsWith = async (status: number) =>
        (await call(service, 'detokenize', 'no object', apiKey)).status === status;
      const setDisabled = async (at: string, status: number) => {
        await sql(place, `update standin.clients set disabled_at = ${at}`);
        await until(() => failsWith(status), `status ${status}`);
      };
      const seen = new Set<number>();
      // On a busy machine, the line may come too late.
      while (!seen.has(401) && !seen.has(200)) {
        await setDisabled('null', 400);
        await until(async () => {
          untilAgain(() => readSync(pipe, Buffer.alloc(65_536)));
          return (await detokenized(token))[0] === 200;
        }, 'a line');
        untilAgain(() => writeSync(pipe, '\n'.repeat(4_096)));
        const late = detokenized(token);
        await setDisabled('now()', 401);
        untilAgain(() => readSync(pipe, Buffer.alloc(65_536)));
        seen.add((await late)[0]);
      }
      expect(seen).not.toContain(200);
    },
  );
});

test('standard output that is closed ends nothing but success, and not the process', async () => {
  const token = await newToken();
  await start({ AUDIT_LOG: 'stdout' });
  expect(await detokenized(token)).toEqual(DONE);
  service.closeOutput();
  await until(async () => (await detokenized(token))[0] === 500, 'the closed end is noticed');
  expect(await detokenized(token)).toEqual(REFUSED);
  expect(await healthOf(service)).toBe(200);
});

describe.skipIf(!canMount)('F12: a disk that gets full', () => {
  let small: string;
  beforeEach(() => {
    small = newDisk('256k');
    file = join(small, 'audit.log');
  });
  const has = (load: AuditedLoad, status: number, since = 0, count = 1) =>
    until(
      () => load.answers.slice(since).filter((one) => one.status === status).length >= count,
      `${count} with ${status}`,
    );

  test('every success has its line, also of those around the moment when it got full', async () => {
    await start();
    writeFileSync(join(small, 'ballast'), Buffer.alloc(200 * 1024));
    const load = new AuditedLoad(service);
    await has(load, 500);
    rmSync(join(small, 'ballast'));
    await has(load, 200, load.answers.length, 50);
    const answers = await load.stop();
    for (const { status, body } of answers) if (status !== 200) expect(body).toEqual(UNAVAILABLE);
    await service.stop();
    const { lines, torn } = readAudit(file);
    const ids = new Set(lines.map((line) => line.request_id));
    for (const id of idsOf(answers, 200)) expect(ids).toContain(id);
    expect(ids.size).toBe(lines.length);
    // What was cut short is alone on its line.
    for (const half of torn) expect(half).toMatch(/^\{"time":"[^}]*$/);
    // A line that was lost left no gap.
    const { code, result } = await verifyAudit(place, file);
    expect([code, result.lines, result.incomplete]).toEqual([0, lines.length, torn.length]);
  });
});

test('a node that is killed while it writes: no line is missing, each run names the one before, and the log the head at the end', async () => {
  const nodes = [await start({ AUDIT_REQUIRED: 'false' })];
  const { writers } = await loaded({ place, nodes, api_key: service.api_key }, 0, Infinity);
  const runs = 4;
  for (let run = 1; run < runs; run++) {
    await writers.progress(200);
    service.kill('SIGKILL');
    nodes[0] = await start({ AUDIT_REQUIRED: 'false' });
  }
  await writers.finish(200);
  await service.stop();
  const { code, result } = await verifyAudit(place, file);
  expect([code, result.findings, result.heads.length]).toEqual([0, [], runs]);
  writeFileSync(`${file}.gz`, gzipSync(readFileSync(file)));
  expect((await verifyAudit(place, `${file}.gz`)).result.lines).toBe(result.lines);
  const lines = readFileSync(file, 'utf8').split('\n');
  // Only the head tells that lines are missing at the end.
  const expected = ['--expect', [...service.output().matchAll(/"head":"([^"]+)"/g)].at(-1)![1]!];
  const short = join(place.folder, 'short.log');
  writeFileSync(short, lines.slice(0, -10).join('\n'));
  expect((await verifyAudit(place, file, ...expected)).code).toBe(0);
  expect((await verifyAudit(place, short)).code).toBe(0);
  const cut = await verifyAudit(place, short, ...expected);
  expect([cut.code, cut.result.findings]).toMatchObject([1, [{ problem: 'named' }]]);
  const opening = lines.findLastIndex((line) => line.includes('"after":"'));
  // The last line of a run that was killed; a part of a line may follow it.
  const last = lines.findLastIndex((line, i) => i < opening && line.endsWith('}'));
  writeFileSync(file, lines.toSpliced(last, 1).join('\n'));
  const found = await verifyAudit(place, file);
  expect(found.code).toBe(1);
  expect(found.result.findings).toMatchObject([{ line: opening, problem: 'named' }]);
  writeFileSync(file, `${lines[0]}\n`.repeat(1_002));
  const { bad, findings } = (await verifyAudit(place, file)).result;
  expect([bad, findings.length]).toEqual([1_001, 1_000]);
});

describe('rotation', () => {
  const hangUp = () => {
    service.kill('SIGHUP');
    return until(() => service.output().includes('SIGHUP: '), 'the signal is taken');
  };
  test.each([
    [1, 'true'],
    [2, 'false'],
  ])(
    'of nodes: %i, by rename, under load: each answer has one line, AUDIT_REQUIRED=%s',
    async (count, AUDIT_REQUIRED) => {
      const { nodes, api_key } = await nodesAt(place, count, { AUDIT_LOG: file, AUDIT_REQUIRED });
      const loads = nodes.map((node) => new AuditedLoad({ ...node, api_key }));
      const rotated: string[] = [];
      for (let i = 1; i <= 4; i++) {
        await Promise.all(loads.map((load) => load.progress(100)));
        rotated.push(join(place.folder, `audit.log.${i}`));
        renameSync(file, rotated.at(-1)!);
        // As logrotate does it: with `create`, and with `nocreate`, where we make it.
        if (i % 2 === 0) writeFileSync(file, '', { flag: 'a', mode: 0o600 });
        await until(() => readAudit(file).lines.length > 0, 'lines in the new file');
      }
      const answers = (await Promise.all(loads.map((load) => load.stop()))).flat();
      for (const node of nodes) await node.stop();
      expect(answers.map(({ status }) => status)).toEqual(Array(answers.length).fill(200));
      const { lines, torn } = readAudit(...rotated, file);
      expect(torn).toEqual([]);
      expect(lines.map((line) => line.request_id).toSorted()).toEqual(idsOf(answers));
      for (const name of rotated) expect(readAudit(name).lines.length).toBeGreaterThan(0);
      const verified = await verifyAudit(place, ...rotated, file);
      expect([verified.code, verified.result]).toMatchObject([
        0,
        { lines: answers.length, unlinked: 0, incomplete: 0, earlier: [], findings: [] },
      ]);
      expect(verified.result.heads).toHaveLength(nodes.length);
      // Without one of the files, and with the two last ones swapped.
      for (const others of [rotated.toSpliced(1, 1), rotated.toReversed()])
        expect((await verifyAudit(place, ...others, file)).code).toBe(1);
    },
  );

  test('is noticed at once on SIGHUP', async () => {
    await start();
    await call(service, 'tokenize', { a: '1' });
    renameSync(file, `${file}.1`);
    await hangUp();
    await call(service, 'tokenize', { a: '2' });
    expect([readAudit(`${file}.1`).lines.length, readAudit(file).lines.length]).toEqual([1, 1]);
  });

  test('without a folder to make the next file in goes on in the old one, then in the next', async () => {
    const folder = join(place.folder, 'logs');
    mkdirSync(folder);
    file = join(folder, 'audit.log');
    await start();
    await call(service, 'tokenize', { a: '1' });
    renameSync(folder, `${folder}.old`);
    const old = join(`${folder}.old`, 'audit.log');
    await hangUp();
    expect((await call(service, 'tokenize', { a: '2' })).status).toBe(200);
    expect(readAudit(old).lines).toHaveLength(2);
    rmSync(`${folder}.old`, { recursive: true });
    const tokenize = async () => (await call(service, 'tokenize', { a: '3' })).status;
    await until(async () => (await tokenize()) === 500, 'the lost file is noticed');
    mkdirSync(folder);
    await until(async () => (await tokenize()) === 200, 'a line in a new file');
    expect(readAudit(file).lines.at(-1)).toMatchObject({ outcome: 'success' });
  });
});

const CALLS = 40;

/**
 * Requests without an API key, as many as may wait on a connection. It ends after five answers, and
 * the next one begins.
 */
function startFlood({ url }: Service, connections: number) {
  const { hostname, port } = new URL(url);
  const request = 'POST /api/v1/detokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n';
  const ahead = request.repeat(500);
  let answers = 0;
  let isOver = false;
  const flood = () => {
    if (isOver) return;
    const socket = connect(Number(port), hostname, () => socket.write(ahead));
    socket.on('data', (bytes) => {
      answers += bytes.toString('latin1').split('HTTP/1.1 401 ').length - 1;
      if (isOver) socket.destroy();
    });
    socket.on('error', () => {});
    socket.on('close', () => setImmediate(flood));
  };
  for (let i = 0; i < connections; i++) flood();
  const stop = () => {
    isOver = true;
  };
  onTestFinished(stop);
  return { answers: () => answers, stop };
}

test.each([
  { AUDIT_REQUIRED: 'false', connections: 1 },
  { AUDIT_REQUIRED: 'true', connections: 8 },
])(
  'L20: requests without an API key that pipeline cost callers nothing, and no line: AUDIT_REQUIRED=$AUDIT_REQUIRED, $connections connections',
  async ({ AUDIT_REQUIRED, connections }) => {
    await start({ AUDIT_REQUIRED });
    const { body } = await call(service, 'tokenize', { a: 'Ann Canary' });
    const flood = startFlood(service, connections);
    await until(() => flood.answers() > 1_000, 'a flood');
    const answers: Answer[] = [];
    for (let i = 0; i < CALLS; i++) answers.push(await call(service, 'detokenize', body.data));
    const restored = idsOf(answers, 200);
    const lost = await failures();
    flood.stop();
    await service.stop();
    const { lines, torn } = readAudit(file);
    expect(torn).toEqual([]);
    const values = lines.filter(({ outcome }) => outcome === 'success');
    const written = new Set(values.map(({ request_id: requestId }) => requestId));
    expect(restored.filter((id) => !written.has(id))).toEqual([]);
    expect(restored.length).toBeGreaterThanOrEqual(0.95 * CALLS);
    expect(lost).toBe(0);
    // Each of the flood is counted, in a line a second.
    const sums = lines.filter(({ outcome }) => outcome === 'unauthorized');
    expect(sums.length).toBe(lines.length - values.length);
    const counted = sums.reduce((requests, sum) => requests + sum.requests, 0);
    expect(counted).toBeGreaterThanOrEqual(flood.answers());
    for (const sum of sums) expect(sum.remote_address).toBe('127.0.0.1');
    const seconds = Date.parse(sums.at(-1).last_at) - Date.parse(sums[0].first_at);
    expect(sums.length).toBeLessThanOrEqual(seconds / 1_000 + 2);
  },
);
