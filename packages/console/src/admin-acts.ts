import { type Act, ActForm, labelled, WrongField } from './act-form.ts';
import { ActRefused, type AdminLink } from './admin-link.ts';
import type { Confirm } from './confirm.ts';
import { CopyButton } from './copy-button.ts';
import { type Child, el, setChildren } from './dom.ts';
import { date, plural } from './format.ts';

interface ClientShown {
  readonly client_id: string;
  readonly name: string;
  readonly disabled: boolean;
}
interface ApiKeyShown {
  readonly api_key_id: string;
  readonly client_id: string;
  readonly created_at: string;
  readonly revoked_at: string | null;
  readonly last_used_at: string | null;
}

const path = (...parts: string[]) => `/${parts.map(encodeURIComponent).join('/')}`;
const said = (text: string): Child => el('p', {}, text);

function demand(control: HTMLInputElement | HTMLTextAreaElement, words: string): string {
  const text = control.value.trim();
  if (text !== '') return text;
  control.focus();
  throw new WrongField(words);
}

/** null where it does not exist. */
async function orNull<T>(asked: Promise<T>): Promise<T | null> {
  return asked.catch((error) => {
    if (error instanceof ActRefused && error.status === 404) return null;
    throw error;
  });
}

const CAN = {
  tokenize: 'Tokenize',
  detokenize: 'Detokenize: its API keys turn tokens back into values',
  lookup: 'Look up: it finds tokens by value',
} as const;

/** The service's words for these are about headers that nobody typed. */
async function unlessChanged<T>(asked: Promise<T>, words: string): Promise<T> {
  return asked.catch((error) => {
    throw error instanceof ActRefused && error.status === 412 ? new WrongField(words) : error;
  });
}

/** The id of the list of clients. */
export const CLIENTS = 'admin-clients';
const CLIENT_MISSING = 'Choose a client, or type its id.';

/** A field for a client: its name, or its id. */
function clientField(): { client: HTMLInputElement; field: HTMLElement } {
  const client = el('input', { list: CLIENTS, spellcheck: 'false' });
  return { client, field: labelled('Client', client, 'Its name or id.') };
}

export function newClientForm(link: AdminLink, confirm: Confirm): ActForm {
  const name = el('input', { maxlength: 200 });
  const space = el('input', { maxlength: 32, spellcheck: 'false' });
  const boxes = Object.entries(CAN).map(([operation, words]) => {
    const box = el('input', { type: 'checkbox', checked: operation === 'tokenize' });
    return { operation, box, element: el('label', { class: 'check' }, box, words) };
  });
  const prepare = async (): Promise<Act> => {
    const called = demand(name, 'Type a name for the client.');
    const can = boxes.filter(({ box }) => box.checked).map(({ operation }) => operation);
    if (can.length === 0) throw new WrongField('Choose what it may do.');
    const settings = {
      ...Object.fromEntries(boxes.map(({ operation, box }) => [`can_${operation}`, box.checked])),
      space: space.value.trim(),
    };
    const where = settings.space === '' ? 'the default space' : `the space ${settings.space}`;
    return {
      question: {
        title: `Make the client “${called}”?`,
        lines: [
          `It may ${can.join(' and ')}.`,
          `Its tokens are of ${where}, which never changes. It has no API key yet.`,
        ],
        verb: 'Make the client',
      },
      async run() {
        const headers = { 'If-None-Match': '*' };
        const making = link.act<ClientShown>('PUT', path('clients', called), settings, headers);
        const made = await unlessChanged(making, `There is a client ${called} already.`);
        return el('p', {}, 'Made ', el('code', {}, made.client_id), '. Issue an API key for it.');
      },
    };
  };
  const rights = el('fieldset', {}, el('legend', {}, 'It may'), ...boxes.map((one) => one.element));
  const fields = [
    labelled('Name', name),
    rights,
    labelled('Space', space, 'Empty: the default space.'),
  ];
  return new ActForm({ title: 'Make a client', fields, button: 'Make…', prepare, confirm });
}

export function disableForm(link: AdminLink, confirm: Confirm): ActForm {
  const { client, field } = clientField();
  const prepare = async (): Promise<Act> => {
    const named = demand(client, CLIENT_MISSING);
    const { client_id: id, name, disabled } = await link.get<ClientShown>(path('clients', named));
    const verb = disabled ? 'Enable' : 'Disable';
    const means = disabled
      ? 'Its API keys work again, except those that are revoked or have expired.'
      : 'Whoever sends one of its API keys gets 401. Its tokens stay, and you can enable it again.';
    return {
      question: {
        title: `${verb} “${name}”?`,
        lines: [means, `All nodes follow within 5 s. Its id is ${id}.`],
        verb: `${verb} the client`,
        isDanger: !disabled,
      },
      async run() {
        await link.act('PATCH', path('clients', id), { disabled: !disabled });
        return said(`“${name}” is ${disabled ? 'enabled' : 'disabled'}, on all nodes within 5 s.`);
      },
    };
  };
  const title = 'Disable or enable a client';
  return new ActForm({ title, fields: [field], button: 'Disable or enable…', prepare, confirm });
}

