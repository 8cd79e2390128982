import {
  ADMIN_PATHS,
  type AdminSessionShown,
  type SignedIn,
  TICKET_HEADER,
  type TicketShown,
} from './protocol.ts';
import { forget, remember } from './remembered.ts';
import { send } from './send.ts';

/** The service refused an act, or could not be reached. The message is for people. */
export class ActRefused extends Error {
  /** 0: the service could not be reached. */
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

type ActMethod = 'PUT' | 'PATCH' | 'POST' | 'DELETE';

/** The session of an administrator, and the acts in it. The page never keeps the token. */
export class AdminLink {
  readonly #changed: () => void;
  #name: string | null = null;

  /** @param changed called when somebody signs in or out */
  constructor(changed: () => void) {
    this.#changed = changed;
  }

  /** Name of the administrator's token; null: nobody is signed in. */
  get name(): string | null {
    return this.#name;
  }

  /** Asks who is signed in, after the page was loaded again. */
  async load(): Promise<void> {
    this.#take(
      await asked<AdminSessionShown>(ADMIN_PATHS.session, {}).catch(() => ({ name: null })),
    );
  }

  /** @throws ActRefused */
  async signIn(token: string): Promise<void> {
    const signingIn = asked<AdminSessionShown & SignedIn>(
      ADMIN_PATHS.session,
      sent('POST', { token }),
    );
    const { name, page_secret: secret } = await signingIn;
    remember('admin', secret);
    this.#take({ name });
  }

  async signOut(): Promise<void> {
    await send(ADMIN_PATHS.session, { method: 'DELETE' }).catch(() => undefined);
    forget('admin');
    this.#take({ name: null });
  }

  /**
   * Reads from the admin API.
   * @param path below it
   * @throws ActRefused
   */
  get<T>(path: string): Promise<T> {
    return this.#during(asked<T>(ADMIN_PATHS.api + path, {}));
  }

  /**
   * Does something that the user has confirmed, or counts what it would do.
   * @throws ActRefused
   */
  act<T>(
    method: ActMethod,
    path: string,
    body?: object,
    headers: Record<string, string> = {},
  ): Promise<T> {
    return this.#during(this.#send<T>(path, sent(method, body, headers)));
  }

  async #send<T>(path: string, init: SentInit): Promise<T> {
    const { ticket } = await asked<TicketShown>(ADMIN_PATHS.ticket, sent('POST'));
    const headers = { ...init.headers, [TICKET_HEADER]: ticket };
    return asked<T>(ADMIN_PATHS.api + path, { ...init, headers });
  }

  /** A session that has ended shows the sign-in. */
  async #during<T>(asking: Promise<T>): Promise<T> {
    try {
      return await asking;
    } catch (error) {
      if (error instanceof ActRefused && error.status === 401) this.#take({ name: null });
      throw error;
    }
  }

  #take({ name }: AdminSessionShown): void {
    if (name === this.#name) return;
    this.#name = name;
    this.#changed();
  }
}

interface SentInit extends RequestInit {
  readonly headers: Record<string, string>;
}

function sent(method: string, body?: object, headers: Record<string, string> = {}): SentInit {
  if (body === undefined) return { method, headers };
  const type = { 'Content-Type': 'application/json' };
  return { method, headers: { ...type, ...headers }, body: JSON.stringify(body) };
}

async function asked<T>(path: string, init: RequestInit): Promise<T> {
  const response = await send(path, init).catch(() => {
    throw new ActRefused(0, 'The service cannot be reached. Nothing is known about the act.');
  });
  const answer = await response.json().catch(() => ({}));
  if (response.ok) return answer as T;
  const { message } = answer as { message?: string };
  throw new ActRefused(response.status, message ?? `The service answered ${response.status}.`);
}
