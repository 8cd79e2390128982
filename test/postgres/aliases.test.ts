import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { forgetRecords } from '../../src/records/removal.ts';
import { hexOf } from '../../src/store/record-walk.ts';
import { RecordStore } from '../../src/store/records.ts';
import type { Token, Value } from '../../src/types.ts';
import type { KeyringFollower } from '../../src/vault/keyring-follower.ts';
import type { Vault } from '../../src/vault/vault.ts';
import { ADMIN_SETTING, admin } from '../support/admin.ts';
import { startWithOps } from '../support/ops.ts';
import { actsOn, ownPool } from '../support/own.ts';
import { drawn, pairsFile } from '../support/pairs.ts';
import { servedVault } from '../support/served.ts';
import { call, createClient, kinds } from '../support/service.ts';
import { openedVault } from '../support/vault.ts';

describe.each(kinds())('aliases on the %s database', (kind) => {
  const at = servedVault(kind, (place) => startWithOps(place, { ADMIN_TOKEN: ADMIN_SETTING }));
  const acts = () => actsOn(at.place, at.service);
  const json = (command: string) => acts().json(command);
  const tokenOf = async (value: string) => (await acts().tokenized({ value })).value;
  /** The value of a token; the status, if it has none. */
  const restored = async (token: string, apiKey?: string) => {
    const { status, body } = await call(at.service, 'detokenize', { token }, apiKey);
    return status === 200 ? body.data.token : status;
  };

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

  test('a forget leaves an alias that comes between its statements', async () => {
    const value = 'gil@example.com';
    const pool = ownPool(at.place);
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
    expect(await tokenOf(value)).toBe('gil_tok');
  });

  test('the token of an alias is unknown, to detokenize and to forget', async () => {
    const token = await plant('eve@example.com', '2c8b1a3e-0d5f');
    expect(await restored(token)).toBe(400);
    const { code, stdout } = await acts().run(`forget ${token} --yes --json`);
    expect([code, JSON.parse(stdout)]).toMatchObject([1, { forgotten: 0, unknown: 1 }]);
    expect(await tokenOf('eve@example.com')).toBe('2c8b1a3e-0d5f');
  });

  test('a look-up finds the imported token, and null when it was forgotten', async () => {
    await plant('ida@example.com', 'ida-1');
    const { api_key: apiKey } = await createClient(at.place, '--can', 'tokenize,lookup');
    const asked = { a: 'ida@example.com', b: 'nobody@example.com' };
    const lookUp = async () => (await call(at.service, 'lookup', asked, apiKey)).body.data;
    expect(await lookUp()).toEqual({ a: 'ida-1', b: null });
    await json('forget ida-1 --yes');
    expect(await lookUp()).toEqual({ a: null, b: null });
  });

  test('rotation and reseal keep aliases and imported tokens, and verify counts aliases apart', async () => {
    await plant('lee@example.com', 'lee-1');
    const before = await json('verify');
    expect(before).toMatchObject({ bad: 0 });
    expect(before.aliases).toBeGreaterThan(0);
    await json('keyring rotate');
    const resealed = { bad: 0, resealed: before.records + before.aliases };
    expect(await json('keyring reseal')).toMatchObject(resealed);
    const { records, aliases } = before;
    expect(await json('verify')).toMatchObject({ records, aliases });
    expect(await tokenOf('lee@example.com')).toBe('lee-1');
    expect(await contentOf('lee-1')).toEqual({ value: 'lee@example.com', imported: 'lee-1' });
  });

  test('an administrator finds and forgets imported tokens by value, in their space only', async () => {
    const value = 'pat@example.com';
    const space = 'tenant_a';
    const pairs = [
      { token: 'pat-1', value },
      { token: 'pat-2', value, space },
    ];
    await json(`import ${pairsFile(at.place, pairs)}`);
    const ofTenant = (await createClient(at.place, '--space', space)).api_key;
    const ask = async (path: string, body: object = { space }) =>
      (await admin(at.service.opsUrl, 'POST', path, { values: [value], ...body })).body;
    const found = async (body?: object) => (await ask('/lookup', body)).tokens;
    expect(await found({})).toEqual([[{ kind: 'text', token: 'pat-1' }]]);
    expect(await found()).toEqual([[{ kind: 'text', token: 'pat-2' }]]);
    expect(await ask('/forget')).toMatchObject({ forgotten: 1, unknown: [] });
    expect(await contentOf('pat-1')).toMatchObject({ value });
    expect(await restored('pat-2', ofTenant)).toBe(400);
    expect(await found()).toEqual([[]]);
    const again = { known: 0, already_forgotten: 1, unknown: [] };
    expect(await ask('/forget')).toMatchObject(again);
    // A value that comes again revives its token, as one that the vault has drawn itself.
    const revived = await call(at.service, 'tokenize', { value }, ofTenant);
    expect(revived.body.data).toEqual({ value: 'pat-2' });
    expect(await ask('/forget', {})).toMatchObject({ forgotten: 1, unknown: [] });
    expect(await restored('pat-1')).toBe(400);
    expect(await restored('pat-2', ofTenant)).toBe(value);
  });

  test('the token of an alias is unknown to a node that has not read its key yet', async () => {
    await json('keyring rotate');
    const forget = async (body: object) =>
      (await admin(at.service.opsUrl, 'POST', '/forget', body)).body;
    const token = await plant('ned@example.com', 'ned-1');
    expect(await forget({ tokens: [token] })).toMatchObject({ known: 0, unknown: ['tokens[0]'] });
    expect(await tokenOf('ned@example.com')).toBe('ned-1');
    await json('keyring rotate');
    const second = await plant('nia@example.com', 'nia-1');
    const values = ['nia@example.com', 'ned@example.com'];
    expect(await forget({ values })).toMatchObject({ forgotten: 2, unknown: [] });
    expect(await restored(second)).toBe(400);
  });

  test('a damaged alias is replaced like any damaged record: the value gets a token', async () => {
    const token = await plant('max@example.com', 'max-1');
    const fingerprint = (await openedVault(at.place).keyring()).tokenFingerprint(token);
    const damage = `update standin.records set sealed = sealed || '\\x00'::bytea
      where token_fingerprint = $1::uuid`;
    await acts().sql(damage, [hexOf(fingerprint)]);
    expect(await tokenOf('max@example.com')).toBe(token);
    expect(await restored('max-1')).toBe('max@example.com');
  });
});
