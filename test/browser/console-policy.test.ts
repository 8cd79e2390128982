import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { chromiumBin, openConsole } from '../support/browser.ts';
import { startWithOps } from '../support/ops.ts';
import { createClient, type NewClient, runJson, usualPlace } from '../support/service.ts';

const POLICY = `
version: 1
kinds:
  card: { shape: digits, keep_last: 4, mask: { show: ends, last: 4 } }
  iban: { shape: digits, keep_first: 4 }
fields:
  customer.name: text
  customer.emails[*]: email
  cards[*].number: card
  iban: iban
elsewhere: pass
rights:
  support: { text: full, email: masked, card: masked }
  "*": { "*": full }
`;
/** With what a parser would change: a large number, and 1.0. */
const RECORD = `{
  "id": 12345678901234567890, "price": 1.0, "note": "by post",
  "customer": {"name": "Ann <b>Lee</b>", "emails": ["ann@example.com"]},
  "cards": [{"number": "4111 1111 1111 1111", "cvc": null}],
  "iban": "GB82 WEST 1234 5698 7654 32"
}`;
const PATIENCE = { timeout: 20_000 };

describe.skipIf(chromiumBin === undefined)('the console with a policy', () => {
  const at = openConsole(async () =>
    startWithOps(await usualPlace(), { RATE_LIMIT: '1000', DETOKENIZE_LIMIT: '500' }),
  );
  let support: NewClient;
  let tenant: NewClient;

  const go = (route: string) => at.tab.page.goto(`${at.service.opsUrl}/#/${route}`);
  const row = (text: string) => at.tab.page.getByRole('row').filter({ hasText: text });
  const button = (name: string) => at.tab.page.getByRole('button', { name, exact: true });
  const tokens = () => at.tab.page.getByLabel('Tokens', { exact: true }).inputValue();
  const said = (words: string) => at.tab.page.getByText(words, { exact: true }).count();
  const fillKey = (apiKey: string) =>
    at.tab.page.getByLabel('API key', { exact: true }).fill(apiKey);
  /** The table, row by row, as field, kind, value, token and restored value with its mark. */
  const fields = async () => {
    const rows = await at.tab.page.locator('.fields tbody tr').all();
    return Promise.all(rows.map((one) => one.locator('th, td').allTextContents()));
  };
  const tokenize = async (text = RECORD) => {
    await go('playground');
    await at.tab.page.getByLabel('Lenient').waitFor();
    await fillKey(at.service.api_key);
    await at.tab.page.getByLabel('Original').fill(text);
    await button('Tokenize').click();
    await expect.poll(() => said('Tokenized'), PATIENCE).toBe(1);
  };
  const isUsable = async () => expect(await at.tab.faults(320, 390, 768)).toEqual([]);

  beforeAll(async () => {
    support = await createClient(at.service.place, '--name', 'support', '--can', 'detokenize');
  });

  test('without one, it says how to apply one, and shows nothing of kinds', async () => {
    await go('vault');
    const none = at.tab.page.getByText('To apply one: standin policy apply FILE');
    await expect.poll(() => none.count(), PATIENCE).toBe(1);
    await go('clients');
    await expect.poll(() => row('support').count(), PATIENCE).toBe(1);
    for (const head of ['Space', 'Sees', 'In clear'])
      expect(await at.tab.page.getByRole('columnheader', { name: head }).count(), head).toBe(0);
    await go('playground');
    expect(await at.tab.page.getByLabel('Lenient').isVisible()).toBe(false);
  });

  describe('in force', () => {
    beforeAll(async () => {
      const file = join(at.service.place.folder, 'policy.yaml');
      writeFileSync(file, POLICY);
      await runJson(at.service.place, 'policy', 'apply', file, '--yes');
      tenant = await createClient(at.service.place, '--name', 'Acme shop', '--space', 'acme');
    });

    test('the vault shows its version, kinds and fields', async () => {
      await go('vault');
      const cells = async (kind: string) =>
        at.tab.page.locator('.policy').getByRole('row').filter({ hasText: kind }).locator('td');
      await expect.poll(async () => (await cells('card')).count(), PATIENCE).toBe(5);
      const [options, paths, value, token, mask] = await (await cells('card')).allTextContents();
      expect([options, paths]).toEqual(['digits, keep_last 4', 'cards[*].number']);
      expect([value, mask]).toEqual(['4242 4242 4242 4242', '**** 4242']);
      expect(token).toMatch(/ 4242_tok$/);
      expect(await at.tab.page.locator('.policy h2').textContent()).toBe('Policyversion 1');
      expect(await at.tab.page.locator('.policy .note').textContent()).toMatch(
        /^Strings at all other paths: they go through unchanged, in clear\. /,
      );
      await at.tab.page.getByText('The document, with the rights of clients').click();
      expect(await at.tab.page.getByLabel('Document of the policy').textContent()).toBe(POLICY);
      await isUsable();
    });

    test('clients show their space, and what they see of each kind', async () => {
      await go('clients');
      await expect
        .poll(() => row('support').textContent(), PATIENCE)
        .toContain('masked email, card');
      expect(await row('support').textContent()).toMatch(/full text.*none iban/);
      // Of its own limit, and of the sum of two.
      expect(await row('support').textContent()).toMatch(/of 500$/);
      expect(await row('Acme shop').textContent()).toMatch(/of 1,500$/);
      expect(await row('Acme shop').textContent()).toMatch(/acmetokenize, detokenizeeverything/);
      await isUsable();
      await at.tab.page.getByLabel('Filter').fill('acme');
      expect(await at.tab.page.locator('.client-name a').allTextContents()).toEqual(['Acme shop']);
      await go(`client/${tenant.client_id}`);
      const space = at.tab.page.getByText('acme', { exact: true }).filter({ visible: true });
      await expect.poll(() => space.count(), PATIENCE).toBe(1);
      await go(`client/${support.client_id}`);
      await expect.poll(() => row('card').textContent(), PATIENCE).toBe('cardmasked**** 4242');
      expect(await row('iban').textContent()).toBe('ibannone–');
      const commands = await at.tab.page.locator('.change code').allTextContents();
      expect(commands).toContain(
        `standin client update ${support.client_id} --detokenize-limit 500`,
      );
      expect(await at.tab.page.getByText('Rate limit per second', { exact: true }).count()).toBe(0);
      await isUsable();
    });

    test('the playground sends whole records, and names the kind of each field', async () => {
      await tokenize();
      const sent = await tokens();
      const outside = (text: string) =>
        text.replace(/"[^"]*_tok"|"(Ann|ann|4111|GB82)[^"]*"/g, '""').replace(/\s+$/, '');
      expect(outside(sent)).toBe(outside(RECORD));
      expect((await fields()).map(([path, kind]) => [path, kind])).toEqual([
        ['customer.name', 'text'],
        ['customer.emails[0]', 'email'],
        ['cards[0].number', 'card'],
        ['iban', 'iban'],
      ]);
      expect(await at.tab.page.locator('.fields .note').textContent()).toBe(
        'Passed unchanged: id (number) price (number) note in clear cards[0].cvc (null) ',
      );
      await button('Restore').click();
      await expect.poll(() => said('Restored: equal to the original'), PATIENCE).toBe(1);
      expect(await at.tab.page.locator('.fields .equal').count()).toBe(4);
      await go('requests');
      await expect
        .poll(() => row('/api/v1/tokenize').textContent(), PATIENCE)
        .toContain('41 in clear');
      await go(`client/${at.service.client_id}`);
      const strings = at.tab.page.getByText('replaced, 2 passed in clear since the start');
      await expect.poll(() => strings.count(), PATIENCE).toBe(1);
      await go('clients');
      await expect.poll(() => row('first').locator('td').nth(3).textContent(), PATIENCE).toBe('2');
      await isUsable();
    });

    test('the example fits the policy, and one value is sent as a list', async () => {
      await tokenize('ann@example.com');
      expect((await fields())[0]!.slice(0, 3)).toEqual(['values[0]', 'text', 'ann@example.com']);
      await button('Example').click();
      await button('Tokenize').click();
      await expect.poll(async () => (await fields()).length, PATIENCE).toBe(4);
      await at.tab.page.getByLabel('Original').fill('{"a": "no field of it"}');
      await button('Tokenize').click();
      const nothing = 'Nothing was tokenized: no field of the policy is in it';
      await expect.poll(() => said(nothing), PATIENCE).toBe(1);
      expect(await fields()).toEqual([]);
    });

    test('an API key without a right is refused, and with lenient handling the rest is shown', async () => {
      await tokenize();
      await fillKey(support.api_key);
      // The first click after another key: nothing may move the button away.
      await button('Restore').click();
      const error = at.tab.page.locator('#tokens-error');
      await expect
        .poll(() => error.textContent(), PATIENCE)
        .toContain('data.iban: this client may not see values of kind iban');
      expect(await at.tab.page.evaluate('getSelection().toString()')).toMatch(/^"GB82 .*_tok"$/);
      const rights = at.tab.page.locator('.rights');
      expect(await rights.textContent()).toMatch(
        /client support.*card masked \*{4} 4242.*iban none/,
      );
      await at.tab.page.getByLabel('Lenient').check();
      await button('Restore').click();
      await expect.poll(() => said('Restored: 2 masked, 1 forbidden'), PATIENCE).toBe(1);
      expect((await fields()).map((cells) => cells.at(-1))).toEqual([
        'Ann <b>Lee</b> equal to the value',
        'a***@example.commasked',
        '**** 1111masked',
        'left: forbidden',
      ]);
      await isUsable();
      expect(at.tab.errors.every((text) => text.includes('status of 403'))).toBe(true);
      at.tab.errors.length = 0;
    });

    test('an answer that is late is of no other API key and no other client', async () => {
      const answers: (() => void)[] = [];
      await at.tab.page.route(
        /\/console\/(playground\/api-key|client\?id=nobody)$/,
        async (route) => {
          if (route.request().headers()['standin-api-key'] !== support.api_key)
            await new Promise<void>((resolve) => answers.push(resolve));
          await route.continue();
        },
      );
      const late = async () => {
        const answered = at.tab.page.waitForResponse(
          /\/console\/(playground\/api-key|client\?id=nobody)$/,
        );
        for (const answer of answers.splice(0)) answer();
        await answered;
        // A page that drops the answer does not read it to its end, so nothing else tells.
        await at.tab.page.evaluate(() => new Promise((resolve) => setTimeout(resolve)));
      };
      await go('playground');
      await at.tab.page.getByLabel('Lenient').waitFor();
      const rights = at.tab.page.locator('.rights');
      for (const apiKey of [at.service.api_key, support.api_key]) {
        await fillKey(apiKey);
        await at.tab.page.getByLabel('Original').focus();
      }
      await expect.poll(() => rights.textContent(), PATIENCE).toContain('client support');
      await expect.poll(() => answers.length, PATIENCE).toBe(1);
      await late();
      await go('client/nobody');
      await expect.poll(() => answers.length, PATIENCE).toBe(1);
      await go(`client/${support.client_id}`);
      await late();
      const heading = at.tab.page.getByRole('heading', { name: 'support', exact: true });
      await expect.poll(() => heading.count(), PATIENCE).toBe(1);
      expect(await at.tab.page.getByText('There is no client with this id').count()).toBe(0);
      expect(await rights.textContent()).toContain('client support');
      expect(at.tab.errors.splice(0)).toEqual([expect.stringContaining('status of 404')]);
    });

    test('a token keeps the kind with which it was made, wherever it is put', async () => {
      await tokenize();
      const made = JSON.parse(await tokens());
      await fillKey(support.api_key);
      const moved = { customer: { name: made.cards[0].number, emails: ['nobody_tok'] } };
      await at.tab.page.getByLabel('Tokens', { exact: true }).fill(JSON.stringify(moved));
      await at.tab.page.getByLabel('Lenient').check();
      await button('Restore').click();
      await expect.poll(() => said('Restored: 1 masked, 1 unknown'), PATIENCE).toBe(1);
      const rows = await fields();
      expect(rows.map((cells) => [cells[1], cells.at(-1)])).toEqual([
        ['card', '**** 1111masked'],
        ['email', 'left: unknown'],
      ]);
    });
  });
});