const LIVES = { '90': '90 days', '365': '1 year', '30': '30 days', '': 'no end' } as const;
const DAY_MS = 86_400_000;

export function issueForm(link: AdminLink, confirm: Confirm): ActForm {
  const { client, field } = clientField();
  const life = el('select');
  for (const value of ['90', '30', '365', ''] as const)
    life.append(el('option', { value }, LIVES[value]));
  const prepare = async (): Promise<Act> => {
    const named = demand(client, CLIENT_MISSING);
    const { client_id: id, name } = await link.get<ClientShown>(path('clients', named));
    const days = Number(life.value);
    const ends = days === 0 ? null : new Date(Date.now() + days * DAY_MS);
    const until = ends === null ? 'It never ends.' : `It ends ${date(ends.getTime())}.`;
    return {
      question: {
        title: `Issue an API key of “${name}”?`,
        lines: [`Whoever has it may do what ${id} may do. ${until}`, 'It is shown only once.'],
        verb: 'Issue the API key',
      },
      async run() {
        const body = { expires_at: ends?.toISOString() ?? null };
        const issuing = link.act<ApiKeyShown & { api_key: string }>(
          'POST',
          path('clients', id, 'api-keys'),
          body,
        );
        const { api_key: apiKey, api_key_id: keyId } = await issuing;
        return el(
          'div',
          {},
          said(`${keyId} is issued. Copy the API key now: nobody can show it again.`),
          el(
            'div',
            { class: 'command' },
            el('pre', { tabindex: 0, 'aria-label': 'API key' }, el('code', {}, apiKey)),
            new CopyButton('the API key', () => apiKey).element,
          ),
        );
      },
    };
  };
  const fields = [field, labelled('Valid for', life)];
  return new ActForm({ title: 'Issue an API key', fields, button: 'Issue…', prepare, confirm });
}

/** Of the list to choose from, the newest. */
const MAX_API_KEYS = 200;

export function revokeForm(link: AdminLink, confirm: Confirm): ActForm {
  const list = el('datalist', { id: 'admin-api-keys' });
  const id = el('input', { list: list.id, spellcheck: 'false' });
  const opened = async () => {
    const [{ api_keys: keys }, { clients }] = await Promise.all([
      link.get<{ api_keys: ApiKeyShown[] }>('/api-keys'),
      link.get<{ clients: ClientShown[] }>('/clients'),
    ]);
    const names = new Map(clients.map((one) => [one.client_id, one.name]));
    const live = keys.filter((key) => key.revoked_at === null).slice(-MAX_API_KEYS);
    const options = live.map(
      ({ api_key_id: value, client_id: clientId, created_at: createdAt }) => {
        const label = `${names.get(clientId)}, issued ${date(Date.parse(createdAt))}`;
        return el('option', { value, label });
      },
    );
    setChildren(list, ...options);
  };
  const prepare = async (): Promise<Act> => {
    const named = demand(id, 'Choose an API key, or type its id: key_…');
    const key = await link.get<ApiKeyShown>(path('api-keys', named));
    if (key.revoked_at !== null) throw new WrongField(`${named} is revoked already.`);
    const { name } = await link.get<ClientShown>(path('clients', key.client_id));
    const used = key.last_used_at === null ? 'never' : date(Date.parse(key.last_used_at));
    return {
      question: {
        title: `Revoke ${named} of “${name}”?`,
        lines: [
          `Issued ${date(Date.parse(key.created_at))}; last use: ${used}.`,
          'Whoever sends it gets 401 within 5 s. This cannot be undone.',
        ],
        verb: 'Revoke the API key',
        isDanger: true,
      },
      async run() {
        await link.act('DELETE', path('api-keys', named));
        return said(`${named} is revoked. It stops working within 5 s.`);
      },
    };
  };
  const fields = [labelled('API key id', id, 'The page of a client lists its API keys.'), list];
  const title = 'Revoke an API key';
  return new ActForm({ title, fields, button: 'Revoke…', prepare, confirm, opened });
}

interface PolicyCheck {
  readonly is_valid: boolean;
  readonly mistakes: readonly { line: number; column: number; text: string }[];
  readonly changes: readonly { what: string; before: string | null; after: string | null }[];
  readonly consequences: readonly string[];
}

