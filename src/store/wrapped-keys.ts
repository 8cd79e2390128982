import { OperatorError } from '../errors.ts';
import type { Durable, KeyPurpose, WrappedKey } from '../types.ts';
import { bytesOfBytea } from './bytea-array.ts';
import type { Pool, Query } from './pool.ts';
import { requireOwner } from './schema.ts';

/**
 * An arbitrary number, the same in all versions. Nodes that make the vault at the same time take
 * turns.
 */
export const VAULT_LOCK = 7_382_160;

/**
 * Never make new keys here: they would not open old records, and equal values would get other
 * tokens.
 */
const KEYS_ARE_GONE =
  'The vault exists, but its keys are gone: standin.keyring is empty. Restore that table from your backup; nothing was changed.';

export type NewKey = Omit<WrappedKey, 'id' | 'created_at'>;

/** The keys of the vault, while no other process can change them. */
export type LockedKeys = ReturnType<typeof lockedKeys>;

function lockedKeys(query: Query, keys: readonly WrappedKey[]) {
  const WHICH = "where purpose = 'dek' and version = $1";
  return {
    keys,
    insert: (key: NewKey) => insertKey(query, key),
    /** Replaces the wrapping of an existing key. */
    update: ({ purpose, version, kek_id: kekId, wrapped }: NewKey) => {
      const text =
        'update standin.keyring set kek_id = $3, wrapped = $4 where purpose = $1 and version = $2';
      return query(text, [purpose, version, kekId, wrapped]);
    },
    /** After the commit, no new statement writes a record with this DEK version. */
    close: (version: number) => {
      const text = `update standin.keyring set closed_at = now() ${WHICH} and closed_at is null`;
      return query(text, [version]);
    },
    /** Removes a DEK version. */
    remove: (version: number) => {
      return query(`delete from standin.keyring ${WHICH}`, [version]);
    },
    /** Age of a DEK version in seconds, by the clock of the database. */
    ageOf: async (version: number): Promise<number> => {
      const age = 'extract(epoch from clock_timestamp() - created_at) as age_s';
      const text = `select ${age} from standin.keyring ${WHICH}`;
      return Number((await query(text, [version])).rows[0]!.age_s);
    },
    countRecords: (version: number) => countRecords(query, version),
  };
}

/**
 * Transactions that write records now, or wait to write them. An insert takes this lock before it
 * reads the open key versions, and holds it until its transaction ends. So a writer that is missing
 * here will read what is committed. `lock table` would hold up all later writers.
 */
const WRITERS = `select virtualtransaction as id, pid from pg_locks
  where locktype = 'relation' and relation = 'standin.records'::regclass
    and database = (select oid from pg_database where datname = current_database())
    and mode = 'RowExclusiveLock'`;
const WRITERS_PAUSE_MS = 20;
/** For the last query, which may start just before the time is up. */
const LOCKS_TIMEOUT_MS = 5_000;

/** The wrapped keys of the vault, and the suffix of its tokens, which is fixed at its creation. */
export class WrappedKeyStore {
  readonly #pool: Pool;

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  async list(deadlineMs: number): Promise<WrappedKey[]> {
    return listKeys(this.#pool.queryUntil(deadlineMs));
  }

  /**
   * The keys, as durable as a record that was written. A rotation whose wait for the standby was
   * cancelled is visible, but a failover loses it: the next rotation makes another key of the same
   * version.
   */
  async listDurable(deadlineMs: number): Promise<Durable<WrappedKey[]>> {
    return this.#pool.durably(deadlineMs, listKeys);
  }

  async tokenSuffix(deadlineMs: number): Promise<string | null | undefined> {
    const text = "select value from standin.settings where name = 'token_suffix'";
    return (await this.#pool.query(text, [], deadlineMs)).rows[0]?.value;
  }

  /** Runs `work` in one transaction. On all machines, only one such transaction runs at a time. */
  async locked<T>(deadlineMs: number, work: (keys: LockedKeys) => Promise<T>): Promise<Durable<T>> {
    return this.#pool.durably(deadlineMs, async (query) =>
      work(lockedKeys(query, await lockAndList(query))),
    );
  }

  /** As in LockedKeys, without the lock. */
  async countRecords(keyVersion: number, deadlineMs: number): Promise<number> {
    return countRecords(this.#pool.queryUntil(deadlineMs), keyVersion);
  }

  /** DEK versions that no statement writes any more, and since when. */
  async closed(deadlineMs: number): Promise<Map<number, Date>> {
    const text = 'select version, closed_at from standin.keyring where closed_at is not null';
    const { rows } = await this.#pool.query(text, [], deadlineMs);
    return new Map(rows.map((row) => [Number(row.version), new Date(row.closed_at!)]));
  }

  /**
   * Resolves when every transaction that could write records at the call has ended.
   * @returns the transactions left after `timeoutMs`: the process id of a backend, or `prepared`
   */
  async writersGone(timeoutMs: number): Promise<readonly string[]> {
    const giveUpMs = performance.now() + timeoutMs;
    let first: ReadonlySet<string> | undefined;
    for (;;) {
      const { rows } = await this.#pool.query(WRITERS, [], giveUpMs + LOCKS_TIMEOUT_MS);
      first ??= new Set(rows.map((row) => row.id!));
      const left = rows.filter((row) => first!.has(row.id!));
      if (left.length === 0 || performance.now() > giveUpMs)
        return left.map((row) => row.pid ?? 'prepared');
      await new Promise((resolve) => setTimeout(resolve, WRITERS_PAUSE_MS));
    }
  }

  /** Makes the vault, unless another node was faster. Returns the keys of the vault. */
  async create(
    keys: readonly NewKey[],
    tokenSuffix: string,
    deadlineMs: number,
  ): Promise<WrappedKey[]> {
    return this.#pool.transaction(deadlineMs, async (query) => {
      const existing = await lockAndList(query);
      if (existing.length > 0) return existing;
      const { rows: made } = await query('select name from standin.settings limit 1');
      if (made.length > 0) throw new OperatorError(KEYS_ARE_GONE);
      for (const key of keys) await insertKey(query, key);
      await requireOwner(query);
      const text = "insert into standin.settings (name, value) values ('token_suffix', $1)";
      await query(text, [tokenSuffix]);
      return listKeys(query);
    });
  }
}

async function lockAndList(query: Query): Promise<WrappedKey[]> {
  await query('select pg_advisory_xact_lock($1::bigint)', [VAULT_LOCK]);
  return listKeys(query);
}

function insertKey(query: Query, { purpose, version, kek_id: kekId, wrapped }: NewKey) {
  const text =
    'insert into standin.keyring (purpose, version, kek_id, wrapped) values ($1, $2, $3, $4)';
  return query(text, [purpose, version, kekId, wrapped]);
}

/** Counts records with a value that this DEK version seals. Reads the whole table. */
async function countRecords(query: Query, version: number): Promise<number> {
  const text =
    'select count(*) as records from standin.records where key_version = $1::smallint and octet_length(sealed) > 0';
  return Number((await query(text, [version])).rows[0]!.records);
}

async function listKeys(query: Query): Promise<WrappedKey[]> {
  const { rows } = await query(
    'select purpose, version, kek_id, wrapped, created_at from standin.keyring order by purpose, version',
  );
  return rows.map((row) => ({
    id: row.created_at!,
    purpose: row.purpose as KeyPurpose,
    version: Number(row.version),
    kek_id: row.kek_id!,
    wrapped: bytesOfBytea(row.wrapped!),
    created_at: new Date(row.created_at!),
  }));
}
