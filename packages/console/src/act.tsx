import { useEffect, useRef, useState } from 'preact/hooks';
import { feed } from './feed.ts';
import { type Children, Dialog, Quiet } from './parts.tsx';
import { ADMIN_PATHS, TICKET_HEADER, type TicketShown } from './protocol.ts';
import { ask, Refused } from './send.ts';

/** What is about to be done. Nothing is done until the button that names it is pressed. */
export interface ActStep {
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
  readonly go: (form: FormData) => Promise<ActStep | { readonly done: Children }>;
}

interface ActProps {
  /** On the button that begins it. */
  name: string;
  /** In the accessible name, after the name. */
  of?: string;
  /** Without the button, a dialog that is open stays: it says what was done. */
  isOffered?: boolean;
  step: ActStep | (() => Promise<ActStep>);
}

/** A button for who is signed in to act, with the dialog in which the act is confirmed. */
export function Act({ step, isOffered = true, ...named }: ActProps) {
  const [first, setFirst] = useState<ActStep>();
  const close = () => setFirst(undefined);
  useEffect(close, [feed.admin]);
  if (feed.admin === null) return null;
  const begin = async () => setFirst(typeof step === 'function' ? await step() : step);
  return (
    <>
      {isOffered && <Quiet {...named} click={begin} />}
      {first && <ActDialog first={first} close={close} />}
    </>
  );
}

function ActDialog({ first, close }: { first: ActStep; close: () => void }) {
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
    // Of the other buttons, the form closes the dialog, which gives the focus back.
    if ((event.submitter as HTMLButtonElement).value === 'close') return;
    event.preventDefault();
    void go(event.currentTarget as HTMLFormElement);
  };
  return (
    <Dialog title={step.title} close={close}>
      <form method="dialog" onSubmit={submit} onInput={() => setError('')}>
        <div class="view" hidden={done !== undefined}>
          {step.warnings?.map((line) => (
            <p class="error" key={line}>
              {line}
            </p>
          ))}
          {step.lines?.map((line) => (
            <p key={line}>{line}</p>
          ))}
          <div class="view" hidden={step !== first}>
            {first.fields}
          </div>
          <p class="error" role="alert">
            {error}
          </p>
        </div>
        <div role="status">{done}</div>
        <div class="actions">
          {done === undefined && (
            <button type="submit" class={step.isDanger ? 'primary danger' : 'primary'}>
              {step.verb}
            </button>
          )}
          <button type="submit" value="close" formNoValidate autofocus={!first.fields}>
            {done === undefined ? 'Cancel' : 'Close'}
          </button>
        </div>
      </form>
    </Dialog>
  );
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
    const { status } = error as Refused;
    // The session has ended.
    if (status === 401) feed.setAdmin(null);
    if (status !== 0) throw error;
    throw new Refused(0, 'The service cannot be reached. Nothing is known about the act.');
  }
}
