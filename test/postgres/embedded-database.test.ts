import { once } from 'node:events';
import { mkdirSync, mkdtempSync, renameSync, writeFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import pg from 'pg';
import { describe, expect, onTestFinished, test } from 'vitest';
import { locateEmbedded } from '../../src/embedded/embedded-database.ts';
import { databaseFolder, Owner } from '../../src/embedded/owner.ts';
import { newFolder } from '../support/folder.ts';

const CLIENTS = 6;
const QUERIES = 200;
const LARGE_BYTES = 300_000;
const SESSION_SQL = "set TimeZone = 'Asia/Tokyo'; set IntervalStyle = 'iso_8601'";

/** The server ends when it is gone. */
const folder = newFolder('embedded');

async function connect(): Promise<pg.Client> {
  const { socketDir, port } = await locateEmbedded(folder, SESSION_SQL);
  const client = new pg.Client({ host: socketDir, port, user: 'postgres', database: 'postgres' });
  await client.connect();
  client.on('error', () => {});
  onTestFinished(() => client.end());
  return client;
}

const streamOf = (client: pg.Client) =>
  (client as unknown as { connection: { stream: Socket } }).connection.stream;

test('clients at once, some with large parameters, each get their own answers', async () => {
  const work = Array.from({ length: CLIENTS }, async (_, id) => {
    const client = await connect();
    const filler = 'x'.repeat(id % 2 === 0 ? LARGE_BYTES : 10);
    let right = 0;
    for (let i = 0; i < QUERIES; i++) {
      const { rows } = await client.query('select $1::text as mine, length($2::text) as length', [
        `${id}/${i}`,
        filler,
      ]);
      if (rows[0].mine === `${id}/${i}` && rows[0].length === filler.length) right++;
    }
    return right;
  });
  expect(await Promise.all(work)).toEqual(Array(CLIENTS).fill(QUERIES));
});

test('every connection has the settings of the one session', async () => {
  for (const client of [await connect(), await connect()]) {
    const { rows } = await client.query(
      "select current_setting('TimeZone') as zone, current_setting('IntervalStyle') as style",
    );
    expect(rows).toEqual([{ zone: 'Asia/Tokyo', style: 'iso_8601' }]);
  }
});

describe('a transaction', () => {
  test('is alone: statements of other connections wait for its end', async () => {
    const [first, second, third] = [await connect(), await connect(), await connect()];
    await first.query('create table if not exists counted (n int)');
    await first.query('begin');
    await first.query('insert into counted values (1)');
    // One that leaves meanwhile ends nothing but itself.
    await third.end();
    const seen = second.query('select count(*)::int as n from counted');
    await first.query('insert into counted values (2)');
    await first.query('commit');
    expect((await seen).rows).toEqual([{ n: 2 }]);
  });

  test('is rolled back when its connection is lost, and the next connection goes on', async () => {
    const [lost, next] = [await connect(), await connect()];
    await lost.query('create table if not exists lost (n int)');
    await lost.query('begin');
    await lost.query('insert into lost values (1)');
    streamOf(lost).destroy();
    expect((await next.query('select count(*)::int as n from lost')).rows).toEqual([{ n: 0 }]);
  });
});

test('a statement that waits for its turn is not run when its connection is lost', async () => {
  const [first, lost] = [await connect(), await connect()];
  await first.query('create table waited (n int); begin');
  lost.query('insert into waited values (1)').catch(() => {});
  const stream = streamOf(lost);
  await new Promise<void>((resolve) => stream.end(() => resolve()));
  await once(stream, 'close');
  await first.query('commit');
  expect((await first.query('select * from waited')).rows).toEqual([]);
});

test.each(['postgres', 'socket'])('a process sees that its %s was replaced', (name) => {
  const dataDir = mkdtempSync(join(folder, 'owner-'));
  const [path, socket] = [name, 'socket'].map((one) => join(dataDir, one));
  mkdirSync(databaseFolder(dataDir));
  writeFileSync(socket!, '');
  const owner = new Owner(dataDir, socket!);
  expect(owner.isOwner()).toBe(true);
  // Kept, so that what takes its place has another inode.
  renameSync(path!, `${path}.old`);
  expect(owner.isOwner()).toBe(false);
  writeFileSync(path!, '');
  expect(owner.isOwner()).toBe(false);
});
