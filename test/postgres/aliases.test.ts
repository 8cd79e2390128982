import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { Keyring } from '../../src/crypto/keyring.ts';
import { forgetRecords } from '../../src/records/removal.ts';
import { drawToken } from '../../src/shape/token.ts';
import { RecordStore } from '../../src/store/records.ts';
import type { Token, Value } from '../../src/types.ts';
import type { KeyringFollower } from '../../src/vault/keyring-follower.ts';
import type { Vault } from '../../src/vault/vault.ts';
import { ADMIN_SETTING, admin } from '../support/admin.ts';
import { startWithOps } from '../support/ops.ts';
import { call, createClient, kinds, runCli, runJson, servedVault } from '../support/service.ts';
import { openedVault, openTestPool } from '../support/vault.ts';

/** The token that a deterministic client would get for the value. */
function drawn(keyring: Keyring, value: string): Token {
  const { draws } = keyring.deterministicDraws(value as Value);
  return drawToken(value as Value, 'tok', draws, 0)!.token;
}

describe.each(kinds())('aliases on the %s database', (kind) => {
  const at = servedVault(kind, (place) => startWithOps(place, { ADMIN_TOKEN: ADMIN_SETTING }));

  /** Stores the value with a token of another vault, and an alias. Returns the drawn token. */
  async function plant(value: string, foreign: string): Promise<Token> {
    const { records, keyring: current } = openedVault(at.place);
    const keyring = await current();
    const { value_fingerprint: valueFingerprint } = keyring.deterministicDraws(value as Value);
    const token = drawn(keyring, value);
    const fingerprint = keyring.tokenFingerprint(foreign as Token);
    const alias = { alias: foreign as Token, space: '' };
    const outcomes = await records.insert([
      keyring.seal(value as Value, fingerprint, valueFingerprint, undefined, foreign as Token),
      keyring.sealAlias(alias, keyring.tokenFingerprint(token), valueFingerprint),
    ]);
    expect(outcomes).toEqual(['stored', 'stored']);
    return token;
  }

  /** What the record of a token has inside. */
  async function contentOf(token: string) {
    const { records, keyring: current } = openedVault(at.place);
    const keyring = await current();
    const [record] = await records.find([keyring.tokenFingerprint(token as Token)]);
    return keyring.open(record!);
  }

  const tokenOf = async (value: string) =>
    (await call(at.service, 'tokenize', { value })).body.data;
  const answerTo = async (token: string) => (await call(at.service, 'detokenize', { token })).body;

  test('the value gets its imported token, again and again, beside other values', async () => {
    await plant('ann@example.com', 'vault:v1:8SDd3WHDOjf7mq69');
    const asked = { a: 'bob@example.com', b: 'ann@example.com', c: 'ann@example.com' };
    for (let i = 0; i < 3; i++) {
      const { data } = (await call(at.service, 'tokenize', asked)).body;
      expect([data.b, data.c]).toEqual(Array(2).fill('vault:v1:8SDd3WHDOjf7mq69'));
      expect(data.a).toMatch(/_tok$/);
    }
    expect((await answerTo('vault:v1:8SDd3WHDOjf7mq69')).data.token).toBe('ann@example.com');
  });

  test('a forget leaves an alias that comes between its statements', async () => {
    const value = 'gil@example.com';
    const pool = openTestPool(at.place);
    onTestFinished(() => pool.end());
    const keyring = await openedVault(at.place).keyring();
    const { find } = RecordStore.prototype;
    onTestFinished(() => void vi.restoreAllMocks());
    vi.spyOn(RecordStore.prototype, 'find').mockImplementationOnce(async function (
      this: RecordStore,
      ...asked
    ) {
      const found = await find.apply(this, asked);
      await plant(value, 'gil_tok');
      return found;
    });
    const vault = { pool, keyring } as unknown as Vault;
    const noFollower = undefined as unknown as KeyringFollower;
    const tokens = [keyring.tokenFingerprint(drawn(keyring, value))];
    const states = await forgetRecords(vault, noFollower, tokens, false);
    expect([...states.values()]).toEqual(['unknown']);
    expect(await tokenOf(value)).toEqual({ value: 'gil_tok' });
  });

  test('the token of an alias is unknown, to detokenize and to forget', async () => {
    const token = await plant('eve@example.com', '2c8b1a3e-0d5f-4f0e-9d5b-0c1d2e3f4a5b');
    expect((await call(at.service, 'detokenize', { token })).status).toBe(400);
    const { code, stdout } = await runCli(['forget', token, '--yes', '--json'], at.place);
    expect(code).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({ forgotten: 0, unknown: 1 });
    expect(await tokenOf('eve@example.com')).toEqual({
      value: '2c8b1a3e-0d5f-4f0e-9d5b-0c1d2e3f4a5b',
    });
  });

  test('a look-up finds the imported token, and null when it was forgotten', async () => {
    await plant('ida@example.com', 'ida-1');
    const { api_key: apiKey } = await createClient(at.place, '--can', 'tokenize,lookup');
    const lookUp = async () => {
      const response = await fetch(`${at.service.url}/api/v1/lookup`, {
        method: 'POST',
        headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
        body: JSON.stringify({ data: { a: 'ida@example.com', b: 'nobody@example.com' } }),
      });
      return ((await response.json()) as { data: unknown }).data;
    };
    expect(await lookUp()).toEqual({ a: 'ida-1', b: null });
    await runJson(at.place, 'forget', 'ida-1', '--yes');
    expect(await lookUp()).toEqual({ a: null, b: null });
  });

  test('a forgotten imported token is unknown until its value comes again', async () => {
    await plant('kim@example.com', 'kim-1');
    await runJson(at.place, 'forget', 'kim-1', '--yes');
    expect((await call(at.service, 'detokenize', { token: 'kim-1' })).status).toBe(400);
    expect(await tokenOf('kim@example.com')).toEqual({ value: 'kim-1' });
    expect((await answerTo('kim-1')).data.token).toBe('kim@example.com');
    expect(await contentOf('kim-1')).toEqual({ value: 'kim@example.com', imported: 'kim-1' });
  });

  test('rotation and reseal keep aliases and imported tokens, and verify counts aliases apart', async () => {
    await plant('lee@example.com', 'lee-1');
    const before = await runJson(at.place, 'verify');
    expect(before).toMatchObject({ bad: 0 });
    expect(before.aliases).toBeGreaterThan(0);
    expect(before.records).toBeGreaterThan(before.aliases - 1);
    await runJson(at.place, 'keyring', 'rotate');
    const resealed = await runJson(at.place, 'keyring', 'reseal');
    expect(resealed).toMatchObject({ bad: 0, resealed: before.records + before.aliases });
    const { records, aliases } = await runJson(at.place, 'verify');
    expect({ records, aliases }).toEqual({ records: before.records, aliases: before.aliases });
    expect(await tokenOf('lee@example.com')).toEqual({ value: 'lee-1' });
    expect(await contentOf('lee-1')).toEqual({ value: 'lee@example.com', imported: 'lee-1' });
  });

  test('an administrator finds and forgets imported tokens by value, in their space only', async () => {
    const value = 'pat@example.com';
    const pairs = [
      { token: 'pat-1', value },
      { token: 'pat-2', value, space: 'tenant_a' },
    ];
    const file = join(at.place.folder, 'pairs.ndjson');
    writeFileSync(file, pairs.map((pair) => `${JSON.stringify(pair)}\n`).join(''));
    await runJson(at.place, 'import', file);
    const ofTenant = (await createClient(at.place, '--space', 'tenant_a')).api_key;
    const ask = async (path: string, body: object) =>
      (await admin(at.service.opsUrl, 'POST', path, { values: [value], ...body })).body;
    const space = 'tenant_a';
    expect((await ask('/lookup', {})).tokens).toEqual([[{ kind: 'text', token: 'pat-1' }]]);
    expect((await ask('/lookup', { space })).tokens).toEqual([[{ kind: 'text', token: 'pat-2' }]]);
    expect(await ask('/forget', { space })).toMatchObject({ forgotten: 1, unknown: [] });
    expect(await contentOf('pat-1')).toMatchObject({ value });
    const restored = await call(at.service, 'detokenize', { a: 'pat-2' }, ofTenant);
    expect(restored.status).toBe(400);
    expect((await ask('/lookup', { space })).tokens).toEqual([[]]);
    expect(await ask('/forget', { space })).toMatchObject({
      known: 0,
      already_forgotten: 1,
      unknown: [],
    });
    // A value that comes again revives its token, as one that the vault has drawn itself.
    const again = await call(at.service, 'tokenize', { value }, ofTenant);
    expect(again.body.data).toEqual({ value: 'pat-2' });
    expect(await ask('/forget', {})).toMatchObject({ forgotten: 1, unknown: [] });
    expect((await call(at.service, 'detokenize', { a: 'pat-1' })).status).toBe(400);
    expect((await call(at.service, 'detokenize', { a: 'pat-2' }, ofTenant)).status).toBe(200);
  });

  test('the token of an alias is unknown to a node that has not read its key yet', async () => {
    await runJson(at.place, 'keyring', 'rotate');
    const token = await plant('ned@example.com', 'ned-1');
    const { body } = await admin(at.service.opsUrl, 'POST', '/forget', { tokens: [token] });
    expect(body).toMatchObject({ known: 0, unknown: ['tokens[0]'] });
    expect(await tokenOf('ned@example.com')).toEqual({ value: 'ned-1' });
    await runJson(at.place, 'keyring', 'rotate');
    const second = await plant('nia@example.com', 'nia-1');
    const values = ['nia@example.com', 'ned@example.com'];
    const answer = (await admin(at.service.opsUrl, 'POST', '/forget', { values })).body;
    expect(answer).toMatchObject({ forgotten: 2, unknown: [] });
    expect((await call(at.service, 'detokenize', { second })).status).toBe(400);
  });

  test('a damaged alias is replaced like any damaged record: the value gets a token', async () => {
    const token = await plant('max@example.com', 'max-1');
    const { pool, keyring } = openedVault(at.place);
    const fingerprint = (await keyring()).tokenFingerprint(token);
    const hex = Buffer.from(fingerprint, 'latin1').toString('hex');
    await pool.query(
      "update standin.records set sealed = sealed || '\\x00'::bytea where token_fingerprint = $1::uuid",
      [hex],
      performance.now() + 20_000,
    );
    expect(await tokenOf('max@example.com')).toEqual({ value: token });
    expect((await answerTo('max-1')).data.token).toBe('max@example.com');
  });
});
