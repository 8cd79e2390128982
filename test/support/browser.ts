import { existsSync } from 'node:fs';
import axe from 'axe-core';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';

const PLACES = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

/** Where Chromium is installed; undefined: tests that need it are skipped. */
export const chromiumBin = PLACES.find((path) => existsSync(path));

/** It asks nobody but the page that it is sent to. */
const ARGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

export function launch(): Promise<Browser> {
  return chromium.launch({ executablePath: chromiumBin!, args: ARGS });
}

/** A page in a browser profile of its own, and what it did that it should not. */
export class Tab {
  readonly page: Page;
  /** Errors in its console, among them breaches of the content security policy. */
  readonly errors: string[] = [];
  /** Addresses of other hosts that it asked. */
  readonly foreign: string[] = [];

  private constructor(page: Page, origin: string) {
    this.page = page;
    page.on('pageerror', (error) => this.errors.push(String(error)));
    page.on('console', (message) => {
      if (message.type() === 'error') this.errors.push(message.text());
    });
    page.on('request', (request) => {
      const url = request.url();
      if (!url.startsWith(`${origin}/`) && !url.startsWith('data:')) this.foreign.push(url);
    });
  }

  static async open(
    browser: Browser,
    url: string,
    options: BrowserContextOptions = {},
  ): Promise<Tab> {
    const context = await browser.newContext({
      viewport: { width: 1280, height: 900 },
      ...options,
    });
    const tab = new Tab(await context.newPage(), new URL(url).origin);
    await tab.page.goto(url);
    return tab;
  }

  /** What axe finds against WCAG 2.2 AA and good practice, in short. */
  async accessibilityProblems(): Promise<string[]> {
    await this.page.evaluate(axe.source);
    const { violations } = (await this.page.evaluate('axe.run()')) as axe.AxeResults;
    return violations.flatMap(({ id, nodes }) =>
      nodes.map((node) => `${id}: ${node.html.slice(0, 160)} ${node.failureSummary ?? ''}`),
    );
  }

  /** How much wider the page is than the window, in px. */
  overflow(): Promise<number> {
    return this.page.evaluate('document.documentElement.scrollWidth - innerWidth');
  }

  close(): Promise<void> {
    return this.page.context().close();
  }
}
