import { useState } from 'preact/hooks';
import { feed } from './feed.ts';
import { Field } from './parts.tsx';
import { ADMIN_PATHS, type AdminSessionShown, PATHS, type SignedIn } from './protocol.ts';
import { ask, type Refused, recall, remember, type SessionName, send } from './send.ts';

const SESSIONS = {
  console: {
    path: PATHS.session,
    label: 'OPS_TOKEN',
    note: 'OPS_TOKEN is set where the service is started: in its environment or its .env file.',
  },
  admin: {
    path: ADMIN_PATHS.session,
    label: 'Admin token',
    note: 'Yours in ADMIN_TOKEN, with or without your name. You are signed out after an hour.',
  },
} as const;

/** Exchanges a token for a session, to look or to act. The page never keeps the token. */
export function SignIn({ session }: { session: SessionName }) {
  const { path, label, note } = SESSIONS[session];
  const [error, setError] = useState('');
  const signIn = async (form: HTMLFormElement) => {
    const token = String(new FormData(form).get('token'));
    try {
      const begun = await ask<Partial<SignedIn & AdminSessionShown>>(path, 'POST', { token });
      if (begun.page_secret !== undefined) remember(session, begun.page_secret);
      if (begun.name === undefined) return feed.reconnect();
      feed.admin = begun.name;
      feed.changed();
    } catch (refused) {
      setError((refused as Refused).message);
      form.querySelector('input')!.focus();
    }
  };
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    void signIn(event.currentTarget as HTMLFormElement);
  };
  return (
    <form onSubmit={submit}>
      <Field
        label={label}
        {...{ note, error }}
        name="token"
        type="password"
        autocomplete="current-password"
        required
        autofocus
      />
      <button class="primary" type="submit">
        Sign in
      </button>
    </form>
  );
}

/** Asks who is signed in to act, after the page was loaded again. */
export async function loadAdmin(): Promise<void> {
  const { name } = await ask<AdminSessionShown>(ADMIN_PATHS.session).catch(() => ({ name: null }));
  feed.admin = name;
  feed.changed();
}

export async function signOut(): Promise<void> {
  // Who may not look cannot end the other session any more.
  for (const name of ['admin', 'console'] as const) {
    if (recall(name) === null) continue;
    await send(SESSIONS[name].path, { method: 'DELETE' }).catch(() => undefined);
    remember(name, null);
    if (name === 'console') feed.signedOut();
  }
  feed.admin = null;
  feed.changed();
}
