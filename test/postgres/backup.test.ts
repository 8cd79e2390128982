import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { blocks, blocksUnder } from '../support/docs.ts';
import { type Acknowledged, JournalledWriters } from '../support/journal.ts';
import { actsOn, ask, ownCluster, ownService, ownVault } from '../support/own.ts';
import { createDatabase, PostgresCluster, postgresBin, query } from '../support/postgres.ts';
import { handOver, owner } from '../support/processes.ts';
import { contentsBelow, findText } from '../support/secrecy.ts';
import { call, type Place, type Service, until } from '../support/service.ts';
import { detokenizeAll } from '../support/vault.ts';

const DOCUMENT = 'docs/operating/backup-and-restore.md';
/** The commands under a heading of the document: the tests run what people read. */
const commands = (heading: string) => blocksUnder(DOCUMENT, heading);

/** The lines of postgresql.conf in the document, for another folder. */
function archiveSettings(folder: string): Record<string, string> {
  const lines = blocks(DOCUMENT, 'text')[0]!.replaceAll('/backups', folder).trim().split('\n');
  return Object.fromEntries(
    lines.map((line) => [line.split(' = ')[0]!, line.slice(line.indexOf(' = ') + 3)]),
  );
}

/** Runs them as the user that PostgreSQL runs as. */
function sh(script: string, env: Record<string, string>): void {
  const PATH = [postgresBin, process.env.PATH].join(':');
  // libpq looks for certificates in HOME.
  const all = { PATH, HOME: tmpdir(), BACKUPS: backups, ...env };
  execFileSync('sh', ['-euc', script], { cwd: '/', env: all, stdio: 'pipe', ...owner });
}

let backups: string;
beforeEach(() => {
  backups = mkdtempSync(join(tmpdir(), 'standin-backup-'));
  handOver(backups);
  return () => rmSync(backups, { recursive: true, force: true });
});

async function expectKnown(service: Service, apiKey: string, all: readonly Acknowledged[]) {
  expect(all.length).toBeGreaterThan(100);
  const tokens = all.map((one) => one.token);
  expect(await detokenizeAll(service, tokens, apiKey)).toEqual(all.map((one) => one.value));
}

async function expectUnknown(service: Service, apiKey: string, all: readonly Acknowledged[]) {
  expect(all.length).toBeGreaterThan(0);
  for (const { token } of all) {
    const { status, body } = await call(service, 'detokenize', { token }, apiKey);
    expect([status, body.error]).toEqual([400, 'invalid_type']);
  }
}

/** A service that writes before, during and after `backUp`. */
async function writeAround(
  cluster: PostgresCluster,
  backUp: (place: Place) => void | Promise<void>,
) {
  const serverUrl = cluster.url('postgres');
  const { place, service, tokenized } = await ownVault({ kind: 'server', serverUrl });
  const { api_key: apiKey } = service;
  const writers = new JournalledWriters({ place, nodes: [service], api_key: apiKey });
  await writers.progress(2_000);
  const before = writers.all();
  await backUp(place);
  const ended = writers.acknowledged;
  // Requests that were under way when it ended may be in it.
  await writers.progress(200);
  const values = Array.from({ length: 20 }, (_, i) => `after the backup ${i}`);
  const tokens = await tokenized(values);
  await writers.stop();
  expect(ended).toBeGreaterThanOrEqual(before.length);
  expect([...writers.failures]).toEqual([]);
  await writers.verify(service, apiKey);
  await service.stop();
  const after = values.map((value, i) => ({ value, token: tokens[i] as string }));
  return { place, api_key: apiKey, before, after };
}

/** The same vault in another database; its KEK was never in the backup. */
function restoredPlace(place: Place, url: string): Place {
  return { ...place, env: { ...place.env, DATABASE_URL: url } };
}

async function expectRestored(
  { place, api_key: apiKey, before, after }: Awaited<ReturnType<typeof writeAround>>,
  url: string,
) {
  const restored = restoredPlace(place, url);
  const { text, json } = actsOn(restored);
  expect(await text('doctor')).toContain('opens all 4 keys');
  expect((await json('verify')).records).toBeGreaterThanOrEqual(before.length);
  const service = await ownService(restored);
  expect(service.api_key).toBe('');
  await expectKnown(service, apiKey, before);
  await expectUnknown(service, apiKey, after);
  // A value that is sent again gets the token that was lost.
  const values = after.map((one) => one.value);
  const { data } = await ask(service, 'tokenize', values, apiKey);
  expect(data).toEqual(after.map((one) => one.token));
  await expectKnown(service, apiKey, [...before, ...after]);
}

const nameOf = ({ env }: Place) => new URL(env.DATABASE_URL!).pathname.slice(1);

/** A server on a base backup. */
async function restoredServer(script: string, env: Record<string, string> = {}) {
  const fresh = await PostgresCluster.startOn((PGDATA) => sh(script, { PGDATA, ...env }));
  onTestFinished(() => fresh.stop());
  return fresh;
}

