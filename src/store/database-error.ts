import { errorCode, InternalError, OperatorError, Unavailable } from '../errors.ts';

/** SQLSTATE classes and codes that mean "not now": connection, shutdown, resources, conflict. */
const UNAVAILABLE_CLASSES = new Set(['08', '53', '57', '58']);
const UNAVAILABLE_CODES = new Set(['40001', '40P01', '55P03', 'XX000']);

/** No SQLSTATE begins with E, but every errno name does: EPIPE is as long. */
const SQLSTATE = /^(?!E)[0-9A-Z]{5}$/;
const READ_ONLY = '25006';

/** This process must not use the server. */
class Unusable extends Unavailable {
  readonly code: string | undefined;

  /** @param problem for the operator */
  constructor(problem: string, code: string | undefined) {
    super(new OperatorError(problem));
    this.code = code;
  }
}

/** The server takes no writes: it is a standby, or a primary that was made read-only. */
export class ReadOnlyServer extends Unusable {
  constructor(
    problem = 'DATABASE_URL leads to a standby or a read-only server, which takes no writes. Point it at the primary.',
  ) {
    super(problem, READ_ONLY);
  }
}

/** The server was the primary before a promotion. Whatever is written to it is lost. */
export class OldPrimary extends Unusable {
  /** @param where the server, in words for the operator */
  constructor(where: string, timeline: number, highest: number) {
    super(
      `${where} is on timeline ${timeline}, and this process has used timeline ${highest}: an old primary is back, and writes to it would be lost. This process waits for the newest primary. Stop the old primary. If you went back to an older server on purpose (a backup, pg_upgrade), restart this process.`,
      'OLD_PRIMARY',
    );
  }
}

/** Codes of Node for a certificate that it does not trust. */
const CERTIFICATE_CODES =
  /^(CERT_\w+|DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_\w+)$/;
const NO_TLS = 'The server does not support SSL connections';

/** Why TLS to the database failed, if an operator can fix it. */
function tlsProblem(error: unknown): string | undefined {
  const { code = '', syscall, path } = error as NodeJS.ErrnoException;
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID')
    return `The certificate of the database is not for the host in DATABASE_URL (${code}). Name the host as in the certificate, or give the server a certificate for this host.`;
  if (CERTIFICATE_CODES.test(code))
    return `The certificate of the database is not trusted (${code}). Name the authority that issued it in DATABASE_URL with sslrootcert=FILE.`;
  if (syscall === 'open' && path !== undefined)
    return `A certificate file that DATABASE_URL names cannot be read: ${path} (${code}). Correct sslrootcert, sslcert or sslkey.`;
  if (error instanceof Error && error.message === NO_TLS)
    return 'The database does not support TLS, but sslmode in DATABASE_URL demands it. Turn on ssl in its postgresql.conf.';
  return undefined;
}

const NOT_ALLOWED = '42501';

/** The database user lacks a right: the service's user was used for a task of the owner. */
export class NotAllowed extends InternalError {
  readonly code = NOT_ALLOWED;

  /** @param problem for the operator */
  constructor(
    problem = "The user of DATABASE_URL may not do this. Run it as the owner of the vault's tables; to give a role the rights of the service, run: standin migrate --grant-to ROLE",
  ) {
    super('unexpected', { cause: new OperatorError(problem) });
  }
}

/** @throws NotAllowed with this problem when the database user lacks a right for `work` */
export async function allowedOr<T>(problem: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw error instanceof NotAllowed ? new NotAllowed(problem) : error;
  }
}

/**
 * Sorts an error of pg. Unavailable: another attempt may succeed. Otherwise a 500 with the error as
 * its cause.
 */
export function databaseError(error: unknown): InternalError {
  if (error instanceof InternalError) return error;
  const problem = tlsProblem(error);
  const code = errorCode(error);
  if (problem !== undefined) return new Unusable(problem, code);
  // Codes of the operating system are about the connection, and pg gives a lost one no code.
  if (code === undefined || !SQLSTATE.test(code)) return new Unavailable(error);
  if (code === READ_ONLY) return new ReadOnlyServer();
  if (code === NOT_ALLOWED) return new NotAllowed();
  if (UNAVAILABLE_CODES.has(code) || UNAVAILABLE_CLASSES.has(code.slice(0, 2)))
    return new Unavailable(error);
  return new InternalError('unexpected', { cause: error });
}

/** First pause before another attempt. The pause doubles each time, within the deadline. */
const RETRY_PAUSE_MS = 25;
/**
 * Long enough for a promotion under way, short enough to tell callers soon that the vault is
 * read-only.
 */
const READ_ONLY_TIMEOUT_MS = 500;

/**
 * Tries again while the database is unavailable and the deadline allows. `attempt` must be
 * idempotent.
 */
export async function retried<T>(deadlineMs: number, attempt: () => Promise<T>): Promise<T> {
  const readOnlyDeadlineMs = performance.now() + READ_ONLY_TIMEOUT_MS;
  for (let pauseMs = RETRY_PAUSE_MS; ; pauseMs *= 2) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      const nextMs = performance.now() + pauseMs;
      const isReadOnly = error instanceof ReadOnlyServer;
      if (nextMs >= deadlineMs || (isReadOnly && nextMs >= readOnlyDeadlineMs)) throw error;
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }
}
