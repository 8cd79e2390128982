import type { Client } from '../client-settings.ts';
import type { ApiKey, Durable, UsedApiKey } from '../types.ts';
import { byteaArray, bytesOfBytea } from './bytea-array.ts';
import { CLIENT_COLUMNS, clientOf, dateOf } from './clients.ts';
import type { Pool, Query, Row } from './pool.ts';

/** The columns of an API key that may be shown. */
export const API_KEY_COLUMNS = [
  'api_key_id',
  'client_id',
  'created_at',
  'expires_at',
  'revoked_at',
] as const;
const COLUMNS = API_KEY_COLUMNS.join(', ');

/**
 * API keys and their clients come from one statement. With two statements, the first could return
 * an API key whose client the second does not find. The rank is computed only for the rows found.
 */
const LIVE = `select api_key_id, expires_at, digest, ${CLIENT_COLUMNS.map((name) => `c.${name}`)}`;
const IS_LIVE =
  'revoked_at is null and disabled_at is null and (expires_at is null or expires_at > now())';
const LIST_LIVE = `${LIVE}, rank
  from standin.api_keys k join standin.clients c using (client_id) join (
    select client_id, row_number() over (order by created_at, client_id) - 1 as rank
    from standin.clients) ranked using (client_id)
  where ${IS_LIVE}`;
const FIND_LIVE = `${LIVE}, (select count(*) from standin.clients o
    where (o.created_at, o.client_id) < (c.created_at, c.client_id)) as rank
  from standin.api_keys k join standin.clients c using (client_id)
  where ${IS_LIVE} and digest = any($1)`;

const LIST_SUBJECTS = `select ${CLIENT_COLUMNS.join(', ')}, rank from (
    select *, row_number() over (order by created_at, client_id) - 1 as rank
    from standin.clients) ranked
  where subject is not null and disabled_at is null`;

/** A client whose callers may send JWTs. */
export type SubjectClient = Pick<LiveApiKey, 'client' | 'rank'>;

/** An API key that is valid now, and its client. */
export interface LiveApiKey {
  readonly api_key_id: string;
  /** 32 bytes as a latin1 string. */
  readonly digest: string;
  readonly expires_at: Date | null;
  readonly client: Client;
  /** Position of the client among all clients by age; the oldest is 0. */
  readonly rank: number;
}

/**
 * The first node to mark an API key in a minute writes the row; later marks change nothing. The ids
 * are sorted, so all nodes lock rows in the same order and cannot deadlock.
 */
const MARK_USED = `insert into standin.api_key_uses as there (api_key_id, last_used_at)
  select api_key_id, date_trunc('minute', now()) from unnest($1::text[]) as used (api_key_id)
  on conflict (api_key_id) do update set last_used_at = excluded.last_used_at
  where there.last_used_at < excluded.last_used_at`;
/** Requests with JWTs are under the id of the client. */
const USES_OF_CLIENTS = `select client_id, max(last_used_at) as last_used_at,
    count(*) filter (where is_live) as live
  from (select client_id, last_used_at,
      revoked_at is null and (expires_at is null or expires_at > now()) as is_live
    from standin.api_keys left join standin.api_key_uses using (api_key_id)
    union all select client_id, last_used_at, false
    from standin.clients join standin.api_key_uses on api_key_id = client_id) used
  group by client_id`;

export class ApiKeyStore {
  readonly #pool: Pool;

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  insert(apiKey: NewApiKey, deadlineMs: number): Promise<Durable<ApiKey>> {
    return this.#pool.durably(deadlineMs, (query) => insertApiKey(query, apiKey));
  }