describe.skipIf(postgresBin === undefined)(
  'F23: restored into an empty cluster, every older token',
  () => {
    test('pg_dump and pg_restore, while the service writes', async () => {
      const [dump, restore] = commands('With pg_dump');
      const old = await ownCluster();
      const written = await writeAround(old, (place) =>
        sh(dump!, { DATABASE_URL: old.directUrl(nameOf(place)) }),
      );
      const url = await createDatabase((await ownCluster()).directUrl('postgres'));
      sh(restore!, { NEW_DATABASE_URL: url });
      old.stop();
      await expectRestored(written, url);
    });

    test('pg_basebackup with its WAL, while the service writes', async () => {
      const [backUp, restore] = commands('With a base backup');
      const old = await ownCluster();
      const env = { REPLICATION_URL: old.directUrl('postgres') };
      const written = await writeAround(old, () => sh(backUp!, env));
      old.stop();
      const fresh = await restoredServer(restore!);
      await expectRestored(written, fresh.directUrl(nameOf(written.place)));
    });

    test('a base backup and archived WAL, to the moment before', async () => {
      const archive = join(backups, 'wal');
      mkdirSync(archive);
      handOver(archive);
      const old = await ownCluster(archiveSettings(backups));
      const oldUrl = old.directUrl('postgres');
      sh(commands('With a base backup')[0]!, { REPLICATION_URL: oldUrl });
      let MOMENT = '';
      // The vault itself is younger than the base backup: it comes from the archive.
      const written = await writeAround(old, async () => {
        MOMENT = (await query(oldUrl, 'select clock_timestamp()::text as now'))[0]!.now;
      });
      const switched = 'select pg_walfile_name(pg_switch_wal()) as name';
      const [row] = await query(oldUrl, switched);
      await until(() => existsSync(join(archive, row!.name)), 'the archive of the last WAL');
      old.stop();
      const fresh = await restoredServer(commands('To a point in time').at(-1)!, { MOMENT });
      const recovery = 'select pg_is_in_recovery() as is_under_way';
      const isOver = async () =>
        !(await query(fresh.directUrl('postgres'), recovery))[0]!.is_under_way;
      await until(isOver, 'the end of the recovery');
      await expectRestored(written, fresh.directUrl(nameOf(written.place)));
    });
  },
);

describe.skipIf(postgresBin === undefined)('a restored dump', () => {
  async function dumped() {
    const [dump, restore] = commands('With pg_dump');
    const serverUrl = (await ownCluster()).directUrl('postgres');
    const vault = await ownVault({ kind: 'server', serverUrl });
    await vault.tokenized({ a: 'Ann' });
    sh(dump!, { DATABASE_URL: vault.place.env.DATABASE_URL! });
    const url = await createDatabase(serverUrl);
    sh(restore!, { NEW_DATABASE_URL: url });
    return { ...vault, restoredVault: restoredPlace(vault.place, url) };
  }

  test('brings back API keys that were revoked since, as the document warns', async () => {
    const { service, json, restoredVault } = await dumped();
    const [{ api_key_id: id }] = await json('api-key list');
    await json(`api-key revoke ${id}`);
    const status = async (one: Service) =>
      (await call(one, 'tokenize', { a: 'Ann' }, service.api_key)).status;
    await until(async () => (await status(service)) === 401, 'the revocation');
    expect(await status(await ownService(restoredVault))).toBe(200);
  });

  test('has no KEK in it, and opens with that of the vault', async () => {
    const { place, restoredVault } = await dumped();
    const kek = readFileSync(place.env.KEK_FILE!);
    const contents = contentsBelow(backups);
    expect(contents.size).toBeGreaterThan(0);
    for (const form of ['latin1', 'hex', 'base64'] as const)
      expect(findText(kek.toString(form), contents)).toEqual([]);
    // test/postgres/start.test.ts has another KEK.
    await actsOn(restoredVault).text('doctor');
  });
});

test('the embedded database: a copy of DATA_DIR of a stopped service has every token of before', async () => {
  const [copy] = commands('The embedded database');
  const { place, service: first } = await ownVault({ kind: 'embedded' });
  const { api_key: apiKey } = first;
  const writers = new JournalledWriters({ place, nodes: [first], api_key: apiKey });
  await writers.progress(500);
  await writers.stop();
  await first.stop();
  const { DATA_DIR } = place.env;
  execFileSync('sh', ['-euc', copy!], { env: { ...process.env, DATA_DIR, BACKUPS: backups } });
  const second = await ownService(place);
  const value = 'after the copy';
  const { body } = await call(second, 'tokenize', { token: value }, apiKey);
  await second.stop();
  const restored = { ...place, env: { DATA_DIR: join(backups, 'data') } };
  const service = await ownService(restored);
  await expectKnown(service, apiKey, writers.all());
  await expectUnknown(service, apiKey, [{ value, ...body.data }]);
  await service.stop();
  const { text, json } = actsOn(restored);
  await text('doctor');
  await json('verify');
});
