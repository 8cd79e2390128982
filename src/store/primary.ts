import pg from 'pg';
import type { InternalError } from '../errors.ts';
import { errorCode, operatorError, Unavailable } from '../errors.ts';
import { CONNECT_TIMEOUT_MS, destroy, ignore, timelineOf } from './connection.ts';
import { databaseError, OldPrimary, ReadOnlyServer } from './database-error.ts';
import type { Host } from './hosts.ts';

/**
 * The highest timeline that any thread of the process has seen. Servers on a lower one are refused.
 */
export class Timeline {
  /** Pass it to the other threads. */
  readonly shared: SharedArrayBuffer;
  readonly #highest: Uint32Array;

  constructor(shared = new SharedArrayBuffer(Uint32Array.BYTES_PER_ELEMENT)) {
    this.shared = shared;
    this.#highest = new Uint32Array(shared);
  }

  /** @param timeline 0: unknown, never old */
  isOld(timeline: number): boolean {
    return timeline > 0 && timeline < Atomics.load(this.#highest, 0);
  }

  see(timeline: number): void {
    let highest = Atomics.load(this.#highest, 0);
    while (timeline > highest) {
      Atomics.compareExchange(this.#highest, 0, highest, timeline);
      highest = Atomics.load(this.#highest, 0);
    }
  }

  /**
   * @param where the server, in words for the operator
   * @throws OldPrimary
   */
  require(timeline: number, where: string): void {
    this.see(timeline);
    if (this.isOld(timeline)) throw new OldPrimary(where, timeline, Atomics.load(this.#highest, 0));
  }
}

type ProbeResult = Awaited<ReturnType<typeof probe>>;

// All names are qualified, so that no setting of the server changes their meaning.
const STATE = `select pg_catalog.pg_is_in_recovery() as "isStandby",
  pg_catalog.current_setting('transaction_read_only') operator(pg_catalog.=) 'off' as "takesWrites"`;
type State = Record<'isStandby' | 'takesWrites', boolean>;
const TIMELINE = 'select pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()) as wal_file';
/** After one server takes writes, the other servers have this long to say that they do too. */
const SETTLE_MS = 1_000;

/** Finds the primary among the hosts of a database URL. */
export class PrimaryFinder {
  readonly #hosts: readonly Host[];
  readonly #timeline: Timeline;
  #last: Host | undefined;

  constructor(hosts: readonly Host[], timeline: Timeline) {
    this.#hosts = hosts;
    this.#timeline = timeline;
  }

  /**
   * Asks all hosts at once, so that a dead host costs little time. After a promotion, an old
   * primary may come back and take writes, which are lost. Its timeline is lower than the new
   * primary's. Once this process has seen the higher timeline, it never uses the old primary, even
   * while the new one does not answer.
   * @throws InternalError when no host is a primary
   */
  async locate(): Promise<Host> {
    if (this.#hosts.length === 1) return this.#hosts[0]!;
    const results = await probeAll(this.#hosts, this.#timeline);
    const primaries = results.flatMap((result) =>
      'failure' in result || result.isStandby ? [] : [result],
    );
    const [best] = primaries.toSorted(
      (a, b) =>
        b.timeline - a.timeline ||
        Number(b.takesWrites) - Number(a.takesWrites) ||
        Number(b.host === this.#last) - Number(a.host === this.#last),
    );
    if (best === undefined) throw noPrimary(results);
    this.#timeline.require(best.timeline, best.host.name);
    this.#last = best.host;
    return best.host;
  }
}

/** In the order of the hosts; late hosts are missing. */
async function probeAll(hosts: readonly Host[], timeline: Timeline): Promise<ProbeResult[]> {
  const results = new Map<Host, ProbeResult>();
  await new Promise<void>((resolve) => {
    let timer: NodeJS.Timeout | undefined;
    for (const host of hosts) {
      void probe(host).then((result) => {
        results.set(host, result);
        if (results.size === hosts.length) {
          clearTimeout(timer);
          resolve();
        } else if (!('failure' in result) && result.takesWrites) {
          if (!timeline.isOld(result.timeline)) timer ??= setTimeout(resolve, SETTLE_MS);
        }
      });
    }
  });
  return hosts.flatMap((host) => results.get(host) ?? []);
}

async function probe(host: Host) {
  try {
    return { host, ...(await ask(host)) };
  } catch (error) {
    return { host, failure: databaseError(error) };
  }
}

async function ask(host: Host) {
  // The constructor throws when it cannot read a certificate that the URL names.
  const client = new pg.Client({ connectionString: host.url, application_name: 'standin' });
  client.on('error', ignore);
  const timer = setTimeout(() => destroy(client), CONNECT_TIMEOUT_MS);
  try {
    await client.connect();
    const { isStandby, takesWrites } = (await client.query<State>(STATE)).rows[0]!;
    return { isStandby, takesWrites, timeline: isStandby ? 0 : await askTimeline(client) };
  } finally {
    clearTimeout(timer);
    client.end().catch(ignore);
  }
}

/** A timeline rises at every promotion. 0 when a hosted Postgres does not reveal it. */
async function askTimeline(client: pg.Client): Promise<number> {
  try {
    return timelineOf((await client.query(TIMELINE)).rows[0].wal_file);
  } catch (error) {
    const failure = databaseError(error);
    if (failure instanceof Unavailable) throw failure;
    return 0;
  }
}

function noPrimary(results: readonly ProbeResult[]): InternalError {
  const failures = results.flatMap((result) => ('failure' in result ? [result.failure] : []));
  if (failures.length < results.length) {
    return new ReadOnlyServer(
      `No host of DATABASE_URL is a primary: ${results.map(inWords).join(', ')}. Promote one, or name the primary.`,
    );
  }
  // An error that an operator can fix, such as a wrong password, says more than a silent host.
  const canBeMended = (failure: InternalError) =>
    !(failure instanceof Unavailable) || operatorError(failure) !== undefined;
  return failures.find(canBeMended) ?? failures[0]!;
}

function inWords(result: ProbeResult): string {
  if (!('failure' in result)) return `${result.host.name} is a standby`;
  const code = errorCode(result.failure.cause);
  return `${result.host.name} does not answer${code === undefined ? '' : ` (${code})`}`;
}
