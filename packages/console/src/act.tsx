import { useEffect, useRef, useState } from 'preact/hooks';
import { feed } from './feed.ts';
import { type Children, Dialog } from './parts.tsx';
import { ADMIN_PATHS, TICKET_HEADER, type TicketShown } from './protocol.ts';
import { ask, Refused } from './send.ts';

/** What is about to be done. Nothing is done until the button that names it is pressed. */
export interface Step {
  readonly title: string;
  /** What somebody loses, or what will be seen in clear. */
  readonly warnings?: readonly string[];
  /** What it means, a line each. */
  readonly lines?: readonly string[];
  /** Of the first step only. They stay filled when a later step fails. */
  readonly fields?: Children;
  /** The word on the button. */
  readonly verb: string;
  /** Whether somebody loses what they have. */
  readonly isDanger?: boolean;
  /**
   * Does it, or looks what it would do.
   * @throws Refused, whose words are shown
   */
  readonly go: (form: FormData) => Promise<Step | { readonly done: Children }>;
}

interface ActProps {
  /** On the button that begins it. */
  name: string;
  /** In the accessible name, after the name. */
  of?: string;
  /** @throws Refused, if what is there cannot be read */
  begin: () => Step | Promise<Step>;
}

/** A button for who is signed in to act, with the dialog in which the act is confirmed. */
export function Act({ name, of, begin }: ActProps) {
  const [first, setFirst] = useState<Step>();
  const close = () => setFirst(undefined);
  useEffect(close, [feed.admin]);
  if (feed.admin === null) return null;
  const open = async () => setFirst(await begin());
  return (
    <>
      <button type="button" class="quiet" onClick={() => void open()}>
        {name}
        {of && <span class="unseen"> {of}</span>}
      </button>
      {first && <ActDialog first={first} close={close} />}
    </>
  );
}

function ActDialog({ first, close }: { first: Step; close: () => void }) {
  const [step, setStep] = useState(first);
  const [error, setError] = useState('');
  const [done, setDone] = useState<Children>();
  const isBusy = useRef(false);
  const go = async (form: HTMLFormElement) => {
    if (isBusy.current) return;
    isBusy.current = true;
    setError('');
    try {
      const next = await step.go(new FormData(form));
      if ('done' in next) setDone(next.done);
      else setStep(next);
    } catch (refused) {
      if (!(refused instanceof Refused)) throw refused;
      setStep(first);
      setError(refused.message);
    } finally {
      isBusy.current = false;
    }
  };
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    void go(event.currentTarget as HTMLFormElement);
  };
  return (
    <Dialog title={step.title} close={close}>
      <form onSubmit={submit} onInput={() => setError('')} hidden={done !== undefined}>
        {step.warnings?.map((line) => (
          <p class="error" key={line}>
            {line}
          </p>
        ))}
        {step.lines?.map((line) => (
          <p key={line}>{line}</p>
        ))}
        <div class="inputs" hidden={step !== first}>
          {first.fields}
        </div>
        <p class="error" role="alert">
          {error}
        </p>
        <div class="actions">
          <button type="button" class="quiet" onClick={closeDialog} autofocus={!first.fields}>
            Cancel
          </button>
          <button type="submit" class={step.isDanger ? 'primary danger' : 'primary'}>
            {step.verb}
          </button>
        </div>
      </form>
      <div class="outcome" role="status">
        {done}
      </div>
      {done !== undefined && (
        <div class="actions">
          <button type="button" class="quiet" onClick={closeDialog}>
            Close
          </button>
        </div>
      )}
    </Dialog>
  );
}

/** Gives the focus back to the button that opened the dialog, which removing it would not. */
function closeDialog({ currentTarget }: { currentTarget: HTMLElement }): void {
  currentTarget.closest('dialog')!.close();
}

type Method = 'GET' | 'PUT' | 'PATCH' | 'POST' | 'DELETE';

/**
 * A request to the admin API in the session of the administrator.
 * @param path below it
 * @throws Refused
 */
export async function act<T>(
  method: Method,
  path: string,
  body?: object,
  headers: Record<string, string> = {},
): Promise<T> {
  try {
    if (method === 'GET') return await ask<T>(ADMIN_PATHS.api + path);
    const { ticket } = await ask<TicketShown>(ADMIN_PATHS.ticket, 'POST');
    const all = { ...headers, [TICKET_HEADER]: ticket };
    return await ask<T>(ADMIN_PATHS.api + path, method, body, all);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    // The session has ended.
    if (error.status === 401) feed.admin = null;
    feed.changed();
    if (error.status === 0)
      throw new Refused(0, 'The service cannot be reached. Nothing is known about the act.');
    throw error;
  }
}
