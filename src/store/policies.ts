import type { Durable } from '../types.ts';
import type { Pool, Query, Row } from './pool.ts';

/** A version of the policy. */
export interface PolicyVersion {
  /** 1, 2, 3 and so on, without gaps. */
  readonly version: number;
  readonly applied_at: Date;
  /** User of the database. */
  readonly applied_by: string;
}

export interface StoredPolicy extends PolicyVersion {
  /** As it was applied, byte for byte. */
  readonly document: string;
}

export interface AppliedPolicy {
  readonly version: number;
  /** false: the newest version was this document already. */
  readonly is_new: boolean;
}

/** The facts that a node needs to serve by a version. */
export interface PolicyHead extends PolicyVersion {
  /** It was found durable. */
  readonly is_durable: boolean;
  /** false: it may be durable without being known as such, because an older program applied it. */
  readonly is_noted: boolean;
}

/** An arbitrary number, different from the locks of migrations, keys and names of clients. */
const POLICY_LOCK = 7_382_162;

const HEAD = 'version, applied_at, applied_by';
const HEADS = `select ${HEAD} from standin.policies order by version desc`;
const NEWEST = `select ${HEAD}, document from standin.policies order by version desc limit 1`;

const DURABLE =
  'select 1 from standin.durable_policies as noted where noted.version = policies.version and noted.applied_at = policies.applied_at';
/** The newest version, the newest durable one, the newest that may be durable, and `$1`. */
const CANDIDATES = `select ${HEAD}, is_noted, exists (${DURABLE}) as is_durable
  from standin.policies where version in (
    (select max(version) from standin.policies),
    (select max(version) from standin.policies where not is_noted),
    (select max(version) from standin.policies where exists (${DURABLE})),
    $1::integer)
  order by version desc`;
const NOTE = `insert into standin.durable_policies (version, applied_at)
  select version, applied_at from standin.policies where version = $1 and document = $2
  on conflict do nothing`;

const HAS_BARE_TOKENS = "select 1 from standin.settings where name = 'bare_tokens'";

/** The versions of the policy. No row changes, and none is removed. */
export class PolicyStore {
  readonly #pool: Pool;

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  /** undefined: no policy was applied yet. */
  async newest(deadlineMs: number): Promise<StoredPolicy | undefined> {
    return newestOf(this.#pool.queryUntil(deadlineMs));
  }

  /**
   * The versions that decide which one is in force, the newest first. Waits for no standby.
   * @param known the version that the caller uses now; 0: none
   */
  async candidates(known: number, deadlineMs: number): Promise<PolicyHead[]> {
    const { rows } = await this.#pool.query(CANDIDATES, [known], deadlineMs);
    return rows.map((row) => ({
      ...headOf(row),
      is_durable: row.is_durable === 't',
      is_noted: row.is_noted === 't',
    }));
  }

  /**
   * `newest`, as durable as a record that was written. A version whose wait for the standby was
   * cancelled is visible, but a failover loses it, and another document then gets its version.
   */
  async newestDurable(deadlineMs: number): Promise<Durable<StoredPolicy> | undefined> {
    return this.#pool.durably(deadlineMs, newestOf);
  }

  /** Whether tokens without the suffix were imported, so that guesses at them count. */
  async hasBareTokens(deadlineMs: number): Promise<boolean> {
    return (await this.#pool.query(HAS_BARE_TOKENS, [], deadlineMs)).rows.length > 0;
  }

  /**
   * Tells all nodes that such tokens will be stored. Returns whether they knew before: then
   * `addBareTokens` was called, and no wait was cut short.
   */
  async announceBareTokens(deadlineMs: number): Promise<boolean> {
    return this.#pool.transaction(deadlineMs, async (query) => {
      await query(`insert into standin.settings (name, value) values ('bare_tokens', 'announced')
        on conflict do nothing`);
      const { rows } = await query("select value from standin.settings where name = 'bare_tokens'");
      return rows[0]!.value !== 'announced';
    });
  }

  /** Call it when all nodes know, and before the first such token is stored. */
  async addBareTokens(deadlineMs: number): Promise<void> {
    const text = `insert into standin.settings (name, value) values ('bare_tokens', 'imported')
      on conflict (name) do update set value = excluded.value`;
    await this.#pool.query(text, [], deadlineMs);
  }

  /** undefined: there is no such version. */
  async get(version: number, deadlineMs: number): Promise<StoredPolicy | undefined> {
    const text = `select ${HEAD}, document from standin.policies where version = $1`;
    return (await this.#pool.query(text, [version], deadlineMs)).rows.map(storedOf)[0];
  }

  /** The newest version first. */
  async list(deadlineMs: number): Promise<PolicyVersion[]> {
    return (await this.#pool.query(HEADS, [], deadlineMs)).rows.map(headOf);
  }

  /**
   * Adds a version, unless the newest is this document already. Calls at the same time take turns,
   * on all machines.
   * @param expectedVersion the newest version that the caller has seen; 0: none
   * @returns the newest version; undefined: another document is the newest, and nothing was changed
   */
  async apply(
    document: string,
    expectedVersion: number,
    deadlineMs: number,
  ): Promise<Durable<AppliedPolicy> | undefined> {
    const applied = await this.#pool.durably(deadlineMs, async (query) => {
      await query('select pg_advisory_xact_lock($1::bigint)', [POLICY_LOCK]);
      const newest = await newestOf(query);
      if (newest?.document === document) return { version: newest.version, is_new: false };
      if ((newest?.version ?? 0) !== expectedVersion) return undefined;
      const text =
        'insert into standin.policies (version, document, is_noted) values ($1, $2, true)';
      await query(text, [expectedVersion + 1, document]);
      return { version: expectedVersion + 1, is_new: true };
    });
    return applied && this.note(applied, document, deadlineMs);
  }

  /** Notes that a version is durable. The note is durable, too, when the promise resolves. */
  async note<T extends { readonly version: number }>(
    applied: Durable<T>,
    document: string,
    deadlineMs: number,
  ): Promise<Durable<T>> {
    return this.#pool.durably(deadlineMs, async (query) => {
      await query(NOTE, [applied.version, document]);
      return applied;
    });
  }
}

/** The version alone, of what has more. */
export function versionOf({ version, applied_at, applied_by }: PolicyVersion): PolicyVersion {
  return { version, applied_at, applied_by };
}

async function newestOf(query: Query): Promise<StoredPolicy | undefined> {
  return (await query(NEWEST)).rows.map(storedOf)[0];
}

function storedOf(row: Row): StoredPolicy {
  return { ...headOf(row), document: row.document! };
}

function headOf(row: Row): PolicyVersion {
  return {
    version: Number(row.version),
    applied_at: new Date(row.applied_at!),
    applied_by: row.applied_by!,
  };
}
