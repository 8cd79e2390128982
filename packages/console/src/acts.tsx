import { Act, type ActStep, act } from './act.tsx';
import { clientAddress, date, plural, RIGHT_NAMES, RIGHTS } from './format.ts';
import { Command, Field } from './parts.tsx';
import type { ApiKeyState, ClientDetail } from './protocol.ts';
import { Refused } from './send.ts';

const path = (...parts: string[]) => `/${parts.map(encodeURIComponent).join('/')}`;
const textOf = (form: FormData, name: string) => String(form.get(name)).trim();

/** Says in these words that an answer has this status. */
async function said<T>(asked: Promise<T>, status: number, words: string): Promise<T> {
  return asked.catch((error: Refused) => {
    throw error.status === status ? new Refused(status, words) : error;
  });
}

export function MakeClient() {
  const fields = (
    <>
      <Field label="Name" name="name" required />
      <fieldset>
        <legend>It may</legend>
        {RIGHT_NAMES.map((right) => (
          <label class="check" key={right}>
            <input type="checkbox" name={right} defaultChecked={right === 'can_tokenize'} />
            {RIGHTS[right]}
          </label>
        ))}
      </fieldset>
      <Field label="Space" name="space" note="Empty: the default space." />
    </>
  );
  const go = async (form: FormData) => {
    const [name, space] = [textOf(form, 'name'), textOf(form, 'space')];
    if (!RIGHT_NAMES.some((right) => form.has(right)))
      throw new Refused(0, 'Choose what it may do.');
    const rights = Object.fromEntries(RIGHT_NAMES.map((right) => [right, form.has(right)]));
    const isNew = { 'If-None-Match': '*' };
    const making = act<ClientDetail>('PUT', path('clients', name), { ...rights, space }, isNew);
    const { client_id: id } = await said(making, 412, `There is a client ${name} already.`);
    return { done: [`Made ${id}. `, <a href={clientAddress(id)}>Issue an API key for it</a>, '.'] };
  };
  const lines = ['It has no API key yet. Its space never changes.'];
  const step = { title: 'Make a client?', fields, lines, verb: 'Make the client', go };
  return <Act name="Make a client…" step={step} />;
}

export function DisableClient({ client }: { client: ClientDetail }) {
  const { client_id: id, name, disabled_at: disabledAt } = client;
  const isDisabled = disabledAt !== null;
  const verb = isDisabled ? 'Enable' : 'Disable';
  const means = isDisabled
    ? 'Its API keys work again, except those that are revoked or have expired.'
    : 'Whoever sends one of its API keys gets 401. Its tokens stay, and you can enable it again.';
  const step: ActStep = {
    title: `${verb} “${name}”?`,
    lines: [means, `All nodes follow within 5 s. Its id is ${id}.`],
    verb: `${verb} the client`,
    isDanger: !isDisabled,
    go: async () => {
      await act('PATCH', path('clients', id), { disabled: !isDisabled });
      return { done: `“${name}” is ${verb.toLowerCase()}d, on all nodes within 5 s.` };
    },
  };
  return <Act name={`${verb}…`} step={step} />;
}

/** 0: no end. */
const LIVES_DAYS = [90, 30, 365, 0];
const DAY_MS = 86_400_000;

export interface RevokeProps {
  /** Name of the client. */
  of: string;
  apiKey: ApiKeyState;
  isOffered: boolean;
}

type Issued = Record<'api_key' | 'api_key_id', string>;

export function IssueApiKey({ client: { client_id: id, name } }: { client: ClientDetail }) {
  const fields = (
    <Field as="select" label="Valid for" name="days">
      {LIVES_DAYS.map((days) => (
        <option value={days} key={days}>
          {days === 0 ? 'no end' : `${days} days`}
        </option>
      ))}
    </Field>
  );
  const go = async (form: FormData) => {
    const endsMs = Date.now() + Number(form.get('days')) * DAY_MS;
    const isEndless = form.get('days') === '0';
    const body = { expires_at: isEndless ? null : new Date(endsMs).toISOString() };
    const issuing = act<Issued>('POST', path('clients', id, 'api-keys'), body);
    const { api_key: apiKey, api_key_id: keyId } = await issuing;
    const until = isEndless ? 'It never ends.' : `It ends ${date(endsMs)}.`;
    const words = `${keyId} is issued. ${until} Copy the API key now: nobody can show it again.`;
    return { done: [words, <Command label="API key" of="the API key" text={apiKey} />] };
  };
  const title = `Issue an API key of “${name}”?`;
  const lines = [`Whoever has it may do what ${id} may do.`, 'It is shown only once.'];
  const step = { title, fields, lines, verb: 'Issue the API key', go };
  return <Act name="Issue an API key…" step={step} />;
}

export function RevokeApiKey({ of, apiKey, isOffered }: RevokeProps) {
  const { api_key_id: id, created_at: createdAt, last_used_at: usedAt } = apiKey;
  const used = usedAt === null ? 'never' : date(Date.parse(usedAt));
  const step: ActStep = {
    title: `Revoke ${id} of “${of}”?`,
    lines: [
      `Issued ${date(Date.parse(createdAt))}; last use: ${used}.`,
      'Whoever sends it gets 401 within 5 s. This cannot be undone.',
    ],
    verb: 'Revoke the API key',
    isDanger: true,
    go: async () => {
      await act('DELETE', path('api-keys', id));
      return { done: `${id} is revoked. It stops working within 5 s.` };
    },
  };
  return <Act name="Revoke…" of={id} step={step} isOffered={isOffered} />;
}

