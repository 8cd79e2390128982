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
const notice = el('span');
const act = el('button', {
  type: 'button',
  class: 'quiet',
  click: () => (act.value === 'reload' ? location.reload() : feed.reconnect()),
});
const banner = el('div', { class: 'banner', hidden: true }, notice, act);
/** Of the service that this page is of. */
let version: string | undefined;

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
  showNotice();
  if (!is_signed_out) view.update(feed);
  const title = is_signed_out ? 'Sign in' : view.title;
  document.title = `${title} · Standin`;
}

/** The page is away from its service, or older than it. */
function showNotice(): void {
  const { link, state, silence_ms } = feed;
  version ??= state?.version;
  const is_away = link === 'away';
  const is_old = state !== null && state.version !== version;
  banner.hidden = !is_away && !is_old;
  act.value = is_away ? 'again' : 'reload';
  setText(act, is_away ? 'Try now' : 'Reload');
  if (is_away) {
    const since = state === null ? '' : ` What is shown is ${duration(silence_ms)} old.`;
    setText(notice, `Cannot reach the service: trying again.${since}`);
  } else if (is_old) {
    setText(notice, `The service is version ${state.version} now, this page is of ${version}.`);
  }
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
