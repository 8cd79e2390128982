import { statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ADMIN_TOKEN, adminPlace } from '../support/admin.ts';
import { Business, HABITS, launch, Tab } from '../support/browser.ts';
import { startWithOps } from '../support/ops.ts';
import { freePort } from '../support/processes.ts';
import { call, ROOT, runCli, startService, until, usualPlace } from '../support/service.ts';

const FOLDER = join(ROOT, 'docs/images');
const MAX_BYTES = 250_000;
/** The window that the console shows at first. */
const WINDOW_MS = 5 * 60_000;
/** When the key is changed, so that there is something to reseal. */
const ROTATE_AFTER_MS = 60_000;

test('the pictures of docs/images', { timeout: 600_000 }, async () => {
  const place = await usualPlace();
  const service = await startService(place, {
    OPS_PORT: String(await freePort()),
    LOG_LEVEL: 'info',
  });
  const browser = await launch();
  const run = async (...args: string[]) => (await runCli(args, place)).stdout;
  const apiKeys: string[] = [];
  for (const { name, options } of HABITS) {
    const made = await run('client', 'create', '--name', name, ...options, '--json');
    apiKeys.push(JSON.parse(made).api_key);
  }
  const business = new Business(service.url, apiKeys);
  const beganMs = performance.now();
  const after = (ms: number) => () => performance.now() - beganMs > ms;
  await until(after(ROTATE_AFTER_MS), 'a minute of business', WINDOW_MS);
  await run('keyring', 'rotate');
  await until(after(WINDOW_MS), 'five minutes of business', 2 * WINDOW_MS);
  for (const theme of ['light', 'dark'] as const) {
    const tab = await Tab.open(browser, service.opsUrl!, {
      colorScheme: theme,
      viewport: { width: 1440, height: 960 },
    });
    await expect
      .poll(() => tab.page.getByText('Live', { exact: true }).count(), { timeout: 20_000 })
      .toBe(1);
    await expect.poll(() => tab.page.locator('.u-over').count()).toBe(6);
    await picture(tab, `console-${theme}`);
    if (theme === 'dark') continue;
    await tab.page.setViewportSize({ width: 1200, height: 900 });
    await tab.page.getByRole('link', { name: 'Playground' }).click();
    await tab.page.getByLabel('API key').fill(apiKeys[0]!);
    await tab.page.getByRole('button', { name: 'Example' }).click();
    await tab.page.getByRole('button', { name: 'Tokenize', exact: true }).click();
    await expect.poll(() => tab.page.getByText('Tokenized', { exact: true }).count()).toBe(1);
    await tab.page.getByRole('button', { name: 'Restore', exact: true }).click();
    await expect.poll(() => tab.page.getByText('equal to the original').count()).toBe(1);
    await picture(tab, 'playground');
  }
  await business.stop();
  await browser.close();
  await service.stop();
  place.remove();
});

test('the picture of the acts', { timeout: 120_000 }, async () => {
  const service = await startWithOps(await adminPlace());
  const browser = await launch();
  await call(service, 'tokenize', { a: 'ann@example.com', b: '+1 415 555 2671' });
  const viewport = { width: 1200, height: 860 };
  const tab = await Tab.open(browser, `${service.opsUrl}/#/admin`, { viewport });
  const { page } = tab;
  await page.getByLabel('Admin token').fill(ADMIN_TOKEN);
  await page.getByRole('button', { name: 'Sign in to act' }).click();
  await page.getByLabel('Values, one a line').fill('ann@example.com\n+1 415 555 2671');
  await page.getByRole('button', { name: 'Forget…' }).click();
  await page.getByRole('dialog').waitFor();
  await picture(tab, 'admin', false);
  await browser.close();
  await service.stop();
  service.place.remove();
});

async function picture(tab: Tab, name: string, fullPage = true): Promise<void> {
  const path = join(FOLDER, `${name}.png`);
  await tab.page.screenshot({ path, fullPage, animations: 'disabled' });
  expect(statSync(path).size, name).toBeLessThan(MAX_BYTES);
}
