import { statSync } from 'node:fs';
import { join } from 'node:path';
import type { Locator } from 'playwright-core';
import { expect, test } from 'vitest';
import { ADMIN_TOKEN, admin, adminPlace } from '../support/admin.ts';
import { Business, HABITS, launch, Tab } from '../support/browser.ts';
import { startWithOps } from '../support/ops.ts';
import { freePort } from '../support/processes.ts';
import { call, ROOT, runCli, startService, until, usualPlace } from '../support/service.ts';

const FOLDER = join(ROOT, 'docs/images');
const MAX_BYTES = 250_000;
/** Around a part of the page. */
const MARGIN_PX = 12;
/** The window that the console shows at first. */
const WINDOW_MS = 5 * 60_000;
/** When the key is changed, so that there is something to reseal. */
const ROTATE_AFTER_MS = 60_000;

test('the pictures of the overview', { timeout: 600_000 }, async () => {
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
  }
  await business.stop();
  await browser.close();
  await service.stop();
  place.remove();
});

const POLICY = `version: 1
kinds:
  card: {shape: digits, mask: {show: ends, last: 4}}
fields:
  customer.email: email
  customer.card: card
elsewhere: pass
rights:
  support: {email: masked, card: masked}
`;

/** The console while somebody tries it and acts: a picture of each dialog, or of the answer. */
test('the pictures of the playground and the acts', { timeout: 120_000 }, async () => {
  const service = await startWithOps(await adminPlace());
  const browser = await launch();
  const tokens = await call(service, 'tokenize', { a: 'ann@example.com', b: '+1 415 555 2671' });
  const viewport = { width: 1200, height: 900 };
  const tab = await Tab.open(browser, `${service.opsUrl}/#/playground`, { viewport });
  const { page } = tab;
  const button = (name: string) => page.getByRole('button', { name, exact: true });
  await page.getByLabel('API key').fill(service.api_key);
  await button('Example').click();
  await button('Tokenize').click();
  await page.getByText('Tokenized', { exact: true }).waitFor();
  await button('Restore').click();
  await page.getByText('equal to the original').waitFor();
  await picture(tab, 'playground');

  const document =
    'version: 1\nfields:\n  customer.email: email\nelsewhere: pass\nrights:\n  support: {email: full}\n';
  await admin(service.opsUrl, 'PUT', '/policy', { document, confirmed: ['*'] });
  await page.setViewportSize({ ...viewport, height: 720 });
  await page.goto(`${service.opsUrl}/#/clients`);
  await button('Sign in to act').click();
  await page.getByLabel('Admin token').fill(ADMIN_TOKEN);
  await button('Sign in').click();
  const dialog = page.getByRole('dialog');
  /** A picture of the dialog, which says what the act would do. */
  const asked = async (name: string, look?: string) => {
    if (look !== undefined) await button(look).click();
    await dialog.getByText(/This cannot be undone|All nodes|It has no API key/).waitFor();
    await pictureOf(tab, name, dialog);
  };

  await button('Make a client…').click();
  await dialog.getByLabel('Name').fill('support');
  await dialog.getByLabel('Detokenize').check();
  await asked('act-client');
  await button('Make the client').click();
  await dialog.getByText('Issue an API key for it').click();

  await button('Issue an API key…').click();
  await button('Issue the API key').click();
  await dialog.getByLabel('API key', { exact: true }).waitFor();
  await pictureOf(tab, 'act-api-key', dialog);
  await button('Close').click();

  await page.getByRole('button', { name: 'Revoke…' }).click();
  await asked('act-revoke');
  await button('Cancel').click();

  await button('Forget values…').click();
  await dialog.getByLabel('Values, one a line').fill('ann@example.com');
  await dialog.getByLabel('Tokens, one a line').fill(tokens.body.data.b);
  await asked('act-forget', 'Look what is known');
  await button('Cancel').click();
  await picture(tab, 'admin');

  await page.goto(`${service.opsUrl}/#/vault`);
  await button('Apply a policy…').click();
  await dialog.getByLabel('Policy').fill(POLICY);
  await asked('act-policy', 'Look what changes');
  await browser.close();
  await service.stop();
  service.place.remove();
});

async function picture(tab: Tab, name: string, fullPage = true): Promise<void> {
  const path = join(FOLDER, `${name}.png`);
  await tab.page.screenshot({ path, fullPage, animations: 'disabled' });
  expect(statSync(path).size, name).toBeLessThan(MAX_BYTES);
}

/** The part of the page around an element, without the form behind it. */
async function pictureOf(tab: Tab, name: string, part: Locator): Promise<void> {
  const { x, y, width, height } = (await part.boundingBox())!;
  const clip = {
    x: x - MARGIN_PX,
    y: y - MARGIN_PX,
    width: width + 2 * MARGIN_PX,
    height: height + 2 * MARGIN_PX,
  };
  const path = join(FOLDER, `${name}.png`);
  await tab.page.screenshot({ path, clip, animations: 'disabled' });
}