  async list(clientId: string | undefined, deadlineMs: number): Promise<UsedApiKey[]> {
    const { rows } = await this.#pool.query(
      `select ${COLUMNS}, last_used_at from standin.api_keys left join standin.api_key_uses using (api_key_id)
       where $1::text is null or client_id = $1 order by created_at, api_key_id`,
      [clientId ?? null],
      deadlineMs,
    );
    return rows.map((row) => ({ ...apiKeyOf(row), last_used_at: dateOf(row.last_used_at) }));
  }

  /**
   * All API keys that are valid now: not revoked, not expired, and their client is not disabled.
   */
  async listLive(deadlineMs: number): Promise<LiveApiKey[]> {
    return liveOf((await this.#pool.query(LIST_LIVE, [], deadlineMs)).rows);
  }

  /** All clients with a subject that are not disabled. */
  async listSubjects(deadlineMs: number): Promise<SubjectClient[]> {
    const { rows } = await this.#pool.query(LIST_SUBJECTS, [], deadlineMs);
    return rows.map((row) => ({ client: clientOf(row), rank: Number(row.rank) }));
  }

  /** The valid API keys with these digests. */
  async findLive(digests: readonly string[], deadlineMs: number): Promise<LiveApiKey[]> {
    return liveOf((await this.#pool.query(FIND_LIVE, [byteaArray(digests)], deadlineMs)).rows);
  }

  /**
   * Returns the API key after the change, or undefined when no API key has this id. A second call
   * changes nothing.
   */
  async revoke(apiKeyId: string, deadlineMs: number): Promise<Durable<ApiKey> | undefined> {
    const text = `update standin.api_keys set revoked_at = least(revoked_at, now()) where api_key_id = $1 returning ${COLUMNS}`;
    const revoke = async (query: Query) => (await query(text, [apiKeyId])).rows.map(apiKeyOf)[0];
    return this.#pool.durably(deadlineMs, revoke);
  }

  /** Records that these API keys are used in this minute. */
  async markUsed(apiKeyIds: readonly string[], deadlineMs: number): Promise<void> {
    await this.#pool.query(MARK_USED, [apiKeyIds.toSorted()], deadlineMs);
  }

  /**
   * By `client_id`: the number of live API keys, and the last use on any node, to the minute; null:
   * no use since Standin records it. A client that never had an API key or used a JWT is missing.
   */
  async usesOfClients(deadlineMs: number) {
    const { rows } = await this.#pool.query(USES_OF_CLIENTS, [], deadlineMs);
    const useOf = (row: Row) => ({
      ...{ last_used_at: dateOf(row.last_used_at), liveApiKeys: Number(row.live) },
    });
    return new Map(rows.map((row) => [row.client_id!, useOf(row)]));
  }
}

type NewApiKey = Pick<ApiKey, 'api_key_id' | 'client_id' | 'expires_at'> &
  Pick<LiveApiKey, 'digest'>;

export async function insertApiKey(query: Query, apiKey: NewApiKey): Promise<ApiKey> {
  const { api_key_id: id, client_id: clientId, digest, expires_at: expiresAt } = apiKey;
  const text = `insert into standin.api_keys (api_key_id, client_id, digest, expires_at) values ($1, $2, $3, $4) returning ${COLUMNS}`;
  const values = [id, clientId, Buffer.from(digest, 'latin1'), expiresAt?.toISOString() ?? null];
  return apiKeyOf((await query(text, values)).rows[0]!);
}

/** API keys of one client share one Client object. */
function liveOf(rows: readonly Row[]): LiveApiKey[] {
  const clients = new Map<string, Client>();
  return rows.map((row) => {
    const client = clients.get(row.client_id!) ?? clientOf(row);
    clients.set(client.client_id, client);
    return {
      api_key_id: row.api_key_id!,
      digest: bytesOfBytea(row.digest!).toString('latin1'),
      expires_at: dateOf(row.expires_at),
      client,
      rank: Number(row.rank),
    };
  });
}

function apiKeyOf(row: Row): ApiKey {
  return {
    api_key_id: row.api_key_id!,
    client_id: row.client_id!,
    created_at: new Date(row.created_at!),
    expires_at: dateOf(row.expires_at),
    revoked_at: dateOf(row.revoked_at),
  };
}
