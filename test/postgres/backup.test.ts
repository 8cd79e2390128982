import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { blocks, readText } from '../support/docs.ts';
import { type Acknowledged, JournalledWriters } from '../support/journal.ts';
import { createDatabase, PostgresCluster, postgresBin, query } from '../support/postgres.ts';
import { handOver, owner } from '../support/processes.ts';
import { contentsBelow, findText } from '../support/secrecy.ts';
import {
  call,
  newPlace,
  type Place,
  runCli,
  type Service,
  startService,
  until,
} from '../support/service.ts';

const DOCUMENT = 'docs/operating/backup-and-restore.md';

/** The commands under a heading of the document: the tests run what people read. */
function commands(heading: string): string[] {
  const text = readText(DOCUMENT);
  const section = text.split(/^## /m).find((part) => part.startsWith(`${heading}\n`))!;
  return [...section.matchAll(/^```sh\n(.*?)^```$/gms)].map((match) => match[1]!);
}

/** The lines of postgresql.conf in the document, for another folder. */
function archiveSettings(folder: string): Record<string, string> {
  const [text] = blocks(DOCUMENT, 'text');
  const lines = text!.replaceAll('/backups', folder).trim().split('\n');
  return Object.fromEntries(
    lines.map((line) => [line.split(' = ')[0]!, line.slice(line.indexOf(' = ') + 3)]),
  );
}

/** Runs them as the user that PostgreSQL runs as. */
function sh(script: string, env: Record<string, string>): void {
  const PATH = [postgresBin, process.env.PATH].join(':');
  // libpq looks for certificates in HOME.
  const all = { PATH, HOME: tmpdir(), ...env };
  execFileSync('sh', ['-euc', script], { cwd: '/', env: all, stdio: 'pipe', ...owner });
}

const cleanups: (() => void | Promise<void>)[] = [];
let backups: string;
beforeEach(() => {
  backups = mkdtempSync(join(tmpdir(), 'standin-backup-'));
  handOver(backups);
  cleanups.push(() => rmSync(backups, { recursive: true, force: true }));
});
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function detokenize(service: Service, apiKey: string, all: readonly Acknowledged[]) {
  const data = { a: all.map((one) => one.token) };
  return call(service, 'detokenize', data, apiKey);
}

async function expectKnown(service: Service, apiKey: string, all: readonly Acknowledged[]) {
  expect(all.length).toBeGreaterThan(100);
  for (let i = 0; i < all.length; i += 5_000) {
    const part = all.slice(i, i + 5_000);
    const { status, body } = await detokenize(service, apiKey, part);
    expect({ status, same: body.data.a }).toEqual({
      status: 200,
      same: part.map((one) => one.value),
    });
  }
}

async function expectUnknown(service: Service, apiKey: string, all: readonly Acknowledged[]) {
  expect(all.length).toBeGreaterThan(0);
  for (const one of all) {
    const { status, body } = await detokenize(service, apiKey, [one]);
    expect({ status, error: body.error }).toEqual({ status: 400, error: 'invalid_type' });
  }
}

async function newCluster(settings: Record<string, string> = {}): Promise<PostgresCluster> {
  const cluster = await PostgresCluster.start(settings);
  cleanups.push(() => cluster.stop());
  return cluster;
}

interface Written {
  readonly place: Place;
  readonly api_key: string;
  readonly before: readonly Acknowledged[];
  readonly after: readonly Acknowledged[];
}

/** A service that writes before, during and after `backUp`. */
async function writeAround(
  cluster: PostgresCluster,
  backUp: (place: Place) => void | Promise<void>,
): Promise<Written> {
  const place = await newPlace('server', cluster.url('postgres'));
  cleanups.push(place.remove);
  const service = await startService(place);
  const { api_key: apiKey } = service;
  const writers = new JournalledWriters(place, () => service, apiKey);
  await writers.progress(2_000);
  const before = writers.all();
  await backUp(place);
  const ended = writers.acknowledged;
  // Requests that were under way when it ended may be in it.
  await writers.progress(200);
  const values = Array.from({ length: 20 }, (_, i) => `after the backup ${i}`);
  const { body } = await call(service, 'tokenize', { values }, apiKey);
  await writers.stop();
  expect(ended).toBeGreaterThanOrEqual(before.length);
  expect([...writers.failures]).toEqual([]);
  await writers.verify(service, apiKey);
  await service.stop();
  const after = values.map((value, i) => ({ value, token: body.data.values[i] as string }));
  return { place, api_key: apiKey, before, after };
}

/** The same vault in another database; its KEK was never in the backup. */
function restoredPlace(place: Place, url: string): Place {
  return { ...place, env: { ...place.env, DATABASE_URL: url } };
}

async function expectRestored({ place, api_key: apiKey, before, after }: Written, url: string) {
  const restored = restoredPlace(place, url);
  const { code, stdout } = await runCli(['doctor'], restored);
  expect({ code, stdout }).toEqual({
    code: 0,
    stdout: expect.stringContaining('opens all 4 keys'),
  });
  const verified = await runCli(['verify', '--json'], restored);
  expect(verified.code, verified.stderr).toBe(0);
  expect(JSON.parse(verified.stdout).records).toBeGreaterThanOrEqual(before.length);
  const service = await startService(restored);
  expect(service.api_key).toBe('');
  await expectKnown(service, apiKey, before);
  await expectUnknown(service, apiKey, after);
  // A value that is sent again gets the token that was lost.
  const values = after.map((one) => one.value);
  const again = await call(service, 'tokenize', { values }, apiKey);
  expect(again.body.data.values).toEqual(after.map((one) => one.token));
  await expectKnown(service, apiKey, [...before, ...after]);
  await service.stop();
}

describe.skipIf(postgresBin === undefined)(
  'F23: restored into an empty cluster, every older token',
  () => {
    test('pg_dump and pg_restore, while the service writes', async () => {
      const [dump, restore] = commands('With pg_dump');
      const old = await newCluster();
      const directUrl = (place: Place) =>
        old.directUrl(new URL(place.env.DATABASE_URL!).pathname.slice(1));
      const written = await writeAround(old, (place) =>
        sh(dump!, { BACKUPS: backups, DATABASE_URL: directUrl(place) }),
      );
      const fresh = await newCluster();
      const url = await createDatabase(fresh.directUrl('postgres'));
      sh(restore!, { BACKUPS: backups, NEW_DATABASE_URL: url });
      old.stop();
      await expectRestored(written, url);
    });

    test('pg_basebackup with its WAL, while the service writes', async () => {
      const [backUp, restore] = commands('With a base backup');
      const old = await newCluster();
      const written = await writeAround(old, () =>
        sh(backUp!, { BACKUPS: backups, REPLICATION_URL: old.directUrl('postgres') }),
      );
      old.stop();
      const fresh = await PostgresCluster.startOn((PGDATA) =>
        sh(restore!, { BACKUPS: backups, PGDATA }),
      );
      cleanups.push(() => fresh.stop());
      const database = new URL(written.place.env.DATABASE_URL!).pathname.slice(1);
      await expectRestored(written, fresh.directUrl(database));
    });

    test('a base backup and archived WAL, to the moment before', async () => {
      const archive = join(backups, 'wal');
      mkdirSync(archive);
      handOver(archive);
      const old = await newCluster(archiveSettings(backups));
      const [backUp] = commands('With a base backup');
      sh(backUp!, { BACKUPS: backups, REPLICATION_URL: old.directUrl('postgres') });
      let moment = '';
      // The vault itself is younger than the base backup: it comes from the archive.
      const written = await writeAround(old, async () => {
        const [row] = await query(
          old.directUrl('postgres'),
          'select clock_timestamp()::text as now',
        );
        moment = row!.now;
      });
      const switched = 'select pg_walfile_name(pg_switch_wal()) as name';
      const [row] = await query(old.directUrl('postgres'), switched);
      await until(() => existsSync(join(archive, row!.name)), 'the archive of the last WAL');
      old.stop();
      const [restore] = commands('To a point in time');
      const fresh = await PostgresCluster.startOn((PGDATA) =>
        sh(restore!, { BACKUPS: backups, PGDATA, MOMENT: moment }),
      );
      cleanups.push(() => fresh.stop());
      const recovery = 'select pg_is_in_recovery() as is_under_way';
      const isOver = async () =>
        !(await query(fresh.directUrl('postgres'), recovery))[0]!.is_under_way;
      await until(isOver, 'the end of the recovery');
      const database = new URL(written.place.env.DATABASE_URL!).pathname.slice(1);
      await expectRestored(written, fresh.directUrl(database));
    });
  },
);

describe.skipIf(postgresBin === undefined)('a restored dump', () => {
  let place: Place;
  let url: string;
  let service: Service;
  beforeEach(async () => {
    const [dump, restore] = commands('With pg_dump');
    const cluster = await newCluster();
    place = await newPlace('server', cluster.directUrl('postgres'));
    cleanups.push(place.remove);
    service = await startService(place);
    await call(service, 'tokenize', { a: 'Ann' });
    sh(dump!, { BACKUPS: backups, DATABASE_URL: place.env.DATABASE_URL! });
    url = await createDatabase(cluster.directUrl('postgres'));
    sh(restore!, { BACKUPS: backups, NEW_DATABASE_URL: url });
  });
  afterEach(() => service.stop());

  test('brings back API keys that were revoked since, as the document warns', async () => {
    const [{ api_key_id: apiKeyId }] = JSON.parse(
      (await runCli(['api-key', 'list', '--json'], place)).stdout,
    );
    expect((await runCli(['api-key', 'revoke', apiKeyId], place)).code).toBe(0);
    const status = async (one: Service) =>
      (await call(one, 'tokenize', { a: 'Ann' }, service.api_key)).status;
    await until(async () => (await status(service)) === 401, 'the revocation');
    const again = await startService(restoredPlace(place, url));
    expect(await status(again)).toBe(200);
    await again.stop();
  });

  test('has no KEK in it, and opens with no other: nothing is changed', async () => {
    const kek = readFileSync(place.env.KEK_FILE!);
    const contents = contentsBelow(backups);
    expect(contents.size).toBeGreaterThan(0);
    for (const form of [kek.toString('latin1'), kek.toString('hex'), kek.toString('base64')])
      expect(findText(form, contents)).toEqual([]);
    const other = join(place.folder, 'other');
    writeFileSync(other, 'ab'.repeat(32), { mode: 0o600 });
    const restored = restoredPlace(place, url);
    const { code, stderr } = await runCli(['client', 'list'], restored, { KEK_FILE: other });
    expect(code).toBe(1);
    expect(stderr).toMatch(/is not the one of this vault \([0-9a-f]{16}\)/);
    expect((await runCli(['doctor'], restored)).code).toBe(0);
  });
});

test('the embedded database: a copy of DATA_DIR of a stopped service has every token of before', async () => {
  const [copy] = commands('The embedded database');
  const place = await newPlace('embedded');
  cleanups.push(place.remove);
  const first = await startService(place);
  const { api_key: apiKey } = first;
  const writers = new JournalledWriters(place, () => first, apiKey);
  await writers.progress(500);
  await writers.stop();
  await first.stop();
  const { DATA_DIR } = place.env;
  execFileSync('sh', ['-euc', copy!], { env: { ...process.env, DATA_DIR, BACKUPS: backups } });
  const second = await startService(place);
  const after = 'after the copy';
  const { body } = await call(second, 'tokenize', { a: after }, apiKey);
  await second.stop();
  const restored = { ...place, env: { DATA_DIR: join(backups, 'data') } };
  const service = await startService(restored);
  await expectKnown(service, apiKey, writers.all());
  await expectUnknown(service, apiKey, [{ value: after, token: body.data.a }]);
  await service.stop();
  for (const command of ['doctor', 'verify']) {
    expect((await runCli([command], restored)).code, command).toBe(0);
  }
});
