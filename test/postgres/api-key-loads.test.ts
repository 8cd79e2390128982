import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { ApiKeyUses } from '../../src/access/api-key-uses.ts';
import { Authenticator } from '../../src/access/authenticator.ts';
import { createFirstClient } from '../../src/access/clients.ts';
import { IssuerKeys } from '../../src/access/issuer-keys.ts';
import { JwtVerifier } from '../../src/access/jwt-verifier.ts';
import { newApiKey, randomHex } from '../../src/crypto/api-key.ts';
import { Keyring } from '../../src/crypto/keyring.ts';
import { CallerError } from '../../src/errors.ts';
import { ApiKeyStore } from '../../src/store/api-keys.ts';
import { KeyringFollower } from '../../src/vault/keyring-follower.ts';
import { openKeys, primaryVersionOf } from '../../src/vault/open-keys.ts';
import { openVault, type Vault } from '../../src/vault/vault.ts';
import { AUDIENCE, IssuerStandIn, SUBJECT } from '../support/issuer.ts';
import { query } from '../support/postgres.ts';
import {
  createClient,
  kinds,
  makeVault,
  newPlace,
  type Place,
  runCli,
  runJson,
  startService,
} from '../support/service.ts';
import { openedVault, soon } from '../support/vault.ts';

/** Reads of clients, API keys and keys that meet writes of others, or each other. */
let place: Place;
let url: string;
beforeEach(async () => {
  place = await newPlace('server');
  url = place.env.DATABASE_URL!;
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
  place.remove();
});

/** A store whose next answers of `method` come when the test lets them. */
function heldBack<Store extends object, Name extends keyof Store>(
  store: Store,
  method: Name,
): { readonly read: () => Promise<void>; readonly release: () => void } {
  const original = store[method] as (...args: unknown[]) => Promise<unknown>;
  let release = () => {};
  let read: Promise<unknown> = Promise.resolve();
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  vi.spyOn(store, method as never).mockImplementationOnce((async (...args: unknown[]) => {
    const answer = original.apply(store, args);
    read = answer;
    await held;
    return answer;
  }) as never);
  return { read: async () => void (await read), release };
}

interface Opened {
  readonly authenticator: Authenticator;
  readonly apiKeys: ApiKeyStore;
  readonly uses: ApiKeyUses;
  /** Makes one, with or without a client of its own, as another process does. */
  issue(): Promise<{ readonly header: string; readonly api_key_id: string }>;
}

/** @param issuer its JWTs are accepted, too */
async function open(issuer?: IssuerStandIn): Promise<Opened> {
  await makeVault(place);
  await createClient(place);
  const { pool, keys, source } = openedVault(place);
  const keyring = new Keyring(await openKeys(keys, source, 'tok', soon()));
  const apiKeys = new ApiKeyStore(pool);
  const uses = new ApiKeyUses(apiKeys);
  const options = {
    issuer: issuer?.url ?? '',
    audience: AUDIENCE,
    claim: 'sub',
    jwksUrl: undefined,
  };
  const digestOf = (jwt: string) => keyring.apiKeyDigest(jwt);
  const jwt = issuer && new JwtVerifier(options, new IssuerKeys(options, () => {}), digestOf);
  const authenticator = new Authenticator(apiKeys, keyring, uses, jwt);
  onTestFinished(() => authenticator.stop());
  const issue = async () => {
    const apiKey = newApiKey();
    const clientId = `c_${randomHex(6)}`;
    const apiKeyId = `k_${randomHex(6)}`;
    const digest = Buffer.from(keyring.apiKeyDigest(apiKey), 'latin1');
    await query(
      url,
      `with made as (insert into standin.clients (client_id, name, token_mode)
         values ($1, 'x', 'random') returning client_id)
       insert into standin.api_keys (api_key_id, client_id, digest)
         select $2, client_id, $3 from made`,
      [clientId, apiKeyId, digest],
    );
    return { header: `Bearer ${apiKey}`, api_key_id: apiKeyId };
  };
  return { authenticator, apiKeys, uses, issue };
}

/** As if so much time had gone by for the copy in memory. */
function passTime(lengthMs: number): void {
  const now = performance.now.bind(performance);
  vi.spyOn(performance, 'now').mockImplementation(() => now() + lengthMs);
}

const revoke = (apiKeyId: string) =>
  query(url, 'update standin.api_keys set revoked_at = now() where api_key_id = $1', [apiKeyId]);

