import type { Locator } from 'playwright-core';
import { beforeEach, describe, expect, test } from 'vitest';
import { chromiumBin, openConsole } from '../support/browser.ts';
import { startWithOps } from '../support/ops.ts';
import { call, runJson, usualPlace } from '../support/service.ts';

const VIEWS = {
  '': 'Overview',
  requests: 'Requests',
  clients: 'Clients',
  vault: 'Vault & keys',
  reference: 'API reference',
  playground: 'Playground',
};
const PATIENCE = { timeout: 20_000 };

describe.skipIf(chromiumBin === undefined)('the console in Chromium', () => {
  const at = openConsole(async () => startWithOps(await usualPlace()));

  const go = (route: string) => at.tab.page.goto(`${at.service.opsUrl}/#/${route}`);
  const button = (name: string) => at.tab.page.getByRole('button', { name, exact: true });
  const shownTheme = async () => {
    const color = await at.tab.page.evaluate('getComputedStyle(document.body).color');
    return color === 'rgb(23, 27, 33)' ? 'light' : 'dark';
  };
  const client = (name: string, ...options: string[]) =>
    runJson(at.service.place, 'client', 'create', '--name', name, ...options);
  const numbers = (chart: string, line: string): Promise<string[]> =>
    cellsOf(
      at.tab.page.getByLabel(chart, { exact: true }).getByRole('row').filter({ hasText: line }),
    );

  beforeEach(() => at.tab.page.getByText('Live', { exact: true }).waitFor());

  test('a service that nobody has asked says how to, with the line that does', async () => {
    const command = at.tab.page.getByLabel('Command that sends a request');
    expect(await command.textContent()).toContain(`curl ${at.service.url}/api/v1/tokenize`);
    await at.tab.page.getByRole('link', { name: 'playground', exact: true }).click();
    expect(await at.tab.page.title()).toBe('Playground · Standin');
  });

  test('the numbers are those of what was sent', async () => {
    const { body } = await call(at.service, 'tokenize', { a: 'Ann', b: 'Bea', c: 'Cleo' });
    for (let i = 1; i < 40; i++)
      await call(at.service, 'tokenize', { a: `${i}`, b: 'Bea', c: 'Cleo' });
    for (let i = 0; i < 20; i++)
      await call(at.service, 'detokenize', { a: body.data.a, b: body.data.b });
    for (let i = 0; i < 5; i++) await call(at.service, 'detokenize', { a: 'nobody_tok' });
    for (const summary of await at.tab.page.getByText('In numbers').all()) await summary.click();
    const inAll = async (chart: string, line: string) => (await numbers(chart, line)).at(-1);
    await expect.poll(() => inAll('Requests', 'detokenize'), PATIENCE).toBe('25');
    expect(await numbers('Requests', 'tokenize')).toContain('40');
    expect(await inAll('Values', 'tokenized')).toBe('120');
    expect(await inAll('Values', 'restored')).toBe('40');
    expect(await inAll('Refused and failed', 'refused')).toBe('5');
    expect(await inAll('Refused and failed', 'failed')).toBe('0');
    expect((await numbers('Latency of tokenize', 'p99'))[2]).toMatch(/^[\d.]+ ms$/);
    const picture = at.tab.page.getByRole('img', {
      name: /^Requests: tokenize .* at most; detokenize/,
    });
    expect(await picture.count()).toBe(1);
    expect(await at.tab.page.getByLabel('Command that sends a request').isVisible()).toBe(false);
    // 40 values that are told apart, and Ann, Bea and Cleo instead of the first of them.
    await go('vault');
    const records = at.tab.page.locator('.tile').filter({ hasText: /^Records/, visible: true });
    await expect.poll(() => records.textContent(), { timeout: 80_000 }).toContain('42');
  });

  test('the charts show one window of time, and one time under the cursor', async () => {
    await at.tab.page.getByText('15 min', { exact: true }).click();
    expect(await at.tab.page.getByLabel('15 min').isChecked()).toBe(true);
    const canvases = at.tab.page.locator('.u-over');
    await expect.poll(() => canvases.count(), PATIENCE).toBe(6);
    const box = (await canvases.first().boundingBox())!;
    await at.tab.page.mouse.move(box.x + box.width - 2, box.y + 20);
    const times = () => at.tab.page.locator('.charts .chart-time').allTextContents();
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
    const row = at.tab.page.getByRole('row').filter({ hasText: odd.client_id });
    await expect.poll(() => row.count(), PATIENCE).toBe(1);
    expect(await row.textContent()).toContain('<img src=x onerror=alert(1)>');
    const usual = ['tokenize', 'deterministic', '1', 'never', '0 of 50'];
    expect(await cellsOf(row)).toEqual(usual);
    await at.tab.page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await row.getByRole('button', { name: 'Copy the client_id' }).click();
    await expect.poll(() => row.getByText('Copied').count()).toBe(1);
    expect(await at.tab.page.evaluate('navigator.clipboard.readText()')).toBe(odd.client_id);
    const rate = async () => {
      await call(at.service, 'tokenize', { a: 'Ann' }, odd.api_key);
      return (await cellsOf(row)).at(-1);
    };
    await expect.poll(rate, { timeout: 30_000, interval: 200 }).toMatch(/^(?!0 )[\d.]+ of 50$/);
    const names = () => at.tab.page.locator('.client-name a').allTextContents();
    await button('Client').click();
    expect(await names()).toEqual(['<img src=x onerror=alert(1)>', 'first', 'Zebra']);
    await button('Client').click();
    expect((await names())[0]).toBe('Zebra');
    await at.tab.page.getByLabel('Filter').fill('zeb');
    expect(await names()).toEqual(['Zebra']);
    expect(await at.tab.page.getByText('1 of 3 clients').count()).toBe(1);
  });

  test('everything can be done by keyboard', async () => {
    const { keyboard } = at.tab.page;
    await keyboard.press('Tab');
    expect(await at.tab.page.evaluate('document.activeElement.textContent')).toContain('Skip');
    await keyboard.press('Enter');
    expect(await at.tab.page.evaluate('document.activeElement.id')).toBe('main');
    await at.tab.page.getByRole('link', { name: 'Vault & keys', exact: true }).focus();
    await keyboard.press('Tab');
    await keyboard.press('Enter');
    await expect.poll(() => at.tab.page.title(), PATIENCE).toBe('Playground · Standin');
    await keyboard.press('Tab'); // API reference
    await keyboard.press('Tab'); // theme
    await keyboard.press('Tab');
    await keyboard.type(at.service.api_key);
    await keyboard.press('Tab');
    await keyboard.type('{"name": "Ann"}');
    await keyboard.press('Control+Enter');
    const tokens = () => at.tab.page.getByLabel('Tokens', { exact: true }).inputValue();
    await expect.poll(tokens).toMatch(/[a-z]+_tok/);
    await at.tab.page.getByLabel('Tokens', { exact: true }).focus();
    await keyboard.press('Control+Enter');
    await expect.poll(() => at.tab.page.getByText('equal to the original').count()).toBe(1);
  });

  test.each(['light', 'dark'])('accessible in every view, contrast included: %s', async (theme) => {
    await at.tab.page.getByLabel('Theme').selectOption(theme);
    await at.tab.page.reload();
    await expect
      .poll(() => at.tab.page.getByText('Live', { exact: true }).count(), PATIENCE)
      .toBe(1);
    expect(await shownTheme()).toBe(theme);
    for (const [route, title] of Object.entries(VIEWS)) {
      await go(route);
      expect(await at.tab.page.getByRole('heading', { level: 1 }).textContent()).toBe(title);
      if (route === '')
        for (const one of await at.tab.page.getByText('In numbers').all()) await one.click();
      expect(await at.tab.accessibilityProblems(), title).toEqual([]);
    }
    await button('Tokenize').click();
    expect(await at.tab.accessibilityProblems(), 'with an error').toEqual([]);
  });

  test('the theme is that of the system until another is chosen', async () => {
    await at.tab.page.emulateMedia({ colorScheme: 'dark' });
    await expect.poll(shownTheme).toBe('dark');
    await at.tab.page.getByLabel('Theme').selectOption('light');
    expect(await shownTheme()).toBe('light');
    await at.tab.page.getByLabel('Theme').selectOption('system');
    expect(await shownTheme()).toBe('dark');
  });

  test.each([320, 360, 768])('nothing is wider than a screen of %i px', async (width) => {
    await at.tab.page.setViewportSize({ width, height: 740 });
    for (const route of Object.keys(VIEWS)) {
      await go(route);
      expect(await at.tab.overflow(), route).toBeLessThanOrEqual(0);
      const { x, width: linkWidth } = (await at.tab.page.locator('[aria-current]').boundingBox())!;
      expect(Math.floor(x + linkWidth), `the link of ${route}`).toBeLessThanOrEqual(width);
    }
  });
});

/** Texts of the cells of a row, without that of its head. */
function cellsOf(row: Locator): Promise<string[]> {
  return row.first().getByRole('cell').allTextContents();
}
