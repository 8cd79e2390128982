import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { chromiumBin, eventually, openConsole, Tab } from '../support/browser.ts';
import { startWithOps } from '../support/ops.ts';
import { PostgresCluster, postgresBin } from '../support/postgres.ts';
import { freePort } from '../support/processes.ts';
import { makePlace, startService, usualPlace } from '../support/service.ts';

const OPS_TOKEN = 'a-token-of-this-test-0123456789';

describe.skipIf(chromiumBin === undefined)('the console and a service that comes and goes', () => {
  const env: Record<string, string> = { OPS_TOKEN };
  const at = openConsole(
    async () => {
      for (const port of ['PORT', 'OPS_PORT']) env[port] = String(await freePort());
      return startWithOps(await usualPlace(), env);
    },
    // What a browser says of a service that is away, or that refuses.
    { expected: /ERR_|status of 401|network error/i },
  );
  afterAll(() => at.service?.kill('SIGCONT'));

  const tokenField = (page = at.page) => page.getByLabel('OPS_TOKEN');
  const signIn = async (token = OPS_TOKEN) => {
    await tokenField().fill(token);
    await tokenField().press('Enter');
  };
  const isAccessible = async () => expect(await at.tab.faults()).toEqual([]);

  beforeEach(async () => {
    await signIn();
    await at.tab.shows(/^Live$/);
  });

  test('a session: wrong token, right token, kept over a reload and in another tab, ended in both', async () => {
    const { page, tab } = at;
    const cookies = await page.context().cookies();
    expect(cookies).toMatchObject([{ httpOnly: true, sameSite: 'Strict' }]);
    expect(JSON.stringify(cookies)).not.toContain(OPS_TOKEN);
    await page.reload();
    await tab.shows(/^Live$/);
    // Another tab is signed in, too, until one of the two signs out.
    const other = await page.context().newPage();
    await other.goto(`${at.service.opsUrl}/reference`);
    await other.getByRole('heading', { name: 'Schemas', exact: true }).waitFor();
    await tab.button('Sign out').click();
    await tokenField(other).waitFor();
    await other.close();
    await tokenField().waitFor();
    expect(await page.locator('.view').filter({ visible: true }).count()).toBe(0);
    await isAccessible();
    await signIn('not-the-token-of-this-service');
    await tab.shows('This is not the OPS_TOKEN');
    await signIn();
    await tab.shows(/^Live$/);
  });

  test('a session that the service no longer knows ends in the playground too', async () => {
    await at.tab.go('playground');
    await at.page.context().clearCookies();
    await at.page.getByLabel('API key').fill(at.service.api_key);
    await at.tab.button('Example').click();
    await at.tab.button('Tokenize').click();
    await tokenField().waitFor();
  });

  test('loading, before there is an answer', async () => {
    await at.page.route('**/console/state', () => undefined);
    await at.page.reload();
    await at.tab.shows('Loading');
    expect(await at.page.locator('.skeleton').count()).toBe(5);
    await isAccessible();
  });

  test('a page that is older than its service says so, and is new after a reload', async () => {
    await at.page.route('**/console/state', async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...(await response.json()), version: '0.0.1' } });
    });
    await at.page.reload();
    await at.tab.shows('this page is version 0.0.1');
    await at.page.unroute('**/console/state');
    await at.tab.button('Reload').click();
    await at.tab.shows(/^Live$/);
    expect(await at.page.getByText('this page is version').count()).toBe(0);
  });

  test('a service that stands still is stale, and live when it goes on', async () => {
    at.service.kill('SIGSTOP');
    await at.tab.shows('Stale since');
    await at.tab.shows('Was: Healthy');
    await isAccessible();
    at.service.kill('SIGCONT');
    await at.tab.shows(/^Live$/);
  });

  test('a connection is given up after 20 silent seconds, and never while it has events', async () => {
    const { page, tab } = at;
    let streams = 0;
    page.on('request', (request) => {
      if (request.url().endsWith('/console/events')) streams++;
    });
    await page.clock.install();
    await page.reload();
    await tab.shows(/^Live$/);
    for (let i = 0; i < 3; i++) {
      await page.clock.fastForward(15_000);
      await tab.shows('Stale since');
      await tab.shows(/^Live$/);
    }
    expect(streams).toBe(1);
    await page.clock.fastForward(21_000);
    await eventually(() => streams).toBe(2);
    await tab.shows(/^Live$/);
  });

  test('a service that is gone is said to be, and found again by itself', async () => {
    const { place, api_key: apiKey, exit } = at.service;
    at.service.kill('SIGKILL');
    await exit;
    await at.tab.shows('Cannot reach the service');
    await isAccessible();
    at.service = { ...(await startWithOps(place, env)), api_key: apiKey };
    // Sessions are in the memory of the process: its end is theirs.
    await signIn();
    await at.tab.shows(/^Live$/);
    expect(await at.page.getByText('Cannot reach the service').count()).toBe(0);
  });
});

describe.skipIf(chromiumBin === undefined || postgresBin === undefined)(
  'the console and a database that is away',
  () => {
    let cluster: PostgresCluster;
    afterAll(() => cluster?.stop());
    const at = openConsole(async () => {
      cluster = await PostgresCluster.start();
      const place = await makePlace('server', cluster.url('postgres'));
      return startService(place, { OPS_PORT: String(await freePort()) });
    });

    test('says so in words in every view, stays live, and is healthy when it is back', async () => {
      const { page, tab } = at;
      await tab.shows('Healthy');
      await cluster.crash();
      await tab.shows('Database: does not answer');
      await tab.shows(/^Live$/);
      const banner = page.locator('.banner');
      expect(await banner.textContent()).toContain('that DATABASE_URL reaches it');
      expect(await tab.faults()).toEqual([]);
      for (const title of ['Vault & keys', 'Clients']) {
        await page.getByRole('link', { name: title }).click();
        await tab.shows('Not known at the moment');
        expect(await tab.faults(), title).toEqual([]);
      }
      const late = await Tab.open(at.browser, `${at.service.opsUrl}/#/vault`);
      await late.shows('Not counted yet');
      await late.close();
      const stale = page.locator('.card.stale').filter({ visible: true });
      expect(await stale.count()).toBe(1);
      cluster.startAgain();
      await tab.shows('Healthy');
      await tab.shows(/^first$/);
      await eventually(() => banner.isVisible()).toBe(false);
      await eventually(() => stale.count()).toBe(0);
    });
  },
);
