import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { chromiumBin, launch, Tab } from '../support/browser.ts';
import { PostgresCluster, postgresBin } from '../support/postgres.ts';
import { freePort } from '../support/processes.ts';
import { makePlace, type Place, type Service, startService } from '../support/service.ts';

const PATIENCE = { timeout: 40_000 };

describe.skipIf(chromiumBin === undefined || postgresBin === undefined)(
  'the console and a database that is away',
  () => {
    let cluster: PostgresCluster;
    let browser: Browser;
    let place: Place;
    let service: Service;

    beforeAll(async () => {
      cluster = await PostgresCluster.start();
      place = await makePlace('server', cluster.url('postgres'));
      service = await startService(place, { OPS_PORT: String(await freePort()) });
      browser = await launch();
    });

    afterAll(async () => {
      await browser?.close();
      await service?.stop();
      cluster?.stop();
      place?.remove();
    });

    test('says so in words in every view, stays live, and is healthy when it is back', async () => {
      const tab = await Tab.open(browser, service.opsUrl!);
      const shown = (text: string) => () => tab.page.getByText(text).first().isVisible();
      await expect.poll(shown('Healthy'), PATIENCE).toBe(true);
      await cluster.crash();
      await expect.poll(shown('Database: does not answer'), PATIENCE).toBe(true);
      expect(await tab.page.getByText('Live', { exact: true }).count()).toBe(1);
      const banner = tab.page.locator('.banner');
      expect(await banner.textContent()).toContain('that DATABASE_URL reaches it');
      expect(await tab.accessibilityProblems()).toEqual([]);
      for (const title of ['Vault & keys', 'Clients']) {
        await tab.page.getByRole('link', { name: title }).click();
        const words = tab.page.getByText('Not known at the moment').filter({ visible: true });
        await expect.poll(() => words.count(), PATIENCE).toBe(1);
        expect(await tab.accessibilityProblems(), title).toEqual([]);
      }
      const late = await Tab.open(browser, `${service.opsUrl}/#/vault`);
      await expect.poll(() => late.page.getByText('Not counted yet').count(), PATIENCE).toBe(1);
      await late.close();
      const stale = tab.page.locator('.card.stale').filter({ visible: true });
      expect(await stale.count()).toBe(1);
      cluster.startAgain();
      await expect.poll(shown('Healthy'), PATIENCE).toBe(true);
      await expect.poll(() => tab.page.getByText('first', { exact: true }).isVisible()).toBe(true);
      await expect.poll(() => banner.isVisible(), PATIENCE).toBe(false);
      await expect.poll(() => stale.count(), PATIENCE).toBe(0);
      expect([tab.errors, tab.foreign]).toEqual([[], []]);
      await tab.close();
    });
  },
);
