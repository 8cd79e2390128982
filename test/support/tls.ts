import { execFileSync, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls';
import { parseAnswers, type RawAnswer } from './http.ts';
import { bearer, JSON_TYPE } from './ops.ts';
import { type PostgresCluster, run } from './postgres.ts';
import { handOver } from './processes.ts';
import { type Place, type Service, startService, usualPlace } from './service.ts';

/** The host of the tests' services. */
export const NAMES = 'DNS:localhost,IP:127.0.0.1';

/** Sends a request on a new connection. Rejects if the TLS handshake fails. */
export async function tlsCall(
  service: Service,
  path: string,
  options: ConnectionOptions,
  data?: unknown,
  more: Record<string, string> = {},
): Promise<{ status: number; body: any; fingerprint: string }> {
  const headers = { ...bearer(service.api_key), ...JSON_TYPE, ...more };
  const method = data === undefined ? 'GET' : 'POST';
  const sent = request(new URL(path, service.url), { ...options, method, headers, agent: false });
  sent.end(data === undefined ? undefined : JSON.stringify({ data }));
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  const { fingerprint256: fingerprint } = (response.socket as TLSSocket).getPeerCertificate();
  return { status: response.statusCode!, body: JSON.parse(await text(response)), fingerprint };
}

/** Writes bytes over TLS. Resolves to the answers when the server closes the connection. */
export async function tlsExchange(
  service: Service,
  options: ConnectionOptions,
  bytes: string,
): Promise<RawAnswer[]> {
  const socket = tlsConnect(service, options);
  socket.write(bytes);
  return parseAnswers(Buffer.concat(await socket.toArray()).toString('latin1'));
}

export function tlsConnect(service: Service, options: ConnectionOptions): TLSSocket {
  const { hostname, port } = new URL(service.url);
  return connect({ host: hostname, port: Number(port), ...options });
}

export function put(issued: Issued, files: Issued): void {
  copyFileSync(issued.key, files.key);
  copyFileSync(issued.cert, files.cert);
}

export async function startTls(
  names = NAMES,
  more: (place: Place, authority: Authority) => Record<string, string> = () => ({}),
) {
  const { place, authority, files, env } = await tlsPlace(names);
  const service = await startService(place, { ...env, ...more(place, authority) });
  const trusting: ConnectionOptions = { ca: readFileSync(authority.ca) };
  return { service, authority, files, trusting };
}
export type Listening = Awaited<ReturnType<typeof startTls>>;

/** A place with the files that its service reads. */
export async function tlsPlace(names: string) {
  const place = await usualPlace();
  const authority = new Authority(place.folder, 'authority');
  const files = { cert: join(place.folder, 'tls.crt'), key: join(place.folder, 'tls.key') };
  put(authority.issue(names), files);
  const env = { OPS_PORT: '0', TLS_CERT_FILE: files.cert, TLS_KEY_FILE: files.key };
  return { place, authority, files, env };
}

/** A service that requires certificates of the authority `clients`, and a caller's certificate. */
export async function startMutualTls(): Promise<Listening> {
  const ofClients: Authority[] = [];
  const tls = await startTls(NAMES, (place) => {
    ofClients.push(new Authority(place.folder, 'clients'));
    return { TLS_CLIENT_CA_FILE: ofClients[0]!.ca };
  });
  const { cert, key } = ofClients[0]!.issue('DNS:caller');
  const own = { cert: readFileSync(cert), key: readFileSync(key) };
  return { ...tls, trusting: { ...tls.trusting, ...own } };
}

export const hasOpenssl = spawnSync('openssl', ['version']).status === 0;

/** Paths of a certificate and its key, in PEM. */
export interface Issued {
  readonly cert: string;
  readonly key: string;
}

/** The test's own certificate authority, with its files in a folder. */
export class Authority {
  readonly ca: string;
  readonly #folder: string;
  readonly #name: string;
  #issued = 0;

  constructor(folder: string, name: string) {
    this.#folder = folder;
    this.#name = name;
    this.ca = join(folder, `${name}.pem`);
    openssl('req', '-x509', ...newKey(this.#key), '-out', this.ca, '-subj', `/CN=${name}`);
  }

  /** @param names a subjectAltName: `DNS:localhost,IP:127.0.0.1`; days 0: expires in a moment */
  issue(names: string, days = 100): Issued {
    const base = join(this.#folder, `${this.#name}-${++this.#issued}`);
    const [request, extensions] = [`${base}.csr`, `${base}.ext`];
    const issued = { cert: `${base}.crt`, key: `${base}.key` };
    openssl('req', '-new', ...newKey(issued.key), '-out', request, '-subj', '/CN=test');
    writeFileSync(extensions, `subjectAltName=${names}\n`);
    const by = ['-CA', this.ca, '-CAkey', this.#key, '-CAcreateserial', '-extfile', extensions];
    openssl('x509', '-req', '-in', request, ...by, '-days', String(days), '-out', issued.cert);
    return issued;
  }

  get #key(): string {
    return join(this.#folder, `${this.#name}.key`);
  }
}

export function openssl(...args: string[]): void {
  execFileSync('openssl', args, { stdio: ['ignore', 'ignore', 'pipe'] });
}

function newKey(file: string): string[] {
  return ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', file];
}

/**
 * Makes a test server speak TLS as `localhost`. The service has no other access over TCP.
 * @param demand an option of pg_hba.conf: `clientcert=verify-ca`, or ''
 */
export function serveTls(cluster: PostgresCluster, authority: Authority, demand = ''): void {
  const server = authority.issue('DNS:localhost');
  for (const [from, name] of [
    [server.cert, 'server.crt'],
    [server.key, 'server.key'],
    [authority.ca, 'ca.crt'],
  ] as const) {
    copyFileSync(from, join(cluster.dataDir, name));
    handOver(join(cluster.dataDir, name));
  }
  const settings = ["ssl_ca_file = 'ca.crt'", 'ssl = on'].flatMap((one) => [
    '-c',
    `alter system set ${one}`,
  ]);
  run('psql', [cluster.directUrl('postgres'), ...settings]);
  const lines = [
    'local all all trust',
    `hostssl all all 127.0.0.1/32 trust ${demand}`,
    // The tests themselves connect here.
    demand === '' ? 'hostnossl all all 127.0.0.1/32 trust' : '',
  ];
  writeFileSync(join(cluster.dataDir, 'pg_hba.conf'), `${lines.join('\n')}\n`);
  run('pg_ctl', ['-D', cluster.dataDir, '-w', 'restart', '-l', cluster.logFile]);
}
