import {
  CLIENT_SETTINGS,
  type Client,
  type ClientSettings,
  SETTING_NAMES,
} from '../client-settings.ts';
import type { Durable } from '../types.ts';
import type { Pool, Query, Row } from './pool.ts';

/** undefined: the column keeps its value. */
export type ClientChange = {
  readonly [Name in keyof ClientSettings]?: ClientSettings[Name] | undefined;
} & { readonly disabled?: boolean | undefined };

export const CLIENT_COLUMNS = ['client_id', ...SETTING_NAMES, 'created_at', 'disabled_at'] as const;
const COLUMNS = CLIENT_COLUMNS.join(', ');

/**
 * An arbitrary number, different from the locks of migrations and the keyring. Processes take turns
 * to look for a client or a name that they then write. An index would refuse vaults from before,
 * where clients can share a name.
 */
const NAMES_LOCK = 7_382_161;
const LOCK_NAMES = `select pg_advisory_xact_lock(${NAMES_LOCK})`;

export class ClientStore {
  readonly #pool: Pool;

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  /**
   * Returns the setting that another client has already, instead of the client.
   * @param isDisabled whether nobody may use the client, not even before this returns
   */
  async insert(
    clientId: string,
    settings: ClientSettings,
    isDisabled: boolean,
    deadlineMs: number,
  ): Promise<Durable<Client> | Taken> {
    return this.#pool.durably(deadlineMs, async (query) => {
      const found = await taken(query, settings, clientId);
      if (found !== undefined) return found;
      const client = await insertClient(query, clientId, settings);
      return isDisabled ? updateClient(query, clientId, { disabled: true }) : client;
    });
  }

  /**
   * Inserts the first client and runs `work`, in one transaction. Returns undefined when the vault
   * already has a client, also when another node was faster.
   */
  async insertFirst<T>(
    clientId: string,
    settings: ClientSettings,
    work: (query: Query) => Promise<T>,
    deadlineMs: number,
  ): Promise<Durable<T | undefined>> {
    return this.#pool.durably(deadlineMs, async (query) => {
      await query(LOCK_NAMES);
      const { rows } = await query('select 1 from standin.clients limit 1');
      if (rows.length > 0) return undefined;
      await insertClient(query, clientId, settings);
      return work(query);
    });
  }

  async list(deadlineMs: number): Promise<Client[]> {
    const text = `select ${COLUMNS} from standin.clients order by created_at, client_id`;
    return (await this.#pool.query(text, [], deadlineMs)).rows.map(clientOf);
  }

  /**
   * Returns the client after the change, or the setting that another client has already.
   * @param check gets the client as it is before the change, and may throw to leave it so
   */
  async update(
    clientId: string,
    change: ClientChange,
    deadlineMs: number,
    check?: (client: Client) => void,
  ): Promise<Durable<Client> | Taken> {
    return this.#pool.durably(deadlineMs, async (query) => {
      // Until the transaction ends, nobody else changes the client.
      const text = `select ${COLUMNS} from standin.clients where client_id = $1 for update`;
      check?.(clientOf((await query(text, [clientId])).rows[0]!));
      return (await taken(query, change, clientId)) ?? updateClient(query, clientId, change);
    });
  }
}

async function updateClient(query: Query, clientId: string, change: ClientChange): Promise<Client> {
  const changed = SETTING_NAMES.filter((name) => change[name] !== undefined);
  const assignments = changed.map((name, i) => `${name} = $${i + 2}`);
  assignments.push(`disabled_at = ${disabledAt(change.disabled)}`);
  const text = `update standin.clients set ${assignments.join(', ')} where client_id = $1 returning ${COLUMNS}`;
  const values = [clientId, ...changed.map((name) => change[name])];
  return clientOf((await query(text, values)).rows[0]!);
}

/** A setting that only one client can have. */
export type Taken = 'name' | 'subject';

const TAKEN = `select $1 in (name, client_id) as is_name from standin.clients
  where ($1 in (name, client_id) or subject = $2) and client_id <> $3 order by 1 desc limit 1`;

/** Until the transaction ends, nobody else takes them. For a name, ids of other clients count. */
async function taken(
  query: Query,
  { name, subject }: ClientChange,
  clientId: string,
): Promise<Taken | undefined> {
  if (name === undefined && subject == null) return undefined;
  await query(LOCK_NAMES);
  const [found] = (await query(TAKEN, [name ?? '', subject ?? null, clientId])).rows;
  if (found === undefined) return undefined;
  return found.is_name === 't' ? 'name' : 'subject';
}

/** `least` ignores nulls. Citus refuses now() inside `coalesce` and `case`. */
function disabledAt(disabled: boolean | undefined): string {
  if (disabled === undefined) return 'disabled_at';
  return disabled ? 'least(disabled_at, now())' : 'null';
}

async function insertClient(query: Query, id: string, settings: ClientSettings): Promise<Client> {
  const parameters = SETTING_NAMES.map((_, i) => `$${i + 2}`).join(', ');
  const text = `insert into standin.clients (client_id, ${SETTING_NAMES.join(', ')}) values ($1, ${parameters}) returning ${COLUMNS}`;
  const values = [id, ...SETTING_NAMES.map((name) => settings[name])];
  return clientOf((await query(text, values)).rows[0]!);
}

export function clientOf(row: Row): Client {
  const settings = SETTING_NAMES.map((name) => {
    const text = row[name];
    return [name, text == null ? null : CLIENT_SETTINGS[name].ofColumn(text)];
  });
  return {
    client_id: row.client_id!,
    ...(Object.fromEntries(settings) as ClientSettings),
    created_at: new Date(row.created_at!),
    disabled_at: dateOf(row.disabled_at),
  };
}

export function dateOf(text: string | null | undefined): Date | null {
  return text == null ? null : new Date(text);
}
