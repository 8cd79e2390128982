import { existsSync } from 'node:fs';
import axe from 'axe-core';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest';
import type { Service } from './service.ts';

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
    const tab = new Tab(await context.newPage(), new URL(url).origin);
    await tab.page.goto(url);
    return tab;
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

interface OpenConsole<S> {
  readonly browser: Browser;
  readonly service: S;
  /** Of the test. */
  readonly tab: Tab;
}

/** A service and a browser for all tests of a block, and a tab for each, which ends faultless. */
export function openConsole<S extends Service>(
  start: () => Promise<S>,
  route = '',
): OpenConsole<S> {
  const at = {} as { browser: Browser; service: S; tab: Tab };
  beforeAll(async () => {
    at.service = await start();
    at.browser = await launch();
  });
  beforeEach(async () => {
    at.tab = await Tab.open(at.browser, `${at.service.opsUrl}/${route}`);
  });
  afterEach(() => closeFaultless(at.tab));
  afterAll(async () => {
    await at.browser?.close();
    await at.service?.stop();
    at.service?.place.remove();
  });
  return at;
}

/** The habits of a client: rate, share of tokenize, and kind of values. */
interface Habit {
  readonly name: string;
  readonly options: readonly string[];
  readonly callers: number;
  readonly tokenizes: number;
  readonly values: number;
}

/** The typical clients of a shop. */
export const HABITS: readonly Habit[] = [
  { name: 'Checkout', options: ['--rate-limit', '400'], callers: 6, tokenizes: 0.7, values: 4 },
  { name: 'CRM sync', options: ['--rate-limit', '200'], callers: 3, tokenizes: 0.5, values: 6 },
  { name: 'Support desk', options: ['--rate-limit', '50'], callers: 1, tokenizes: 0, values: 2 },
  { name: 'Fraud screening', options: [], callers: 3, tokenizes: 0.1, values: 2 },
  {
    name: 'Data warehouse',
    options: ['--rate-limit', '30'],
    callers: 4,
    tokenizes: 1,
    values: 12,
  },
];

const WORDS = ['ann', 'bea', 'cleo', 'dora', 'emil', 'finn', 'gus', 'hana', 'ines', 'jon'];
const TOKENS_KEPT = 2_000;

/** Callers with these habits, in varying numbers, until `stop`. */
export class Business {
  readonly #url: string;
  readonly #callers: Promise<void>[];
  readonly #tokens: string[] = [];
  #isOver = false;

  /** @param apiKeys one for each habit, in the same order */
  constructor(url: string, apiKeys: readonly string[]) {
    this.#url = url;
    this.#callers = HABITS.flatMap((habit, i) =>
      Array.from({ length: habit.callers }, (_, n) => this.#run(habit, apiKeys[i]!, n)),
    );
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#callers);
  }

  async #run(habit: Habit, apiKey: string, caller: number): Promise<void> {
    while (!this.#isOver) {
      const tide = 0.5 + 0.5 * Math.sin(performance.now() / 19_000 + caller);
      await new Promise((resolve) => setTimeout(resolve, 12 + 90 * tide * Math.random()));
      if (Math.random() < habit.tokenizes || this.#tokens.length < 50) {
        const data = fields(habit.values, () => `${pick(WORDS)}.${random(1e6)}@example.com`);
        const body = await this.#call('tokenize', data, apiKey);
        this.#tokens.push(...Object.values(body.data ?? {}));
        this.#tokens.splice(0, Math.max(0, this.#tokens.length - TOKENS_KEPT));
      } else {
        // Sometimes a mistyped token.
        const isOdd = Math.random() < 0.004;
        const data = fields(habit.values, () => (isOdd ? 'nobody_tok' : pick(this.#tokens)));
        await this.#call('detokenize', data, apiKey);
      }
    }
  }

  async #call(
    operation: 'tokenize' | 'detokenize',
    data: Record<string, string>,
    apiKey: string,
  ): Promise<{ data?: Record<string, string> }> {
    const response = await fetch(`${this.#url}/api/v1/${operation}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ data }),
    });
    return (await response.json()) as { data?: Record<string, string> };
  }
}

function fields(count: number, make: () => string): Record<string, string> {
  return Object.fromEntries(Array.from({ length: count }, (_, i) => [`field_${i}`, make()]));
}

function pick<T>(from: readonly T[]): T {
  return from[random(from.length)]!;
}

function random(below: number): number {
  return Math.floor(Math.random() * below);
}

/** Closes a page that had no error and asked no other host. */
export async function closeFaultless(tab: Tab): Promise<void> {
  const { errors, foreign } = tab;
  await tab.close();
  expect({ errors, foreign }).toEqual({ errors: [], foreign: [] });
}
