import { createServer, type RequestListener, type Server, type ServerOptions } from 'node:http';
import { createServer as createTlsServer, type ServerOptions as TlsOptions } from 'node:https';
import type { Server as TlsServer } from 'node:tls';
import type { TlsPem } from '../../types.ts';
import { boundConnections, type ConnectionBound, type ConnectionCounts } from './connections.ts';

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
/** More headers are refused. Node silently drops headers above its own bound. */
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
  server.maxHeadersCount = MAX_HEADERS;
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
