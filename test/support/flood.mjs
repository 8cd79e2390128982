import { connect } from 'node:net';

/**
 * Floods a service until somebody kills this process: `flood.mjs HOST PORT CONNECTIONS`. Each
 * connection writes requests without an API key, does not wait for answers, and reconnects when it
 * ends. Prints the number of answers every tenth of a second.
 */
const [host, port, connections] = process.argv.slice(2);
const REQUEST = 'POST /api/v1/detokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n';
const CHUNK = REQUEST.repeat(900);
const ANSWER = Buffer.from('HTTP/1.1 401 ');
let answers = 0;

function flood() {
  const socket = connect(Number(port), host);
  const write = () => {
    while (socket.write(CHUNK));
  };
  socket.on('connect', write);
  socket.on('drain', write);
  socket.on('data', (bytes) => {
    for (let at = bytes.indexOf(ANSWER); at !== -1; at = bytes.indexOf(ANSWER, at + 1)) answers++;
  });
  socket.on('error', () => {});
  socket.on('close', () => setImmediate(flood));
}

for (let i = 0; i < Number(connections); i++) flood();
setInterval(() => process.stdout.write(`${answers}\n`), 100);
