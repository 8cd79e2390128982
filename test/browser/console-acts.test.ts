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
    tab = await Tab.open(browser, `${service.opsUrl}/#/admin`);
  });
  afterAll(async () => {
    await browser?.close();
    await service?.stop();
    service?.place.remove();
  });

  const button = (name: string) => tab.page.getByRole('button', { name, exact: true });
  const form = (title: string) =>
    tab.page.locator('form.act').filter({ has: tab.page.getByRole('heading', { name: title }) });
  const act = async (title: string) => {
    await tab.page.getByRole('group', { name: 'Act' }).getByText(title, { exact: true }).click();
    return form(title);
  };
  const dialog = () => tab.page.getByRole('dialog');
  const outcome = (title: string) => () => form(title).getByRole('status').textContent();
  const signIn = async (token: string) => {
    await tab.page.getByLabel('Admin token').fill(token);
    const isAnswer = (response: Response) =>
      response.url().endsWith('/console/admin/session') && response.request().method() === 'POST';
    const answered = tab.page.waitForResponse(isAnswer);
    await button('Sign in to act').click();
    return (await answered).status();
  };
  const send = (method: string, path: string, body?: unknown) =>
    admin(service.opsUrl, method, path, body);

  test('are for who signs in with the right token, a wrong one says so, and guesses are slowed', async () => {
    await signIn('not the token');
    const problem = () => tab.page.getByRole('alert').allTextContents();
    await expect.poll(problem, PATIENCE).toContain('This is no ADMIN_TOKEN of this service.');
    expect(await form('Make a client').isVisible()).toBe(false);
    await until(async () => (await signIn('a guess')) === 429, 'the end of guesses');
    const slowed = 'Too many wrong tokens from this address. Wait a second.';
    await expect.poll(problem, PATIENCE).toContain(slowed);
    await until(async () => (await signIn(ADMIN_TOKEN)) === 200, 'the sign-in after a pause');
    // The browser reports the refused sign-ins, and nothing else.
    const errors = tab.errors.splice(0);
    expect(errors.filter((one) => !/\b(401|429)\b/.test(one))).toEqual([]);
    await expect.poll(() => form('Make a client').isVisible(), PATIENCE).toBe(true);
    expect(await tab.page.getByText('Signed in as terraform').count()).toBe(1);
    const [cookie] = (await tab.page.context().cookies()).filter(
      ({ name }) => name === 'standin_admin',
    );
    expect(cookie).toMatchObject({ httpOnly: true, sameSite: 'Strict', secure: false });
    const stored = await tab.page.evaluate('JSON.stringify([localStorage, sessionStorage])');
    expect(stored).not.toContain(ADMIN_TOKEN);
    await tab.page.reload();
    await expect.poll(() => form('Make a client').isVisible(), PATIENCE).toBe(true);
    // People paste what stands in ADMIN_TOKEN.
    await tab.page.getByRole('main').getByRole('button', { name: 'Sign out' }).click();
    await tab.page.getByLabel('Admin token').waitFor();
    expect(await signIn(`terraform:${ADMIN_TOKEN}`)).toBe(200);
    await expect.poll(() => form('Make a client').isVisible(), PATIENCE).toBe(true);
  });

  test('look right to everybody, one at a time', async () => {
    for (const title of await tab.page
      .getByRole('group', { name: 'Act' })
      .locator('label')
      .allTextContents()) {
      await act(title);
      expect(await tab.page.locator('form.act').count()).toBe(1);
      for (const theme of ['light', 'dark'] as const) {
        await tab.page.emulateMedia({ colorScheme: theme });
        expect(await tab.accessibilityProblems(), theme).toEqual([]);
      }
      await tab.page.setViewportSize({ width: 320, height: 740 });
      expect(await tab.overflow()).toBe(0);
      await tab.page.setViewportSize({ width: 1280, height: 900 });
    }
    // The browser reports that there is no policy to start from.
    expect(tab.errors.splice(0)).toEqual([expect.stringContaining('404')]);
  });

  test('make a client after a confirmation that names it, and nothing without', async () => {
    const make = await act('Make a client');
    await make.getByLabel('Tokenize', { exact: true }).uncheck();
    await make.getByLabel('Name').fill('nothing');
    await make.getByRole('button').click();
    await expect.poll(outcome('Make a client'), PATIENCE).toBe('Choose what it may do.');
    await make.getByLabel('Tokenize', { exact: true }).check();
    expect(await outcome('Make a client')()).toBe('');
    await make.getByLabel('Name').fill('<b>billing</b>');
    await make.getByLabel('Space').fill('tenant_a');
    await make.getByRole('button').click();
    await expect.poll(() => dialog().textContent(), PATIENCE).toContain('“<b>billing</b>”');
    expect(await dialog().textContent()).toContain('It may tokenize.');
    expect(await tab.accessibilityProblems()).toEqual([]);
    await button('Cancel').click();
    await expect.poll(outcome('Make a client'), PATIENCE).toBe('Nothing was done.');
    // Escape is no, too.
    await make.getByRole('button').click();
    await dialog().waitFor();
    await tab.page.keyboard.press('Escape');
    await expect.poll(outcome('Make a client'), PATIENCE).toBe('Nothing was done.');
    const named = encodeURIComponent('<b>billing</b>');
    expect((await send('GET', `/clients/${named}`)).status).toBe(404);
    await make.getByRole('button').click();
    await button('Make the client').click();
    await expect.poll(outcome('Make a client'), PATIENCE).toMatch(/^Made standin_[0-9a-f]{24}/);
    const { body } = await send('GET', `/clients/${named}`);
    const made = { can_tokenize: true, can_detokenize: false, can_lookup: false };
    expect(body).toMatchObject({ ...made, space: 'tenant_a' });
    await make.getByRole('button').click();
    await button('Make the client').click();
    await expect
      .poll(outcome('Make a client'), PATIENCE)
      .toBe('There is a client <b>billing</b> already.');
    expect(tab.errors.splice(0)).toEqual([expect.stringContaining('412')]);
  });

  test('issue an API key that works, show it once, and revoke it', async () => {
    const issue = await act('Issue an API key');
    const choices = (id: string) => tab.page.locator(`#${id} option`);
    const names = () => choices('admin-clients').evaluateAll((all) => all.map((one) => one.value));
    await expect.poll(names, PATIENCE).toContain('<b>billing</b>');
    await issue.getByLabel('Client').fill('<b>billing</b>');
    await issue.getByRole('button').click();
    await button('Issue the API key').click();
    const shown = issue.getByLabel('API key', { exact: true });
    await expect.poll(() => shown.count(), PATIENCE).toBe(1);
    expect(await issue.evaluate((one) => one.scrollWidth - one.clientWidth)).toBe(0);
    const apiKey = (await shown.textContent())!;
    expect((await call(service, 'tokenize', { a: 'b' }, apiKey)).status).toBe(200);
    const { body } = await send('GET', '/api-keys');
    const { api_key_id: id } = body.api_keys.at(-1);
    const revoke = await act('Revoke an API key');
    expect(await shown.count()).toBe(0);
    const chosen = tab.page.locator(`#admin-api-keys option[value="${id}"]`);
    await expect.poll(() => chosen.getAttribute('label'), PATIENCE).toMatch(/^<b>billing<\/b>, /);
    await revoke.getByLabel('API key id').fill(id);
    await revoke.getByRole('button').click();
    await expect.poll(() => dialog().textContent(), PATIENCE).toContain(`Revoke ${id} of “<b>`);
    await button('Revoke the API key').click();
    await expect.poll(outcome('Revoke an API key'), PATIENCE).toContain('is revoked');
    await until(
      async () => (await call(service, 'tokenize', { a: 'b' }, apiKey)).status === 401,
      'the end of the API key',
    );
    await revoke.getByRole('button').click();
    await expect.poll(outcome('Revoke an API key'), PATIENCE).toContain('revoked already');
  });

  test('disable a client and enable it again, as the dialog says', async () => {
    const { body } = await send('POST', '/clients/%3Cb%3Ebilling%3C%2Fb%3E/api-keys', {});
    const status = async () => (await call(service, 'tokenize', { a: 'b' }, body.api_key)).status;
    const change = await act('Disable or enable a client');
    await change.getByLabel('Client').fill('<b>billing</b>');
    for (const [verb, after] of [
      ['Disable', 401],
      ['Enable', 200],
    ] as const) {
      await change.getByRole('button').click();
      const title = `${verb} “<b>billing</b>”?`;
      await expect.poll(() => dialog().textContent(), PATIENCE).toContain(title);
      expect(await status()).not.toBe(after);
      await button(`${verb} the client`).click();
      const done = `is ${verb.toLowerCase()}d`;
      await expect.poll(outcome('Disable or enable a client'), PATIENCE).toContain(done);
      await until(async () => (await status()) === after, `a client after ${verb}`);
    }
    await change.getByLabel('Client').fill('nobody');
    await change.getByRole('button').click();
    const missing = 'There is no client nobody';
    await expect.poll(outcome('Disable or enable a client'), PATIENCE).toContain(missing);
    expect(tab.errors.splice(0)).toEqual([expect.stringContaining('404')]);
  });

  test('apply a policy after a dialog that says what it lets out and takes away', async () => {
    const apply = await act('Apply a policy');
    const field = apply.getByLabel('Policy');
    await field.fill('version: 1\nfields:\n  a: nothing\nelsewhere: pass\n');
    await apply.getByRole('button').click();
    await expect.poll(outcome('Apply a policy'), PATIENCE).toMatch(/^3:6: /);
    const document = 'version: 1\nfields:\n  a: email\nelsewhere: pass\nrights:\n  Nobody: {}\n';
    await field.fill(document.replace('{}', '{ "*": full }'));
    await apply.getByRole('button').click();
    await expect.poll(() => dialog().textContent(), PATIENCE).toContain('+ field a: email');
    const { body: check } = await send('POST', '/policy/check', {
      document: await field.inputValue(),
    });
    expect(check.consequences).toHaveLength(3);
    for (const one of check.consequences) expect(await dialog().textContent()).toContain(one);
    expect(await tab.accessibilityProblems()).toEqual([]);
    // Between the dialog and the click, another client comes that loses.
    await send('PUT', '/clients/latecomer', { can_detokenize: true });
    await button('Apply the policy').click();
    await expect.poll(outcome('Apply a policy'), PATIENCE).toContain('latecomer will see less');
    expect((await send('GET', '/policy')).status).toBe(404);
    await apply.getByRole('button').click();
    await expect.poll(() => dialog().textContent(), PATIENCE).toContain('latecomer will see less');
    await button('Apply the policy').click();
    await expect.poll(outcome('Apply a policy'), PATIENCE).toContain('Version 1 is in force');
    expect((await send('GET', '/policy')).body.version).toBe(1);
    // Before a policy is there, the browser reports the 404 of each look for one.
    const problems = tab.errors.splice(0).filter((one) => !one.includes('404'));
    expect(problems).toEqual([expect.stringContaining('409')]);
  });

  test('start from the policy in force, and clear nothing that is typed', async () => {
    const field = form('Apply a policy').getByLabel('Policy');
    const again = async () => {
      await act('Forget');
      const read = tab.page.waitForResponse(`${service.opsUrl}/admin/v1/policy`);
      await act('Apply a policy');
      await (await read).finished();
    };
    await field.fill('');
    await again();
    const { body } = await send('GET', '/policy');
    await expect.poll(() => field.inputValue(), PATIENCE).toBe(body.document);
    const document = `${body.document}# Seen.\n`;
    await send('PUT', '/policy', { document, confirmed: ['*'] });
    await again();
    await expect.poll(() => field.inputValue(), PATIENCE).toBe(document);
    await field.fill('version: 1');
    await again();
    expect(await field.inputValue()).toBe('version: 1');
    await field.fill('version: 1\n');
    await form('Apply a policy').getByRole('button').click();
    await expect.poll(() => dialog().textContent(), PATIENCE).toContain('will see more');
    await button('Apply the policy').click();
    await expect.poll(outcome('Apply a policy'), PATIENCE).toContain('Version 3 is in force');
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
    const forget = await act('Forget');
    await forget.getByLabel('Values, one a line').fill('Ann Lee\nNobody');
    await forget.getByLabel('Tokens, one a line').fill(second);
    await forget.getByRole('button').click();
    await expect.poll(() => dialog().textContent(), PATIENCE).toContain('Forget 2 values');
    expect(await dialog().textContent()).toContain('values[1]');
    expect(await dialog().textContent()).toContain('Not searched: tokens that no version');
    expect((await call(service, 'detokenize', { first, second })).status).toBe(200);
    await button('Forget 2 values').click();
    await expect.poll(outcome('Forget'), PATIENCE).toContain('Forgotten: 2.');
    for (const token of [first, second])
      expect((await call(service, 'detokenize', { token })).status).toBe(400);
    expect(await forget.getByLabel('Values, one a line').inputValue()).toBe('');
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
    const issue = await act('Issue an API key');
    await issue.getByLabel('Client').fill('first');
    await button('Issue…').click();
    await button('Issue the API key').click();
    const shown = issue.getByLabel('API key', { exact: true });
    await expect.poll(() => shown.count(), PATIENCE).toBe(1);
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
    await tab.page.getByRole('main').getByRole('button', { name: 'Sign out' }).click();
    await expect.poll(() => tab.page.getByLabel('Admin token').isVisible(), PATIENCE).toBe(true);
    expect(await shown.count()).toBe(0);
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
