import { Component } from 'preact';
import { usePolicy } from './answer.ts';
import { Badge, Bar, Check, type Children, Field, Quiet, RightMark } from './parts.tsx';
import { type Answered, call, type Failure } from './playground-call.ts';
import { dataIn, dataOf, inData, kindsIn, leavesOf } from './playground-data.ts';
import { type Fields, FieldTable } from './playground-fields.tsx';
import { TextDesk } from './playground-text.tsx';
import {
  API_KEY_HEADER,
  type ClientDetail,
  type Operation,
  PATHS,
  type PolicyDetail,
} from './protocol.ts';
import { ask } from './send.ts';

const EXAMPLE = {
  customer: { name: 'Zoë Müller', emails: ['zoe.mueller@example.com', 'zoe@example.org'] },
  card: '4111 1111 1111 1111',
  note: 'Prefers e-mail, before noon',
};
const LENIENT_WORDS = 'Lenient: leave what is unknown or forbidden';

type About = 'api-key' | Half['about'];

interface Half {
  readonly about: 'original' | 'tokens';
  readonly operation: Operation;
  readonly name: string;
  readonly label: string;
  readonly hint: string;
}

const TOKENIZE: Half = {
  ...{ about: 'original', operation: 'tokenize', name: 'Tokenize', label: 'Original' },
  hint: 'ann@example.com, or {"name": "Jane Doe"}',
};
const RESTORE: Half = {
  ...{ about: 'tokens', operation: 'detokenize', name: 'Restore', label: 'Tokens' },
  hint: 'The tokens appear here',
};

/** What the last call showed. */
interface Shown {
  readonly level?: 'good' | 'warning' | 'bad';
  readonly words?: string;
  readonly requestId?: string;
  readonly fields?: Fields;
  readonly failed?: About;
  readonly error?: string;
}

interface DeskState extends Record<'apiKey' | Half['about'], string> {
  isLenient: boolean;
  isAsking: boolean;
  shown: Shown;
  /** The client of the API key; null: not known, or there is no policy. */
  client: ClientDetail | null;
}

/** Tokenizes and restores pasted values, for trying out the service. Keeps nothing. */
export function Playground() {
  return <Desk policy={usePolicy()} />;
}

type DeskProps = { policy: PolicyDetail | undefined };

class Desk extends Component<DeskProps, DeskState> {
  override state: DeskState = {
    ...{ apiKey: '', original: '', tokens: '' },
    ...{ isLenient: false, isAsking: false, shown: {}, client: null },
  };
  /** The values of the tokens that the page shows; undefined: the user typed the tokens. */
  #answered: unknown;
  /** Of the tokens that the page got last. */
  #kindOfToken = new Map<unknown, string | undefined>();

  override componentDidUpdate({ policy }: DeskProps): void {
    if (policy !== this.props.policy) void this.#learn();
  }

  override render() {
    const { policy } = this.props;
    const { apiKey, isLenient, shown, client } = this.state;
    const example = () => this.#type('original', inLines(EXAMPLE));
    const check = () => this.setState({ isLenient: !isLenient });
    return (
      <>
        <Bar title="Playground">
          <Outcome {...shown} />
        </Bar>
        <div class="card api-key">
          <Field
            {...{ id: 'api-key', label: 'API key', type: 'password', placeholder: 'stk_…' }}
            note="Kept in the memory of this page only, and forgotten on reload. Values go to this service and nowhere else."
            error={this.#errorOf('api-key')}
            value={apiKey}
            onInput={({ currentTarget }) =>
              this.setState({ apiKey: currentTarget.value, shown: {} })
            }
            onChange={() => void this.#learn()}
          />
        </div>
        <div class="halves">
          {this.#half(TOKENIZE, !policy?.fields && <Quiet name="Example" click={example} />)}
          {this.#half(
            RESTORE,
            policy && <Check name={LENIENT_WORDS} isChecked={isLenient} check={check} />,
          )}
        </div>
        {/* Below the buttons: what appears above them would move them away under a click. */}
        {client && <RightsOf client={client} />}
        {shown.fields && <FieldTable fields={shown.fields} />}
        {policy && <TextDesk apiKey={apiKey} />}
      </>
    );
  }

  #half(half: Half, more: Children) {
    const { about, operation, name, label, hint } = half;
    const run = () => void this.#run(half);
    return (
      <section class="card" aria-label={name}>
        <Field
          {...{ id: about, label, as: 'textarea', rows: 14, placeholder: hint }}
          error={this.#errorOf(about)}
          value={this.state[about]}
          onInput={({ currentTarget }) => this.#type(about, currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
            event.preventDefault();
            run();
          }}
        />
        <div class="actions">
          {/* `disabled` would take the focus from the pressed button. */}
          <button
            type="button"
            class="primary"
            title={`Sends ${operation} (Ctrl+Enter)`}
            aria-disabled={this.state.isAsking}
            onClick={run}
          >
            {name}
          </button>
          {more}
        </div>
      </section>
    );
  }

  #errorOf(about: About): string {
    const { failed, error = '' } = this.state.shown;
    return failed === about ? error : '';
  }

