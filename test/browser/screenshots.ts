import { statSync } from 'node:fs';
import { join } from 'node:path';
import type { Locator } from 'playwright-core';
import { expect, test } from 'vitest';
import { ADMIN_TOKEN, admin, adminPlace } from '../support/admin.ts';
import { eventually, launch, Tab } from '../support/browser.ts';
import { startWithOps } from '../support/ops.ts';
import { call, createClient, ROOT, until, usualPlace } from '../support/service.ts';

const FOLDER = join(ROOT, 'docs/images');
const MAX_BYTES = 250_000;
/** Around a part of the page. */
const MARGIN_PX = 12;
/** The window that the console shows at first. */
const WINDOW_MS = 5 * 60_000;
/** The clients of a shop: name, limit, callers, share of tokenize, and values of a request. */
const HABITS = [
  ['Checkout', '400', 6, 0.7, 4],
  ['CRM sync', '200', 3, 0.5, 6],
  ['Support desk', '50', 1, 0, 2],
  ['Fraud screening', '0', 3, 0.1, 2],
  ['Data warehouse', '30', 4, 1, 12],
] as const;
const TOKENS_KEPT = 2_000;

test('the pictures of the overview', { timeout: 600_000 }, async () => {
  const place = await usualPlace();
  const service = await startWithOps(place, { LOG_LEVEL: 'info' });
  const browser = await launch();
  const tokens: string[] = [];
  let isOver = false;
  const random = (below: number) => Math.floor(Math.random() * below);
  const runCaller = async (apiKey: string, share: number, values: number, caller: number) => {
    const send = (operation: 'tokenize' | 'detokenize', make: () => string) => {
      const fields = Array.from({ length: values }, (_, i) => [`field_${i}`, make()]);
      return call(service, operation, Object.fromEntries(fields), apiKey);
    };
    while (!isOver) {
      const tide = 0.5 + 0.5 * Math.sin(performance.now() / 19_000 + caller);
      await new Promise((resolve) => setTimeout(resolve, 12 + 90 * tide * Math.random()));
      if (Math.random() < share || tokens.length < 50) {
        const { body } = await send('tokenize', () => `ann.${random(1e6)}@example.com`);
        tokens.push(...Object.values<string>(body.data ?? {}));
        tokens.splice(0, tokens.length - TOKENS_KEPT);
      } else {
        const isMistyped = Math.random() < 0.004;
        await send('detokenize', () =>
          isMistyped ? 'nobody_tok' : tokens[random(tokens.length)]!,
        );
      }
    }
  };
  const callers: Promise<void>[] = [];
  for (const [name, limit, count, share, values] of HABITS) {
    const { api_key: apiKey } = await createClient(place, '--name', name, '--rate-limit', limit);
    for (let n = 0; n < count; n++) callers.push(runCaller(apiKey, share, values, n));
  }
  const beganMs = performance.now();
  const isOld = () => performance.now() - beganMs > WINDOW_MS;
  await until(isOld, 'five minutes of business', 2 * WINDOW_MS);
  for (const colorScheme of ['light', 'dark'] as const) {
    const viewport = { width: 1440, height: 960 };
    const tab = await Tab.open(browser, service.opsUrl, { colorScheme, viewport });
    await tab.shows(/^Live$/);
    await eventually(() => tab.page.locator('.u-over').count()).toBe(6);
    await picture(tab, `console-${colorScheme}`);
  }
  isOver = true;
  await Promise.all(callers);
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
  const button = (name: string) => tab.button(name);
  await page.getByLabel('API key').fill(service.api_key);
  await button('Example').click();
  await button('Tokenize').click();
  await page.getByText('Tokenized', { exact: true }).waitFor();
  await button('Restore').click();
  await page.getByText('Restored', { exact: true }).first().waitFor();
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

async function picture(tab: Tab, name: string): Promise<void> {
  const path = join(FOLDER, `${name}.png`);
  await tab.page.screenshot({ path, fullPage: true, animations: 'disabled' });
  expect(statSync(path).size, name).toBeLessThan(MAX_BYTES);
}

/** The part of the page around an element, without the form behind it. */
async function pictureOf(tab: Tab, name: string, part: Locator): Promise<void> {
  const { x, y, width, height } = (await part.boundingBox())!;
  const [left, top] = [x - MARGIN_PX, y - MARGIN_PX];
  const clip = { x: left, y: top, width: width + 2 * MARGIN_PX, height: height + 2 * MARGIN_PX };
  const path = join(FOLDER, `${name}.png`);
  await tab.page.screenshot({ path, clip, animations: 'disabled' });
}