/** Also where it throws at once. */
const admitted = async ({ authenticator }: Opened, header: string) =>
  authenticator.authenticate(header);

describe.skipIf(!kinds().includes('server'))('API keys in memory', () => {
  test('clients that are made meanwhile fail no load and no start', async () => {
    const opened = await open();
    let isOver = false;
    const made = Promise.all(
      [1, 2, 3].map(async () => {
        while (!isOver) await opened.issue();
      }),
    );
    for (let load = 0; load < 150; load++) await opened.authenticator.start();
    for (let start = 0; start < 2; start++) await (await startService(place)).stop();
    isOver = true;
    await made;
  });

  test('one that is unknown costs a look for it, not one at all of them; one made just now is found', async () => {
    const opened = await open();
    await opened.authenticator.start();
    const { header } = await opened.issue();
    const all = vi.spyOn(opened.apiKeys, 'listLive');
    const some = vi.spyOn(opened.apiKeys, 'findLive');
    const strangers = Array.from({ length: 500 }, () => admitted(opened, `Bearer ${newApiKey()}`));
    const caller = await admitted(opened, header);
    expect(caller.client.token_mode).toBe('random');
    const ends = await Promise.allSettled(strangers);
    expect(ends.every(({ status }) => status === 'rejected')).toBe(true);
    expect(some.mock.calls.length).toBeLessThanOrEqual(2);
    // Those that the timer brings.
    expect(all.mock.calls.length).toBeLessThanOrEqual(2);
    expect(opened.authenticator.authenticate(header)).not.toBeInstanceOf(Promise);
    some.mockClear();
    await expect(admitted(opened, `Bearer ${newApiKey()}`)).rejects.toThrow();
    expect(some.mock.calls.map(([digests]) => digests.length)).toEqual([1]);
  });

  test('a copy that is older than 4 s is not believed, also for a header that was seen', async () => {
    const opened = await open();
    const { header, api_key_id: apiKeyId } = await opened.issue();
    await opened.authenticator.start();
    for (let i = 0; i < 2; i++)
      expect(opened.authenticator.authenticate(header)).toMatchObject({ api_key_id: apiKeyId });
    opened.authenticator.stop();
    await revoke(apiKeyId);
    passTime(5_000);
    await expect(admitted(opened, header)).rejects.toThrow(CallerError);
  });

  test('a slow load that ends after a later one does not take a revocation back', async () => {
    const opened = await open();
    const { header, api_key_id: apiKeyId } = await opened.issue();
    await opened.authenticator.start();
    opened.authenticator.stop();
    const slow = heldBack(opened.apiKeys, 'listLive');
    passTime(5_000);
    const first = admitted(opened, `Bearer ${newApiKey()}`).catch(() => {});
    await vi.waitFor(() => expect(opened.apiKeys.listLive).toHaveBeenCalled());
    await slow.read();
    await revoke(apiKeyId);
    await expect(admitted(opened, header)).rejects.toThrow(CallerError);
    slow.release();
    await first;
    await expect(admitted(opened, header)).rejects.toThrow(CallerError);
  });

  test('a look-up that began earlier does not bring a revoked one back', async () => {
    const opened = await open();
    await opened.authenticator.start();
    opened.authenticator.stop();
    const { header, api_key_id: apiKeyId } = await opened.issue();
    const slow = heldBack(opened.apiKeys, 'findLive');
    const first = admitted(opened, header);
    await vi.waitFor(() => expect(opened.apiKeys.findLive).toHaveBeenCalled());
    await slow.read();
    await revoke(apiKeyId);
    await opened.authenticator.start();
    opened.authenticator.stop();
    slow.release();
    await first;
    await expect(admitted(opened, header)).rejects.toThrow(CallerError);
  });

  test('a JWT that was verified is not believed for longer than the clients in memory', async () => {
    const issuer = await IssuerStandIn.start();
    onTestFinished(() => issuer.stop());
    const opened = await open(issuer);
    await query(url, 'update standin.clients set subject = $1', [SUBJECT]);
    await opened.authenticator.start();
    const header = `Bearer ${await issuer.jwt()}`;
    expect(await admitted(opened, header)).toMatchObject({ subject: SUBJECT });
    expect(opened.authenticator.authenticate(header)).toMatchObject({ subject: SUBJECT });
    opened.authenticator.stop();
    await query(url, 'update standin.clients set disabled_at = now()');
    passTime(5_000);
    await expect(admitted(opened, header)).rejects.toThrow(CallerError);
  });

  test('a copy from before the machine was suspended is not believed: its clock of the day has gone on', async () => {
    const opened = await open();
    const { header, api_key_id: apiKeyId } = await opened.issue();
    await opened.authenticator.start();
    opened.authenticator.stop();
    expect(opened.authenticator.authenticate(header)).toMatchObject({ api_key_id: apiKeyId });
    await revoke(apiKeyId);
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 5_000 });
    await expect(admitted(opened, header)).rejects.toThrow(CallerError);
  });

  test('one in memory ends at its time', async () => {
    const opened = await open();
    const { header, api_key_id: apiKeyId } = await opened.issue();
    const expiresAt = new Date(Date.now() + 3_600_000);
    await query(url, 'update standin.api_keys set expires_at = $2 where api_key_id = $1', [
      apiKeyId,
      expiresAt,
    ]);
    await opened.authenticator.start();
    expect(opened.authenticator.authenticate(header)).toMatchObject({ api_key_id: apiKeyId });
    opened.authenticator.stop();
    vi.useFakeTimers({ toFake: ['Date'], now: expiresAt });
    await expect(admitted(opened, header)).rejects.toThrow(CallerError);
  });

  test('one that was revoked is forgotten, and its requests stay counted', async () => {
    const opened = await open();
    const { header, api_key_id: apiKeyId } = await opened.issue();
    await opened.authenticator.start();
    const caller = await admitted(opened, header);
    await opened.uses.stop();
    await revoke(apiKeyId);
    await opened.authenticator.start();
    expect(opened.uses.counts().get(caller.client.client_id)?.requests).toBe(1);
    // Its count begins again, so the old one is gone.
    expect(opened.uses.of(apiKeyId, 'x', 0).requests).toBe(0);
  });
});

