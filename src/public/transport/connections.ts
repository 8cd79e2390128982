import { readFileSync } from 'node:fs';
import { createServer, type RequestListener, type Server, type ServerOptions } from 'node:http';
import { createServer as createTlsServer, type ServerOptions as TlsOptions } from 'node:https';
import type { Socket } from 'node:net';
import type { Server as TlsServer } from 'node:tls';
import type { CallerErrorCode } from '../../errors.ts';
import type { TlsPem } from '../../types.ts';

/**
 * A client that sends its handshake, headers or body too slowly is cut off after these. Node checks
 * every second. docs/operating/timeouts.md lists all time-outs.
 */
const HANDSHAKE_TIMEOUT_MS = 5_000;
const HEADERS_TIMEOUT_MS = 10_000;
const REQUEST_TIMEOUT_MS = 30_000;
/**
 * Longer than the 60 s of load balancers, because the side that sends requests should close first.
 */
const KEEP_ALIVE_TIMEOUT_MS = 72_000;
const CHECK_INTERVAL_MS = 1_000;
const MAX_HEADER_BYTES = 16_384;
/** So many headers are refused. Node silently drops those above its own bound, which is greater. */
export const MAX_HEADERS = 128;

const HTTP: ServerOptions = {
  headersTimeout: HEADERS_TIMEOUT_MS,
  requestTimeout: REQUEST_TIMEOUT_MS,
  keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
  connectionsCheckingInterval: CHECK_INTERVAL_MS,
  maxHeaderSize: MAX_HEADER_BYTES,
  // Node's own refusal has no body, so checkProtocol checks the Host header.
  requireHostHeader: false,
};

/**
 * Creates the server of a listener with all its bounds.
 * @param pem undefined: no TLS
 * @param count counts connections that never become a request
 */
export function createListener(
  handler: RequestListener,
  pem: TlsPem | undefined,
  bound: ConnectionBound,
  count: ConnectionCounts = {},
): Server {
  const server =
    pem === undefined ? createServer(HTTP, handler) : createTlsServer(tlsOptions(pem), handler);
  // A caller that has sent its last request still gets the answers.
  (server as { httpAllowHalfOpen?: boolean }).httpAllowHalfOpen = true;
  server.on('tlsClientError', (error: NodeJS.ErrnoException) =>
    count.handshakeFailure?.(REASONS[error.code ?? ''] ?? 'other'),
  );
  boundConnections(server, bound, count);
  return server;
}

/** Renews the certificate for new connections. */
export function renewCertificate(server: Server, pem: TlsPem): void {
  (server as Server & TlsServer).setSecureContext(contextOptions(pem));
}

const REASONS: Record<string, string> = {
  ERR_SSL_HTTP_REQUEST: 'plain_http',
  ERR_SSL_UNSUPPORTED_PROTOCOL: 'version',
  ERR_SSL_WRONG_VERSION_NUMBER: 'version',
  ERR_SSL_NO_APPLICATION_PROTOCOL: 'protocol',
  ERR_SSL_NO_SHARED_CIPHER: 'cipher',
  ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE: 'client_certificate',
  ERR_TLS_HANDSHAKE_TIMEOUT: 'timeout',
  ECONNRESET: 'closed',
};

function tlsOptions(pem: TlsPem): TlsOptions {
  return {
    ...HTTP,
    ...contextOptions(pem),
    handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
    requestCert: pem.clientCa !== undefined,
    rejectUnauthorized: true,
    ALPNProtocols: ['http/1.1'],
  };
}

/** Node's default ciphers apply. */
function contextOptions({ certificate, key, clientCa }: TlsPem) {
  return {
    cert: certificate,
    key,
    minVersion: 'TLSv1.2' as const,
    ...(clientCa !== undefined && { ca: clientCa }),
  };
}

/** When unsent bytes make no progress for this long, their reader has stopped reading. */
const UNREAD_TIMEOUT_MS = 30_000;
const POLL_INTERVAL_MS = 1_000;

/** The unsent bytes of a connection at the last look. */
interface Unsent {
  /** The connection's count of sent bytes once these are sent. */
  readonly untilByte: number;
  readonly sinceMs: number;
}

interface ConnectionBound {
  readonly connections: number;
  /** Reads the number again, which may change. */
  refresh?(): void;
}

interface ConnectionCounts {
  readonly handshakeFailure?: (reason: string) => void;
  readonly connectionRefused?: () => void;
  readonly unreadAnswer?: () => void;
}

