/**
 * The protocol between the page and the service. GET PATHS.state returns a ConsoleState. GET
 * PATHS.events streams server-sent events: `history` once, then `sample` every SAMPLE_INTERVAL_MS
 * and `state` every few seconds. GET PATHS.requests returns RecentRequestsShown, GET PATHS.client a
 * ClientDetail, and GET PATHS.policy a PolicyDetail. These contain no value, token or API key.
 */
export const PATHS = {
  state: '/console/state',
  events: '/console/events',
  requests: '/console/requests',
  /** With the query `?id=` and a client_id. */
  client: '/console/client',
  policy: '/console/policy',
  /** Answers a sign-in with a SignedIn. */
  session: '/console/session',
  /** The API reference: a piece of HTML for the page. */
  reference: '/console/reference',
  /** Answers a POST with an API key in API_KEY_HEADER with the ClientDetail of its client. */
  apiKey: '/console/playground/api-key',
  tokenize: '/console/playground/tokenize',
  detokenize: '/console/playground/detokenize',
  'text/tokenize': '/console/playground/text',
} as const;

/** Without ADMIN_TOKEN, these are not there. */
export const ADMIN_PATHS = {
  /** Answers with an AdminSessionShown, and a sign-in also with a SignedIn. */
  session: '/console/admin/session',
  /** Answers a POST with a TicketShown. */
  ticket: '/console/admin/ticket',
  api: '/admin/v1',
} as const;

/** The operations of the playground. */
export const OPERATIONS = ['tokenize', 'detokenize', 'text/tokenize'] as const;
export type Operation = (typeof OPERATIONS)[number];

/** The header in which the playground sends the API key that the user typed. */
export const API_KEY_HEADER = 'Standin-Api-Key';

/** The header `Prefer` of a playground's detokenize that may leave tokens as they are. */
export const LENIENT = 'handling=lenient';

/**
 * A session is a cookie and a secret of the page. The browser sends the cookie to every port of the
 * host, so the cookie alone is worth nothing. The page sends its secret in the header of the
 * session.
 */
export const SESSION_HEADERS = { console: 'Standin-Console', admin: 'Standin-Admin' } as const;

export type SignedIn = { readonly page_secret: string };

/** The header in which an act of a signed-in administrator has its ticket. */
export const TICKET_HEADER = 'Standin-Ticket';

/** Name of the token; null: nobody is signed in. */
export type AdminSessionShown = { readonly name: string | null };

/** Lets one act through. */
export type TicketShown = { readonly ticket: string };

/** The data of the server-sent events, by event name. */
export interface ConsoleEvents {
  /** The samples of the last HISTORY_MS, oldest first. */
  readonly history: readonly Sample[];
  readonly sample: Sample;
  readonly state: ConsoleState;
}

export const SAMPLE_INTERVAL_MS = 2_000;
export const HISTORY_MS = 15 * 60_000;

/** Counts are rates per second since the previous sample. */
export interface Sample {
  /** Unix time. */
  readonly atMs: number;
  readonly tokenize: OperationSample;
  readonly detokenize: OperationSample;
  /** Requests refused by a limit: a part of `refused`. */
  readonly limited: number;
  /** Requests refused with 503 before anything was read of them: a part of `refused`. */
  readonly shed: number;
  /** Average records per statement; null: no statement. */
  readonly batch: { readonly insert: number | null; readonly find: number | null };
}

export interface OperationSample {
  /** Requests with a status of 2xx. */
  readonly succeeded: number;
  /** Requests with a status of 4xx or 503. */
  readonly refused: number;
  /** Requests with another status of 5xx. */
  readonly failed: number;
  readonly values: number;
  /** null: no request. */
  readonly latency: Latency | null;
}

/** Quantiles, interpolated within the buckets of the histogram. */
export type Latency = Readonly<Record<'p50_ms' | 'p95_ms' | 'p99_ms', number>>;

/** null: the part could not be read, for example without the database. Times are ISO 8601. */
export interface ConsoleState {
  readonly at: string;
  readonly startedAt: string;
  /** Version of the program. */
  readonly version: string;
  readonly interfaceVersion: string;
  readonly database: {
    readonly kind: 'embedded' | 'postgres';
    readonly isUp: boolean;
    /** false: a crash can lose acknowledged tokens; null: not checked. */
    readonly isSafe: boolean | null;
  };
  /** null: no license is required. */
  readonly license: { readonly daysLeft: number } | null;
  /** null: HTTP in clear. */
  readonly certificate: { readonly expires_at: string } | null;
  /** null: REDIS_URL is not set. */
  readonly areLimitsShared: boolean | null;
  readonly vault: VaultState | null;
  readonly keys: KeysState | null;
  readonly clients: ClientsState | null;
  readonly policy: PolicyState;
  /** What this node found in texts since its start: the last days, oldest first. */
  readonly detections: readonly DetectionsOfDay[];
  /** Whether the service has an admin API. */
  readonly hasAdmin: boolean;
}

export interface DetectionsOfDay {
  /** In UTC, such as 2026-11-23. */
  readonly day: string;
  readonly counts: readonly { readonly kind: string; readonly count: number }[];
}

/** The policy that this node uses. */
export interface PolicyState {
  /** 0: none was applied. */
  readonly version: number;
  /** Of the document, because a failover can give its number to another; null: none was applied. */
  readonly tag: string | null;
  /** Why requests fail, and what to do; null: the policy is known. */
  readonly problem: string | null;
}

