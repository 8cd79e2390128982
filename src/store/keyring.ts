import { OperatorError } from '../errors.ts';
import type { KeyPurpose, WrappedKey } from '../types.ts';
import { bytesOfBytea } from './bytea-array.ts';
import type { Pool, Query } from './pool.ts';

/**
 * Any number, the same in all versions: nodes that make the vault at once do it one after the
 * other.
 */
const VAULT_LOCK = 7_382_160;

/** New keys would open nothing, and tokens made with them would not be those of before. */
const KEYS_ARE_GONE =
  'The vault is there, but its keys are gone: standin.keyring is empty. Put the table back from your backup; nothing was changed.';

export type NewKey = Omit<WrappedKey, 'created_at'>;

/** The wrapped keys of the vault and the settings that were fixed when it was made. */
export class KeyringStore {
  readonly #pool: Pool;

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  async list(deadline_ms: number): Promise<WrappedKey[]> {
    return listKeys((text, values) => this.#pool.query(text, values ?? [], deadline_ms));
  }

  async settings(deadline_ms: number): Promise<Map<string, string>> {
    const { rows } = await this.#pool.query(
      'select name, value from standin.settings',
      [],
      deadline_ms,
    );
    return new Map(rows.map((row) => [row.name!, row.value!]));
  }

  /** Makes the vault, unless another node was first; returns the keys that are there then. */
  async create(
    keys: readonly NewKey[],
    settings: ReadonlyMap<string, string>,
    deadline_ms: number,
  ): Promise<WrappedKey[]> {
    return this.#pool.transaction(deadline_ms, async (query) => {
      await query('select pg_advisory_xact_lock($1::bigint)', [VAULT_LOCK]);
      const existing = await listKeys(query);
      if (existing.length > 0) return existing;
      const { rows: made } = await query('select name from standin.settings limit 1');
      if (made.length > 0) throw new OperatorError(KEYS_ARE_GONE);
      for (const key of keys) {
        await query(
          'insert into standin.keyring (purpose, version, kek_id, wrapped) values ($1, $2, $3, $4)',
          [key.purpose, key.version, key.kek_id, key.wrapped],
        );
      }
      for (const [name, value] of settings) {
        await query('insert into standin.settings (name, value) values ($1, $2)', [name, value]);
      }
      return listKeys(query);
    });
  }
}

async function listKeys(query: Query): Promise<WrappedKey[]> {
  const { rows } = await query(
    'select purpose, version, kek_id, wrapped, created_at from standin.keyring order by purpose, version',
  );
  return rows.map((row) => ({
    purpose: row.purpose as KeyPurpose,
    version: Number(row.version),
    kek_id: row.kek_id!,
    wrapped: bytesOfBytea(row.wrapped!),
    created_at: new Date(row.created_at!),
  }));
}
