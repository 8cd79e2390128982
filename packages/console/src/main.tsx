import { Component, type ComponentType, render } from 'preact';
import { useEffect } from 'preact/hooks';
import { Client } from './client.tsx';
import { Clients } from './clients.tsx';
import { feed } from './feed.ts';
import { duration } from './format.ts';
import { Header } from './header.tsx';
import { databaseAdvice } from './health.ts';
import { Overview } from './overview.tsx';
import { type Children, Quiet } from './parts.tsx';
import { Playground } from './playground.tsx';
import { Reference } from './reference.tsx';
import { Requests } from './requests.tsx';
import { loadAdmin, SignIn } from './sign-in.tsx';
import { Vault } from './vault.tsx';

/**
 * The route is the part of the address after `#/`, up to the next slash, and the id the part after
 * it. A view with a parent is led to by a link of the parent, the others by one of the header.
 */
type ViewOfPage = {
  readonly route: string;
  readonly title: string;
  readonly Body: ComponentType<{ id: string }>;
  readonly parent?: string;
};

const VIEWS: readonly ViewOfPage[] = [
  { route: '', title: 'Overview', Body: Overview },
  { route: 'requests', title: 'Requests', Body: Requests },
  { route: 'clients', title: 'Clients', Body: Clients },
  { route: 'client', title: 'Client', Body: Client, parent: 'clients' },
  { route: 'vault', title: 'Vault & keys', Body: Vault },
  { route: 'playground', title: 'Playground', Body: Playground },
  { route: 'reference', title: 'API reference', Body: Reference },
];
const LINKS = VIEWS.filter(({ parent }) => parent === undefined);

/** The views that were visible since the sign-in. They keep what was typed. */
const opened = new Set<ViewOfPage>();
/** Version of the service that served this page. */
let version: string | undefined;

/** A hidden view stays as it was. */
class View extends Component<{ isShown: boolean; children: Children }> {
  override shouldComponentUpdate({ isShown }: { isShown: boolean }): boolean {
    return isShown || this.props.isShown;
  }

  #shown: Children;

  override render() {
    const { isShown, children } = this.props;
    if (isShown) this.#shown = children;
    return (
      <div class="view" hidden={!isShown}>
        {this.#shown}
      </div>
    );
  }
}

function Page() {
  const { link, state } = feed;
  const [route, id = ''] = location.hash.replace(/^#\/?/, '').split('/');
  const current = VIEWS.find((view) => view.route === route) ?? VIEWS[0]!;
  const isSignedOut = link === 'signed_out';
  if (isSignedOut) opened.clear();
  else opened.add(current);
  document.body.dataset.link = link;
  document.title = `${isSignedOut ? 'Sign in' : current.title} · Standin`;
  useEffect(() => {
    if (state?.hasAdmin) void loadAdmin();
  }, [state?.hasAdmin]);
  return (
    <>
      <button
        type="button"
        class="primary unseen"
        onClick={() => document.getElementById('main')!.focus()}
      >
        Skip to the content
      </button>
      <Header links={LINKS} route={current.parent ?? current.route} />
      <main id="main" tabIndex={-1}>
        <Banner />
        {isSignedOut && (
          <section class="card sign-in">
            <h1>Sign in</h1>
            <SignIn session="console" />
          </section>
        )}
        {[...opened].map((view) => (
          <View key={view.route} isShown={view === current}>
            <view.Body id={id} />
          </View>
        ))}
      </main>
    </>
  );
}

/** Says that the service or its database is away, or that the service is newer than this page. */
function Banner() {
  const { link, state, silenceMs } = feed;
  version ??= state?.version;
  const isAway = link === 'away';
  const isOld = state !== null && state.version !== version;
  const advice = state === null || link === 'signed_out' ? undefined : databaseAdvice(state);
  if (!isAway && !isOld && advice === undefined) return null;
  const since = state === null ? '' : ` The data shown is ${duration(silenceMs)} old.`;
  const old = `The service is now version ${state?.version}; this page is version ${version}.`;
  const again = () => (isAway ? feed.reconnect() : location.reload());
  return (
    <div class="banner">
      {isAway ? `Cannot reach the service: trying again.${since}` : isOld ? old : advice}
      {(isAway || isOld) && <Quiet name={isAway ? 'Try now' : 'Reload'} click={again} />}
    </div>
  );
}

function draw(): void {
  if (!document.hidden) render(<Page />, document.getElementById('page')!);
}

feed.changed = draw;
addEventListener('hashchange', draw);
document.addEventListener('visibilitychange', draw);
draw();
feed.start();
