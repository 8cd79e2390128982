import { AdminView } from './admin-view.ts';
import { ClientView } from './client-view.ts';
import { ClientsView } from './clients-view.ts';
import { el, setText } from './dom.ts';
import { Feed } from './feed.ts';
import { duration } from './format.ts';
import { Header } from './header.ts';
import { databaseAdvice } from './health.ts';
import { Overview } from './overview.ts';
import { PlaygroundView } from './playground-view.ts';
import { ReferenceView } from './reference-view.ts';
import { RequestsView } from './requests-view.ts';
import { SignIn, signOut } from './sign-in.ts';
import { startTheme } from './theme.ts';
import { VaultView } from './vault-view.ts';
import type { View } from './view.ts';

const feed: Feed = new Feed(update);
const views: readonly View[] = [
  new Overview(),
  new RequestsView(),
  new ClientsView(),
  new ClientView(),
  new VaultView(),
  new PlaygroundView(() => feed.signedOut()),
  new AdminView(),
  new ReferenceView(),
];
const header = new Header(views, redraw, () => void signOut().then(() => feed.signedOut()));
const signIn = new SignIn(() => feed.reconnect());
const notice = el('span');
const act = el('button', {
  type: 'button',
  class: 'quiet',
  click: () => (act.value === 'reload' ? location.reload() : feed.reconnect()),
});
const banner = el('div', { class: 'banner', hidden: true }, notice, act);
/** Version of the service that served this page. */
let version: string | undefined;

/** The view that the address names, or else the first view. */
function current(): View {
  const [route] = location.hash.replace(/^#\/?/, '').split('/');
  return views.find((view) => view.route === route) ?? views[0]!;
}

function update(): void {
  const view = current();
  const { link } = feed;
  const isSignedOut = link === 'signed_out';
  document.body.dataset.link = link;
  header.update(feed, view.parent ?? view.route);
  signIn.show(isSignedOut);
  for (const one of views) one.element.hidden = isSignedOut || one !== view;
  showNotice();
  if (!isSignedOut) view.update(feed);
  const title = isSignedOut ? 'Sign in' : view.title;
  document.title = `${title} · Standin`;
}

/** Shows that the service or its database is away, or that the service is newer than this page. */
function showNotice(): void {
  const { link, state, silenceMs } = feed;
  version ??= state?.version;
  const isAway = link === 'away';
  const isOld = state !== null && state.version !== version;
  const advice = state === null || link === 'signed_out' ? undefined : databaseAdvice(state);
  banner.hidden = !isAway && !isOld && advice === undefined;
  act.hidden = !isAway && !isOld;
  act.value = isAway ? 'again' : 'reload';
  setText(act, isAway ? 'Try now' : 'Reload');
  if (isAway) {
    const since = state === null ? '' : ` The data shown is ${duration(silenceMs)} old.`;
    setText(notice, `Cannot reach the service: trying again.${since}`);
  } else if (isOld) {
    setText(
      notice,
      `The service is now version ${state.version}; this page is version ${version}.`,
    );
  } else if (advice !== undefined) {
    setText(notice, advice);
  }
}

function redraw(): void {
  for (const view of views) view.redraw();
}

startTheme(redraw);
const main = el('main', { id: 'main', tabindex: -1 }, banner, signIn.element);
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
