// The health check of the image, which has no curl. It asks the public listener of the container.
//   node healthcheck.mjs /health        ready to take requests (liveness: /health/live)
// Exit code 0 for status 200, otherwise 1. With TLS_CLIENT_CA_FILE it has no client certificate, so
// it only checks that the port accepts connections.
import { request as requestClear } from 'node:http';
import { request as requestTls } from 'node:https';
import { connect } from 'node:net';

const TIMEOUT_MS = 2_500;
const { PORT = '8080', HOST = '127.0.0.1', TLS_CERT_FILE, TLS_CLIENT_CA_FILE } = process.env;
const path = process.argv[2] ?? '/health/live';
const any = { '0.0.0.0': '127.0.0.1', '::': '::1' };
const host = any[HOST] ?? HOST;

const fail = (reason) => {
  process.stderr.write(`unhealthy: ${reason}\n`);
  process.exit(1);
};
setTimeout(fail, TIMEOUT_MS, `no answer in ${TIMEOUT_MS} ms`);

if (TLS_CLIENT_CA_FILE) {
  connect(Number(PORT), host, () => process.exit(0)).on('error', ({ code }) => fail(code));
} else {
  const request = TLS_CERT_FILE ? requestTls : requestClear;
  // The certificate has the name that callers use, not this address of the same machine.
  request({ host, port: PORT, path, agent: false, rejectUnauthorized: false }, ({ statusCode }) =>
    statusCode === 200 ? process.exit(0) : fail(`status ${statusCode}`),
  )
    .on('error', ({ code }) => fail(code))
    .end();
}
