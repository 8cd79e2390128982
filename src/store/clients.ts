import type { Client, TokenMode } from '../types.ts';
import type { Pool } from './pool.ts';

const COLUMNS = 'client_id, name, rate_limit, token_mode, created_at, disabled_at';

export interface ClientChange {
  readonly name?: string;
  readonly rate_limit?: number | null;
  readonly token_mode?: TokenMode;
  readonly disabled?: boolean;
}

export class ClientStore {
  readonly #pool: Pool;

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  async insert(
    client_id: string,
    name: string,
    rate_limit: number | null,
    token_mode: TokenMode,
    deadline_ms: number,
  ): Promise<Client> {
    const { rows } = await this.#pool.query(
      `insert into standin.clients (client_id, name, rate_limit, token_mode) values ($1, $2, $3, $4) returning ${COLUMNS}`,
      [client_id, name, rate_limit, token_mode],
      deadline_ms,
    );
    return clientOf(rows[0]!);
  }

  async list(deadline_ms: number): Promise<Client[]> {
    const { rows } = await this.#pool.query(
      `select ${COLUMNS} from standin.clients order by created_at, client_id`,
      [],
      deadline_ms,
    );
    return rows.map(clientOf);
  }

  /** The client as it is after the change, or undefined when there is none of that id. */
  async update(
    client_id: string,
    change: ClientChange,
    deadline_ms: number,
  ): Promise<Client | undefined> {
    const { rows } = await this.#pool.query(
      `update standin.clients set
         name = coalesce($2, name),
         rate_limit = case when $3 then $4::double precision else rate_limit end,
         token_mode = coalesce($5, token_mode),
         disabled_at = ${disabledAt(change.disabled)}
       where client_id = $1 returning ${COLUMNS}`,
      [
        client_id,
        change.name ?? null,
        change.rate_limit !== undefined,
        change.rate_limit ?? null,
        change.token_mode ?? null,
      ],
      deadline_ms,
    );
    return rows[0] === undefined ? undefined : clientOf(rows[0]);
  }
}

/** Not `coalesce`, nor `case`: Citus takes no now() in them. `least` passes over nulls. */
function disabledAt(disabled: boolean | undefined): string {
  if (disabled === undefined) return 'disabled_at';
  return disabled ? 'least(disabled_at, now())' : 'null';
}

function clientOf(row: Record<string, string | null>): Client {
  return {
    client_id: row.client_id!,
    name: row.name!,
    rate_limit: row.rate_limit === null ? null : Number(row.rate_limit),
    token_mode: row.token_mode as TokenMode,
    created_at: new Date(row.created_at!),
    disabled_at: dateOf(row.disabled_at),
  };
}

export function dateOf(text: string | null | undefined): Date | null {
  return text == null ? null : new Date(text);
}
