import { beforeEach, describe, expect, test } from 'vitest';
import { chromiumBin, openConsole } from '../support/browser.ts';
import { startWithOps } from '../support/ops.ts';
import { runJson, usualPlace } from '../support/service.ts';

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
const PATIENCE = { timeout: 20_000 };

describe.skipIf(chromiumBin === undefined)('the playground of the console', () => {
  const at = openConsole(async () => startWithOps(await usualPlace()), '#/playground');

  const button = (name: string) => at.tab.page.getByRole('button', { name, exact: true });
  const client = (name: string, ...options: string[]) =>
    runJson(at.service.place, 'client', 'create', '--name', name, ...options);
  const original = () => at.tab.page.getByLabel('Original');
  const tokens = () => at.tab.page.getByLabel('Tokens', { exact: true }).inputValue();
  const error = (id: string) => () => at.tab.page.locator(`#${id}-error`).textContent();
  const tokenize = async () => {
    await button('Tokenize').click();
    await expect.poll(() => at.tab.page.getByText('Tokenized', { exact: true }).count()).toBe(1);
  };
  /** The table, row by row, as field, value, token and restored value. */
  const fields = async () => {
    const rows = await at.tab.page.locator('.fields tbody tr').all();
    return Promise.all(rows.map((row) => row.locator('code').allTextContents()));
  };

  beforeEach(() => at.tab.page.getByLabel('API key').fill(at.service.api_key));

  test('restores what it tokenized, whatever is in it, field by field', async () => {
    await original().fill(JSON.stringify(NAUGHTY));
    const scripts = await at.tab.page.locator('script, img').count();
    await tokenize();
    const made = JSON.parse(await tokens());
    expect(Object.keys(made)).toEqual(Object.keys(NAUGHTY));
    for (const token of Object.values(made)) expect(token).toMatch(/^[\x20-\x7e]+_tok$/);
    await button('Restore').click();
    const equal = at.tab.page.getByText('Restored: equal to the original');
    await expect.poll(() => equal.count(), PATIENCE).toBe(1);
    const values = Object.values(NAUGHTY);
    const rows = await fields();
    expect(rows.map(([, value, token, restored]) => [value, token, restored])).toEqual(
      values.map((value, i) => [value, Object.values(made)[i], value]),
    );
    expect(rows.map(([path]) => path)).toContain('["<b>name</b>"]');
    expect(await at.tab.page.locator('.fields .equal').count()).toBe(values.length);
    expect(await at.tab.page.locator('script, img').count()).toBe(scripts);
    expect(await at.tab.page.getByRole('status').allTextContents()).toContainEqual(
      expect.stringMatching(/ms.*request [\w-]{8,}/),
    );
    expect(await at.tab.faults(320)).toEqual([]);
  });

  test('takes one plain value, and the whole body of a request', async () => {
    await original().fill('  ann@example.com\n');
    await tokenize();
    expect(await at.tab.page.getByText('Sent as one value').count()).toBe(1);
    const [[path, value, token] = []] = await fields();
    expect([path, value]).toEqual(['value', 'ann@example.com']);
    expect(token).toMatch(/^[a-z]+@[a-z]+\.[a-z]+_tok$/);
    await original().fill('{"data": {"mail": "ann@example.com"}}');
    await tokenize();
    expect(await fields()).toEqual([['mail', 'ann@example.com', token, '–']]);
    expect(await at.tab.page.getByText('Sent as the body of a request').count()).toBe(1);
  });

  test('never shows tokens of other values', async () => {
    await original().fill('{"name": "Ann"}');
    await tokenize();
    const before = await tokens();
    await original().fill('{"name": 400}');
    expect([await tokens(), await fields()]).toEqual(['', []]);
    await button('Tokenize').click();
    await expect.poll(error('original')).toContain('must be a string');
    expect([await tokens(), await fields()]).toEqual(['', []]);
    // Tokens that the user typed are the user's.
    await at.tab.page.getByLabel('Tokens', { exact: true }).fill(before);
    await original().fill('{"name": "Bea"}');
    expect(await tokens()).toBe(before);
    await button('Restore').click();
    await expect.poll(() => at.tab.page.getByText('Restored', { exact: true }).count()).toBe(2);
    expect((await fields())[0]!.slice(1)).toEqual(['–', JSON.parse(before).name, 'Ann']);
    expect(at.tab.errors.every((text) => text.includes('status of 400'))).toBe(true);
    at.tab.errors.length = 0;
  });

  test('keeps its API key nowhere', async () => {
    await button('Example').click();
    await tokenize();
    const kept = await at.tab.page.evaluate(
      'JSON.stringify([{...localStorage}, {...sessionStorage}])',
    );
    expect(kept + JSON.stringify(await at.tab.page.context().storageState())).not.toContain('stk_');
    await at.tab.page.reload();
    expect(await at.tab.page.getByLabel('API key').inputValue()).toBe('');
    expect(await original().inputValue()).toBe('');
  });

  test('says what is wrong beside the field that it is about', async () => {
    const reader = await client('reader', '--can', 'detokenize');
    const slow = await client('slow', '--rate-limit', '1');
    const apiKey = at.tab.page.getByLabel('API key');
    const focus = () => at.tab.page.evaluate('document.activeElement.id');

    await apiKey.fill('');
    await button('Tokenize').click();
    expect(await error('api-key')()).toBe('Type an API key first.');
    await apiKey.fill(at.service.api_key);
    await button('Tokenize').click();
    expect(await error('original')()).toContain('Type or paste a value');
    await original().fill('{"a": }');
    await button('Tokenize').click();
    expect(await error('original')()).toContain('This is not JSON');
    await original().fill('["a"]');
    await button('Tokenize').click();
    expect(await error('original')()).toContain('must be a JSON object');

    await original().fill('{\n  "a": {"b c": ["x",\n  7]}\n}');
    await button('Tokenize').click();
    await expect.poll(error('original')).toContain('Line 3: data.a["b c"][1]: must be a string');
    const selected = 'getSelection().toString()';
    expect([await focus(), await at.tab.page.evaluate(selected)]).toEqual(['original', '7']);

    await original().fill('{"a": "Ann"}');
    await apiKey.fill(`stk_${'a'.repeat(34)}`);
    await button('Tokenize').click();
    await expect.poll(error('api-key')).toContain('does not know this API key');
    expect(await focus()).toBe('api-key');
    await apiKey.fill(reader.api_key);
    await button('Tokenize').click();
    await expect.poll(error('api-key')).toBe('The client of this API key may not tokenize.');
    await apiKey.fill(slow.api_key);
    const again = async () => {
      await button('Tokenize').click();
      return error('api-key')();
    };
    await expect.poll(again, { timeout: 30_000 }).toMatch(/limit .* Try again in \d+ s/);
    // Refusals are what the browser calls errors, too.
    expect(at.tab.errors.every((text) => /status of 4(00|01|03|29)/.test(text))).toBe(true);
    at.tab.errors.length = 0;
  });
});
