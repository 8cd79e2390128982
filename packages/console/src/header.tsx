import { useEffect, useState } from 'preact/hooks';
import { feed, type Link } from './feed.ts';
import { duration } from './format.ts';
import { checksOf, type Level, worstOf } from './health.ts';
import { Badge, Dialog } from './parts.tsx';
import { recall } from './send.ts';
import { SignIn, signOut } from './sign-in.tsx';
import { chooseTheme, chosenTheme, THEMES } from './theme.ts';

const LEVELS: Record<Link, Level> = {
  loading: 'warning',
  live: 'good',
  stale: 'warning',
  away: 'bad',
  signed_out: 'warning',
};

/** Of changes of state, not of the passing seconds. */
const SPOKEN: Partial<Record<Link, string>> = {
  live: 'Live.',
  stale: 'Stale: no data arrives from the service.',
  away: 'Cannot reach the service: trying again.',
};

interface HeaderProps {
  links: readonly { readonly route: string; readonly title: string }[];
  route: string;
  changed: () => void;
}

/** The top of every view: version, health, connection, links to the views, and who is signed in. */
export function Header({ links, route, changed }: HeaderProps) {
  const { state, link, nowMs } = feed;
  const health = state && worstOf(checksOf(state, nowMs));
  const isCurrent = link !== 'stale' && link !== 'away';
  return (
    <header class="top">
      <span class="brand">
        <i class="mark" aria-hidden="true" />
        Standin
      </span>
      <span class="version">{state?.version}</span>
      <nav aria-label="Views" hidden={link === 'signed_out'}>
        {links.map((one) => (
          <a
            key={one.route}
            href={`#/${one.route}`}
            aria-current={one.route === route ? 'page' : undefined}
          >
            {one.title}
          </a>
        ))}
      </nav>
      <span class="states">
        {health && (
          <Badge level={isCurrent ? health.level : 'neutral'}>
            {isCurrent ? health.text : `Was: ${health.text}`}
          </Badge>
        )}
        <Badge level={LEVELS[link]} icon={link === 'live' ? 'live' : LEVELS[link]}>
          {linkText()}
        </Badge>
      </span>
      <select
        aria-label="Theme"
        value={chosenTheme()}
        onChange={({ currentTarget }) => {
          chooseTheme(currentTarget.value);
          changed();
        }}
      >
        {Object.entries(THEMES).map(([value, name]) => (
          <option key={value} value={value}>
            {name}
          </option>
        ))}
      </select>
      <Session />
      <p class="unseen" role="status">
        {`${SPOKEN[link] ?? ''}${health ? ` ${health.text}.` : ''}`}
      </p>
    </header>
  );
}

function linkText(): string {
  const { link, silenceMs } = feed;
  if (link === 'stale') return `Stale since ${duration(silenceMs)}`;
  const texts = {
    loading: 'Loading',
    live: 'Live',
    away: 'No connection',
    signed_out: 'Signed out',
  };
  return texts[link];
}

/** Who is signed in, with the way in and out. */
function Session() {
  const { admin, link, state } = feed;
  const [isOpen, setOpen] = useState(false);
  const close = () => setOpen(false);
  useEffect(close, [admin, link === 'signed_out']);
  if (link === 'signed_out') return null;
  return (
    <span class="states">
      {admin !== null && (
        <span class="note" title="The audit log has every act.">
          Signed in as {admin}
        </span>
      )}
      {admin === null && state?.hasAdmin && (
        <button type="button" class="quiet" onClick={() => setOpen(true)}>
          Sign in to act
        </button>
      )}
      {(admin !== null || recall('console') !== null) && (
        <button type="button" class="quiet" onClick={() => void signOut()}>
          Sign out
        </button>
      )}
      {isOpen && (
        <Dialog title="Sign in to act" close={close}>
          <SignIn session="admin" />
        </Dialog>
      )}
    </span>
  );
}
