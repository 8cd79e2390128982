import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { ApiKeyUses } from '../../src/access/api-key-uses.ts';
import { Authenticator } from '../../src/access/authenticator.ts';
import { createFirstClient } from '../../src/access/clients.ts';
import { IssuerKeys } from '../../src/access/issuer-keys.ts';
import { JwtVerifier } from '../../src/access/jwt-verifier.ts';
import { newApiKey, randomHex } from '../../src/crypto/api-key.ts';
import { CallerError } from '../../src/errors.ts';
import { ApiKeyStore } from '../../src/store/api-keys.ts';
import { openVault } from '../../src/vault/vault.ts';
import { AUDIENCE, IssuerStandIn, SUBJECT } from '../support/issuer.ts';
import { loop } from '../support/loop.ts';
import { ownPlace, ownService } from '../support/own.ts';
import { createClient, kinds, makeVault, type Place } from '../support/service.ts';
import { openedVault, sql } from '../support/vault.ts';

/** Reads of clients, API keys and keys that meet writes of others, or each other. */
let place: Place;
beforeEach(() => () => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/** The next call of `method` reads at once, and gives the result when the test lets it. */
function heldBack<Store extends object, Name extends keyof Store>(store: Store, method: Name) {
  const original = store[method] as (...args: unknown[]) => Promise<unknown>;
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  let read: Promise<unknown> | undefined;
  const hold = async (...args: unknown[]) => {
    read = original.apply(store, args);
    await held;
    return read;
  };
  vi.spyOn(store, method as never).mockImplementationOnce(hold as never);
  const isRead = async () => {
    await vi.waitFor(() => expect(read).toBeDefined());
    await read;
  };
  return { isRead, release: () => release() };
}

interface Issued {
  readonly header: string;
  readonly api_key_id: string;
}

/** @param issuer its JWTs are accepted, too */
async function open(issuer?: IssuerStandIn) {
  await makeVault(place);
  await createClient(place);
  const { pool, keyring: current } = openedVault(place);
  const keyring = await current();
  const apiKeys = new ApiKeyStore(pool);
  const uses = new ApiKeyUses(apiKeys);
  const url = issuer?.url ?? '';
  const options = { issuer: url, audience: AUDIENCE, claim: 'sub', jwksUrl: undefined };
  const digestOf = (jwt: string) => keyring.apiKeyDigest(jwt);
  const jwt = issuer && new JwtVerifier(options, new IssuerKeys(options, () => {}), digestOf);
  const authenticator = new Authenticator(apiKeys, keyring, uses, jwt);
  onTestFinished(() => authenticator.stop());
  /** Makes an API key with a client of its own, as another process does. */
  const issue = async (): Promise<Issued> => {
    const apiKey = newApiKey();
    const apiKeyId = `k_${randomHex(6)}`;
    const text = `with made as (insert into standin.clients (client_id, name, token_mode)
         values ($1, 'x', 'random') returning client_id)
       insert into standin.api_keys (api_key_id, client_id, digest)
         select $2, client_id, $3 from made`;
    const digest = Buffer.from(keyring.apiKeyDigest(apiKey), 'latin1');
    await sql(place, text, [`c_${randomHex(6)}`, apiKeyId, digest]);
    return { header: `Bearer ${apiKey}`, api_key_id: apiKeyId };
  };
  // Also where it throws at once.
  const admitted = async (header: string) => authenticator.authenticate(header);
  const expectRefused = (header: string) =>
    expect(admitted(header)).rejects.toBeInstanceOf(CallerError);
  /** Loads the copy in memory, which from then on grows old. */
  const loadOnce = async () => {
    await authenticator.start();
    authenticator.stop();
  };
  return { authenticator, apiKeys, keyring, uses, issue, admitted, expectRefused, loadOnce };
}

/** As if 5 s had gone by for the copy in memory, which is believed for 4 s. */
function passTime(): void {
  const now = performance.now.bind(performance);
  vi.spyOn(performance, 'now').mockImplementation(() => now() + 5_000);
}

const revoke = ({ api_key_id: id }: Issued) =>
  sql(place, 'update standin.api_keys set revoked_at = now() where api_key_id = $1', [id]);

describe.skipIf(!kinds().includes('server'))('on a server', () => {
  beforeEach(async () => {
    place = await ownPlace('server');
  });

  test('clients that are made meanwhile fail no load and no start', async () => {
    const { authenticator, issue } = await open();
    const making = loop(issue, 3);
    onTestFinished(making.stop);
    for (let load = 0; load < 150; load++) await authenticator.start();
    for (let start = 0; start < 2; start++) await (await ownService(place)).stop();
    await making.stop();
  });

  test('an unknown API key costs a read of this one, not of all; one made just now is found', async () => {
    const { authenticator, apiKeys, keyring, issue, admitted } = await open();
    const subjects = vi.spyOn(apiKeys, 'listSubjects');
    await authenticator.start();
    const { header } = await issue();
    const [all, some] = [vi.spyOn(apiKeys, 'listLive'), vi.spyOn(apiKeys, 'findLive')];
    const found = admitted(header);
    // 1,000 wait at most.
    const strangers = Array.from({ length: 1_001 }, () => admitted(`Bearer ${newApiKey()}`));
    const ends = await Promise.allSettled(strangers);
    const codes = ends.map((one) => one.status === 'rejected' && one.reason.code);
    expect(codes).toEqual([...Array(999).fill('unauthorized'), 'overloaded', 'overloaded']);
    expect(await found).toMatchObject({ client: { token_mode: 'random' } });
    expect(some.mock.calls.length).toBeLessThanOrEqual(2);
    // Those that the timer brings.
    expect(all.mock.calls.length).toBeLessThanOrEqual(2);
    expect(subjects).not.toHaveBeenCalled();
    const digests = vi.spyOn(keyring, 'apiKeyDigest');
    for (const _ of 'twice') expect(authenticator.find(header)).not.toBeInstanceOf(Promise);
    expect(digests).toHaveBeenCalledTimes(1);
    some.mockClear();
    await expect(admitted(`Bearer ${newApiKey()}`)).rejects.toThrow();
    expect(some.mock.calls.map(([digests]) => digests.length)).toEqual([1]);
  });

  test('an API key is not believed longer than its copy: older than 4 s, from before a suspend, beyond its end', async () => {
    const { authenticator, issue, loadOnce, expectRefused } = await open();
    const [old, suspended, ending] = [await issue(), await issue(), await issue()];
    const expiresAt = new Date(Date.now() + 3_600_000);
    const expire = 'update standin.api_keys set expires_at = $2 where api_key_id = $1';
    await sql(place, expire, [ending.api_key_id, expiresAt]);
    await loadOnce();
    // Twice: a header that was seen before is no exception.
    for (const { header, api_key_id: id } of [old, suspended, ending, old])
      expect(authenticator.authenticate(header)).toMatchObject({ api_key_id: id });
    await revoke(old);
    passTime();
    await expectRefused(old.header);
    vi.restoreAllMocks();
    await loadOnce();
    await revoke(suspended);
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 5_000 });
    await expectRefused(suspended.header);
    vi.setSystemTime(expiresAt);
    await expectRefused(ending.header);
  });

  test('a slow load that ends after a later one does not take a revocation back', async () => {
    const { apiKeys, issue, admitted, loadOnce, expectRefused } = await open();
    const issued = await issue();
    await loadOnce();
    const slow = heldBack(apiKeys, 'listLive');
    passTime();
    const first = admitted(`Bearer ${newApiKey()}`).catch(() => {});
    await slow.isRead();
    await revoke(issued);
    await expectRefused(issued.header);
    slow.release();
    await first;
    await expectRefused(issued.header);
  });

  test('a look-up that began earlier does not bring a revoked one back', async () => {
    const { apiKeys, issue, admitted, loadOnce, expectRefused } = await open();
    await loadOnce();
    const issued = await issue();
    const slow = heldBack(apiKeys, 'findLive');
    const first = admitted(issued.header);
    await slow.isRead();
    await revoke(issued);
    await loadOnce();
    slow.release();
    await first;
    await expectRefused(issued.header);
  });

  test('a JWT that was verified is not believed for longer than the clients in memory', async () => {
    const issuer = await IssuerStandIn.start();
    onTestFinished(() => issuer.stop());
    const { authenticator, admitted, expectRefused } = await open(issuer);
    await sql(place, 'update standin.clients set subject = $1', [SUBJECT]);
    await authenticator.start();
    const header = `Bearer ${await issuer.jwt()}`;
    expect(await admitted(header)).toMatchObject({ subject: SUBJECT });
    expect(authenticator.authenticate(header)).toMatchObject({ subject: SUBJECT });
    authenticator.stop();
    await sql(place, 'update standin.clients set disabled_at = now()');
    passTime();
    await expectRefused(header);
  });

  test('a revoked API key is forgotten, and its requests stay counted', async () => {
    const { authenticator, uses, issue, admitted } = await open();
    const issued = await issue();
    await authenticator.start();
    const caller = await admitted(issued.header);
    await uses.stop();
    await revoke(issued);
    await authenticator.start();
    expect(uses.counts().get(caller.client.client_id)?.requests).toBe(1);
    // Its count begins again, so the old one is gone.
    expect(uses.of(issued.api_key_id, 'x', 0).counts.requests).toBe(0);
  });

  test('the first client is one, with one API key, when nodes meet an empty vault at once', async () => {
    const options = {
      ...{ databaseUrl: place.env.DATABASE_URL!, databaseConnections: 5, dataDir: place.folder },
      ...{ kek: { KEK_FILE: place.env.KEK_FILE }, token_suffix: 'tok', allowUnsafePostgres: true },
    };
    const open = async () => {
      const vault = await openVault(options);
      onTestFinished(() => vault.close());
      return vault;
    };
    const vaults = [await open(), await open(), await open(), await open(), await open()];
    const made = await Promise.all(vaults.map((one) => createFirstClient(one, 'a', newApiKey)));
    expect(made.filter((one) => one !== undefined)).toHaveLength(1);
    expect(await sql(place, 'select 1 from standin.clients')).toHaveLength(1);
    expect(await sql(place, 'select 1 from standin.api_keys')).toHaveLength(1);
  });
});
