const MAX_REQUESTS = 200;

/** A request as it ends. */
interface Ended {
  readonly id: string;
  readonly route: string | undefined;
  readonly request: { readonly method?: string | undefined };
  readonly caller: { readonly client: { readonly client_id: string } } | null;
}

interface EndedResponse {
  readonly status: number;
  readonly values?: number;
  readonly passed?: number | undefined;
  /** What the body does not say. */
  readonly why?: string | undefined;
  readonly body: unknown;
}

type Kept = ReturnType<typeof keptOf>;

/** The last requests, in memory. */
export class RecentRequests {
  readonly #all: Kept[] = [];
  /** Apart, because successes alone would soon push them out. */
  readonly #refused: Kept[] = [];

  push(ended: Ended, answer: EndedResponse, durationMs: number): void {
    const isRefused = answer.status >= 400;
    // Probes and OPTIONS come without a client, and would push out what a reader looks for.
    if (!isRefused && ended.caller === null) return;
    const kept = keptOf(ended, answer, durationMs);
    for (const list of isRefused ? [this.#all, this.#refused] : [this.#all])
      if (list.push(kept) > MAX_REQUESTS) list.shift();
  }

  /** The newest first: the last requests, and the last ones that were refused or failed. */
  get newest() {
    return { all: this.#all.toReversed(), refused: this.#refused.toReversed() };
  }
}

/**
 * The facts that the log line has too: no value, no token, no API key. `RecentRequest` of the
 * console's protocol, which its route returns, says what each is.
 */
function keptOf(
  { id, route = 'none', request, caller }: Ended,
  { status, values = 0, passed, body, why }: EndedResponse,
  durationMs: number,
) {
  return {
    atMs: Date.now(),
    request_id: id,
    client_id: caller === null ? null : caller.client.client_id,
    method: request.method!,
    route,
    status,
    values,
    passed: passed ?? null,
    duration_ms: durationMs,
    why: status >= 400 && body !== undefined ? reasonIn(String(body), why) : '',
  };
}

/** A path in a message has names of fields, which are the caller's: the log has none either. */
const PATH = /^(body|data(\.[\w-]+|\[\d+\]|\["([^"\\]|\\.)*"\])*): /;

/** The code and the fixed text of an error's body, without the path. */
function reasonIn(body: string, detail: string | undefined): string {
  const { error, message } = JSON.parse(body) as { error: string; message?: string };
  if (message === undefined) return detail === undefined ? error : `${error}: ${detail}`;
  if (error === 'internal_error') return message;
  const [path] = PATH.exec(message) ?? [];
  return path === undefined ? error : `${error}: ${message.slice(path.length)}`;
}
