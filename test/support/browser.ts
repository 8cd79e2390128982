import { existsSync } from 'node:fs';
import axe from 'axe-core';
import {
  type Browser,
  type BrowserContextOptions,
  chromium,
  type Locator,
  type Page,
} from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest';
import type { Service } from './service.ts';

/** For what a busy machine shows late. */
const TIMEOUT_MS = 60_000;

const PLACES = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

/** The path of Chromium; undefined: tests that need Chromium are skipped. */
export const chromiumBin = PLACES.find((path) => existsSync(path));

/** Flags that keep Chromium from contacting its vendor. */
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

/** A page in its own browser profile, with a record of its faults. */
export class Tab {
  readonly page: Page;
  /** Errors in the browser's console, including violations of the content security policy. */
  readonly errors: string[] = [];
  /** Requests to other hosts. */
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
    context.setDefaultTimeout(TIMEOUT_MS);
    const tab = new Tab(await context.newPage(), new URL(url).origin);
    await tab.page.goto(url);
    return tab;
  }

  button(name: string): Locator {
    return this.page.getByRole('button', { name, exact: true });
  }

  row(text: string): Locator {
    return this.page.getByRole('row').filter({ hasText: text, visible: true });
  }

  async go(route: string): Promise<void> {
    await this.page.goto(`${new URL(this.page.url()).origin}/#/${route}`);
  }

  /** Waits until the page shows a text. */
  async shows(text: string | RegExp): Promise<void> {
    await this.page.getByText(text).filter({ visible: true }).first().waitFor();
  }

  /** A summary of axe's findings on WCAG 2.2 AA and best practices. */
  async accessibilityProblems(): Promise<string[]> {
    await this.page.evaluate(axe.source);
    const { violations } = (await this.page.evaluate('axe.run()')) as axe.AxeResults;
    return violations.flatMap(({ id, nodes }) =>
      nodes.map((node) => `${id}: ${node.html.slice(0, 160)} ${node.failureSummary ?? ''}`),
    );
  }

  /** The width of the page beyond the window, in px. */
  overflow(): Promise<number> {
    return this.page.evaluate('document.documentElement.scrollWidth - innerWidth');
  }

  /** What is wrong in light, in dark, and in windows of these widths. */
  async faults(...widths: readonly number[]): Promise<string[]> {
    const faults: string[] = [];
    for (const colorScheme of ['light', 'dark'] as const) {
      await this.page.emulateMedia({ colorScheme });
      faults.push(...(await this.accessibilityProblems()).map((one) => `${colorScheme}: ${one}`));
    }
    for (const width of widths) {
      await this.page.setViewportSize({ width, height: 740 });
      if ((await this.overflow()) > 0) faults.push(`wider than ${width} px`);
    }
    return faults;
  }

  close(): Promise<void> {
    return this.page.context().close();
  }
}

/** Waits until this is as the expectation says. */
export function eventually<T>(value: () => T) {
  return expect.poll(value, { timeout: TIMEOUT_MS });
}

interface ConsoleOptions {
  readonly route?: string;
  /** Whether all tests use one tab. */
  readonly isShared?: boolean;
  /** Errors of the browser that are no faults. */
  readonly expected?: RegExp;
}

/** A service and a browser for all tests of a block, and a tab for each, which ends faultless. */
export function openConsole<S extends Service>(
  start: () => Promise<S>,
  { route = '', isShared = false, expected }: ConsoleOptions = {},
) {
  const at = {} as { browser: Browser; service: S; tab: Tab; page: Page };
  beforeAll(async () => {
    at.service = await start();
    at.browser = await launch();
  });
  afterAll(async () => {
    await at.browser?.close();
    await at.service?.stop();
    at.service?.place.remove();
  });
  (isShared ? beforeAll : beforeEach)(async () => {
    at.tab = await Tab.open(at.browser, `${at.service.opsUrl}/${route}`);
    at.page = at.tab.page;
  });
  (isShared ? afterAll : afterEach)(async () => {
    const { errors, foreign } = at.tab;
    await at.tab.close();
    const faults = errors.filter((error) => !expected?.test(error));
    expect({ faults, foreign }).toEqual({ faults: [], foreign: [] });
  });
  return at;
}