interface PolicyCheck {
  readonly is_valid: boolean;
  readonly mistakes: readonly { line: number; column: number; text: string }[];
  readonly changes: readonly { what: string; before: string | null; after: string | null }[];
  readonly consequences: readonly string[];
}

const MAX_CHANGES = 12;

function linesOf(changes: PolicyCheck['changes']): string[] {
  if (changes.length === 0) return ['No kind, field or right changes.'];
  const lines = changes.slice(0, MAX_CHANGES).map(({ what, before, after }) => {
    if (after === null) return `− ${what}: ${before}`;
    return before === null ? `+ ${what}: ${after}` : `${what}: ${after} (was: ${before})`;
  });
  const more = changes.length - MAX_CHANGES;
  return more > 0 ? [...lines, `And ${plural(more, 'more change')}.`] : lines;
}

/** null: there is none, or it cannot be read. */
function policyInForce(): Promise<{ version: number; document: string } | null> {
  return act<{ version: number; document: string }>('GET', '/policy').catch(() => null);
}

/** @throws Refused with the mistakes of the document */
async function checked(document: string): Promise<ActStep> {
  const check = await act<PolicyCheck>('POST', '/policy/check', { document });
  const mistakes = check.mistakes.map(({ line, column, text }) => `${line}:${column}: ${text}`);
  if (!check.is_valid) throw new Refused(0, mistakes.join('\n'));
  const before = (await policyInForce())?.version ?? 0;
  const { changes, consequences } = check;
  return {
    title: `Apply this policy as version ${before + 1}?`,
    warnings: consequences,
    lines: [...linesOf(changes), 'All nodes use it within 5 s.'],
    verb: 'Apply the policy',
    isDanger: consequences.length > 0,
    go: async () => {
      const seen: Record<string, string> =
        before === 0 ? { 'If-None-Match': '*' } : { 'If-Match': `"${before}"` };
      const body = { document, confirmed: consequences };
      const { version, is_new: isNew } = await said(
        act<{ version: number; is_new: boolean }>('PUT', '/policy', body, seen),
        412,
        'Somebody else has applied a policy just now. Look at it, then apply yours again.',
      );
      if (!isNew) return { done: `Version ${version} is this document already.` };
      return { done: `Version ${version} is in force on all nodes within 5 s.` };
    },
  };
}

export function ApplyPolicy() {
  // Who changes a policy starts with the one in force: a document that is shorter takes away.
  const step = async (): Promise<ActStep> => ({
    title: 'Apply a policy',
    fields: (
      <Field
        {...{ as: 'textarea', label: 'Policy', name: 'document', required: true, rows: 16 }}
        note="YAML or JSON, as for standin policy apply."
        defaultValue={(await policyInForce())?.document}
      />
    ),
    verb: 'Look what changes',
    // Some browsers give the lines of a form's field other ends.
    go: (form) => checked(String(form.get('document')).replaceAll('\r\n', '\n')),
  });
  return <Act name="Apply a policy…" step={step} />;
}

interface Forgotten {
  readonly known: number;
  readonly already_forgotten: number;
  readonly unknown: readonly string[];
  readonly not_searched: readonly string[];
}

export function Forget({ space }: { space: string }) {
  const where = space === '' ? 'the default space' : `the space ${space}`;
  const fields = (
    <>
      <Field
        as="textarea"
        label="Values, one a line"
        name="values"
        rows={4}
        note="All tokens that were ever drawn from them, under every kind."
      />
      <Field as="textarea" label="Tokens, one a line" name="tokens" rows={4} />
    </>
  );
  const go = async (form: FormData): Promise<ActStep> => {
    const inLines = (name: string) =>
      String(form.get(name))
        .split(/\r?\n/)
        .filter((line) => line !== '');
    const request = { values: inLines('values'), tokens: inLines('tokens'), space };
    if (request.values.length + request.tokens.length === 0)
      throw new Refused(0, 'Type what to forget.');
    const found = await act<Forgotten>('POST', '/forget', { ...request, dry_run: true });
    const unknown = found.unknown.length === 0 ? 'none' : found.unknown.join(', ');
    return {
      title: `Forget ${plural(found.known, 'value')} for ever?`,
      lines: [
        `Their tokens are unknown from then on, to every client of ${where}. Forgotten before: ${found.already_forgotten}. Not known to this vault: ${unknown}.`,
        ...found.not_searched.map((part) => `Not searched: ${part}.`),
        'This cannot be undone. Older backups still have the values.',
      ],
      verb: `Forget ${plural(found.known, 'value')}`,
      isDanger: true,
      go: async () => {
        const done = await act<Forgotten>('POST', '/forget', request);
        const before = `Forgotten before: ${done.already_forgotten}.`;
        return { done: `Forgotten: ${done.known}. ${before}` };
      },
    };
  };
  const step = { title: `Forget values of ${where}`, fields, verb: 'Look what is known', go };
  return <Act name="Forget values…" step={step} />;
}
