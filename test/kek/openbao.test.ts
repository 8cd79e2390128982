import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { parseKekSettings } from '../../src/config/kek.ts';
import { kekTransit } from '../../src/kek/transit.ts';
import { newFolder } from '../support/folder.ts';
import type { Changes } from '../support/kek.ts';
import { actsOn, ownPlace } from '../support/own.ts';
import { startService } from '../support/service.ts';
import { OpenBao, openbao, TransitStandIn } from '../support/transit.ts';

describe.skipIf(openbao === undefined)('a real OpenBao', () => {
  const file = join(newFolder('bao'), 'kek.encrypted');
  let bao: OpenBao;
  let token: string;
  beforeAll(async () => {
    bao = await OpenBao.start();
    await bao.call('POST', 'transit/keys/standin', {});
    const made = await bao.call('POST', 'transit/datakey/wrapped/standin', {});
    writeFileSync(file, made.data.ciphertext);
    token = await bao.limitedToken('standin');
    return () => bao.stop();
  });

  test('gives the KEK to a token that may only decrypt, also after its key was rotated', async () => {
    const place = await ownPlace('embedded');
    const transit = { KEK_TRANSIT_URL: bao.url, KEK_TRANSIT_KEY: 'standin' };
    const env = { KEK_FILE: file, ...transit, VAULT_TOKEN: token };
    await (await startService(place, env)).stop();
    await bao.call('POST', 'transit/keys/standin/rotate', {});
    const { code, stdout } = await actsOn(place).run('doctor', env);
    expect([code, stdout]).toEqual([0, expect.stringContaining('opens all 4 keys')]);
  });

  /** What the transit source says of a failure, without the address. */
  async function problemOf(url: string, changes: Changes): Promise<string> {
    const settings = { KEK_FILE: file, KEK_TRANSIT_URL: url, KEK_TRANSIT_KEY: 'standin' };
    const source = kekTransit(file, parseKekSettings({ ...settings, ...changes }));
    const answer = await source.read().catch((error: Error) => error);
    expect(answer).toBeInstanceOf(Error);
    return (answer as Error).message.replaceAll(url, 'URL');
  }

  test('and the stand-in of the other tests fail with the same words', async () => {
    const standIn = await new TransitStandIn().open();
    const root = (url: string) => ({ VAULT_TOKEN: url === bao.url ? 'root' : standIn.token });
    const failures = [
      (_: string) => ({ VAULT_TOKEN: 'wrong' }),
      (url: string) => ({ ...root(url), KEK_TRANSIT_KEY: 'none' }),
      (url: string) => ({ ...root(url), KEK_TRANSIT_MOUNT: 'none' }),
      (url: string) => ({ ...root(url), KEK_TRANSIT_NAMESPACE: 'none' }),
    ];
    const statuses: string[] = [];
    for (const changes of failures) {
      const real = await problemOf(bao.url, changes(bao.url));
      expect(await problemOf(standIn.url, changes(standIn.url))).toBe(real);
      statuses.push(/status (\d+)/.exec(real)![1]!);
    }
    expect(statuses).toEqual(['403', '400', '404', '404']);
    standIn.stop();
  });
});
