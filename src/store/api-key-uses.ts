import { dateOf } from './clients.ts';
import type { Pool } from './pool.ts';

/**
 * The first node to mark an API key in a minute writes the row; later marks change nothing. `mark`
 * sorts the ids, so all nodes lock rows in the same order and cannot deadlock.
 */
const MARK = `insert into standin.api_key_uses as there (api_key_id, last_used_at)
  select api_key_id, date_trunc('minute', now()) from unnest($1::text[]) as used (api_key_id)
  on conflict (api_key_id) do update set last_used_at = excluded.last_used_at
  where there.last_used_at < excluded.last_used_at`;
const OF_CLIENTS = `select client_id, max(last_used_at) as last_used_at,
    count(*) filter (where revoked_at is null
      and (expires_at is null or expires_at > now())) as live
  from standin.api_keys left join standin.api_key_uses using (api_key_id) group by client_id`;

/** Summary of the API keys of one client. */
export interface ClientUse {
  /** The last use on any node, to the minute; null: no use since Standin records it. */
  readonly last_used_at: Date | null;
  readonly liveApiKeys: number;
}

export class ApiKeyUseStore {
  readonly #pool: Pool;

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  /** Records that these API keys are used in this minute. */
  async mark(apiKeyIds: readonly string[], deadlineMs: number): Promise<void> {
    await this.#pool.query(MARK, [apiKeyIds.toSorted()], deadlineMs);
  }

  /** By `client_id`. A client that never had an API key is missing. */
  async ofClients(deadlineMs: number): Promise<Map<string, ClientUse>> {
    const { rows } = await this.#pool.query(OF_CLIENTS, [], deadlineMs);
    return new Map(
      rows.map((row) => [
        row.client_id!,
        {
          last_used_at: dateOf(row.last_used_at),
          liveApiKeys: Number(row.live),
        },
      ]),
    );
  }
}