export interface PolicyDetail extends Pick<PolicyState, 'version' | 'tag'> {
  /** As it was applied; null: there is none, or the database does not answer. */
  readonly document: string | null;
  readonly kinds: readonly KindState[];
  /** null: every string is a `text`. */
  readonly fields: readonly FieldState[] | null;
  /** What becomes of strings at all other paths, and in words that follow `they`. */
  readonly elsewhere: 'pass' | 'refuse' | 'tokenize';
  readonly elsewhereWords: string;
}

export interface KindState {
  readonly name: string;
  /** The shape, and the options that are not the default. */
  readonly words: string;
  /** A value of nobody. */
  readonly example: { readonly value: string } & (
    | { readonly token: string; readonly mask: string }
    | { readonly refusal: string }
  );
}

export interface FieldState {
  readonly path: string;
  /** Names and indexes from `data` on; null: every item. */
  readonly steps: readonly (string | number | null)[];
  readonly kind: string;
}

/** What a client sees of the values of a kind. */
export type Right = 'full' | 'masked' | 'none';

/** A request that this node answered. */
export interface RecentRequest {
  /** Unix time. */
  readonly atMs: number;
  readonly request_id: string;
  /** null: the request had no valid API key. */
  readonly client_id: string | null;
  readonly method: string;
  readonly route: string;
  readonly status: number;
  readonly values: number;
  /** Strings that stayed in clear; null: not a success under a policy with fields. */
  readonly passed: number | null;
  readonly duration_ms: number;
  /** Why it was refused or failed; '' for a success. */
  readonly why: string;
}

/** The newest first, a few hundred of each at most. */
export interface RecentRequestsShown {
  readonly all: readonly RecentRequest[];
  /** Those that were refused or failed, also older ones than in `all`. */
  readonly refused: readonly RecentRequest[];
}

export interface VaultState {
  readonly records: number;
  readonly isEstimate: boolean;
  /** Size of the table and its indexes; null: not known. */
  readonly bytes: number | null;
  /** At most a few hundred points since the start of this process, oldest first. */
  readonly growth: readonly { readonly atMs: number; readonly records: number }[];
}

export interface KeysState {
  /** Versions of the DEK, oldest first. */
  readonly versions: readonly KeyVersionState[];
  /** Seconds since the last complete reading of the keyring. */
  readonly age_s: number;
  /** Share of the records that are sealed with the newest version, 0 to 1; null: not known. */
  readonly resealed: number | null;
}

export interface KeyVersionState {
  readonly version: number;
  readonly created_at: string;
  readonly isNewest: boolean;
  /** As counted or sampled, not when the records of the vault were; null: not known. */
  readonly records: number | null;
}

export interface ClientsState {
  /** The most recently used client first. */
  readonly shown: readonly ClientState[];
  /** How many clients are not in `shown`. */
  readonly others: number;
}

/** What a list of clients and the page of a client show. */
export interface ClientFacts {
  readonly client_id: string;
  readonly name: string;
  readonly can_tokenize: boolean;
  readonly can_detokenize: boolean;
  readonly can_lookup: boolean;
  readonly token_mode: 'deterministic' | 'random';
  /** '': the default space. */
  readonly space: string;
  /** How long tokens stay known after they were last given out; null: for ever. */
  readonly time_to_live_s: number | null;
  /** null: it sent nothing under a policy with fields. */
  readonly strings: StringsState | null;
}

/** What became of strings on this node, since its start: replaced, or unchanged in clear. */
export type StringsState = Readonly<Record<'replaced' | 'passed', number>>;

export interface ClientState extends ClientFacts {
  readonly isDisabled: boolean;
  readonly liveApiKeys: number;
  /** The last use on any node, to the minute; null: never. */
  readonly last_used_at: string | null;
  /** Rate on this node over the last 10 s; null: the node does not count this client separately. */
  readonly requestsPerS: number | null;
  /** The sum of the limits of what it may do; null: no limit. */
  readonly limitPerS: number | null;
}

/** A client with what only its own page shows. Times are ISO 8601, made by JSON. */
export interface ClientDetail<Time = string> extends ClientFacts {
  readonly created_at: Time;
  readonly disabled_at: Time | null;
  /** What it sees of each kind; null: there is no policy, or the client may not detokenize. */
  readonly sees: readonly SeenKind[] | null;
  /** Of what it may do. */
  readonly limits: readonly LimitState[];
  /** The oldest first, with revoked and expired ones. */
  readonly api_keys: readonly ApiKeyState<Time>[];
  /** Of this node, at most HISTORY_MS, oldest first. */
  readonly rates: readonly { readonly atMs: number; readonly requestsPerS: number }[];
}

export interface SeenKind {
  readonly kind: string;
  readonly right: Right;
  /** What it sees of the example of the kind; null: nothing, or there is no example. */
  readonly example: string | null;
}

export interface LimitState {
  /** As the column. */
  readonly name: string;
  /** What it limits, such as `Rate limit per second`. */
  readonly words: string;
  /** 0: no limit. */
  readonly perS: number;
  /** false: the limit of the deployment. */
  readonly isOwn: boolean;
}

export interface ApiKeyState<Time = string> {
  readonly api_key_id: string;
  readonly created_at: Time;
  /** null: never. */
  readonly expires_at: Time | null;
  readonly revoked_at: Time | null;
  /** The last use on any node, to the minute; null: never. */
  readonly last_used_at: Time | null;
}
