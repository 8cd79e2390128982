import { connect } from 'node:net';

/**
 * Floods a service until somebody kills this process: `flood.mjs HOST PORT CONNECTIONS`. Each
 * connection writes as many requests without an API key as may wait, and reconnects when it ends,
 * as it does after five answers. Prints the number of answers every tenth of a second.
 */
const [host, port, connections] = process.argv.slice(2);
const REQUEST = 'POST /api/v1/detokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n';
const AHEAD = REQUEST.repeat(500);
const ANSWER = Buffer.from('HTTP/1.1 401 ');
let answers = 0;

function flood() {
  const socket = connect(Number(port), host);
  socket.on('connect', () => socket.write(AHEAD));
  socket.on('data', (bytes) => {
    for (let at = bytes.indexOf(ANSWER); at !== -1; at = bytes.indexOf(ANSWER, at + 1)) answers++;
  });
  socket.on('error', () => {});
  socket.on('close', () => setImmediate(flood));
}

for (let i = 0; i < Number(connections); i++) flood();
setInterval(() => process.stdout.write(`${answers}\n`), 100);
