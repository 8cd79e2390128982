import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { chromiumBin, openConsole } from '../support/browser.ts';
import { startWithOps } from '../support/ops.ts';
import { call, runJson, usualPlace } from '../support/service.ts';

const PATIENCE = { timeout: 20_000 };
const NAME = '<img src=x onerror=alert(1)>';

describe.skipIf(chromiumBin === undefined)('requests and clients in the console', () => {
  const at = openConsole(async () => startWithOps(await usualPlace()));
  let client: { readonly client_id: string; readonly api_key: string };

  const go = (route: string) => at.tab.page.goto(`${at.service.opsUrl}/#/${route}`);
  const rows = () => at.tab.page.locator('.requests tbody tr');
  const clipboard = () => at.tab.page.evaluate('navigator.clipboard.readText()');

  beforeAll(async () => {
    const options = ['--name', NAME, '--rate-limit', '50', '--can', 'tokenize'];
    client = await runJson(at.service.place, 'client', 'create', ...options);
  });
  beforeEach(() => at.tab.page.context().grantPermissions(['clipboard-read', 'clipboard-write']));

  test('requests are listed as they come, and refused ones are found by their reason', async () => {
    await go('requests');
    const { body } = await call(at.service, 'tokenize', { a: 'Ann', b: 'Bea' }, client.api_key);
    await call(at.service, 'detokenize', body.data, client.api_key);
    await call(at.service, 'detokenize', { a: 'nobody_tok' });
    await call(at.service, 'tokenize', { a: 'Ann' }, 'wrong');
    await expect.poll(() => rows().count(), PATIENCE).toBe(4);
    const [wrong, unknown, forbidden, made] = await rows().allTextContents();
    expect(wrong).toMatch(/no valid API key.*401unauthorized/);
    expect(unknown).toMatch(/POST \/api\/v1\/detokenize400invalid_type: is not a known token/);
    expect(forbidden).toMatch(/403forbidden/);
    expect(made).toMatch(/tokenize2002[\d.]+ ms/);
    expect(made).toContain(NAME);
    expect(made).toContain(body.request_id);
    expect(await at.tab.accessibilityProblems()).toEqual([]);

    await at.tab.page.getByText('Refused and failed', { exact: true }).first().click();
    expect(await rows().count()).toBe(3);
    await at.tab.page.getByLabel('Reason').selectOption('forbidden');
    expect(await rows().allTextContents()).toEqual([forbidden]);
    await at.tab.page.getByLabel('Reason').selectOption('');
    await at.tab.page.getByLabel('Find').fill('DETOKENIZE 400');
    expect(await rows().allTextContents()).toEqual([unknown]);
    await rows().getByRole('button', { name: 'Copy the request id' }).click();
    await expect.poll(async () => unknown!.includes(String(await clipboard()))).toBe(true);
    await at.tab.page.getByLabel('Find').fill('nothing like this');
    expect(await at.tab.page.getByText('No such request').isVisible()).toBe(true);
    // After a reload, the requests come before the names of their clients.
    await at.tab.page.route('**/console/state', async (route) => {
      await rows().first().waitFor();
      await route.continue();
    });
    await at.tab.page.reload();
    await expect.poll(() => rows().last().textContent(), PATIENCE).toContain(NAME);
    await at.tab.page.unroute('**/console/state');
    await at.tab.page.setViewportSize({ width: 320, height: 740 });
    await at.tab.page.getByLabel('Find').fill('');
    expect(await at.tab.overflow()).toBeLessThanOrEqual(0);
  });

  test('a paused list stands still', async () => {
    await call(at.service, 'tokenize', { a: 'Ann' });
    await go('requests');
    await expect.poll(() => rows().count(), PATIENCE).toBeGreaterThan(0);
    await at.tab.page.getByLabel('Pause').check();
    const before = await rows().allTextContents();
    const asked: string[] = [];
    at.tab.page.on('request', (request) => asked.push(request.url()));
    await go('');
    await at.tab.page.getByText('In numbers').first().click();
    const chart = at.tab.page.getByLabel('Requests', { exact: true }).getByRole('row');
    const total = () => chart.filter({ hasText: 'tokenize' }).first().textContent();
    const totalBefore = await total();
    await call(at.service, 'tokenize', { a: 'paused' });
    await expect.poll(total, PATIENCE).not.toBe(totalBefore);
    await go('requests');
    expect(await rows().allTextContents()).toEqual(before);
    expect(asked.filter((url) => url.endsWith('/console/requests'))).toEqual([]);
    await at.tab.page.getByLabel('Pause').uncheck();
    await expect.poll(() => rows().count(), PATIENCE).toBe(before.length + 1);
  });

  test('a client has a page: limits, keys, chart, and commands that work when pasted', async () => {
    await go('clients');
    await at.tab.page.getByRole('link', { name: NAME }).click();
    const heading = at.tab.page.getByRole('heading', { level: 1 });
    await expect.poll(() => heading.textContent(), PATIENCE).toBe(NAME);
    const settings = at.tab.page.locator('.checks').filter({ visible: true });
    const text = async () => (await settings.textContent())!;
    await expect.poll(text, PATIENCE).toContain('Rate limit per secondat most 50');
    expect(await text()).not.toContain('Detokenize limit per second');
    const link = at.tab.page.getByRole('link', { name: 'Clients', exact: true });
    expect(await link.getAttribute('aria-current')).toBe('page');
    expect(await at.tab.faults()).toEqual([]);
    const described = at.tab.page.getByRole('img', { name: /^Requests of .* at most$/ });
    const highest = async () => {
      await call(at.service, 'tokenize', { a: 'Ann' }, client.api_key);
      return described.getAttribute('aria-label');
    };
    await expect.poll(highest, PATIENCE).not.toContain(' 0 at most');
    const commands = at.tab.page.locator('.change').filter({ visible: true });
    await commands
      .filter({ hasText: 'Set its limit' })
      .getByRole('button', { name: 'Copy' })
      .click();
    const line = `standin client update ${client.client_id} --rate-limit 50`;
    await expect.poll(clipboard).toBe(line);
    await at.tab.page.getByRole('button', { name: 'Copy revoke' }).click();
    await expect.poll(clipboard).toMatch(/^standin api-key revoke key_\w+$/);
    for (const command of await commands.locator('code').allTextContents())
      await runJson(at.service.place, ...command.split(' ').slice(1));
    await expect.poll(text, PATIENCE).toContain('nothing: disabled');
    await expect
      .poll(() => commands.locator('code').allTextContents())
      .toEqual([`standin client update ${client.client_id} --enable`]);
    await at.tab.page.setViewportSize({ width: 320, height: 740 });
    expect(await at.tab.overflow()).toBeLessThanOrEqual(0);
  });

  test('an id that no client has is said to be unknown', async () => {
    await go('client/standin_nobody');
    await expect
      .poll(() => at.tab.page.getByText('There is no client with this id').count(), PATIENCE)
      .toBe(1);
    expect(at.tab.errors.every((error) => error.includes('status of 404'))).toBe(true);
    at.tab.errors.length = 0;
  });

  test('the API reference is a view, whose links stay in it', async () => {
    await at.tab.page.getByRole('link', { name: 'API reference' }).click();
    const contents = at.tab.page.getByRole('navigation', { name: 'Contents' });
    await contents.getByRole('link', { name: 'Schemas' }).click();
    expect(await at.tab.page.evaluate('document.activeElement.id')).toBe('schemas');
    expect(await at.tab.faults()).toEqual([]);
    const download = at.tab.page.waitForEvent('download');
    await at.tab.page.getByRole('link', { name: 'openapi.json' }).click();
    expect((await download).suggestedFilename()).toBe('openapi.json');
    for (const width of [320, 390, 768]) {
      await at.tab.page.setViewportSize({ width, height: 740 });
      expect(await at.tab.overflow(), `${width}`).toBeLessThanOrEqual(0);
    }
  });
});