const MAX_CHANGES = 12;

export function policyForm(link: AdminLink, confirm: Confirm): ActForm {
  const inForce = () => orNull(link.get<{ version: number; document: string }>('/policy'));
  // Who changes a policy starts with the one in force: a document that is shorter takes away.
  let started = '';
  const opened = async () => {
    const found = await inForce();
    if (document.value !== '' && document.value !== started) return;
    started = found?.document ?? '';
    document.value = started;
  };
  const document = el('textarea', { spellcheck: 'false', rows: 16 });
  const prepare = async (): Promise<Act> => {
    demand(document, 'Paste a policy in YAML or JSON.');
    const body = { document: document.value };
    const check = await link.act<PolicyCheck>('POST', '/policy/check', body);
    if (!check.is_valid) {
      const lines = check.mistakes.map(({ line, column, text }) => `${line}:${column}: ${text}`);
      throw new WrongField(lines.join('\n'));
    }
    const before = (await inForce())?.version ?? 0;
    const changes = check.changes.map(({ what, before: old, after }) => {
      if (after === null) return `− ${what}: ${old}`;
      return old === null ? `+ ${what}: ${after}` : `${what}: ${after} (was: ${old})`;
    });
    const more = changes.length - MAX_CHANGES;
    return {
      question: {
        title: `Apply this policy as version ${before + 1}?`,
        lines: [
          ...(changes.length === 0 ? ['No kind, field or right changes.'] : []),
          ...changes.slice(0, MAX_CHANGES),
          ...(more > 0 ? [`And ${plural(more, 'more change')}.`] : []),
          'All nodes use it within 5 s.',
        ],
        warnings: check.consequences,
        verb: 'Apply the policy',
        isDanger: check.consequences.length > 0,
      },
      async run() {
        const seen = before === 0 ? { 'If-None-Match': '*' } : { 'If-Match': `"${before}"` };
        const applying = link.act<{ version: number; is_new: boolean }>(
          'PUT',
          '/policy',
          { ...body, confirmed: check.consequences },
          seen as Record<string, string>,
        );
        const applied = await unlessChanged(
          applying,
          'Somebody else has applied a policy just now. Look at it, then apply yours again.',
        );
        if (!applied.is_new) return said(`Version ${applied.version} is this document already.`);
        return said(`Version ${applied.version} is in force on all nodes within 5 s.`);
      },
    };
  };
  const fields = [labelled('Policy', document, 'YAML or JSON, as for standin policy apply.')];
  const title = 'Apply a policy';
  return new ActForm({ title, fields, button: 'Apply…', prepare, confirm, opened });
}

interface Forgotten {
  readonly known: number;
  readonly already_forgotten: number;
  readonly unknown: readonly string[];
  readonly not_searched: readonly string[];
}

export function forgetForm(link: AdminLink, confirm: Confirm): ActForm {
  const values = el('textarea', { spellcheck: 'false', rows: 4 });
  const tokens = el('textarea', { spellcheck: 'false', rows: 4 });
  const space = el('input', { maxlength: 32, spellcheck: 'false' });
  const lines = (text: string) => text.split('\n').filter((line) => line !== '');
  const prepare = async (): Promise<Act> => {
    const request = {
      values: lines(values.value),
      tokens: lines(tokens.value),
      space: space.value.trim(),
    };
    if (request.values.length + request.tokens.length === 0) demand(values, 'Type what to forget.');
    const dry = { ...request, dry_run: true };
    const found = await link.act<Forgotten>('POST', '/forget', dry);
    const unknown = found.unknown.length === 0 ? 'none' : found.unknown.join(', ');
    return {
      question: {
        title: `Forget ${plural(found.known, 'value')} for ever?`,
        lines: [
          `Their tokens are unknown from then on, to every client. Forgotten before: ${found.already_forgotten}. Not known to this vault: ${unknown}.`,
          ...found.not_searched.map((place) => `Not searched: ${place}.`),
          'This cannot be undone. Older backups still have the values.',
        ],
        verb: `Forget ${plural(found.known, 'value')}`,
        isDanger: true,
      },
      async run() {
        const done = await link.act<Forgotten>('POST', '/forget', request);
        values.value = '';
        tokens.value = '';
        return said(`Forgotten: ${done.known}. Forgotten before: ${done.already_forgotten}.`);
      },
    };
  };
  const fields = [
    labelled(
      'Values, one a line',
      values,
      'All tokens that were ever drawn from them, under every kind.',
    ),
    labelled('Tokens, one a line', tokens),
    labelled('Space', space, 'Empty: the default space.'),
  ];
  return new ActForm({ title: 'Forget', fields, button: 'Forget…', prepare, confirm });
}
