import { afterAll, beforeAll, expect, test } from 'vitest';
import { makeVault, type Place, runCli, runJson, usualPlace } from '../support/service.ts';
import { openedVault, soon } from '../support/vault.ts';

let place: Place;
beforeAll(async () => {
  place = await usualPlace();
  await makeVault(place);
});
afterAll(() => place.remove());

async function failure(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await runCli(args, place);
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  return stderr;
}

const made = async (name: string, ...options: string[]) =>
  (await runJson(place, 'client', 'create', '--name', name, ...options)).client_id as string;

test('a name does wherever an id does', async () => {
  const id = await made('shop');
  const byName = { client_id: id, name: 'shop' };
  expect(await runJson(place, 'client', 'update', 'shop', '--rate-limit', '5')).toMatchObject({
    ...byName,
    rate_limit: 5,
  });
  expect(await runJson(place, 'client', 'update', id, '--can', 'tokenize')).toMatchObject(byName);
  const issued = await runJson(place, 'api-key', 'issue', '--client', 'shop');
  expect(issued.client_id).toBe(id);
  const keys = await runJson(place, 'api-key', 'list', '--client', 'shop');
  expect(keys.map((key: { api_key_id: string }) => key.api_key_id)).toContain(issued.api_key_id);
  expect(keys).toHaveLength(2);
  const { stdout } = await runCli(['api-key', 'list'], place);
  expect(stdout).toMatch(new RegExp(`^${issued.api_key_id} +${id} +shop +live `, 'm'));
  expect((await runJson(place, 'client', 'disable', 'shop')).disabled_at).not.toBeNull();
});

test('a name or an id that a client has is refused for another, also when two ask at once', async () => {
  const id = await made('taken');
  const words = (name: string) =>
    `standin: There is a client ${name} already. Choose another name, or change that client: standin client update\n`;
  expect(await failure('client', 'create', '--name', 'taken')).toBe(words('taken'));
  expect(await failure('client', 'create', '--name', id)).toBe(words(id));
  const other = await made('other');
  expect(await failure('client', 'update', other, '--name', 'taken')).toBe(words('taken'));
  // Its own name is no other client's.
  expect(await runJson(place, 'client', 'update', 'taken', '--name', 'taken')).toMatchObject({
    client_id: id,
  });
  const both = await Promise.all(
    [1, 2].map(() => runCli(['client', 'create', '--name', 'at once'], place)),
  );
  expect(both.map(({ code }) => code).toSorted()).toEqual([0, 1]);
  const clients = await runJson(place, 'client', 'list');
  const names = clients.map((one: { name: string }) => one.name);
  expect(names.filter((name: string) => name === 'at once')).toHaveLength(1);
});

test('names that two clients have from before are refused in words, and their ids still do', async () => {
  const ids = [await made('twin'), await made('twin two')];
  const { pool } = openedVault(place);
  const text = "update standin.clients set name = 'twin' where client_id = $1";
  await pool.query(text, [ids[1]!], soon());
  expect(await failure('client', 'update', 'twin', '--rate-limit', '1')).toBe(
    `standin: 2 clients are called twin: ${ids.join(', ')}. Use an id, or give all but one another name: standin client update ID --name NAME\n`,
  );
  expect(await runJson(place, 'client', 'update', ids[0]!, '--rate-limit', '1')).toMatchObject({
    client_id: ids[0],
  });
  await runJson(place, 'client', 'update', ids[1]!, '--name', 'twin two');
  expect(await runJson(place, 'client', 'update', 'twin', '--rate-limit', '2')).toMatchObject({
    client_id: ids[0],
  });
});

test('create says what the client may do, and how to allow less', async () => {
  const both = await runCli(['client', 'create', '--name', 'both'], place);
  expect(both.stdout).toMatch(
    /^client {3}standin_[0-9a-f]{24}\ncan {6}tokenize and detokenize: its API key turns tokens back into values\n {9}to allow less: standin client update both --can tokenize\nAPI key {2}stk_\w{34} {2}\(shown only this once\)\n$/,
  );
  await runJson(place, 'client', 'update', 'both', '--can', 'tokenize');
  const odd = await runCli(['client', 'create', '--name', "Ann's; shop"], place);
  expect(odd.stdout).toMatch(/less: standin client update standin_[0-9a-f]{24} --can tokenize\n/);
  const one = await runCli(['client', 'create', '--name', 'one', '--can', 'tokenize'], place);
  expect(one.stdout).toMatch(/^can {6}tokenize\n/m);
});
