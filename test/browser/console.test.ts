import type { Browser, Locator } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { chromiumBin, launch, Tab } from '../support/browser.ts';
import { freePort } from '../support/processes.ts';
import {
  call,
  type Place,
  runCli,
  type Service,
  startService,
  usualPlace,
} from '../support/service.ts';

const VIEWS = {
  '': 'Overview',
  vault: 'Vault & keys',
  clients: 'Clients',
  playground: 'Playground',
};
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

describe.skipIf(chromiumBin === undefined)('the console in Chromium', () => {
  let browser: Browser;
  let place: Place;
  let service: Service;
  let tab: Tab;

  const go = (route: string) => tab.page.goto(`${service.opsUrl}/#/${route}`);
  const button = (name: string) => tab.page.getByRole('button', { name, exact: true });
  const client = async (name: string, ...options: string[]) => {
    const args = ['client', 'create', '--name', name, ...options, '--json'];
    return JSON.parse((await runCli(args, place)).stdout) as { client_id: string; api_key: string };
  };
  const numbers = (chart: string, line: string): Promise<string[]> =>
    cellsOf(tab.page.getByLabel(chart, { exact: true }).getByRole('row').filter({ hasText: line }));

  beforeAll(async () => {
    place = await usualPlace();
    service = await startService(place, { OPS_PORT: String(await freePort()) });
    browser = await launch();
  });

  beforeEach(async () => {
    tab = await Tab.open(browser, service.opsUrl!);
    await expect.poll(() => tab.page.getByText('Live', { exact: true }).count(), PATIENCE).toBe(1);
  });

  afterEach(async () => {
    const { errors, foreign } = tab;
    await tab.close();
    expect({ errors, foreign }).toEqual({ errors: [], foreign: [] });
  });

  afterAll(async () => {
    await browser?.close();
    await service?.stop();
    place?.remove();
  });

  test('a service that nobody has asked says how to, with the line that does', async () => {
    const command = tab.page.getByLabel('Command that sends a request');
    expect(await command.textContent()).toContain(`curl ${service.url}/api/v1/tokenize`);
    await tab.page.getByRole('link', { name: 'playground', exact: true }).click();
    expect(await tab.page.title()).toBe('Playground · Standin');
  });

  test('the numbers are those of what was sent', async () => {
    const { body } = await call(service, 'tokenize', { a: 'Ann', b: 'Bea', c: 'Cleo' });
    for (let i = 1; i < 40; i++)
      await call(service, 'tokenize', { a: `${i}`, b: 'Bea', c: 'Cleo' });
    for (let i = 0; i < 20; i++)
      await call(service, 'detokenize', { a: body.data.a, b: body.data.b });
    for (let i = 0; i < 5; i++) await call(service, 'detokenize', { a: 'nobody_tok' });
    for (const summary of await tab.page.getByText('In numbers').all()) await summary.click();
    const inAll = async (chart: string, line: string) => (await numbers(chart, line)).at(-1);
    await expect.poll(() => inAll('Requests', 'detokenize'), PATIENCE).toBe('25');
    expect(await numbers('Requests', 'tokenize')).toContain('40');
    expect(await inAll('Values', 'tokenized')).toBe('120');
    expect(await inAll('Values', 'restored')).toBe('40');
    expect(await inAll('Refused and failed', 'refused')).toBe('5');
    expect(await inAll('Refused and failed', 'failed')).toBe('0');
    expect((await numbers('Latency of tokenize', 'p99'))[2]).toMatch(/^[\d.]+ ms$/);
    const picture = tab.page.getByRole('img', {
      name: /^Requests: tokenize .* at most; detokenize/,
    });
    expect(await picture.count()).toBe(1);
    expect(await tab.page.getByLabel('Command that sends a request').isVisible()).toBe(false);
    // 40 values that are told apart, and Ann, Bea and Cleo instead of the first of them.
    await go('vault');
    const records = tab.page.locator('.tile').filter({ hasText: /^Records/, visible: true });
    await expect.poll(() => records.textContent(), { timeout: 80_000 }).toContain('42');
  });

  test('the charts show one window of time, and one time under the cursor', async () => {
    await tab.page.getByText('15 min', { exact: true }).click();
    expect(await tab.page.getByLabel('15 min').isChecked()).toBe(true);
    const canvases = tab.page.locator('.u-over');
    await expect.poll(() => canvases.count(), PATIENCE).toBe(6);
    const box = (await canvases.first().boundingBox())!;
    await tab.page.mouse.move(box.x + box.width - 2, box.y + 20);
    const times = () => tab.page.locator('.charts .chart-time').allTextContents();
    await expect.poll(async () => new Set(await times()).size, PATIENCE).toBe(1);
    expect((await times())[0]).toMatch(/^\d\d:\d\d:\d\d$/);
  });

  test('clients: names are text, what they may do, their rate; filtered and sorted', async () => {
    const odd = await client(
      '<img src=x onerror=alert(1)>',
      '--rate-limit',
      '50',
      '--can',
      'tokenize',
    );
    await client('Zebra');
    await go('clients');
    const row = tab.page.getByRole('row').filter({ hasText: odd.client_id });
    await expect.poll(() => row.count(), PATIENCE).toBe(1);
    expect(await row.textContent()).toContain('<img src=x onerror=alert(1)>');
    expect(await row.textContent()).toMatch(/tokenizedeterministic1never0 of 50/);
    await tab.page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await row.getByRole('button', { name: 'Copy the client_id' }).click();
    await expect.poll(() => row.getByText('Copied').count()).toBe(1);
    expect(await tab.page.evaluate('navigator.clipboard.readText()')).toBe(odd.client_id);
    const rate = async () => {
      await call(service, 'tokenize', { a: 'Ann' }, odd.api_key);
      return (await cellsOf(row)).at(-1);
    };
    await expect.poll(rate, { timeout: 30_000, interval: 200 }).toMatch(/^(?!0 )[\d.]+ of 50$/);
    const names = () => tab.page.locator('.client-name').allTextContents();
    await button('Client').click();
    expect(await names()).toEqual(['<img src=x onerror=alert(1)>', 'first', 'Zebra']);
    await button('Client').click();
    expect((await names())[0]).toBe('Zebra');
    await tab.page.getByLabel('Filter').fill('zeb');
    expect(await names()).toEqual(['Zebra']);
    expect(await tab.page.getByText('1 of 3 clients').count()).toBe(1);
  });

  test('the playground restores what it tokenized, whatever is in it', async () => {
    await go('playground');
    await tab.page.getByLabel('API key').fill(service.api_key);
    await tab.page.getByLabel('Original').fill(JSON.stringify(NAUGHTY));
    const scripts = await tab.page.locator('script, img').count();
    await button('Tokenize').click();
    await expect.poll(() => tab.page.getByText('Tokenized', { exact: true }).count()).toBe(1);
    const tokens = JSON.parse(await tab.page.getByLabel('Tokens').inputValue());
    expect(Object.keys(tokens)).toEqual(Object.keys(NAUGHTY));
    for (const token of Object.values(tokens)) expect(token).toMatch(/^[\x20-\x7e]+_tok$/);
    await button('Restore').click();
    const equal = tab.page.getByText('Restored: equal to the original');
    await expect.poll(() => equal.count(), PATIENCE).toBe(1);
    const restored = await tab.page.getByLabel('Restored', { exact: true }).textContent();
    expect(JSON.parse(restored!)).toEqual(NAUGHTY);
    expect(await tab.page.locator('script, img').count()).toBe(scripts);
    expect(await tab.page.getByRole('status').allTextContents()).toContainEqual(
      expect.stringMatching(/ms.*request [\w-]{8,}/),
    );
    await tab.page.getByLabel('Original').fill('{"other": "text"}');
    await button('Restore').click();
    await expect.poll(() => tab.page.getByText('differs from the original').count()).toBe(1);
  });

  test('the playground keeps its API key nowhere', async () => {
    await go('playground');
    await tab.page.getByLabel('API key').fill(service.api_key);
    await button('Example').click();
    await button('Tokenize').click();
    await expect.poll(() => tab.page.getByText('Tokenized', { exact: true }).count()).toBe(1);
    const kept = await tab.page.evaluate(
      'JSON.stringify([{...localStorage}, {...sessionStorage}])',
    );
    expect(kept + JSON.stringify(await tab.page.context().storageState())).not.toContain('stk_');
    await tab.page.reload();
    expect(await tab.page.getByLabel('API key').inputValue()).toBe('');
    expect(await tab.page.getByLabel('Original').inputValue()).toBe('');
  });

  test('the playground says what is wrong beside the field that it is about', async () => {
    const reader = await client('reader', '--can', 'detokenize');
    const slow = await client('slow', '--rate-limit', '1');
    await go('playground');
    const apiKey = tab.page.getByLabel('API key');
    const original = tab.page.getByLabel('Original');
    const error = (id: string) => () => tab.page.locator(`#${id}-error`).textContent();
    const focus = () => tab.page.evaluate('document.activeElement.id');

    await button('Tokenize').click();
    expect(await error('api-key')()).toBe('Type an API key first.');
    await apiKey.fill(service.api_key);
    await button('Tokenize').click();
    expect(await error('original')()).toContain('Paste a JSON object');
    await original.fill('{"a": }');
    await button('Tokenize').click();
    expect(await error('original')()).toContain('This is not JSON');
    await original.fill('["a"]');
    await button('Tokenize').click();
    expect(await error('original')()).toContain('must be a JSON object');

    await original.fill('{\n  "a": {"b c": ["x",\n  7]}\n}');
    await button('Tokenize').click();
    await expect.poll(error('original')).toContain('Line 3: data.a["b c"][1]: must be a string');
    const selected = 'getSelection().toString()';
    expect([await focus(), await tab.page.evaluate(selected)]).toEqual(['original', '7']);

    await original.fill('{"a": "Ann"}');
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
    expect(tab.errors.every((text) => /status of 4(00|01|03|29)/.test(text))).toBe(true);
    tab.errors.length = 0;
  });

  test('everything can be done by keyboard', async () => {
    const { keyboard } = tab.page;
    await keyboard.press('Tab');
    expect(await tab.page.evaluate('document.activeElement.textContent')).toContain('Skip');
    await keyboard.press('Enter');
    expect(await tab.page.evaluate('document.activeElement.id')).toBe('main');
    await tab.page.getByRole('link', { name: 'Clients', exact: true }).focus();
    await keyboard.press('Tab');
    await keyboard.press('Enter');
    await expect.poll(() => tab.page.title(), PATIENCE).toBe('Playground · Standin');
    await keyboard.press('Tab'); // theme
    await keyboard.press('Tab');
    await keyboard.type(service.api_key);
    await keyboard.press('Tab');
    await keyboard.type('{"name": "Ann"}');
    await keyboard.press('Control+Enter');
    const tokens = () => tab.page.getByLabel('Tokens').inputValue();
    await expect.poll(tokens).toMatch(/[a-z]+_tok/);
    await tab.page.getByLabel('Tokens').focus();
    await keyboard.press('Control+Enter');
    await expect.poll(() => tab.page.getByText('equal to the original').count()).toBe(1);
  });

  test.each(['light', 'dark'])('accessible in every view, contrast included: %s', async (theme) => {
    await tab.page.getByLabel('Theme').selectOption(theme);
    await tab.page.reload();
    await expect.poll(() => tab.page.getByText('Live', { exact: true }).count(), PATIENCE).toBe(1);
    expect(await tab.page.evaluate('document.documentElement.dataset.theme')).toBe(theme);
    for (const [route, title] of Object.entries(VIEWS)) {
      await go(route);
      expect(await tab.page.getByRole('heading', { level: 1 }).textContent()).toBe(title);
      if (route === '')
        for (const one of await tab.page.getByText('In numbers').all()) await one.click();
      expect(await tab.accessibilityProblems(), title).toEqual([]);
    }
    await button('Tokenize').click();
    expect(await tab.accessibilityProblems(), 'with an error').toEqual([]);
  });

  test('the theme is that of the system until another is chosen', async () => {
    const theme = () => tab.page.evaluate('document.documentElement.dataset.theme');
    await tab.page.emulateMedia({ colorScheme: 'dark' });
    await expect.poll(theme).toBe('dark');
    await tab.page.getByLabel('Theme').selectOption('light');
    expect(await theme()).toBe('light');
    await tab.page.getByLabel('Theme').selectOption('system');
    expect(await theme()).toBe('dark');
  });

  test.each([320, 360, 768])('nothing is wider than a screen of %i px', async (width) => {
    await tab.page.setViewportSize({ width, height: 740 });
    for (const route of Object.keys(VIEWS)) {
      await go(route);
      expect(await tab.overflow(), route).toBeLessThanOrEqual(0);
    }
  });
});

/** Texts of the cells of a row, without that of its head. */
function cellsOf(row: Locator): Promise<string[]> {
  return row.first().getByRole('cell').allTextContents();
}
