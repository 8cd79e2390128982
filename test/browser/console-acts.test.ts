import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Response } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { ADMIN_TOKEN, admin, adminPlace } from '../support/admin.ts';
import { chromiumBin, eventually, openConsole } from '../support/browser.ts';
import { startWithOps } from '../support/ops.ts';
import { call, until } from '../support/service.ts';

const NAME = '<b>billing</b>';
const CLIENT = `/clients/${encodeURIComponent(NAME)}`;

describe.skipIf(chromiumBin === undefined)('the acts of the console', () => {
  const at = openConsole(
    async () => startWithOps(await adminPlace()),
    // What a browser says of refused sign-ins, of a policy that is not there, and of conflicts.
    { route: '#/clients', isShared: true, expected: /status of 4(01|04|09|12|29)/ },
  );

  const button = (name: string) => at.tab.button(name);
  const dialog = () => at.page.getByRole('dialog');
  const dialogText = () => dialog().textContent();
  /** What the act has done, or why it was not done. */
  const outcome = async () =>
    (await dialog().locator('[role=status], [role=alert]').allTextContents()).join('');
  const begin = async (name: string) => {
    await button(name).click();
    await dialog().waitFor();
  };
  const press = async (name: string, words: string | RegExp) => {
    await button(name).click();
    await eventually(outcome).toMatch(words);
  };
  const asks = async (name: string, words: string) => {
    await button(name).click();
    await eventually(dialogText).toContain(words);
  };
  const send = (method: string, path: string, body?: unknown) =>
    admin(at.service.opsUrl, method, path, body);
  const go = async (route: string, act: string) => {
    await at.tab.go(route);
    await button(act).waitFor();
  };
  const goToClient = async (act: string) =>
    go(`client/${(await send('GET', CLIENT)).body.client_id}`, act);
  const statusOf = async (operation: 'tokenize' | 'detokenize', value: string, apiKey?: string) =>
    (await call(at.service, operation, { value }, apiKey)).status;
  const signIn = async (token: string) => {
    await at.page.getByLabel('Admin token').fill(token);
    const isAnswer = (response: Response) =>
      response.url().endsWith('/console/admin/session') && response.request().method() === 'POST';
    const answered = at.page.waitForResponse(isAnswer);
    await button('Sign in').click();
    return (await answered).status();
  };

  test('are for who signs in with the right token, a wrong one says so, and guesses are slowed', async () => {
    const make = button('Make a client…');
    expect(await make.count()).toBe(0);
    await begin('Sign in to act');
    await signIn('not the token');
    await eventually(outcome).toContain('This is not the ADMIN_TOKEN of this service.');
    await until(async () => (await signIn('a guess')) === 429, 'the end of guesses');
    await eventually(outcome).toContain('Too many wrong tokens from this address.');
    await until(async () => (await signIn(ADMIN_TOKEN)) === 200, 'the sign-in after a pause');
    await make.waitFor();
    await at.tab.shows('Signed in as terraform');
    const cookies = await at.page.context().cookies();
    expect(cookies.find(({ name }) => name === 'standin_admin')).toMatchObject({
      ...{ httpOnly: true, sameSite: 'Strict', secure: false },
    });
    const stored = await at.page.evaluate('JSON.stringify([localStorage, sessionStorage])');
    expect(stored).not.toContain(ADMIN_TOKEN);
    await at.page.reload();
    await make.waitFor();
    await button('Sign out').click();
    await begin('Sign in to act');
    // People paste what stands in ADMIN_TOKEN.
    expect(await signIn(`terraform:${ADMIN_TOKEN}`)).toBe(200);
    await make.waitFor();
  });

  test('make a client in a dialog that says what it makes, and nothing without it', async () => {
    const fill = async () => {
      await begin('Make a client…');
      await dialog().getByLabel('Name').fill(NAME);
      await dialog().getByLabel('Space').fill('tenant_a');
    };
    await fill();
    const right = dialog().getByLabel('Tokenize', { exact: true });
    await right.uncheck();
    await press('Make the client', /^Choose what it may do\.$/);
    await right.check();
    expect(await outcome()).toBe('');
    await button('Cancel').click();
    // Escape is no, too.
    await fill();
    await at.page.keyboard.press('Escape');
    await dialog().waitFor({ state: 'detached' });
    expect((await send('GET', CLIENT)).status).toBe(404);
    await fill();
    await press('Make the client', /^Made standin_[0-9a-f]{24}/);
    const made = { can_tokenize: true, can_detokenize: false, can_lookup: false };
    expect((await send('GET', CLIENT)).body).toMatchObject({ ...made, space: 'tenant_a' });
    await dialog().getByRole('link').click();
    await button('Issue an API key…').click();
    await button('Cancel').click();
    await go('clients', 'Make a client…');
    await fill();
    await press('Make the client', `There is a client ${NAME} already.`);
    await button('Cancel').click();
  });

  test('look right to everybody', async () => {
    const look = async (act: string) => {
      await begin(act);
      expect(await at.tab.faults(320), act).toEqual([]);
      await at.page.setViewportSize({ width: 1280, height: 900 });
      await button('Cancel').click();
    };
    await look('Make a client…');
    await goToClient('Disable…');
    for (const act of ['Disable…', 'Forget values…', 'Issue an API key…']) await look(act);
    await go('vault', 'Apply a policy…');
    await look('Apply a policy…');
  });

  test('issue an API key that works, show it once, and revoke it', async () => {
    await goToClient('Issue an API key…');
    await begin('Issue an API key…');
    await button('Issue the API key').click();
    const shown = dialog().getByLabel('API key', { exact: true });
    const apiKey = (await shown.textContent())!;
    expect(await dialog().evaluate((one) => one.scrollWidth - one.clientWidth)).toBe(0);
    expect(await statusOf('tokenize', 'b', apiKey)).toBe(200);
    await button('Close').click();
    await eventually(() => at.page.getByText(apiKey).count()).toBe(0);
    const { api_key_id: id } = (await send('GET', '/api-keys')).body.api_keys.at(-1);
    await asks(`Revoke… ${id}`, `Revoke ${id} of “${NAME}”?`);
    await press('Revoke the API key', 'is revoked');
    await eventually(() => statusOf('tokenize', 'b', apiKey)).toBe(401);
    await button('Close').click();
  });

  test('disable a client and enable it again, as the dialog says', async () => {
    const { api_key: apiKey } = (await send('POST', `${CLIENT}/api-keys`, {})).body;
    const status = () => statusOf('tokenize', 'b', apiKey);
    for (const [verb, after] of [['Disable', 401] as const, ['Enable', 200] as const]) {
      await goToClient(`${verb}…`);
      await asks(`${verb}…`, `${verb} “${NAME}”?`);
      expect(await status()).not.toBe(after);
      await press(`${verb} the client`, `is ${verb.toLowerCase()}d`);
      await eventually(status).toBe(after);
      await button('Close').click();
    }
  });

  test('apply a policy after a dialog that says what it lets out and takes away', async () => {
    await go('vault', 'Apply a policy…');
    await begin('Apply a policy…');
    const field = dialog().getByLabel('Policy');
    await field.fill('version: 1\nfields:\n  a: nothing\nelsewhere: pass\n');
    await press('Look what changes', /^3:6: /);
    const document =
      'version: 1\nfields:\n  a: email\nelsewhere: pass\nrights:\n  Nobody: { "*": full }\n';
    await field.fill(document);
    await asks('Look what changes', '+ field a: email');
    const { body: check } = await send('POST', '/policy/check', { document });
    expect(check.consequences).toHaveLength(3);
    for (const one of check.consequences) expect(await dialogText()).toContain(one);
    expect(await at.tab.accessibilityProblems()).toEqual([]);
    // Between the dialog and the click, another client comes that loses.
    await send('PUT', '/clients/latecomer', { can_detokenize: true });
    await press('Apply the policy', 'latecomer will see less');
    expect((await send('GET', '/policy')).status).toBe(404);
    await asks('Look what changes', 'latecomer will see less');
    await press('Apply the policy', 'Version 1 is in force');
    expect((await send('GET', '/policy')).body.version).toBe(1);
    await button('Close').click();
  });

  test('start from the policy in force', async () => {
    await begin('Apply a policy…');
    const { document } = (await send('GET', '/policy')).body;
    const field = dialog().getByLabel('Policy');
    expect(await field.inputValue()).toBe(document);
    await field.fill('version: 1');
    await asks('Look what changes', 'will see more');
    await press('Apply the policy', 'Version 2 is in force');
  });

  /** Version 1 lets the value pass, until version 2 is in force on the node. */
  const tokenOf = async (value: string): Promise<string> => {
    const made = async () => (await call(at.service, 'tokenize', { value })).body.data.value;
    await until(async () => (await made()) !== value, `a token of ${value}`);
    return made();
  };

  test('forget values and tokens, as many as the dialog says', async () => {
    const tokens = [await tokenOf('Ann Lee'), await tokenOf('Bob Ray')];
    const { body } = await send('GET', '/clients/first');
    await go(`client/${body.client_id}`, 'Forget values…');
    await begin('Forget values…');
    await dialog().getByLabel('Values, one a line').fill('Ann Lee\nNobody');
    await dialog().getByLabel('Tokens, one a line').fill(tokens[1]!);
    await asks('Look what is known', 'Forget 2 values');
    expect(await dialogText()).toMatch(/values\[1\].*Not searched: tokens that no version/);
    for (const token of tokens) expect(await statusOf('detokenize', token)).toBe(200);
    await press('Forget 2 values', 'Forgotten: 2.');
    for (const token of tokens) expect(await statusOf('detokenize', token)).toBe(400);
    await button('Close').click();
  });

  test('are not for a page of another origin, although its requests have the cookie', async () => {
    const { opsUrl } = at.service;
    const token = await tokenOf('Cleo Dee');
    // A page of an attacker on the same host: its requests have the cookie.
    const attacker = createServer((_, response) => {
      response.setHeader('Content-Type', 'text/html').end('<!doctype html><title>game</title>');
    });
    await new Promise<void>((resolve) => attacker.listen(0, '127.0.0.1', resolve));
    const other = await at.page.context().newPage();
    await other.goto(`http://127.0.0.1:${(attacker.address() as AddressInfo).port}/`);
    const attack = async (path: string, init: object) =>
      other.evaluate(
        async ([url, sent]) =>
          fetch(url as string, { credentials: 'include', ...(sent as RequestInit) }).then(
            ({ type, status }) => `${type} ${status}`,
            () => 'blocked',
          ),
        [opsUrl + path, init] as const,
      );
    const body = JSON.stringify({ tokens: [token] });
    const plain = { method: 'POST', mode: 'no-cors', body };
    const json = { ...plain, mode: 'cors', headers: { 'content-type': 'application/json' } };
    for (const path of ['/admin/v1/forget', '/console/admin/ticket'])
      for (const init of [plain, json])
        expect(await attack(path, init)).toMatch(/^(opaque 0|blocked)$/);
    expect(await attack('/admin/v1/clients', { mode: 'no-cors' })).toMatch(/^(opaque 0|blocked)$/);
    // A form, whose answer would be the page.
    await other.setContent(
      `<form method="post" action="${opsUrl}/admin/v1/keyring/rotate" enctype="text/plain"><button>Play</button></form>`,
    );
    const sent = other.waitForRequest(/rotate$/);
    await other.getByRole('button').click();
    expect((await (await sent).allHeaders()).cookie).toContain('standin_admin=');
    await other.waitForURL(/rotate$/);
    expect(await other.textContent('body')).toContain('unauthorized');
    await other.close();
    attacker.close();
    expect(await statusOf('detokenize', token)).toBe(200);
    expect((await send('GET', '/keyring')).headers.etag).toBe('"1"');
  });
});
