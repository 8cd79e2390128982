import type { Locator } from 'playwright-core';
import { beforeAll, describe, expect, test } from 'vitest';
import { chromiumBin, eventually, openConsole, type Tab } from '../support/browser.ts';
import { startWithOps } from '../support/ops.ts';
import { call, createClient, type NewClient, runJson, usualPlace } from '../support/service.ts';

const VIEWS = {
  '': 'Overview',
  requests: 'Requests',
  clients: 'Clients',
  vault: 'Vault & keys',
  reference: 'API reference',
  playground: 'Playground',
};
const NAME = '<img src=x onerror=alert(1)>';

/** How many pixels of a canvas have the color of the first line. */
const blueOf = (canvas: any): number => {
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  let blue = 0;
  for (let i = 0; i < data.length; i += 4)
    if (data[i] < 80 && data[i + 1] < 120 && data[i + 2] > 200 && data[i + 3] === 255) blue++;
  return blue;
};

/** Texts of the cells of a row, without that of its head. */
const cellsOf = (row: Locator) => row.first().getByRole('cell').allTextContents();
const clipboard = ({ page }: Tab) => page.evaluate('navigator.clipboard.readText()');

describe.skipIf(chromiumBin === undefined)('the console in Chromium', () => {
  const at = openConsole(async () => startWithOps(await usualPlace()), {
    expected: /status of 404/,
  });
  let odd: NewClient;

  beforeAll(async () => {
    const options = ['--name', NAME, '--rate-limit', '50', '--can', 'tokenize'];
    odd = await createClient(at.service.place, ...options);
  });

  const requests = () => at.page.locator('.requests tbody tr');
  const allowClipboard = () =>
    at.page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  const chart = (name: string) => at.page.getByLabel(name, { exact: true });
  const numbers = (name: string, line: string): Promise<string[]> =>
    cellsOf(chart(name).getByRole('row').filter({ hasText: line }));
  const choose = (text: string) => at.page.getByText(text, { exact: true }).first().click();

  test('requests are listed as they come, and refused ones are found by their reason', async () => {
    const { page, tab } = at;
    await allowClipboard();
    await tab.go('requests');
    const { body } = await call(at.service, 'tokenize', { a: 'Ann', b: 'Bea' }, odd.api_key);
    await call(at.service, 'detokenize', body.data, odd.api_key);
    await call(at.service, 'detokenize', { a: 'nobody_tok' });
    await call(at.service, 'tokenize', { a: 'Ann' }, 'wrong');
    await eventually(() => requests().count()).toBe(4);
    const [wrong, unknown, forbidden, made] = await requests().allTextContents();
    expect(wrong).toMatch(/no valid API key.*401unauthorized/);
    expect(unknown).toMatch(/POST \/api\/v1\/detokenize400invalid_type: is not a known token/);
    expect(forbidden).toMatch(/403forbidden/);
    expect(made).toMatch(/tokenize2002[\d.]+ ms/);
    expect(made).toContain(NAME);
    expect(made).toContain(body.request_id);
    await choose('Refused and failed');
    expect(await requests().count()).toBe(3);
    await page.getByLabel('Find').fill('forbidden');
    expect(await requests().allTextContents()).toEqual([forbidden]);
    await page.getByLabel('Find').fill('DETOKENIZE 400');
    expect(await requests().allTextContents()).toEqual([unknown]);
    await requests().getByRole('button', { name: 'Copy the request id' }).click();
    await eventually(async () => unknown!.includes(String(await clipboard(tab)))).toBe(true);
    await page.getByLabel('Find').fill('nothing like this');
    await tab.shows('No such request');
    // After a reload, the requests come before the names of their clients.
    await page.route('**/console/state', async (route) => {
      await requests().first().waitFor();
      await route.continue();
    });
    await page.reload();
    await eventually(() => requests().last().textContent()).toContain(NAME);
    expect(await tab.faults(320)).toEqual([]);
  });

  test('the numbers are those of what was sent', async () => {
    const { page, tab } = at;
    const total = async (name: string, line: string) =>
      Number((await numbers(name, line)).at(-1)!.replace(',', ''));
    for (const summary of await page.getByText('In numbers').all()) await summary.click();
    const { body } = await call(at.service, 'tokenize', { a: 'Ann', b: 'Bea', c: 'Cleo' });
    for (let i = 1; i < 40; i++)
      await call(at.service, 'tokenize', { a: `${i}`, b: 'Bea', c: 'Cleo' });
    const { a, b } = body.data;
    for (let i = 0; i < 20; i++) await call(at.service, 'detokenize', { a, b });
    for (let i = 0; i < 5; i++) await call(at.service, 'detokenize', { a: 'nobody_tok' });
    // With the two of each operation that the test before has sent.
    await eventually(() => total('Requests', 'detokenize')).toBe(27);
    expect(await total('Requests', 'tokenize')).toBe(42);
    expect(await total('Values', 'tokenized')).toBe(122);
    expect(await total('Values', 'restored')).toBe(40);
    expect(await total('Refused and failed', 'refused')).toBe(8);
    expect(await total('Refused and failed', 'failed')).toBe(0);
    expect((await numbers('Latency of tokenize', 'p99'))[2]).toMatch(/^[\d.]+ ms$/);
    const words = /^Requests: tokenize .* at most; detokenize/;
    expect(await page.getByRole('img', { name: words }).count()).toBe(1);
    // 39 values that are told apart, and Ann, Bea and Cleo.
    await tab.go('vault');
    const records = page.locator('.tile').filter({ hasText: /^Records/, visible: true });
    await eventually(() => records.textContent()).toContain('42');
  });

  test('the charts show one window of time, and one time under the cursor', async () => {
    await choose('15 min');
    expect(await at.page.getByLabel('15 min').isChecked()).toBe(true);
    const canvases = at.page.locator('.u-over');
    await eventually(() => canvases.count()).toBe(6);
    const box = (await canvases.first().boundingBox())!;
    await at.page.mouse.move(box.x + box.width - 2, box.y + 20);
    const times = () => at.page.locator('.charts .chart-time').allTextContents();
    await eventually(async () => [...new Set(await times())]).toEqual([
      expect.stringMatching(/^\d\d:\d\d:\d\d$/),
    ]);
  });

  test('a lone request is drawn', async () => {
    await choose('1 min');
    await call(at.service, 'tokenize', { name: 'Ann' });
    const canvas = chart('Latency of tokenize').locator('canvas');
    await eventually(() => canvas.evaluate(blueOf)).toBeGreaterThan(10);
  });

  test('a paused list stands still', async () => {
    await call(at.service, 'tokenize', { a: 'Ann' });
    await at.tab.go('requests');
    await requests().first().waitFor();
    await at.page.getByLabel('Pause').check();
    const before = await requests().allTextContents();
    const asked: string[] = [];
    at.page.on('request', (request) => asked.push(request.url()));
    await call(at.service, 'tokenize', { a: 'paused' });
    await at.tab.go('client/nobody');
    await at.tab.shows('There is no client with this id');
    await at.tab.go('requests');
    expect(await requests().allTextContents()).toEqual(before);
    expect(asked.filter((url) => url.endsWith('/console/requests'))).toEqual([]);
    await at.page.getByLabel('Pause').uncheck();
    await eventually(() => requests().count()).toBe(before.length + 1);
  });

  test('clients: names are text, what they may do, their rate; filtered and sorted', async () => {
    const { page, tab } = at;
    await allowClipboard();
    await createClient(at.service.place, '--name', 'Zebra');
    await tab.go('clients');
    await tab.row('Zebra').waitFor();
    const row = tab.row(odd.client_id);
    expect(await row.textContent()).toContain(NAME);
    expect((await cellsOf(row)).slice(0, 3)).toEqual(['tokenize', 'deterministic', '1']);
    await row.getByRole('button', { name: 'Copy the client_id' }).click();
    await row.getByText('Copied').waitFor();
    expect(await clipboard(tab)).toBe(odd.client_id);
    const rate = async () => {
      await call(at.service, 'tokenize', { a: 'Ann' }, odd.api_key);
      return (await cellsOf(row)).at(-1);
    };
    await eventually(rate).toMatch(/^(?!0 )[\d.]+ of 50$/);
    const names = () => page.locator('.client-name a').allTextContents();
    await choose('Name');
    expect(await names()).toEqual([NAME, 'first', 'Zebra']);
    await page.getByLabel('Filter').fill('zeb');
    expect(await names()).toEqual(['Zebra']);
    await tab.shows('1 of 3 clients');
  });

  test('a client has a page: limits, keys, chart, and commands that work when pasted', async () => {
    const { page, tab } = at;
    await allowClipboard();
    await tab.go('clients');
    await page.getByRole('link', { name: NAME }).click();
    await page.getByRole('heading', { level: 1, name: NAME }).waitFor();
    const settings = page.locator('.checks').filter({ visible: true });
    const text = async () => (await settings.textContent())!;
    await eventually(text).toContain('Rate limit per secondat most 50');
    expect(await text()).not.toContain('Detokenize limit per second');
    const link = page.getByRole('link', { name: 'Clients', exact: true });
    expect(await link.getAttribute('aria-current')).toBe('page');
    const described = page.getByRole('img', { name: /^Requests of .* at most$/ });
    const highest = async () => {
      await call(at.service, 'tokenize', { a: 'Ann' }, odd.api_key);
      return described.getAttribute('aria-label');
    };
    await eventually(highest).not.toContain(' 0 at most');
    const commands = page.locator('.change').filter({ visible: true });
    const limit = commands.filter({ hasText: 'Set its limit' });
    await limit.getByRole('button', { name: 'Copy' }).click();
    const update = `standin client update ${odd.client_id}`;
    await eventually(() => clipboard(tab)).toBe(`${update} --rate-limit 50`);
    await page.getByRole('button', { name: 'Copy revoke' }).click();
    await eventually(() => clipboard(tab)).toMatch(/^standin api-key revoke key_\w+$/);
    const lines = () => commands.locator('code').allTextContents();
    for (const line of await lines()) await runJson(at.service.place, ...line.split(' ').slice(1));
    await eventually(text).toContain('nothing: disabled');
    await eventually(lines).toEqual([`${update} --enable`]);
    expect(await tab.faults(320)).toEqual([]);
  });

  test('the API reference is a view, whose links stay in it', async () => {
    await at.page.getByRole('link', { name: 'API reference' }).click();
    const contents = at.page.getByRole('navigation', { name: 'Contents' });
    await contents.getByRole('link', { name: 'Schemas' }).click();
    expect(await at.page.evaluate('document.activeElement.id')).toBe('schemas');
    const download = at.page.waitForEvent('download');
    await at.page.getByRole('link', { name: 'openapi.json' }).click();
    expect((await download).suggestedFilename()).toBe('openapi.json');
  });

  test('everything can be done by keyboard', async () => {
    const { page } = at;
    const { keyboard } = page;
    await keyboard.press('Tab');
    expect(await page.evaluate('document.activeElement.textContent')).toContain('Skip');
    await keyboard.press('Enter');
    expect(await page.evaluate('document.activeElement.id')).toBe('main');
    await page.getByRole('link', { name: 'Vault & keys', exact: true }).focus();
    await keyboard.press('Tab');
    await keyboard.press('Enter');
    await eventually(() => page.title()).toBe('Playground · Standin');
    await keyboard.press('Tab'); // API reference
    await keyboard.press('Tab');
    await keyboard.type(at.service.api_key);
    await keyboard.press('Tab');
    await keyboard.type('{"name": "Ann"}');
    await keyboard.press('Control+Enter');
    const tokens = page.getByLabel('Tokens', { exact: true });
    await eventually(() => tokens.inputValue()).toMatch(/[a-z]+_tok/);
    await tokens.focus();
    await keyboard.press('Control+Enter');
    await at.tab.shows(/^Restored$/);
  });

  test.each(Object.entries(VIEWS))(
    'accessible in light and dark, and never wider than a screen: %s',
    async (route, title) => {
      const { page, tab } = at;
      await tab.go(route);
      await page.getByRole('heading', { level: 1, name: title, exact: true }).waitFor();
      await tab.shows(/^Live$/);
      if (route === '')
        for (const one of await page.getByText('In numbers').all()) await one.click();
      // With an error.
      if (route === 'playground') await tab.button('Tokenize').click();
      expect(await tab.faults(768, 360, 320)).toEqual([]);
      const { x, width } = (await page.locator('[aria-current]').boundingBox())!;
      expect(Math.floor(x + width)).toBeLessThanOrEqual(320);
    },
  );
});
