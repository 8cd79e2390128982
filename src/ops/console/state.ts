/**
 * What the console is told: GET /console/state answers a ConsoleState, GET /console/events is a
 * stream of server-sent events: `history` (the samples of the last 15 minutes) once at its
 * beginning, then `sample` every SAMPLE_INTERVAL_MS, and `state` every few seconds. No value, no
 * token and no key is in it.
 */
export const SAMPLE_INTERVAL_MS = 2_000;

/** Counts are a second, over the time since the sample before. */
export interface Sample {
  /** Unix time. */
  readonly at_ms: number;
  readonly tokenize: OperationSample;
  readonly detokenize: OperationSample;
  /** Refusals by limit. */
  readonly limited: {
    readonly requests: number;
    readonly detokenize: number;
    readonly unknown_tokens: number;
  };
  /** Refused with 503 before they were looked at. */
  readonly shed: number;
  /** Records a statement, on average; null: there was none. */
  readonly batch: { readonly insert: number | null; readonly find: number | null };
}

export interface OperationSample {
  /** Requests with a status of 2xx. */
  readonly succeeded: number;
  /** With 4xx: the caller's. */
  readonly refused: number;
  /** With 5xx: ours. */
  readonly failed: number;
  readonly values: number;
  /** null: there was no request. */
  readonly latency: Latency | null;
}

/** In milliseconds, interpolated in the buckets of the histogram. */
export interface Latency {
  readonly p50_ms: number;
  readonly p95_ms: number;
  readonly p99_ms: number;
}

/** null parts: could not be read, for example because the database is away. Times are ISO 8601. */
export interface ConsoleState {
  readonly at: string;
  readonly started_at: string;
  /** Of the public listener, as it listens: the host may be 0.0.0.0 or [::]. */
  readonly service_url: string;
  /** Of the program. */
  readonly version: string;
  readonly interface_version: string;
  readonly database: {
    readonly kind: 'embedded' | 'postgres';
    readonly is_up: boolean;
    /** false: a crash can lose acknowledged tokens; null: not looked at. */
    readonly is_safe: boolean | null;
  };
  /** null: no license is asked for. */
  readonly license: { readonly days_left: number } | null;
  /** null: HTTP in clear. */
  readonly certificate: { readonly expires_at: string } | null;
  /** null: limits are not meant to be shared. */
  readonly are_limits_shared: boolean | null;
  readonly vault: VaultState | null;
  readonly keys: KeysState | null;
  readonly clients: ClientsState | null;
}

export interface VaultState {
  readonly records: number;
  readonly is_estimate: boolean;
  /** Of the table with its indexes; null: not known. */
  readonly bytes: number | null;
  /** At most a few hundred points over the time that this process has run, oldest first. */
  readonly growth: readonly { readonly at_ms: number; readonly records: number }[];
}

export interface KeysState {
  /** Of the DEK, oldest first. */
  readonly versions: readonly KeyVersionState[];
  /** Seconds since the keyring was last read whole. */
  readonly age_s: number;
  /** Share of the records that are sealed with the newest version, 0 to 1; null: not known. */
  readonly resealed: number | null;
}

export interface KeyVersionState {
  readonly version: number;
  readonly created_at: string;
  readonly is_newest: boolean;
  /** An estimate by sampling; null: not known. */
  readonly records: number | null;
}

export interface ClientsState {
  /** The most recently used first. */
  readonly shown: readonly ClientState[];
  /** Further clients that are not shown. */
  readonly others: number;
}

export interface ClientState {
  readonly client_id: string;
  readonly name: string;
  readonly is_disabled: boolean;
  readonly can_tokenize: boolean;
  readonly can_detokenize: boolean;
  readonly token_mode: 'deterministic' | 'random';
  readonly live_api_keys: number;
  /** On any node, to the minute; null: never. */
  readonly last_used_at: string | null;
  /** On this node, over the last 10 s; null: not counted by itself, but with others. */
  readonly requests_per_s: number | null;
  /** Requests a second, but for detokenize, which has a limit of its own; null: no limit. */
  readonly rate_limit: number | null;
}
