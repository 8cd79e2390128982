import { ClientsView } from './clients-view.ts';
import { el, setText } from './dom.ts';
import { Feed } from './feed.ts';
import { duration } from './format.ts';
import { Header } from './header.ts';
import { Overview } from './overview.ts';
import { Playground } from './playground.ts';
import { SignIn, signOut } from './sign-in.ts';
import { startTheme } from './theme.ts';
import { VaultView } from './vault-view.ts';
import type { View } from './view.ts';

const feed: Feed = new Feed(update);
const views: readonly View[] = [
  new Overview(),
  new VaultView(),
  new ClientsView(),
  new Playground(() => feed.signedOut()),
];
const header = new Header(views, redraw, () => void signOut().then(() => feed.signedOut()));
const sign_in = new SignIn(() => feed.reconnect());
const trouble = el('span');
const banner = el(
  'div',
  { class: 'banner', hidden: true },
  trouble,
  el('button', { type: 'button', class: 'quiet', click: () => feed.reconnect() }, 'Try now'),
);

/** The view of the address; an address that is none leads to the first. */
function current(): View {
  const route = location.hash.replace(/^#\/?/, '');
  return views.find((view) => view.route === route) ?? views[0]!;
}

function update(): void {
  const view = current();
  const { link } = feed;
  const is_signed_out = link === 'signed_out';
  document.body.dataset.link = link;
  header.update(feed, view.route);
  sign_in.show(is_signed_out);
  for (const one of views) one.element.hidden = is_signed_out || one !== view;
  banner.hidden = link !== 'away';
  if (link === 'away') setText(trouble, awayText());
  if (!is_signed_out) view.update(feed);
  const title = is_signed_out ? 'Sign in' : view.title;
  document.title = `${title} · Standin`;
}

function awayText(): string {
  const since = feed.state === null ? '' : ` What is shown is ${duration(feed.silence_ms)} old.`;
  return `Cannot reach the service: trying again.${since}`;
}

function redraw(): void {
  for (const view of views) view.redraw();
}

startTheme(redraw);
const main = el('main', { id: 'main', tabindex: -1 }, banner, sign_in.element);
main.append(...views.map(({ element }) => element));
const skip = el('a', { class: 'skip', href: '#main' }, 'Skip to the content');
skip.addEventListener('click', (event) => {
  event.preventDefault();
  main.focus();
});
document.body.replaceChildren(skip, header.element, main);
addEventListener('hashchange', update);
addEventListener('refresh', update);
document.addEventListener('visibilitychange', update);
update();
feed.start();
