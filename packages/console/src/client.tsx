import { useMemo } from 'preact/hooks';
import { DisableClient, Forget, IssueApiKey, RevokeApiKey, type RevokeProps } from './acts.tsx';
import { useAnswer } from './answer.ts';
import { Chart } from './chart.tsx';
import { feed } from './feed.ts';
import { ago, date, duration, limitShown, rightsOf, si, whole } from './format.ts';
import { Badge, Bar, Command, Copy, type Fact, Facts, RightMark, Table } from './parts.tsx';
import { type ApiKeyState, type ClientDetail, HISTORY_MS, PATHS } from './protocol.ts';

const MISSING = 'There is no client with this id.';
const UNKNOWN = 'Not known at the moment: the database does not answer.';

/** One client: its limits, API keys and requests, and what changes it. */
export function Client({ id }: { id: string }) {
  const { answer: client, status } = useAnswer<ClientDetail>(`${PATHS.client}?id=${id}`);
  const note = status > 200 ? (status === 404 ? MISSING : UNKNOWN) : (client?.client_id ?? '');
  return (
    <>
      <p>
        <a href="#/clients">← All clients</a>
      </p>
      <Bar title={client?.name ?? id} note={note}>
        {client && <DisableClient client={client} />}
        {client && <Forget space={client.space} />}
      </Bar>
      {client && (
        <div class={status === 200 ? 'view' : 'view stale'}>
          <Parts client={client} />
        </div>
      )}
    </>
  );
}

function Parts({ client }: { client: ClientDetail }) {
  const { sees } = client;
  return (
    <>
      <section class="card">
        <h2>Settings</h2>
        <Facts facts={factsOf(client)} />
      </section>
      <div class="halves">
        <RateChart {...client} />
        <section class="card">
          <h2>API keys</h2>
          <ApiKeys {...client} />
          <IssueApiKey client={client} />
        </section>
      </div>
      {sees && (
        <section class="card">
          <h2>What it sees of each kind</h2>
          <Table
            rows={sees}
            keyOf={({ kind }) => kind}
            columns={[
              ['Kind', ({ kind }) => <code>{kind}</code>],
              ['Sees', ({ right }) => <RightMark right={right} />],
              ['Example', ({ example }) => (example === null ? '–' : <code>{example}</code>)],
            ]}
          />
        </section>
      )}
      <section class="card">
        <h2>Commands that change this client</h2>
        {feed.state?.hasAdmin === false && (
          <p class="note">With ADMIN_TOKEN set, you can also act on this page.</p>
        )}
        {commandsOf(client).map(([does, line]) => (
          <div class="change" key={does}>
            <p class="note">{does}</p>
            <Command label={does} of={`the command: ${does}`} text={line} />
          </div>
        ))}
      </section>
    </>
  );
}

const DEFAULT_KEY_LIFE = '90d';
const EXAMPLE_PER_S = 100;

/** What the commands for this client do, and they. What they set is an example to change. */
function commandsOf(client: ClientDetail): (readonly [does: string, line: string])[] {
  const { client_id: id, limits } = client;
  const update = `standin client update ${id}`;
  if (client.disabled_at !== null) return [['Enable the client again', `${update} --enable`]];
  // Who may do something has a limit.
  const can = limits.length === 0 ? 'tokenize' : rightsOf(client).replaceAll(' ', '');
  const ofLimit = limits.slice(0, 1).map(({ name, words, perS }): [string, string] => {
    const option = `--${name.replaceAll('_', '-')} ${perS || EXAMPLE_PER_S}`;
    return [`Set its limit: ${words.toLowerCase()}`, `${update} ${option}`];
  });
  return [
    ...ofLimit,
    ['Issue another API key', `standin api-key issue --client ${id} --expires ${DEFAULT_KEY_LIFE}`],
    ['Set what it may do', `${update} --can ${can}`],
    ['Refuse all its requests', `standin client disable ${id}`],
  ];
}

function RateChart({ name, rates }: ClientDetail) {
  const perS = rates.map(({ requestsPerS }) => requestsPerS);
  const times = rates.map(({ atMs }) => atMs / 1_000);
  const data = useMemo(() => [times, perS] as [number[], number[]], [rates]);
  const endS = times.at(-1) ?? feed.nowMs / 1_000;
  const highest = Math.max(0, ...perS);
  return (
    <Chart
      {...{ title: 'Requests', unit: 'per second, on this node' }}
      {...{ data, format: si, lines: [{ label: 'requests', color: 1, style: 'solid' }] }}
      range={[endS - HISTORY_MS / 1_000, endS]}
      nothing={highest === 0 ? 'No requests in the last 15 minutes' : ''}
      words={`Requests of ${name}: ${si(perS.at(-1) ?? 0)} now, ${si(highest)} at most`}
    />
  );
}

function factsOf(client: ClientDetail): (Fact | false)[] {
  const { disabled_at: disabledAt, space, strings, time_to_live_s: timeToLiveS, limits } = client;
  return [
    ['Allowed to', disabledAt === null ? rightsOf(client) : 'nothing: disabled'],
    space !== '' && ['Space', space],
    ['Tokens', client.token_mode],
    ['Tokens are kept', timeToLiveS === null ? 'for ever' : duration(timeToLiveS * 1_000)],
    strings !== null && [
      'Strings under the policy',
      `${whole(strings.replaced)} replaced, ${whole(strings.passed)} passed in clear since the start of this node`,
    ],
    ...limits.map(({ words, perS, isOwn }): Fact => {
      const text = perS === 0 ? 'no limit' : `at most ${limitShown(perS)}`;
      return [words, isOwn ? text : `${text} (default)`];
    }),
    ['Created', date(Date.parse(client.created_at))],
  ];
}

function ApiKeys({ name, api_keys: apiKeys }: ClientDetail) {
  const { nowMs } = feed;
  return (
    <Table
      rows={apiKeys}
      keyOf={({ api_key_id: id }) => id}
      columns={[
        ['API key', ({ api_key_id: id }) => <code>{id}</code>],
        ['Created', ({ created_at: at }) => date(Date.parse(at))],
        ['Last use', ({ last_used_at: at }) => (at ? ago(nowMs - Date.parse(at)) : 'never')],
        ['State', (one) => <Badge level={isLive(one) ? 'good' : 'neutral'}>{stateOf(one)}</Badge>],
        ['', (one) => <Revoke of={name} apiKey={one} isOffered={isLive(one)} />],
      ]}
    />
  );
}

/** The act, or its command for who is not signed in to act. */
function Revoke(props: RevokeProps) {
  if (feed.admin !== null) return <RevokeApiKey {...props} />;
  if (!props.isOffered) return null;
  const { api_key_id: id } = props.apiKey;
  const command = `standin api-key revoke ${id}`;
  return <Copy of={`the command that revokes ${id}`} text={command} name="Copy revoke" />;
}

function isLive({ revoked_at: revokedAt, expires_at: expiresAt }: ApiKeyState): boolean {
  return revokedAt === null && (expiresAt === null || Date.parse(expiresAt) > feed.nowMs);
}

function stateOf(apiKey: ApiKeyState): string {
  const { revoked_at: revokedAt, expires_at: expiresAt } = apiKey;
  if (revokedAt !== null) return `revoked ${date(Date.parse(revokedAt))}`;
  if (expiresAt === null) return 'valid';
  return `${isLive(apiKey) ? 'until' : 'expired'} ${date(Date.parse(expiresAt))}`;
}
