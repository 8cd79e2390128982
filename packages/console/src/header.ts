import { levelIcon } from './badge.ts';
import { el, setChildren, setText } from './dom.ts';
import type { Feed, Link } from './feed.ts';
import { duration } from './format.ts';
import { checksOf, type Level, worstOf } from './health.ts';
import { recall } from './remembered.ts';
import { chooseTheme, chosenTheme } from './theme.ts';
import type { View } from './view.ts';

const LEVELS: Record<Link, Level> = {
  loading: 'warning',
  live: 'good',
  stale: 'warning',
  away: 'bad',
  signed_out: 'warning',
};

/** The top of every view: version, health, connection and links to the views. */
export class Header {
  readonly element: HTMLElement;
  readonly #version = el('span', { class: 'version' });
  readonly #health = el('span', { class: 'badge' });
  readonly #link = el('span', { class: 'badge link' });
  /** Screen readers announce changes of state, but not the passing seconds. */
  readonly #spoken = el('p', { class: 'unseen', role: 'status' });
  readonly #links: HTMLAnchorElement[];
  readonly #nav: HTMLElement;
  readonly #signOut: HTMLButtonElement;

  constructor(views: readonly View[], themed: () => void, signOut: () => void) {
    const linked = views.filter(({ parent }) => parent === undefined);
    this.#links = linked.map(({ route, title }) => el('a', { href: `#/${route}` }, title));
    this.#nav = el('nav', { 'aria-label': 'Views' }, ...this.#links);
    this.#signOut = el('button', { type: 'button', class: 'quiet', click: signOut }, 'Sign out');
    this.element = el(
      'header',
      { class: 'top' },
      el('span', { class: 'brand' }, el('i', { class: 'mark', 'aria-hidden': 'true' }), 'Standin'),
      this.#version,
      this.#nav,
      el('span', { class: 'states' }, this.#health, this.#link),
      themes(themed),
      this.#signOut,
      this.#spoken,
    );
  }

  update(feed: Feed, route: string): void {
    const { state, link } = feed;
    const isSignedOut = link === 'signed_out';
    this.#nav.hidden = isSignedOut;
    this.#signOut.hidden = isSignedOut || recall('console') === null;
    for (const one of this.#links) {
      const isCurrent = one.hash === `#/${route}`;
      if (isCurrent === one.hasAttribute('aria-current')) continue;
      if (isCurrent) one.setAttribute('aria-current', 'page');
      else one.removeAttribute('aria-current');
    }
    setText(this.#version, state === null ? '' : state.version);
    this.#health.hidden = state === null;
    const health = state === null ? null : worstOf(checksOf(state, feed.nowMs));
    const isCurrent = link !== 'stale' && link !== 'away';
    if (health !== null)
      show(
        this.#health,
        isCurrent ? health.level : 'neutral',
        isCurrent ? health.text : `Was: ${health.text}`,
      );
    show(this.#link, LEVELS[link], linkText(feed));
    setText(this.#spoken, `${spoken(link)}${health === null ? '' : ` ${health.text}.`}`);
  }
}

export function linkText({ link, silenceMs }: Feed): string {
  switch (link) {
    case 'loading':
      return 'Loading';
    case 'live':
      return 'Live';
    case 'stale':
      return `Stale since ${duration(silenceMs)}`;
    case 'away':
      return 'No connection';
    case 'signed_out':
      return 'Signed out';
  }
}

function spoken(link: Link): string {
  if (link === 'live') return 'Live.';
  if (link === 'stale') return 'Stale: no data arrives from the service.';
  return link === 'away' ? 'Cannot reach the service: trying again.' : '';
}

function show(element: HTMLElement, level: Level, text: string): void {
  if (!element.classList.contains(level)) {
    element.className = `badge ${level}`;
    setChildren(element, levelIcon(text === 'Live' ? 'live' : level), el('span'));
  }
  setText(element.lastElementChild!, text);
}

function themes(themed: () => void): HTMLElement {
  const select = el('select', {
    'aria-label': 'Theme',
    change: () => {
      chooseTheme(select.value);
      themed();
    },
  });
  const names = { system: 'System', light: 'Light', dark: 'Dark' };
  for (const [value, name] of Object.entries(names))
    select.append(el('option', { value, selected: value === chosenTheme() }, name));
  return select;
}
