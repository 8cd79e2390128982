/**
 * What the page and the service say to each other. GET PATHS.state answers a ConsoleState. GET
 * PATHS.events is a stream of server-sent events: `history` once, then `sample` every
 * SAMPLE_INTERVAL_MS and `state` every few seconds. The service sends no value, token or key.
 */
export const PATHS = {
  state: '/console/state',
  events: '/console/events',
  session: '/console/session',
  tokenize: '/console/playground/tokenize',
  detokenize: '/console/playground/detokenize',
} as const;

/** What the playground can try out. */
export type Operation = 'tokenize' | 'detokenize';

/** The header in which the playground sends the API key that was typed in. */
export const API_KEY_HEADER = 'Standin-Api-Key';

/** The data of the server-sent events, by their names. */
export interface ConsoleEvents {
  /** The samples of the last HISTORY_MS, oldest first. */
  readonly history: readonly Sample[];
  readonly sample: Sample;
  readonly state: ConsoleState;
}

export const SAMPLE_INTERVAL_MS = 2_000;
export const HISTORY_MS = 15 * 60_000;

/** Counts are a second, over the time since the sample before. */
export interface Sample {
  /** Unix time. */
  readonly atMs: number;
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
  readonly startedAt: string;
  /** Of the public listener, as it listens: the host may be 0.0.0.0 or [::]. */
  readonly serviceUrl: string;
  /** Of the program. */
  readonly version: string;
  readonly interfaceVersion: string;
  readonly database: {
    readonly kind: 'embedded' | 'postgres';
    readonly isUp: boolean;
    /** false: a crash can lose acknowledged tokens; null: not looked at. */
    readonly isSafe: boolean | null;
  };
  /** null: no license is asked for. */
  readonly license: { readonly daysLeft: number } | null;
  /** null: HTTP in clear. */
  readonly certificate: { readonly expires_at: string } | null;
  /** null: limits are not meant to be shared. */
  readonly areLimitsShared: boolean | null;
  readonly vault: VaultState | null;
  readonly keys: KeysState | null;
  readonly clients: ClientsState | null;
}

export interface VaultState {
  readonly records: number;
  readonly isEstimate: boolean;
  /** Of the table with its indexes; null: not known. */
  readonly bytes: number | null;
  /** At most a few hundred points over the time that this process has run, oldest first. */
  readonly growth: readonly { readonly atMs: number; readonly records: number }[];
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
  readonly isNewest: boolean;
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
  readonly isDisabled: boolean;
  readonly can_tokenize: boolean;
  readonly can_detokenize: boolean;
  readonly token_mode: 'deterministic' | 'random';
  readonly liveApiKeys: number;
  /** On any node, to the minute; null: never. */
  readonly last_used_at: string | null;
  /** On this node, over the last 10 s; null: not counted by itself, but with others. */
  readonly requestsPerS: number | null;
  /** Requests a second, but for detokenize, which has a limit of its own; null: no limit. */
  readonly rate_limit: number | null;
}
