import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { chromiumBin, eventually, openConsole } from '../support/browser.ts';
import { startWithOps } from '../support/ops.ts';
import { createClient, type NewClient, runJson, usualPlace } from '../support/service.ts';

const POLICY = `
version: 1
kinds:
  card: { shape: digits, keep_last: 4, mask: { show: ends, last: 4 } }
  iban: { shape: digits, keep_first: 4 }
  mail: { shape: word }
  number: { shape: word }
fields:
  customer.name: text
  customer.emails[*]: email
  cards[*].number: card
  iban: iban
elsewhere: pass
detect: { email: mail, card: number }
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
/** Some of what breaks pages that put texts into HTML. */
const NAUGHTY = {
  script: '<script>document.title = "broken"</script>',
  image: '<img src=x onerror="document.title = 1">',
  end: '</textarea></pre>-->]]>',
  quotes: '"\'`&quot;\\',
  '<b>name</b>': 'a name with a tag',
  lines: 'a\u2028b\u2029c\r\nd\te',
  odd: '\u0000\u001f\u202edlrow\ufeff',
  emoji: '👩‍👩‍👧🏳️‍🌈 Ǝ ﷽',
  empty: '',
};
const STRANGER = `stk_${'a'.repeat(34)}`;

describe.skipIf(chromiumBin === undefined)('the playground and the policy in the console', () => {
  const limits = { RATE_LIMIT: '1000', DETOKENIZE_LIMIT: '500' };
  const at = openConsole(async () => startWithOps(await usualPlace(), limits), {
    route: '#/playground',
    // Refusals are what the browser calls errors, too.
    expected: /status of 4(00|01|03|04)/,
  });
  let support: NewClient;
  let tenant: NewClient;

  const field = (name: string) => at.page.getByLabel(name, { exact: true });
  const tokens = () => field('Tokens').inputValue();
  const error = (id: string) => () => at.page.locator(`#${id}-error`).textContent();
  /** The table, row by row: field, kind under a policy, value, token and restored with its mark. */
  const fields = async () => {
    const rows = await at.page.locator('.fields tbody tr').all();
    return Promise.all(rows.map((one) => one.locator('th, td').allTextContents()));
  };
  const tokenize = async (text: string, outcome = /^Tokenized$/) => {
    await field('Original').fill(text);
    await at.tab.button('Tokenize').click();
    await at.tab.shows(outcome);
  };
  const restore = async (outcome: RegExp) => {
    await at.tab.button('Restore').click();
    await at.tab.shows(outcome);
  };
  const isUsable = async () => expect(await at.tab.faults(320, 390, 768)).toEqual([]);

  beforeAll(async () => {
    const client = (...options: string[]) => createClient(at.service.place, '--name', ...options);
    support = await client('support', '--can', 'detokenize');
    tenant = await client('Acme shop', '--space', 'acme');
  });
  beforeEach(() => field('API key').fill(at.service.api_key));

  describe('without a policy', () => {
    test('say how to apply one, and show nothing of kinds', async () => {
      expect(await at.page.getByLabel('Lenient').isVisible()).toBe(false);
      await at.tab.go('vault');
      await at.tab.shows('To apply one: standin policy apply FILE');
      await at.tab.go('clients');
      await at.tab.row('support').waitFor();
      expect(await at.page.getByRole('columnheader', { name: 'In clear' }).count()).toBe(0);
    });

    test('restores what it tokenized, whatever is in it, field by field', async () => {
      const scripts = () => at.page.locator('script, img').count();
      const before = await scripts();
      await tokenize(JSON.stringify(NAUGHTY));
      const made: Record<string, string> = JSON.parse(await tokens());
      for (const token of Object.values(made)) expect(token).toMatch(/^[\x20-\x7e]+_tok$/);
      await restore(/^Restored$/);
      const path = (name: string) => (name.startsWith('<') ? `["${name}"]` : name);
      expect(await fields()).toEqual(
        Object.entries(NAUGHTY).map(([name, value]) => [...[path(name), value, made[name], value]]),
      );
      expect(await scripts()).toBe(before);
      expect(await at.page.getByRole('status').allTextContents()).toContainEqual(
        expect.stringMatching(/request [\w-]{8,}/),
      );
      await isUsable();
    });

    test('never shows tokens of other values', async () => {
      await tokenize('{"name": "Ann"}');
      const before = await tokens();
      await field('Original').fill('{"name": 400}');
      expect([await tokens(), await fields()]).toEqual(['', []]);
      await at.tab.button('Tokenize').click();
      await eventually(error('original')).toContain('must be a string');
      expect([await tokens(), await fields()]).toEqual(['', []]);
      // Tokens that the user typed are the user's.
      await field('Tokens').fill(before);
      await field('Original').fill('{"name": "Bea"}');
      expect(await tokens()).toBe(before);
      await restore(/^Restored$/);
      await eventually(fields).toEqual([['name', '–', JSON.parse(before).name, 'Ann']]);
      // An answer that comes after something else was typed is dropped.
      await at.page.route('**/console/playground/tokenize', async (route) => {
        await field('Original').fill('{"name": "Cleo"}');
        await route.continue();
      });
      const isBusy = () => at.tab.button('Tokenize').getAttribute('aria-disabled');
      const answered = at.page.waitForResponse('**/console/playground/tokenize');
      await at.tab.button('Tokenize').click();
      await answered;
      await eventually(isBusy).toBe('false');
      expect([await tokens(), await fields()]).toEqual([before, []]);
    });

    test('keeps its API key nowhere', async () => {
      await at.tab.button('Example').click();
      await at.tab.button('Tokenize').click();
      await at.tab.shows(/^Tokenized$/);
      const stored = await at.page.evaluate(
        'JSON.stringify([{...localStorage}, {...sessionStorage}])',
      );
      const kept = stored + JSON.stringify(await at.page.context().storageState());
      expect(kept).not.toContain('stk_');
      await at.page.reload();
      expect(await field('API key').inputValue()).toBe('');
      expect(await field('Original').inputValue()).toBe('');
    });

    test.each([
      ['', '{"a": "b"}', 'api-key', 'Type an API key first.'],
      [undefined, '', 'original', 'Type or paste a value'],
      [undefined, '{"a": }', 'original', 'This is not JSON'],
      [undefined, '{"a": {"b c": ["x", 7]}}', 'original', 'data.a["b c"][1]: must be'],
      [STRANGER, '{"a": "b"}', 'api-key', 'does not know this API key'],
      ['support', '{"a": "b"}', 'api-key', 'this client may not tokenize'],
    ])(
      'says what is wrong beside the field that it is about: "%s", %s',
      async (key, text, about, words) => {
        if (key !== undefined)
          await field('API key').fill(key === 'support' ? support.api_key : key);
        await field('Original').fill(text);
        await at.tab.button('Tokenize').click();
        await eventually(error(about)).toContain(words);
        await eventually(() => at.page.evaluate('document.activeElement.id')).toBe(about);
      },
    );
  });

  describe('with a policy', () => {
    beforeAll(async () => {
      const file = join(at.service.place.folder, 'policy.yaml');
      writeFileSync(file, POLICY);
      await runJson(at.service.place, 'policy', 'apply', file, '--yes');
    });
    beforeEach(() => at.page.getByLabel('Lenient').waitFor());

    test('the vault shows its version, kinds and fields', async () => {
      await at.tab.go('vault');
      const policy = at.page.locator('.policy');
      const row = policy.getByRole('row').filter({ hasText: 'card' });
      const cells = () => row.locator('td').allTextContents();
      await eventually(cells).toEqual([
        ...['digits, keep_last 4', 'cards[*].number', '4242 4242 4242 4242'],
        ...[expect.stringMatching(/ 4242_tok$/), '**** 4242'],
      ]);
      expect(await policy.locator('h2').textContent()).toBe('Policyversion 1');
      await at.tab.shows(/^Strings at all other paths: they go through unchanged, in clear\. /);
      await at.page.getByText('The document, with the rights of clients').click();
      expect(await at.page.getByLabel('Document of the policy').textContent()).toBe(POLICY);
      await isUsable();
    });

    test('clients show their space, and what they see of each kind', async () => {
      const { page, tab } = at;
      await tab.go('clients');
      const text = (name: string) => () => tab.row(name).textContent();
      // Of its own limit, and of the sum of two.
      await eventually(text('support')).toMatch(/of 500$/);
      expect(await text('Acme shop')()).toMatch(/acmetokenize, detokenize.*of 1,500$/);
      await isUsable();
      await page.getByLabel('Filter').fill('acme');
      expect(await page.locator('.client-name a').allTextContents()).toEqual(['Acme shop']);
      await tab.go(`client/${tenant.client_id}`);
      await tab.shows(/^acme$/);
      await tab.go(`client/${support.client_id}`);
      await eventually(text('card')).toBe('cardmasked**** 4242');
      expect(await text('iban')()).toBe('ibannone–');
      const command = `standin client update ${support.client_id} --detokenize-limit 500`;
      expect(await page.locator('.change code').allTextContents()).toContain(command);
      expect(await page.getByText('Rate limit per second', { exact: true }).count()).toBe(0);
      await isUsable();
    });

    test('the playground sends whole records, and names the kind of each field', async () => {
      const { page, tab } = at;
      await tokenize(RECORD);
      const outside = (text: string) =>
        text.replace(/"[^"]*_tok"|"(Ann|ann|4111|GB82)[^"]*"/g, '""').trim();
      expect(outside(await tokens())).toBe(outside(RECORD));
      expect((await fields()).map((one) => one.slice(0, 2).join(' '))).toEqual([
        ...['customer.name text', 'customer.emails[0] email'],
        ...['cards[0].number card', 'iban iban'],
      ]);
      expect(await page.locator('.fields .note').textContent()).toBe(
        'Passed unchanged: id (number) price (number) note in clear cards[0].cvc (null) ',
      );
      await restore(/^Restored$/);
      for (const one of await fields()) expect(one.at(-1)).toBe(one[2]);
      await tab.go('requests');
      await eventually(() => tab.row('in clear').first().textContent()).toContain('41 in clear');
      await tab.go(`client/${at.service.client_id}`);
      await tab.shows('replaced, 2 passed in clear since the start');
      await tab.go('clients');
      await eventually(() => tab.row('first').locator('td').nth(2).textContent()).toBe('2');
      await isUsable();
    });

    test('one value is sent as a list, and a record of no field is told', async () => {
      await tokenize('ann@example.com');
      expect((await fields())[0]!.slice(0, 3)).toEqual(['values[0]', 'text', 'ann@example.com']);
      await tokenize('{"a": "no field of it"}', /^Nothing was tokenized: no field of the policy/);
      expect(await fields()).toEqual([]);
    });

    test('an API key without a right is refused, and with lenient handling the rest is shown', async () => {
      await tokenize(RECORD);
      await field('API key').fill(support.api_key);
      // The first click after another key: nothing may move the button away.
      await at.tab.button('Restore').click();
      const words = 'data.iban: this client may not see values of kind iban';
      await eventually(error('tokens')).toContain(words);
      const rights = await at.page.locator('.rights').textContent();
      expect(rights).toMatch(/client support.*card masked \*{4} 4242.*iban none/);
      await at.page.getByLabel('Lenient').check();
      await restore(/^Restored$/);
      expect((await fields()).map((cells) => cells.at(-1))).toEqual([
        ...['Ann <b>Lee</b>', 'a***@example.commasked'],
        ...['**** 1111masked', 'left: forbidden'],
      ]);
      await isUsable();
    });

    test('an answer that is late is of no other API key and no other client', async () => {
      const { page, tab } = at;
      const LATE = /\/console\/(playground\/api-key|client\?id=nobody)$/;
      const answers: (() => void)[] = [];
      await page.route(LATE, async (route) => {
        if (route.request().headers()['standin-api-key'] !== support.api_key)
          await new Promise<void>((resolve) => answers.push(resolve));
        await route.continue();
      });
      const late = async () => {
        await eventually(() => answers.length).toBe(1);
        const answered = page.waitForResponse(LATE);
        answers.pop()!();
        await answered;
        // A page that drops the answer does not read it to its end, so nothing else tells.
        await page.evaluate(() => new Promise((resolve) => setTimeout(resolve)));
      };
      const rights = page.locator('.rights');
      for (const apiKey of [`${at.service.api_key} `, support.api_key]) {
        await field('API key').fill(apiKey);
        await field('Original').focus();
      }
      await eventually(() => rights.textContent()).toContain('client support');
      await late();
      await tab.go('client/nobody');
      await eventually(() => answers.length).toBe(1);
      await tab.go(`client/${support.client_id}`);
      await late();
      await page.getByRole('heading', { name: 'support', exact: true }).waitFor();
      expect(await page.getByText('There is no client with this id').count()).toBe(0);
      expect(await rights.textContent()).toContain('client support');
    });

    test('a token keeps the kind with which it was made, wherever it is put', async () => {
      await tokenize(RECORD);
      const made = JSON.parse(await tokens());
      await field('API key').fill(support.api_key);
      const moved = { customer: { name: made.cards[0].number, emails: ['nobody_tok'] } };
      await field('Tokens').fill(JSON.stringify(moved));
      await at.page.getByLabel('Lenient').check();
      await restore(/^Restored$/);
      expect((await fields()).map((cells) => `${cells[1]} ${cells.at(-1)}`)).toEqual([
        ...['card **** 1111masked', 'email left: unknown'],
      ]);
    });

    test('a text shows what was found in it, and what a model would read', async () => {
      const { page, tab } = at;
      const text = '👋 <b>Ann</b>:\nann@example.com, 4111 1111 1111 1111 or ann@example.com.';
      const marks = (title: string) => page.getByLabel(title, { exact: true }).locator('mark');
      await field('Text').fill(text);
      await tab.button('Find').click();
      await tab.shows('Found 2 mail, 1 number');
      expect(await marks('What was found').allTextContents()).toEqual([
        ...['ann@example.com is mail', '4111 1111 1111 1111 is number', 'ann@example.com is mail'],
      ]);
      const read = await page.getByLabel('What the model reads').locator('.marked').textContent();
      expect(read!.replace(/[a-z]{10}_tok is (\w+)/g, '[$1]')).toBe(
        '👋 <b>Ann</b>:\n[mail], [number] or [mail].',
      );
      expect(await page.locator('.marked b').count()).toBe(0);
      await isUsable();
      await field('Text').fill('nobody is here');
      expect(await marks('What was found').count()).toBe(0);
      await tab.button('Find').click();
      await tab.shows('Nothing was found: the model reads the text in clear');
      await tab.go('');
      const counts = () => tab.row('mail').locator('td').allTextContents();
      await eventually(counts).toEqual(['2']);
      await isUsable();
    });

    test.each([
      ['', 'a', 'Type an API key first.'],
      [undefined, '', 'Type or paste a text'],
      ['support', 'a', 'this client may not tokenize'],
    ])('says why a text was not read: "%s", "%s"', async (key, text, words) => {
      const apiKey = key === 'support' ? support.api_key : key;
      if (apiKey !== undefined) await field('API key').fill(apiKey);
      await field('Text').fill(text);
      await at.tab.button('Find').click();
      await eventually(error('text')).toContain(words);
    });
  });
});