  /** Tokens of other values would look like the answer. Tokens that the user typed stay. */
  #type(about: Half['about'], text: string): void {
    const isOld = about === 'original' && this.#answered !== undefined;
    this.#answered = undefined;
    this.setState({ ...(isOld && { tokens: '' }), [about]: text, shown: {} });
  }

  /** What the service says about the client of the API key. Only for show. */
  async #learn(): Promise<ClientDetail | null> {
    const { apiKey } = this.state;
    const { policy } = this.props;
    const headers = { [API_KEY_HEADER]: apiKey.trim() };
    const learn = () => ask<ClientDetail>(PATHS.apiKey, 'POST', undefined, headers);
    const client = policy && apiKey !== '' ? await learn().catch(() => null) : null;
    // Not an answer for an earlier key or policy.
    if (apiKey === this.state.apiKey && policy === this.props.policy) this.setState({ client });
    return client;
  }

  async #run({ about, operation }: Half): Promise<void> {
    const { apiKey, isAsking, isLenient } = this.state;
    const { policy } = this.props;
    if (isAsking) return;
    const text = this.state[about];
    if (about === 'original') this.#type(about, text);
    this.setState({ isAsking: true, shown: {} });
    try {
      const data = dataOf(text, policy?.fields != null);
      const lenient = about === 'tokens' && policy !== undefined && isLenient;
      const answered = await call(operation, apiKey, data, lenient);
      const client = await this.#learn();
      // Not an answer for an earlier text.
      if (text !== this.state[about]) return;
      if (about === 'original') this.#tokenized(answered, JSON.parse(data));
      else this.#restored(answered, JSON.parse(data), client);
    } catch (error) {
      const { about: of = 'text', message, requestId = '' } = error as Partial<Failure>;
      if (of === 'service') this.setState({ shown: { level: 'bad', words: message!, requestId } });
      else this.#fail(of === 'text' ? about : of, message!, requestId);
    } finally {
      this.setState({ isAsking: false });
    }
  }

  #fail(failed: About, error: string, requestId: string): void {
    this.setState({ shown: { failed, error, requestId } });
    // Who was signed out meanwhile has another page.
    document.getElementById(failed)?.focus();
  }

  #tokenized({ body: { data: tokens }, text, requestId }: Answered, values: object): void {
    const { policy } = this.props;
    this.#answered = values;
    const kinds = policy && kindsIn(values, policy);
    this.#kindOfToken = new Map(
      leavesOf(tokens).map(({ path, value }) => [value, kinds?.get(path)]),
    );
    const outcome: Shown =
      kinds?.size === 0
        ? { level: 'warning', words: 'Nothing was tokenized: no field of the policy is in it' }
        : { level: 'good', words: 'Tokenized' };
    this.setState({
      tokens: policy?.fields ? dataIn(text) : inLines(tokens),
      shown: { ...outcome, requestId, fields: { values, tokens, kinds } },
    });
  }

  #restored({ body, requestId }: Answered, tokens: object, client: ClientDetail | null): void {
    const { policy } = this.props;
    const { data: restored, unapplied: left = [] } = body;
    // A token keeps its kind wherever it is put. Of others, the field says what is likely.
    const kinds = policy && kindsIn(tokens, policy, this.#kindOfToken);
    const unapplied = new Map(left.map(({ path, reason }) => [inData(path), reason]));
    const rights = new Map(client?.sees?.map(({ kind, right }) => [kind, right]));
    const fields = { values: this.#answered, tokens, restored, kinds, rights, unapplied };
    this.setState({ shown: { level: 'good', words: 'Restored', requestId, fields } });
  }
}

function inLines(json: unknown): string {
  return JSON.stringify(json, null, 2);
}

function Outcome({ level, words, requestId }: Shown) {
  return (
    <div class="inline outcome" role="status">
      {level && <Badge level={level}>{words}</Badge>}
      {requestId && (
        <span class="note">
          request <code>{requestId}</code>
        </span>
      )}
    </div>
  );
}

/** The client of an API key, and what it sees of each kind. */
function RightsOf({ client: { name, space, sees } }: { client: ClientDetail }) {
  return (
    <section class="card rights">
      <h2>
        What this API key sees
        <small>{`client ${name}${space === '' ? '' : ` of the space ${space}`}`}</small>
      </h2>
      {sees === null && <p class="note">Nothing: it may not detokenize.</p>}
      <p class="inline">
        {sees?.map(({ kind, right, example }) => (
          <span key={kind}>
            <code>{kind}</code> <RightMark right={right} />
            {right === 'masked' && example !== null && <code> {example}</code>}
          </span>
        ))}
      </p>
    </section>
  );
}
