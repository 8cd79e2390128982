import { request } from 'node:https';
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls';
import { parseAnswers, type RawAnswer } from './http.ts';
import type { Service } from './service.ts';

/** One request on a connection of its own; rejects when TLS does not come about. */
export function tlsCall(
  service: Service,
  path: string,
  options: ConnectionOptions,
  data?: unknown,
): Promise<{ status: number; body: any; fingerprint: string }> {
  return new Promise((resolve, reject) => {
    const headers = {
      authorization: `Bearer ${service.api_key}`,
      'content-type': 'application/json',
    };
    const method = data === undefined ? 'GET' : 'POST';
    const sent = request(new URL(path, service.url), { ...options, method, headers, agent: false });
    sent.on('error', reject);
    sent.on('response', (response) => {
      const { fingerprint256: fingerprint } = (response.socket as TLSSocket).getPeerCertificate();
      let text = '';
      response.on('data', (chunk) => {
        text += chunk;
      });
      response.on('error', reject);
      response.on('end', () =>
        resolve({ status: response.statusCode!, body: JSON.parse(text), fingerprint }),
      );
    });
    sent.end(data === undefined ? undefined : JSON.stringify({ data }));
  });
}

/** Writes bytes over TLS; resolves to the answers, when the server has closed. */
export function tlsExchange(
  service: Service,
  options: ConnectionOptions,
  bytes: string,
): Promise<RawAnswer[]> {
  return new Promise((resolve, reject) => {
    const socket = tlsConnect(service, options);
    let received = '';
    socket.once('secureConnect', () => socket.write(bytes));
    socket.on('data', (chunk) => {
      received += chunk.toString('latin1');
    });
    socket.on('error', reject);
    socket.on('close', () => resolve(parseAnswers(received)));
  });
}

export function tlsConnect(service: Service, options: ConnectionOptions): TLSSocket {
  const { hostname, port } = new URL(service.url);
  return connect({ host: hostname, port: Number(port), ...options });
}
