import { constants, mkdirSync, rmSync, writeSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { PGlite } from '@electric-sql/pglite';
import { lockPath } from './lock.ts';
import { databaseFolder, Owner } from './owner.ts';
import { isHeld, LOST_RACE, socketNumbers, socketPath } from './socket.ts';
import { Framer, leavesIdle, simpleQuery } from './wire.ts';

/**
 * The embedded Postgres: a separate process around PGlite, which has one session and one thread.
 * Two PGlite processes on one folder would silently lose data. So this process holds two locks that
 * the kernel releases at its end: one on the database folder, and its listening socket. Sockets are
 * numbered. A process removes the path of another only while it owns the folder, so two processes
 * cannot take over the same stale path. The process ends when its socket or its folder is replaced.
 */
const IDLE_OWNER_TIMEOUT_MS = 30_000;
/** How soon an idle process notices that its socket is gone. */
const POLL_INTERVAL_MS = 1_000;

interface Connection {
  readonly socket: Socket;
  readonly framer: Framer;
}

const [dataDir = '', sessionSql = ''] = process.argv.slice(2);
const connections = new Set<Connection>();
let turns: { readonly connection: Connection; readonly bytes: Buffer }[] = [];
/** The connection with the open transaction; all others wait. */
let owner: Connection | undefined;
let ownerTimer: NodeJS.Timeout | undefined;
let database: PGlite | undefined;
let becomeReady = () => {};
/** Connections are accepted before and wait: to make a new database takes seconds. */
const ready = new Promise<void>((resolve) => {
  becomeReady = resolve;
});
let busy = false;
let ending = false;

process.umask(0o077);
// The parent ends this process over IPC or by its own end. A Ctrl-C reaches the whole process group
// and must not end this process before the parent.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});
// Without a handler, Node would open a debugger port.
process.on('SIGUSR1', () => {});
process.on('disconnect', () => void endWhenUnused());

const server = createServer((socket) => accept(socket));
const folder = databaseFolder(dataDir);
mkdirSync(folder, { recursive: true });
const lock = await lockPath(folder, constants.O_RDONLY | constants.O_DIRECTORY);
if (lock === undefined) process.exit(LOST_RACE);
const number = await claim();
const place = new Owner(dataDir, socketPath(dataDir, number));
setInterval(endWhenLost, POLL_INTERVAL_MS);
database = await PGlite.create({ dataDir: folder });
await database.exec(sessionSql);
becomeReady();
// If the parent has gone, the send fails. The closed channel then ends this process.
process.send?.({ port: number }, undefined, undefined, () => {});
void work();

/** Binds the next free number, then checks that no other process holds the directory. */
async function claim(): Promise<number> {
  const own = Math.max(0, ...socketNumbers(dataDir)) + 1;
  server.on('error', (error: NodeJS.ErrnoException) => {
    process.exit(error.code === 'EADDRINUSE' ? LOST_RACE : 1);
  });
  await new Promise<void>((resolve) => server.listen(socketPath(dataDir, own), resolve));
  for (const other of socketNumbers(dataDir)) {
    if (other > own || (other < own && (await isHeld(dataDir, other)))) process.exit(LOST_RACE);
  }
  for (const other of socketNumbers(dataDir)) {
    if (other < own) rmSync(socketPath(dataDir, other), { force: true });
  }
  return own;
}

function accept(socket: Socket): void {
  const connection = { socket, framer: new Framer() };
  connections.add(connection);
  socket.on('error', () => {});
  socket.on('close', () => void drop(connection));
  socket.on('data', (chunk: Buffer) => {
    for (const part of connection.framer.push(chunk)) {
      if (part.kind === 'encryption_request') void ready.then(() => socket.write('N'));
      else if (part.kind === 'end') socket.destroy();
      else turns.push({ connection, bytes: part.bytes });
    }
    void work();
  });
}

/**
 * Runs one group of messages at a time. Only whole groups: else one connection could run the
 * statement that another connection has prepared.
 */
async function work(): Promise<void> {
  if (busy || ending || database === undefined) return;
  busy = true;
  for (let turn = nextTurn(); turn !== undefined; turn = nextTurn()) {
    const { connection } = turn;
    clearTimeout(ownerTimer);
    endWhenLost();
    const answer = await database.execProtocolRaw(turn.bytes);
    owner = leavesIdle(answer) ? undefined : connection;
    // Copied, because the next answer overwrites this memory.
    if (connection.socket.writable) connection.socket.write(Buffer.from(answer));
    if (owner !== undefined && connection.socket.destroyed) await rollback();
    if (owner !== undefined) {
      ownerTimer = setTimeout(() => connection.socket.destroy(), IDLE_OWNER_TIMEOUT_MS);
    }
  }
  busy = false;
}

function nextTurn() {
  const index = owner === undefined ? 0 : turns.findIndex((turn) => turn.connection === owner);
  return index === -1 ? undefined : turns.splice(index, 1)[0];
}

async function drop(connection: Connection): Promise<void> {
  connections.delete(connection);
  // Drop the waiting statements of a lost connection. A real server would notice the loss first.
  turns = turns.filter((turn) => turn.connection !== connection);
  if (owner === connection && !busy) {
    busy = true;
    await rollback();
    busy = false;
    void work();
  }
  return endWhenUnused();
}

async function rollback(): Promise<void> {
  await database!.execProtocolRaw(simpleQuery('rollback'));
  owner = undefined;
}

/** Writes nothing to the folder: the next process may own it by now. */
function endWhenLost(): void {
  if (place.isOwner()) return;
  place.noteLoss();
  writeSync(
    2,
    `standin: The socket of the embedded database in ${dataDir} was removed or replaced. Its process ends, and the next one takes over.\n`,
  );
  process.exit(1);
}

/** The socket stays bound until the exit, and so marks the directory as in use. */
async function endWhenUnused(): Promise<void> {
  if (ending || process.connected || connections.size > 0) return;
  ending = true;
  await database?.close();
  process.exit(0);
}
