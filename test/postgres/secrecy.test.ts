import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { Keyring } from '../../src/crypto/keyring.ts';
import { KEY_PURPOSES, type KeyPurpose, type SealedRecord } from '../../src/types.ts';
import { bytesOfUuid } from '../support/keys.ts';
import { PostgresCluster, postgresBin, run } from '../support/postgres.ts';
import { childrenOf, isRunning } from '../support/processes.ts';
import { contentsBelow, findKey, findText, hashes } from '../support/secrecy.ts';
import { call, newPlace, type Service, startService, until } from '../support/service.ts';
import { allKeys, plainKeys, sql } from '../support/vault.ts';

const CANARIES = 2_000;
/** All canaries begin with it, so that one search finds any of them. */
const PREFIX = 'zqjxkvbwq';
const WORDS = Array.from({ length: CANARIES }, (_, i) => `dictionary word ${i}`);

/** Canaries and dictionary words through the service both ways; some tokens, as they were given out. */
async function fill(service: Service): Promise<string[]> {
  const canaries = Array.from({ length: CANARIES }, (_, i) => `${PREFIX}${i}${PREFIX}@example.com`);
  const tokens: string[] = (await call(service, 'tokenize', { canaries })).body.data.canaries;
  expect((await call(service, 'detokenize', { tokens })).body.data.tokens).toEqual(canaries);
  expect((await call(service, 'tokenize', { WORDS })).status).toBe(200);
  // Errors, too, must not tell.
  expect((await call(service, 'tokenize', { a: [`${PREFIX}`, 1] })).status).toBe(400);
  expect((await call(service, 'detokenize', { a: `${PREFIX}` })).status).toBe(400);
  return tokens;
}

function expectSecret(texts: string[], contents: Map<string, Buffer>): void {
  // The search itself is checked first: a planted text is found in each of its twelve forms.
  const planted = new Map([['planted', Buffer.concat([...plant(PREFIX)])]]);
  expect(findText(PREFIX, planted)).toHaveLength(12);
  for (const text of texts) expect(findText(text, contents)).toEqual([]);
}

function recordOf(row: Record<string, any>): SealedRecord {
  const latin1 = (uuid: string) => bytesOfUuid(uuid).toString('latin1') as never;
  return {
    token_fingerprint: latin1(row.token_fingerprint),
    value_fingerprint: latin1(row.value_fingerprint),
    key_version: row.key_version,
    sealed: row.sealed,
  };
}

function plant(text: string): Buffer[] {
  const bytes = Buffer.from(text);
  const utf16 = Buffer.from(text, 'utf16le');
  const base64 = [0, 1, 2].map((before) =>
    Buffer.concat([Buffer.alloc(before, 1), bytes]).toString('base64'),
  );
  const hex = bytes.toString('hex');
  const url = [...bytes].map((byte) => `%${byte.toString(16)}`).join('');
  const reversed = [...text].toReversed().join('');
  const texts = [text, hex, hex.toUpperCase(), text.toUpperCase(), reversed, url, ...base64];
  return [...texts.map((one) => Buffer.from(one)), utf16, Buffer.from(utf16).swap16()];
}

describe.skipIf(postgresBin === undefined)('C01, C20: on a server that logs all it can', () => {
  let service: Service;
  let tokens: string[];
  let contents: Map<string, Buffer>;
  beforeAll(async () => {
    const cluster = await PostgresCluster.start({
      log_statement: 'all',
      log_parameter_max_length_on_error: '-1',
      log_min_messages: 'debug1',
    });
    service = await startService(await newPlace('server', cluster.url('postgres')), {
      LOG_LEVEL: 'trace',
    });
    tokens = await fill(service);
    await sql(service.place, 'checkpoint');
    const dump = run('pg_dump', [service.place.env.DATABASE_URL!]);
    contents = contentsBelow(cluster.dataDir);
    contents.set('pg_dump', Buffer.from(dump));
    contents.set('log of postgres', readFileSync(cluster.logFile));
    contents.set('output of the service', Buffer.from(service.output()));
    return async () => {
      await service.stop();
      cluster.stop();
      service.place.remove();
    };
  });
  test('no value, token, API key or key is in a dump, the data files, the WAL the log of the server, or what the service writes', async () => {
    expect(contents.get('pg_dump')!.length).toBeGreaterThan(CANARIES * 100);
    expectSecret([PREFIX, service.api_key, ...tokens.slice(0, 5)], contents);
    const keys = await allKeys(service.place);
    expect(keys).toHaveLength(5);
    for (const key of keys) {
      expect(findKey(key, new Map([['planted', Buffer.concat([key, key])]]))).toHaveLength(2);
      expect(findKey(key, contents)).toEqual([]);
    }
  });

  test('C19: with all that the database has, and without the KEK, no record opens', async () => {
    const place = service.place;
    const keys = await sql(place, 'select wrapped from standin.keyring');
    const digests = await sql(place, 'select digest from standin.api_keys');
    const stored = [...keys.map((key) => key.wrapped), ...digests.map((row) => row.digest)];
    // Every run of 32 stored bytes is tried as the data key.
    const tried = stored.flatMap((bytes: Buffer) =>
      Array.from({ length: bytes.length - 31 }, (_, i) => bytes.subarray(i, i + 32)),
    );
    expect(tried.length).toBeGreaterThan(100);
    const rows = await sql(place, 'select * from standin.records limit 100');
    const opened = (bytes: Buffer) => {
      const key = (purpose: KeyPurpose) => ({ id: '', purpose, version: 1, bytes });
      const keyring = new Keyring(KEY_PURPOSES.map(key));
      return rows.filter((row) => 'value' in keyring.open(recordOf(row))).length;
    };
    expect(tried.filter((bytes) => opened(bytes) > 0)).toEqual([]);
    // With the KEK the same attempt opens all of them.
    const dek = (await plainKeys(place)).find((key) => key.purpose === 'dek')!;
    expect(opened(dek.bytes)).toBe(100);
  });

  test('C20: a list of guessed values confirms none', async () => {
    const keys = await sql(service.place, 'select wrapped from standin.keyring');
    const rows = await sql(service.place, 'select * from standin.records limit 3');
    const stored = [
      ...keys.map((key) => key.wrapped),
      ...rows.flatMap((row) => [bytesOfUuid(row.token_fingerprint), row.sealed]),
    ];
    const both = 'select array[token_fingerprint, value_fingerprint]::text[] as both';
    const records = await sql(service.place, `${both} from standin.records`);
    const fingerprints = new Set(
      records.flatMap(({ both }) => both.map((uuid: string) => uuid.replaceAll('-', ''))),
    );
    expect(fingerprints.size).toBeGreaterThan(4 * CANARIES - 10);
    const confirmed = WORDS.filter((word) =>
      hashes(word, stored).some(
        (hash) => fingerprints.has(hash.slice(0, 32)) || fingerprints.has(hash.slice(-32)),
      ),
    );
    expect(confirmed).toEqual([]);
  });
});

test('C01: no value, token or API key is in the files of the embedded database', async () => {
  const service = await startService(await newPlace('embedded'), { LOG_LEVEL: 'trace' });
  const tokens = await fill(service);
  const database = childrenOf(service.pid);
  await service.stop();
  await until(() => !database.some(isRunning), 'the end of the database process');
  const contents = contentsBelow(join(service.place.env.DATA_DIR!, 'postgres'));
  expectSecret([PREFIX, service.api_key, ...tokens.slice(0, 5)], contents);
  service.place.remove();
});
