import { statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { Business, HABITS, launch, Tab } from '../support/browser.ts';
import { freePort } from '../support/processes.ts';
import { ROOT, runCli, startService, until, usualPlace } from '../support/service.ts';

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

async function picture(tab: Tab, name: string): Promise<void> {
  const path = join(FOLDER, `${name}.png`);
  await tab.page.screenshot({ path, fullPage: true, animations: 'disabled' });
  expect(statSync(path).size, name).toBeLessThan(MAX_BYTES);
}
