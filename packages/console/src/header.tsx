import { useEffect, useState } from 'preact/hooks';
import { feed, type Link } from './feed.ts';
import { duration } from './format.ts';
import { checksOf, type Level, worstOf } from './health.ts';
import { Badge, Dialog, Quiet } from './parts.tsx';
import { recall } from './send.ts';
import { SignIn, signOut } from './sign-in.tsx';

/** Level and words of the connection, and what is spoken: no passing seconds. */
const LINKS: Record<Link, readonly [Level | 'live', string, string]> = {
  loading: ['warning', 'Loading', ''],
  live: ['live', 'Live', 'Live.'],
  stale: ['warning', 'Stale since', 'Stale: no data arrives from the service.'],
  away: ['bad', 'No connection', 'Cannot reach the service: trying again.'],
  signed_out: ['warning', 'Signed out', ''],
};

type Links = readonly { readonly route: string; readonly title: string }[];

/** The top of every view: version, health, connection, links to the views, and who is signed in. */
export function Header({ links, route }: { links: Links; route: string }) {
  const { state, link, nowMs, silenceMs } = feed;
  const health = state && worstOf(checksOf(state, nowMs));
  const isPast = link === 'stale' || link === 'away';
  const [level, words, spoken] = LINKS[link];
  return (
    <header class="top">
      <b class="inline">
        <img src="/assets/icon.svg" alt="" width="18" height="18" />
        Standin
      </b>
      <span class="note">{state?.version}</span>
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
      <span class="inline">
        {health && (
          <Badge level={isPast ? 'neutral' : health.level}>
            {isPast ? `Was: ${health.text}` : health.text}
          </Badge>
        )}
        <Badge level={level}>{link === 'stale' ? `${words} ${duration(silenceMs)}` : words}</Badge>
      </span>
      {link !== 'signed_out' && <Session />}
      <p class="unseen" role="status">
        {health ? `${spoken} ${health.text}.` : spoken}
      </p>
    </header>
  );
}

/** Who is signed in, with the way in and out. */
function Session() {
  const { admin, state } = feed;
  const [isOpen, setOpen] = useState(false);
  const close = () => setOpen(false);
  useEffect(close, [admin]);
  return (
    <span class="inline">
      {admin !== null && (
        <span class="note" title="The audit log has every act.">
          Signed in as {admin}
        </span>
      )}
      {admin === null && state?.hasAdmin && (
        <Quiet name="Sign in to act" click={() => setOpen(true)} />
      )}
      {(admin ?? recall('console')) !== null && <Quiet name="Sign out" click={signOut} />}
      {isOpen && (
        <Dialog title="Sign in to act" close={close}>
          <SignIn session="admin" />
        </Dialog>
      )}
    </span>
  );
}
