import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { chromiumBin, closeFaultless, launch, Tab } from '../support/browser.ts';
import { freePort } from '../support/processes.ts';
import {
  call,
  type Place,
  runJson,
  type Service,
  startService,
  usualPlace,
} from '../support/service.ts';

const PATIENCE = { timeout: 20_000 };
const NAME = '<img src=x onerror=alert(1)>';

describe.skipIf(chromiumBin === undefined)('requests and clients in the console', () => {
  let browser: Browser;
  let place: Place;
  let service: Service;
  let tab: Tab;
  let client: { readonly client_id: string; readonly api_key: string };

  const go = (route: string) => tab.page.goto(`${service.opsUrl}/#/${route}`);
  const rows = () => tab.page.locator('.requests tbody tr');
  const clipboard = () => tab.page.evaluate('navigator.clipboard.readText()');

  beforeAll(async () => {
    place = await usualPlace();
    service = await startService(place, { OPS_PORT: String(await freePort()) });
    browser = await launch();
    const options = ['--name', NAME, '--rate-limit', '50', '--can', 'tokenize'];
    client = await runJson(place, 'client', 'create', ...options);
  });

  beforeEach(async () => {
    tab = await Tab.open(browser, service.opsUrl!);
    await tab.page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  });

  afterEach(() => closeFaultless(tab));

  afterAll(async () => {
    await browser?.close();
    await service?.stop();
    place?.remove();
  });

  test('requests are listed as they come, and refused ones are found by their reason', async () => {
    await go('requests');
    const { body } = await call(service, 'tokenize', { a: 'Ann', b: 'Bea' }, client.api_key);
    await call(service, 'detokenize', body.data, client.api_key);
    await call(service, 'detokenize', { a: 'nobody_tok' });
    await call(service, 'tokenize', { a: 'Ann' }, 'wrong');
    await expect.poll(() => rows().count(), PATIENCE).toBe(4);
    const [wrong, unknown, forbidden, made] = await rows().allTextContents();
    expect(wrong).toMatch(/no valid API key.*401unauthorized/);
    expect(unknown).toMatch(/POST \/api\/v1\/detokenize400invalid_type: is not a known token/);
    expect(forbidden).toMatch(/403forbidden/);
    expect(made).toMatch(/tokenize2002[\d.]+ ms/);
    expect(made).toContain(NAME);
    expect(made).toContain(body.request_id);
    expect(await tab.accessibilityProblems()).toEqual([]);

    await tab.page.getByText('Refused and failed', { exact: true }).first().click();
    expect(await rows().count()).toBe(3);
    await tab.page.getByLabel('Reason').selectOption('forbidden');
    expect(await rows().allTextContents()).toEqual([forbidden]);
    await tab.page.getByLabel('Reason').selectOption('');
    await tab.page.getByLabel('Find').fill('DETOKENIZE 400');
    expect(await rows().allTextContents()).toEqual([unknown]);
    await rows().getByRole('button', { name: 'Copy the request id' }).click();
    await expect.poll(async () => unknown!.includes(String(await clipboard()))).toBe(true);
    await tab.page.getByLabel('Find').fill('nothing like this');
    expect(await tab.page.getByText('No such request').isVisible()).toBe(true);
    // After a reload, the requests come before the names of their clients.
    await tab.page.route('**/console/state', async (route) => {
      await rows().first().waitFor();
      await route.continue();
    });
    await tab.page.reload();
    await expect.poll(() => rows().last().textContent(), PATIENCE).toContain(NAME);
    await tab.page.unroute('**/console/state');
    await tab.page.setViewportSize({ width: 320, height: 740 });
    await tab.page.getByLabel('Find').fill('');
    expect(await tab.overflow()).toBeLessThanOrEqual(0);
  });

  test('a paused list stands still', async () => {
    await call(service, 'tokenize', { a: 'Ann' });
    await go('requests');
    await expect.poll(() => rows().count(), PATIENCE).toBeGreaterThan(0);
    await tab.page.getByLabel('Pause').check();
    const before = await rows().allTextContents();
    const asked: string[] = [];
    tab.page.on('request', (request) => asked.push(request.url()));
    await go('');
    await tab.page.getByText('In numbers').first().click();
    const chart = tab.page.getByLabel('Requests', { exact: true }).getByRole('row');
    const total = () => chart.filter({ hasText: 'tokenize' }).first().textContent();
    const totalBefore = await total();
    await call(service, 'tokenize', { a: 'paused' });
    await expect.poll(total, PATIENCE).not.toBe(totalBefore);
    await go('requests');
    expect(await rows().allTextContents()).toEqual(before);
    expect(asked.filter((url) => url.endsWith('/console/requests'))).toEqual([]);
    await tab.page.getByLabel('Pause').uncheck();
    await expect.poll(() => rows().count(), PATIENCE).toBe(before.length + 1);
  });

  test('a client has a page: limits, keys, chart, and commands that work when pasted', async () => {
    await go('clients');
    await tab.page.getByRole('link', { name: NAME }).click();
    const heading = tab.page.getByRole('heading', { level: 1 });
    await expect.poll(() => heading.textContent(), PATIENCE).toBe(NAME);
    const settings = tab.page.locator('.checks').filter({ visible: true });
    const text = async () => (await settings.textContent())!;
    await expect.poll(text, PATIENCE).toContain('Rate limit per secondat most 50');
    expect(await text()).not.toContain('Detokenize limit per second');
    const link = tab.page.getByRole('link', { name: 'Clients', exact: true });
    expect(await link.getAttribute('aria-current')).toBe('page');
    for (const theme of ['light', 'dark'] as const) {
      await tab.page.emulateMedia({ colorScheme: theme });
      expect(await tab.accessibilityProblems(), theme).toEqual([]);
    }
    const described = tab.page.getByRole('img', { name: /^Requests of .* at most$/ });
    const highest = async () => {
      await call(service, 'tokenize', { a: 'Ann' }, client.api_key);
      return described.getAttribute('aria-label');
    };
    await expect.poll(highest, PATIENCE).not.toContain(' 0 at most');
    const commands = tab.page.locator('.change').filter({ visible: true });
    await commands
      .filter({ hasText: 'Set its limit' })
      .getByRole('button', { name: 'Copy' })
      .click();
    const line = `standin client update ${client.client_id} --rate-limit 50`;
    await expect.poll(clipboard).toBe(line);
    await tab.page.getByRole('button', { name: 'Copy revoke' }).click();
    await expect.poll(clipboard).toMatch(/^standin api-key revoke key_\w+$/);
    for (const command of await commands.locator('code').allTextContents())
      await runJson(place, ...command.split(' ').slice(1));
    await expect.poll(text, PATIENCE).toContain('nothing: disabled');
    await expect
      .poll(() => commands.locator('code').allTextContents())
      .toEqual([`standin client update ${client.client_id} --enable`]);
    await tab.page.setViewportSize({ width: 320, height: 740 });
    expect(await tab.overflow()).toBeLessThanOrEqual(0);
  });

  test('an id that no client has is said to be unknown', async () => {
    await go('client/standin_nobody');
    await expect
      .poll(() => tab.page.getByText('There is no client with this id').count(), PATIENCE)
      .toBe(1);
    expect(tab.errors.every((error) => error.includes('status of 404'))).toBe(true);
    tab.errors.length = 0;
  });

  test('the API reference is a view, whose links stay in it', async () => {
    await tab.page.getByRole('link', { name: 'API reference' }).click();
    const contents = tab.page.getByRole('navigation', { name: 'Contents' });
    await contents.getByRole('link', { name: 'Schemas' }).click();
    expect(await tab.page.evaluate('document.activeElement.id')).toBe('schemas');
    for (const theme of ['light', 'dark'] as const) {
      await tab.page.emulateMedia({ colorScheme: theme });
      expect(await tab.accessibilityProblems(), theme).toEqual([]);
    }
    const download = tab.page.waitForEvent('download');
    await tab.page.getByRole('link', { name: 'openapi.json' }).click();
    expect((await download).suggestedFilename()).toBe('openapi.json');
    for (const width of [320, 390, 768]) {
      await tab.page.setViewportSize({ width, height: 740 });
      expect(await tab.overflow(), `${width}`).toBeLessThanOrEqual(0);
    }
  });
});
