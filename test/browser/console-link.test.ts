import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ADMIN_SETTING, ADMIN_TOKEN } from '../support/admin.ts';
import { chromiumBin, launch, Tab } from '../support/browser.ts';
import { ask } from '../support/ops.ts';
import { freePort } from '../support/processes.ts';
import { type Place, type Service, startService, usualPlace } from '../support/service.ts';

const OPS_TOKEN = 'a-token-of-this-test-0123456789';
const PATIENCE = { timeout: 40_000 };
/** What a browser says of a service that is away, or that refuses. */
const EXPECTED = /ERR_|status of 401|network error/i;

describe.skipIf(chromiumBin === undefined)('the console and a service that comes and goes', () => {
  let browser: Browser;
  let place: Place;
  let env: Record<string, string>;
  let service: Service;
  let tab: Tab;

  const shown = (text: string) => () => tab.page.getByText(text).first().isVisible();

  beforeAll(async () => {
    place = await usualPlace();
    env = { PORT: String(await freePort()), OPS_PORT: String(await freePort()), OPS_TOKEN };
    env.ADMIN_TOKEN = ADMIN_SETTING;
    service = await startService(place, env);
    browser = await launch();
  });

  beforeEach(async () => {
    tab = await Tab.open(browser, service.opsUrl!);
    await tab.page.getByLabel('OPS_TOKEN').fill(OPS_TOKEN);
    await tab.page.getByRole('button', { name: 'Sign in' }).click();
    await expect.poll(shown('Live'), PATIENCE).toBe(true);
  });

  afterEach(async () => {
    await tab.close();
    expect(tab.errors.filter((text) => !EXPECTED.test(text))).toEqual([]);
    expect(tab.foreign).toEqual([]);
  });

  afterAll(async () => {
    await browser?.close();
    service?.kill('SIGCONT');
    await service?.stop();
    place?.remove();
  });

  test('a session: wrong token, right token, kept over a reload and in another tab, ended in both', async () => {
    const cookies = await tab.page.context().cookies();
    expect(cookies).toMatchObject([{ httpOnly: true, sameSite: 'Strict' }]);
    expect(JSON.stringify(cookies)).not.toContain(OPS_TOKEN);
    await tab.page.reload();
    await expect.poll(shown('Live'), PATIENCE).toBe(true);
    // Another tab is signed in, too, until one of the two signs out.
    const other = await tab.page.context().newPage();
    await other.goto(`${service.opsUrl}/reference`);
    await expect.poll(() => other.getByText('Every field is').isVisible(), PATIENCE).toBe(true);
    await tab.page.getByRole('button', { name: 'Sign out' }).click();
    await expect.poll(() => other.getByLabel('OPS_TOKEN').isVisible(), PATIENCE).toBe(true);
    await other.close();
    const field = tab.page.getByLabel('OPS_TOKEN');
    await expect.poll(() => field.isVisible()).toBe(true);
    expect(await tab.page.locator('.view').filter({ visible: true }).count()).toBe(0);
    for (const theme of ['light', 'dark'] as const) {
      await tab.page.emulateMedia({ colorScheme: theme });
      expect(await tab.accessibilityProblems(), theme).toEqual([]);
    }
    await field.fill('not-the-token-of-this-service');
    await field.press('Enter');
    await expect.poll(shown('This is not the OPS_TOKEN')).toBe(true);
    await field.fill(OPS_TOKEN);
    await field.press('Enter');
    await expect.poll(shown('Live'), PATIENCE).toBe(true);
  });

  /** Visits a page on another port of the host. @returns the Cookie header that it got */
  async function stolenBy(visitor: Page): Promise<string> {
    let cookie = '';
    const thief = createServer(({ headers }, response) => {
      cookie ||= headers.cookie ?? '';
      response.end('game');
    });
    await new Promise<void>((resolve) => thief.listen(0, '127.0.0.1', resolve));
    try {
      await visitor.goto(`http://127.0.0.1:${(thief.address() as AddressInfo).port}/`);
    } finally {
      await visitor.close();
      thief.close();
    }
    return cookie;
  }

  test('the cookies of both sessions, which another port of the host gets, are worth nothing alone', async () => {
    const { opsUrl } = service;
    await tab.page.getByRole('button', { name: 'Sign in to act' }).click();
    await tab.page.getByLabel('Admin token').fill(ADMIN_TOKEN);
    await tab.page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await expect.poll(shown('Signed in as terraform'), PATIENCE).toBe(true);
    const cookie = await stolenBy(await tab.page.context().newPage());
    expect(cookie).toMatch(/standin_console=[\w-]{43}.*standin_admin=[\w-]{43}/);
    const page = { cookie, origin: opsUrl!, 'sec-fetch-site': 'same-origin' };
    const statusOf = async (method: string, path: string, more = {}) =>
      (await ask(`${opsUrl}${path}`, method, { ...page, ...more })).status;
    const bearer = { authorization: `Bearer ${OPS_TOKEN}` };
    expect({
      state: await statusOf('GET', '/console/state'),
      events: await statusOf('HEAD', '/console/events'),
      metrics: await statusOf('GET', '/metrics'),
      ticket: await statusOf('POST', '/console/admin/ticket'),
      ticketOfOperator: await statusOf('POST', '/console/admin/ticket', bearer),
      clients: await statusOf('GET', '/admin/v1/clients'),
    }).toEqual({
      ...{ state: 401, events: 401, metrics: 401 },
      ...{ ticket: 401, ticketOfOperator: 401, clients: 401 },
    });
    const { text } = await ask(`${opsUrl}/console/admin/session`, 'GET', { ...page, ...bearer });
    expect(JSON.parse(text)).toEqual({ name: null });
    // Nor do they end the sessions.
    await statusOf('DELETE', '/console/session');
    await statusOf('DELETE', '/console/admin/session', bearer);
    await tab.page.reload();
    await expect.poll(shown('Signed in as terraform'), PATIENCE).toBe(true);
  });

  test('a session that the service no longer knows ends in the playground too', async () => {
    await tab.page.goto(`${service.opsUrl}/#/playground`);
    await tab.page.context().clearCookies();
    await tab.page.getByLabel('API key').fill(service.api_key);
    await tab.page.getByRole('button', { name: 'Example' }).click();
    await tab.page.getByRole('button', { name: 'Tokenize', exact: true }).click();
    await expect.poll(() => tab.page.getByLabel('OPS_TOKEN').isVisible()).toBe(true);
  });

  test('loading, before there is an answer', async () => {
    await tab.page.route('**/console/state', () => undefined);
    await tab.page.reload();
    await expect.poll(shown('Loading')).toBe(true);
    expect(await tab.page.locator('.skeleton').count()).toBe(5);
    expect(await tab.accessibilityProblems()).toEqual([]);
  });

  test('a page that is older than its service says so, and is new after a reload', async () => {
    await tab.page.route('**/console/state', async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...(await response.json()), version: '0.0.1' } });
    });
    await tab.page.reload();
    await expect.poll(shown('this page is version 0.0.1'), PATIENCE).toBe(true);
    await tab.page.unroute('**/console/state');
    await tab.page.getByRole('button', { name: 'Reload' }).click();
    await expect.poll(shown('Live'), PATIENCE).toBe(true);
    expect(await tab.page.getByText('this page is version').count()).toBe(0);
  });

  test('a service that stands still is stale, and live when it goes on', async () => {
    service.kill('SIGSTOP');
    await expect.poll(shown('Stale since'), PATIENCE).toBe(true);
    expect(await shown('Was: Healthy')()).toBe(true);
    expect(await tab.accessibilityProblems()).toEqual([]);
    service.kill('SIGCONT');
    await expect.poll(shown('Live'), PATIENCE).toBe(true);
  });

  test('a connection is given up after 20 silent seconds, and never while it has events', async () => {
    const { page } = tab;
    let streams = 0;
    page.on('request', (request) => {
      if (request.url().endsWith('/console/events')) streams++;
    });
    await page.clock.install();
    await page.reload();
    await expect.poll(shown('Live'), PATIENCE).toBe(true);
    for (let i = 0; i < 3; i++) {
      await page.clock.fastForward(15_000);
      await expect.poll(shown('Stale since'), PATIENCE).toBe(true);
      await expect.poll(shown('Live'), PATIENCE).toBe(true);
    }
    expect(streams).toBe(1);
    await page.clock.fastForward(21_000);
    await expect.poll(() => streams, PATIENCE).toBe(2);
    await expect.poll(shown('Live'), PATIENCE).toBe(true);
  });

  test('a service that is gone is said to be, and found again by itself', async () => {
    service.kill('SIGKILL');
    await service.exit;
    await expect.poll(shown('Cannot reach the service'), PATIENCE).toBe(true);
    for (const theme of ['light', 'dark'] as const) {
      await tab.page.emulateMedia({ colorScheme: theme });
      expect(await tab.accessibilityProblems(), theme).toEqual([]);
    }
    const apiKey = service.api_key;
    service = { ...(await startService(place, env)), api_key: apiKey };
    // Sessions are in the memory of the process: its end is theirs.
    await expect.poll(() => tab.page.getByLabel('OPS_TOKEN').isVisible(), PATIENCE).toBe(true);
    await tab.page.getByLabel('OPS_TOKEN').fill(OPS_TOKEN);
    await tab.page.getByLabel('OPS_TOKEN').press('Enter');
    await expect.poll(shown('Live'), PATIENCE).toBe(true);
    expect(await shown('Cannot reach the service')()).toBe(false);
  });
});
