import { el, setChildren } from './dom.ts';
import { API_KEY_HEADER, type ClientDetail, PATHS, type Right } from './protocol.ts';
import { rightMark } from './seen-kinds.ts';
import { send } from './send.ts';

const TIMEOUT_MS = 5_000;

/** The client of an API key, and what it sees of each kind. Only for show. */
export class ApiKeyRights {
  readonly element = el('section', { class: 'card rights', hidden: true });
  #apiKey = '';
  #policy: string | null = null;
  #rights: ReadonlyMap<string, Right> = new Map();

  /** What the key sees, by kind; empty if that is not known. */
  get rights(): ReadonlyMap<string, Right> {
    return this.#rights;
  }

  /** @param policy its tag; null: there is none */
  async show(apiKey: string, policy: string | null): Promise<void> {
    if (apiKey === this.#apiKey && policy === this.#policy) return;
    this.#apiKey = apiKey;
    this.#policy = policy;
    this.#take(null);
    if (policy === null || apiKey === '') return;
    const client = await clientOf(apiKey);
    // Not an answer for an earlier key or policy.
    if (apiKey === this.#apiKey && policy === this.#policy) this.#take(client);
  }

  #take(client: ClientDetail | null): void {
    const sees = client?.sees ?? [];
    this.#rights = new Map(sees.map(({ kind, right }) => [kind, right]));
    this.element.hidden = client === null;
    if (client === null) return;
    const space = client.space === '' ? '' : ` of the space ${client.space}`;
    const kinds = sees.map(({ kind, right, example }) => {
      const mask = right === 'masked' && example !== null && el('code', {}, ` ${example}`);
      return el('li', {}, el('code', {}, kind), ' ', rightMark(right), mask);
    });
    setChildren(
      this.element,
      el('h2', {}, 'What this API key sees', el('small', {}, `client ${client.name}${space}`)),
      kinds.length === 0 && el('p', { class: 'note' }, 'Nothing: it may not detokenize.'),
      kinds.length > 0 && el('ul', {}, ...kinds),
    );
  }
}

/** null: the console does not know. */
async function clientOf(apiKey: string): Promise<ClientDetail | null> {
  try {
    const response = await send(PATHS.apiKey, {
      method: 'POST',
      headers: { [API_KEY_HEADER]: apiKey },
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    return response.ok ? ((await response.json()) as ClientDetail) : null;
  } catch {
    return null;
  }
}
