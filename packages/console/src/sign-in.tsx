import { useState } from 'preact/hooks';
import { feed } from './feed.ts';
import { Field } from './parts.tsx';
import { ADMIN_PATHS, type AdminSessionShown, PATHS, type SignedIn } from './protocol.ts';
import { ask, type Refused, recall, remember, send } from './send.ts';

/** Path, label and note by session: to look, and to act. */
const SESSIONS = {
  console: [
    PATHS.session,
    'OPS_TOKEN',
    'OPS_TOKEN is set where the service is started: in its environment or its .env file.',
  ],
  admin: [
    ADMIN_PATHS.session,
    'Admin token',
    'Yours in ADMIN_TOKEN, with or without your name. You are signed out after an hour.',
  ],
} as const;

/** Exchanges a token for a session. The page never keeps the token. */
export function SignIn({ session }: { session: keyof typeof SESSIONS }) {
  const [path, label, note] = SESSIONS[session];
  const [error, setError] = useState('');
  const signIn = async (form: HTMLFormElement) => {
    const token = String(new FormData(form).get('token'));
    try {
      const begun = await ask<Partial<SignedIn & AdminSessionShown>>(path, 'POST', { token });
      if (begun.page_secret !== undefined) remember(session, begun.page_secret);
      if (session === 'console') feed.reconnect();
      else feed.setAdmin(begun.name!);
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
        {...{ label, note, error, name: 'token', type: 'password', required: true }}
        autocomplete="current-password"
        autofocus
      />
      <button type="submit" class="primary">
        Sign in
      </button>
    </form>
  );
}

/** Asks who is signed in to act, after the page was loaded again. */
export async function loadAdmin(): Promise<void> {
  const { name } = await ask<AdminSessionShown>(ADMIN_PATHS.session).catch(() => ({ name: null }));
  feed.setAdmin(name);
}

export async function signOut(): Promise<void> {
  // Who may not look any more could not end the session to act.
  for (const name of ['admin', 'console'] as const) {
    if (recall(name) === null) continue;
    await send(SESSIONS[name][0], { method: 'DELETE' }).catch(() => undefined);
    remember(name, null);
    if (name === 'console') feed.signedOut();
  }
  feed.setAdmin(null);
}
