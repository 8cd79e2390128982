import type { ApiKey, UsedApiKey } from '../types.ts';
import { latin1OfBytea } from './bytea-array.ts';
import { dateOf } from './clients.ts';
import type { Pool } from './pool.ts';

const COLUMNS = 'api_key_id, client_id, created_at, expires_at, revoked_at';

/** An API key row with its digest: 32 bytes as a latin1 string. */
export type ApiKeyRow = ApiKey & { readonly digest: string };

export class ApiKeyStore {
  readonly #pool: Pool;

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  async insert(
    api_key_id: string,
    client_id: string,
    digest: string,
    expires_at: Date | null,
    deadline_ms: number,
  ): Promise<ApiKey> {
    const { rows } = await this.#pool.query(
      `insert into standin.api_keys (api_key_id, client_id, digest, expires_at) values ($1, $2, $3, $4) returning ${COLUMNS}`,
      [api_key_id, client_id, Buffer.from(digest, 'latin1'), expires_at?.toISOString() ?? null],
      deadline_ms,
    );
    return apiKeyOf(rows[0]!);
  }

  async list(client_id: string | undefined, deadline_ms: number): Promise<UsedApiKey[]> {
    const { rows } = await this.#pool.query(
      `select ${COLUMNS}, last_used_at from standin.api_keys left join standin.api_key_uses using (api_key_id)
       where $1::text is null or client_id = $1 order by created_at, api_key_id`,
      [client_id ?? null],
      deadline_ms,
    );
    return rows.map((row) => ({ ...apiKeyOf(row), last_used_at: dateOf(row.last_used_at) }));
  }

  /** All that may open a door now: not revoked, not expired, of clients that are not disabled. */
  async listLive(deadline_ms: number): Promise<ApiKeyRow[]> {
    const { rows } = await this.#pool.query(
      `select api_key_id, client_id, k.created_at, expires_at, revoked_at, digest
       from standin.api_keys k join standin.clients c using (client_id)
       where revoked_at is null and disabled_at is null and (expires_at is null or expires_at > now())`,
      [],
      deadline_ms,
    );
    return rows.map((row) => ({ ...apiKeyOf(row), digest: latin1OfBytea(row.digest!) }));
  }

  /**
   * The API key as it is after, or undefined when there is none of that id. A second time changes
   * nothing.
   */
  async revoke(api_key_id: string, deadline_ms: number): Promise<ApiKey | undefined> {
    const { rows } = await this.#pool.query(
      `update standin.api_keys set revoked_at = least(revoked_at, now()) where api_key_id = $1 returning ${COLUMNS}`,
      [api_key_id],
      deadline_ms,
    );
    return rows[0] === undefined ? undefined : apiKeyOf(rows[0]);
  }
}

function apiKeyOf(row: Record<string, string | null>): ApiKey {
  return {
    api_key_id: row.api_key_id!,
    client_id: row.client_id!,
    created_at: new Date(row.created_at!),
    expires_at: dateOf(row.expires_at),
    revoked_at: dateOf(row.revoked_at),
  };
}
