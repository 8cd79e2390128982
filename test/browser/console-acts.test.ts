import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Browser, Request, Response } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ADMIN_TOKEN, admin, adminPlace } from '../support/admin.ts';
import { readAudit } from '../support/audit.ts';
import { chromiumBin, closeFaultless, launch, Tab } from '../support/browser.ts';
import { ask, startWithOps } from '../support/ops.ts';
import { call, until } from '../support/service.ts';

const PATIENCE = { timeout: 20_000 };

describe.skipIf(chromiumBin === undefined)('the acts of the console', () => {
  let browser: Browser;
  let service: Awaited<ReturnType<typeof startWithOps>>;
  let auditFile: string;
  let tab: Tab;

  beforeAll(async () => {
    const place = await adminPlace();
    auditFile = `${place.folder}/audit.log`;
    service = await startWithOps(place, { AUDIT_LOG: auditFile });
    browser = await launch();
    tab = await Tab.open(browser, `${service.opsUrl}/#/clients`);
  });
  afterAll(async () => {
    await browser?.close();
    await service?.stop();
    service?.place.remove();
  });

  const button = (name: string) => tab.page.getByRole('button', { name, exact: true });
  const dialog = () => tab.page.getByRole('dialog');
  const dialogText = () => dialog().textContent();
  /** What the act has done, or why it was not done. */
  const outcome = async () =>
    (await dialog().locator('[role=status], [role=alert]').allTextContents()).join('');
  const begin = async (name: string) => {
    await button(name).click();
    await dialog().waitFor();
  };
  const go = async (route: string, act: string) => {
    await tab.page.goto(`${service.opsUrl}/#/${route}`);
    await button(act).waitFor();
  };
  const tokenField = () => tab.page.getByLabel('Admin token');
  const signIn = async (token: string) => {
    await tokenField().fill(token);
    const isAnswer = (response: Response) =>
      response.url().endsWith('/console/admin/session') && response.request().method() === 'POST';
    const answered = tab.page.waitForResponse(isAnswer);
    await button('Sign in').click();
    return (await answered).status();
  };
  const send = (method: string, path: string, body?: unknown) =>
    admin(service.opsUrl, method, path, body);
  /** On the page of the client of the other tests. */
  const goToClient = async (act: string) => {
    const { body } = await send('GET', '/clients/%3Cb%3Ebilling%3C%2Fb%3E');
    await go(`client/${body.client_id}`, act);
  };

  test('are for who signs in with the right token, a wrong one says so, and guesses are slowed', async () => {
    expect(await button('Make a client…').count()).toBe(0);
    await begin('Sign in to act');
    await signIn('not the token');
    await expect.poll(outcome, PATIENCE).toContain('This is not the ADMIN_TOKEN of this service.');
    await until(async () => (await signIn('a guess')) === 429, 'the end of guesses');
    await expect.poll(outcome, PATIENCE).toContain('Too many wrong tokens from this address.');
    await until(async () => (await signIn(ADMIN_TOKEN)) === 200, 'the sign-in after a pause');
    // The browser reports the refused sign-ins, and nothing else.
    const errors = tab.errors.splice(0);
    expect(errors.filter((one) => !/\b(401|429)\b/.test(one))).toEqual([]);
    await button('Make a client…').waitFor();
    expect(await tab.page.getByText('Signed in as terraform').count()).toBe(1);
    const [cookie] = (await tab.page.context().cookies()).filter(
      ({ name }) => name === 'standin_admin',
    );
    expect(cookie).toMatchObject({ httpOnly: true, sameSite: 'Strict', secure: false });
    const stored = await tab.page.evaluate('JSON.stringify([localStorage, sessionStorage])');
    expect(stored).not.toContain(ADMIN_TOKEN);
    await tab.page.reload();
    await button('Make a client…').waitFor();
    await button('Sign out').click();
    await begin('Sign in to act');
    // People paste what stands in ADMIN_TOKEN.
    expect(await signIn(`terraform:${ADMIN_TOKEN}`)).toBe(200);
    await button('Make a client…').waitFor();
  });

  test('make a client in a dialog that says what it makes, and nothing without it', async () => {
    await begin('Make a client…');
    await dialog().getByLabel('Tokenize', { exact: true }).uncheck();
    await dialog().getByLabel('Name').fill('nothing');
    await button('Make the client').click();
    await expect.poll(outcome, PATIENCE).toBe('Choose what it may do.');
    await dialog().getByLabel('Tokenize', { exact: true }).check();
    expect(await outcome()).toBe('');
    const fill = async () => {
      await dialog().getByLabel('Name').fill('<b>billing</b>');
      await dialog().getByLabel('Space').fill('tenant_a');
    };
    const named = encodeURIComponent('<b>billing</b>');
    await fill();
    await button('Cancel').click();
    // Escape is no, too.
    await begin('Make a client…');
    await fill();
    await tab.page.keyboard.press('Escape');
    await dialog().waitFor({ state: 'detached' });
    expect((await send('GET', `/clients/${named}`)).status).toBe(404);
    await begin('Make a client…');
    await fill();
    await button('Make the client').click();
    await expect.poll(outcome, PATIENCE).toMatch(/^Made standin_[0-9a-f]{24}/);
    const { body } = await send('GET', `/clients/${named}`);
    const made = { can_tokenize: true, can_detokenize: false, can_lookup: false };
    expect(body).toMatchObject({ ...made, space: 'tenant_a' });
    await dialog().getByRole('link').click();
    await button('Issue an API key…').click();
    await button('Cancel').click();
    await go('clients', 'Make a client…');
    await begin('Make a client…');
    await fill();
    await button('Make the client').click();
    await expect.poll(outcome, PATIENCE).toBe('There is a client <b>billing</b> already.');
    await button('Cancel').click();
    expect(tab.errors.splice(0)).toEqual([expect.stringContaining('412')]);
  });

  test('look right to everybody', async () => {
    const look = async (act: string) => {
      await begin(act);
      for (const colorScheme of ['light', 'dark'] as const) {
        await tab.page.emulateMedia({ colorScheme });
        expect(await tab.accessibilityProblems(), `${act} ${colorScheme}`).toEqual([]);
      }
      await tab.page.setViewportSize({ width: 320, height: 740 });
      expect(await tab.overflow(), act).toBe(0);
      await tab.page.setViewportSize({ width: 1280, height: 900 });
      await button('Cancel').click();
    };
    await look('Make a client…');
    await goToClient('Disable…');
    for (const act of ['Disable…', 'Forget values…', 'Issue an API key…']) await look(act);
    await go('vault', 'Apply a policy…');
    await look('Apply a policy…');
    // The browser reports that there is no policy to start from.
    expect(tab.errors.splice(0)).toEqual([expect.stringContaining('404')]);
  });

  test('issue an API key that works, show it once, and revoke it', async () => {
    await goToClient('Issue an API key…');
    await begin('Issue an API key…');
    await button('Issue the API key').click();
    const shown = dialog().getByLabel('API key', { exact: true });
    await shown.waitFor();
    expect(await dialog().evaluate((one) => one.scrollWidth - one.clientWidth)).toBe(0);
    const apiKey = (await shown.textContent())!;
    expect((await call(service, 'tokenize', { a: 'b' }, apiKey)).status).toBe(200);
    await button('Close').click();
    expect(await tab.page.getByText(apiKey).count()).toBe(0);
    const { body } = await send('GET', '/api-keys');
    const { api_key_id: id } = body.api_keys.at(-1);
    await begin(`Revoke… ${id}`);
    expect(await dialogText()).toContain(`Revoke ${id} of “<b>billing</b>”?`);
    await button('Revoke the API key').click();
    await expect.poll(outcome, PATIENCE).toContain('is revoked');
    await until(
      async () => (await call(service, 'tokenize', { a: 'b' }, apiKey)).status === 401,
      'the end of the API key',
    );
  });

  test('disable a client and enable it again, as the dialog says', async () => {
    const { body } = await send('POST', '/clients/%3Cb%3Ebilling%3C%2Fb%3E/api-keys', {});
    const status = async () => (await call(service, 'tokenize', { a: 'b' }, body.api_key)).status;
    for (const [verb, after] of [
      ['Disable', 401],
      ['Enable', 200],
    ] as const) {
      await goToClient(`${verb}…`);
      await begin(`${verb}…`);
      expect(await dialogText()).toContain(`${verb} “<b>billing</b>”?`);
      expect(await status()).not.toBe(after);
      await button(`${verb} the client`).click();
      await expect.poll(outcome, PATIENCE).toContain(`is ${verb.toLowerCase()}d`);
      await until(async () => (await status()) === after, `a client after ${verb}`);
      await button('Close').click();
    }
  });

  test('apply a policy after a dialog that says what it lets out and takes away', async () => {
    await go('vault', 'Apply a policy…');
    await begin('Apply a policy…');
    const field = dialog().getByLabel('Policy');
    const look = () => button('Look what changes').click();
    await field.fill('version: 1\nfields:\n  a: nothing\nelsewhere: pass\n');
    await look();
    await expect.poll(outcome, PATIENCE).toMatch(/^3:6: /);
    const document = 'version: 1\nfields:\n  a: email\nelsewhere: pass\nrights:\n  Nobody: {}\n';
    await field.fill(document.replace('{}', '{ "*": full }'));
    await look();
    await expect.poll(dialogText, PATIENCE).toContain('+ field a: email');
    const { body: check } = await send('POST', '/policy/check', {
      document: await field.inputValue(),
    });
    expect(check.consequences).toHaveLength(3);
    for (const one of check.consequences) expect(await dialogText()).toContain(one);
    expect(await tab.accessibilityProblems()).toEqual([]);
    // Between the dialog and the click, another client comes that loses.
    await send('PUT', '/clients/latecomer', { can_detokenize: true });
    await button('Apply the policy').click();
    await expect.poll(outcome, PATIENCE).toContain('latecomer will see less');
    expect((await send('GET', '/policy')).status).toBe(404);
    await look();
    await expect.poll(dialogText, PATIENCE).toContain('latecomer will see less');
    await button('Apply the policy').click();
    await expect.poll(outcome, PATIENCE).toContain('Version 1 is in force');
    expect((await send('GET', '/policy')).body.version).toBe(1);
    // Before a policy is there, the browser reports the 404 of each look for one.
    const problems = tab.errors.splice(0).filter((one) => !one.includes('404'));
    expect(problems).toEqual([expect.stringContaining('409')]);
    await button('Close').click();
  });

  test('start from the policy in force, and clear nothing that is typed', async () => {
    const field = dialog().getByLabel('Policy');
    const again = async () => {
      await button('Cancel').click();
      await begin('Apply a policy…');
      return field.inputValue();
    };
    await begin('Apply a policy…');
    const { body } = await send('GET', '/policy');
    expect(await field.inputValue()).toBe(body.document);
    const document = `${body.document}# Seen.\n`;
    await send('PUT', '/policy', { document, confirmed: ['*'] });
    expect(await again()).toBe(document);
    await field.fill('version: 1');
    expect(await again()).toBe('version: 1');
    await button('Look what changes').click();
    await expect.poll(dialogText, PATIENCE).toContain('will see more');
    await button('Apply the policy').click();
    await expect.poll(outcome, PATIENCE).toContain('Version 3 is in force');
  });

  /** Version 1 lets the value pass, until version 3 is in force on the node. */
  const tokenOf = async (value: string) => {
    let token = value;
    const isToken = async () => {
      token = (await call(service, 'tokenize', { value })).body.data.value;
      return token !== value;
    };
    await until(isToken, `a token of ${value}`);
    return token;
  };

  test('forget values and tokens, as many as the dialog says', async () => {
    const [first, second] = [await tokenOf('Ann Lee'), await tokenOf('Bob Ray')];
    const { body } = await send('GET', '/clients/first');
    await go(`client/${body.client_id}`, 'Forget values…');
    await begin('Forget values…');
    await dialog().getByLabel('Values, one a line').fill('Ann Lee\nNobody');
    await dialog().getByLabel('Tokens, one a line').fill(second);
    await button('Look what is known').click();
    await expect.poll(dialogText, PATIENCE).toContain('Forget 2 values');
    expect(await dialogText()).toContain('values[1]');
    expect(await dialogText()).toContain('Not searched: tokens that no version');
    expect((await call(service, 'detokenize', { first, second })).status).toBe(200);
    await button('Forget 2 values').click();
    await expect.poll(outcome, PATIENCE).toContain('Forgotten: 2.');
    for (const token of [first, second])
      expect((await call(service, 'detokenize', { token })).status).toBe(400);
    await button('Close').click();
  });

  /** Serves a page of an attacker, on the same host: its requests have the cookie. */
  async function attacker(): Promise<Server> {
    const server = createServer((_, response) => {
      response.setHeader('Content-Type', 'text/html').end('<!doctype html><title>game</title>');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return server;
  }

  test('are not for a page of another origin, although its requests have the cookie', async () => {
    const token = await tokenOf('Cleo Dee');
    const server = await attacker();
    const { port } = server.address() as AddressInfo;
    const other = await tab.page.context().newPage();
    await other.goto(`http://127.0.0.1:${port}/`);
    const attack = async (path: string, init: object) =>
      other.evaluate(
        async ([url, sent]) =>
          fetch(url as string, { credentials: 'include', ...(sent as RequestInit) }).then(
            ({ type, status }) => `${type} ${status}`,
            () => 'blocked',
          ),
        [service.opsUrl + path, init] as const,
      );
    const body = JSON.stringify({ tokens: [token] });
    const json = { 'content-type': 'application/json' };
    for (const init of [
      { method: 'POST', mode: 'no-cors', body },
      { method: 'POST', mode: 'cors', headers: json, body },
    ]) {
      expect(await attack('/admin/v1/forget', init)).toMatch(/^(opaque 0|blocked)$/);
      expect(await attack('/console/admin/ticket', init)).toMatch(/^(opaque 0|blocked)$/);
    }
    expect(await attack('/admin/v1/clients', { mode: 'no-cors' })).toMatch(/^(opaque 0|blocked)$/);
    // A form, whose answer would be the page.
    await other.setContent(
      `<form method="post" action="${service.opsUrl}/admin/v1/keyring/rotate" enctype="text/plain"><button>Play</button></form>`,
    );
    const sent = other.waitForRequest(/rotate$/);
    await other.getByRole('button').click();
    expect((await (await sent).allHeaders()).cookie).toContain('standin_admin=');
    await other.waitForURL(/rotate$/);
    expect(await other.textContent('body')).toContain('unauthorized');
    await other.close();
    server.close();
    expect((await call(service, 'detokenize', { token })).status).toBe(200);
    expect((await send('GET', '/keyring')).headers.etag).toBe('"1"');
  });

  test('that were recorded cannot be sent again, during the session or after it', async () => {
    const recorded: Request[] = [];
    tab.page.on('request', (request) => {
      if (request.url().includes('/admin/v1/') && request.method() !== 'GET')
        recorded.push(request);
    });
    await begin('Issue an API key…');
    await button('Issue the API key').click();
    const shown = dialog().getByLabel('API key', { exact: true });
    await shown.waitFor();
    const keys = async () => (await send('GET', '/api-keys')).body.api_keys.length;
    const before = await keys();
    const [sent] = recorded;
    const headers = await sent!.allHeaders();
    expect(headers.cookie).toContain('standin_admin=');
    const replay = async (more: Record<string, string> = {}) => {
      const all = Object.entries({ ...headers, ...more }).filter(([name]) => !name.startsWith(':'));
      const body = sent!.postData() ?? '';
      const { status, text } = await ask(sent!.url(), 'POST', Object.fromEntries(all), body);
      return [status, JSON.parse(text).error];
    };
    expect(await replay()).toEqual([403, 'cross_origin']);
    expect(await replay({ 'standin-ticket': 'x'.repeat(32) })).toEqual([403, 'cross_origin']);
    // A ticket that nobody has used yet ends with its session.
    const page = { ...headers, 'content-length': '0' };
    const own = Object.fromEntries(Object.entries(page).filter(([name]) => !name.startsWith(':')));
    const fresh = await ask(`${service.opsUrl}/console/admin/ticket`, 'POST', own);
    const { ticket } = JSON.parse(fresh.text);
    await button('Close').click();
    await button('Sign out').click();
    await button('Sign in to act').waitFor();
    expect(await replay({ 'standin-ticket': ticket })).toEqual([401, 'unauthorized']);
    expect(await keys()).toBe(before);
  });

  test('have their lines in the audit log, with the sign-in', async () => {
    const { lines } = readAudit(auditFile);
    const acts = lines.filter((one) => one.event === 'admin' && one.outcome === 'success');
    const names = new Set(acts.map(({ act }) => act));
    const expected = [
      'session.begin',
      'client.put',
      'client.update',
      'api_key.issue',
      'api_key.revoke',
    ];
    expect([...names]).toEqual(expect.arrayContaining([...expected, 'policy.apply', 'forget']));
    for (const { admin: name } of acts) expect(name).toBe('terraform');
    await closeFaultless(tab);
  });
});