/**
 * Bounds the number of connections, and how long an answer waits for its reader. Node has no
 * time-out for readers: its idle time-out restarts with every byte taken.
 */
export function boundConnections(
  server: Server,
  bound: ConnectionBound,
  count: ConnectionCounts,
): void {
  const unsent = new Map<Socket, Unsent | undefined>();
  let connections = 0;
  server.on('connection', (socket: Socket) => {
    if (connections >= bound.connections) {
      socket.destroy();
      count.connectionRefused?.();
      return;
    }
    connections++;
    socket.once('close', () => connections--);
  });
  // On TLS connections, count the bytes before encryption.
  const ready = 'setSecureContext' in server ? 'secureConnection' : 'connection';
  server.on(ready, (socket: Socket) => {
    unsent.set(socket, undefined);
    socket.once('close', () => unsent.delete(socket));
  });
  const look = setInterval(() => {
    bound.refresh?.();
    const nowMs = performance.now();
    for (const [socket, before] of unsent) {
      const now = unsentOf(socket, before, nowMs);
      if (now !== undefined && nowMs - now.sinceMs > UNREAD_TIMEOUT_MS) {
        socket.destroy();
        count.unreadAnswer?.();
      } else if (now !== before) unsent.set(socket, now);
    }
  }, POLL_INTERVAL_MS);
  look.unref();
  server.once('close', () => clearInterval(look));
}

/** undefined: nothing waits, as at nearly all of many thousand connections, each second. */
function unsentOf(socket: Socket, before: Unsent | undefined, nowMs: number): Unsent | undefined {
  const waiting = socket.writableLength;
  if (waiting === 0) return undefined;
  if (before !== undefined && socket.bytesWritten - waiting < before.untilByte) return before;
  return { untilByte: socket.bytesWritten, sinceMs: nowMs };
}

/** Further connections are closed as soon as they are made. */
const MOST_CONNECTIONS = 20_000;
/**
 * Descriptors kept for files, libraries, Redis and the ops listener. Database connections are
 * added.
 */
const RESERVE = 128;
/** Even with very few descriptors, a process answers some callers. */
const LEAST_CONNECTIONS = 16;
const OPEN_FILES = /^Max open files +(\d+|unlimited) /m;

/**
 * Derives the number of callers from the limit of file descriptors. The limit can change while the
 * process runs. If it cannot be read, the last one stays.
 */
export class Descriptors implements ConnectionBound {
  connections = MOST_CONNECTIONS;
  readonly #reserve: number;

  constructor(databaseConnections: number) {
    this.#reserve = RESERVE + databaseConnections;
    this.refresh();
  }

  refresh(): void {
    let limits: string;
    try {
      limits = readFileSync('/proc/self/limits', 'latin1');
    } catch {
      // Not Linux, or no descriptor is free to read the file.
      return;
    }
    this.connections = connectionsWithin(limits, this.#reserve);
  }
}

/** @param limits the text of /proc/self/limits */
export function connectionsWithin(limits: string, reserve: number): number {
  const files = OPEN_FILES.exec(limits)?.[1];
  if (files === undefined || files === 'unlimited') return MOST_CONNECTIONS;
  return Math.min(MOST_CONNECTIONS, Math.max(LEAST_CONNECTIONS, Number(files) - reserve));
}

/** A caller may correct a wrong API key this many times on one connection. */
const MAX_UNAUTHORIZED = 5;

/** Number of 401 answers on a connection. */
const unauthorized = new WeakMap<Socket, number>();
/** Connections that close after the current answer. */
const ending = new WeakSet<Socket>();

/** Counts the error, and tells whether its answer is the last one on its connection. */
export function endsConnection(socket: Socket, code: CallerErrorCode): boolean {
  // After these errors, the parser and the service may disagree about where the request ends.
  let isLast = code === 'bad_request' || code === 'headers_too_large';
  if (code === 'unauthorized') {
    const count = (unauthorized.get(socket) ?? 0) + 1;
    unauthorized.set(socket, count);
    isLast = count >= MAX_UNAUTHORIZED;
  }
  if (isLast) endConnection(socket);
  return isLast;
}

/** Further requests on the connection are not done. The current answer must say that it closes. */
export function endConnection(socket: Socket): void {
  ending.add(socket);
}

/** Whether the connection is ending. Further requests and parser errors on it are ignored. */
export function isEnding(socket: Socket): boolean {
  return ending.has(socket);
}