describe.skipIf(!kinds().includes('server'))('the keyring in memory', () => {
  test('a slow look that ends after a later one brings back neither older keys nor doubt', async () => {
    await open();
    const { keys, source } = openedVault(place);
    const follower = new KeyringFollower(keys, source, await openKeys(keys, source, 'tok', soon()));
    // The first look waits for the standby; later ones only when keys have changed.
    await follower.refresh();
    const slow = heldBack(keys, 'list');
    const first = follower.refresh();
    await slow.read();
    await runJson(place, 'keyring', 'rotate');
    await follower.refresh();
    const newest = follower.latest;
    expect(primaryVersionOf(newest.keys)).toBe(2);
    slow.release();
    await first;
    // Neither its keys nor a failure: to it, the newest version looks gone.
    expect(follower.latest).toBe(newest);
  });
});

describe.skipIf(!kinds().includes('server'))('the first client', () => {
  async function openVaults(count: number): Promise<Vault[]> {
    const options = {
      databaseUrl: url,
      databaseConnections: 5,
      dataDir: place.folder,
      kek: { KEK_FILE: place.env.KEK_FILE },
      token_suffix: 'tok',
      allowUnsafePostgres: true,
    };
    const vaults: Vault[] = [];
    for (let i = 0; i < count; i++) vaults.push(await openVault(options));
    onTestFinished(async () => {
      await Promise.all(vaults.map((vault) => vault.close()));
    });
    return vaults;
  }

  test('is one, with one API key, when nodes meet an empty vault at once', async () => {
    const vaults = await openVaults(5);
    const made = await Promise.all(
      vaults.map((vault) => createFirstClient(vault, 'standin', newApiKey)),
    );
    expect(made.filter((one) => one !== undefined)).toHaveLength(1);
    expect(await query(url, 'select 1 from standin.clients')).toHaveLength(1);
    expect(await query(url, 'select 1 from standin.api_keys')).toHaveLength(1);
  });

  test('is not made without its API key: the next start makes both', async () => {
    expect((await runCli(['migrate'], place)).code).toBe(0);
    await query(
      url,
      `create function public.refuse() returns trigger language plpgsql as
         $$ begin raise exception 'refused'; end $$`,
    );
    await query(
      url,
      'create trigger refuse before insert on standin.api_keys execute function public.refuse()',
    );
    const ended = await runCli(['serve'], place, { PORT: '0', OPS_PORT: '0' });
    expect(ended.code).toBe(1);
    expect(await query(url, 'select 1 from standin.clients')).toEqual([]);
    await query(url, 'drop trigger refuse on standin.api_keys');
    const service = await startService(place);
    expect(service.api_key).not.toBe('');
    await service.stop();
  });
});
