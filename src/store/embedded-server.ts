import { mkdirSync, rmSync, writeSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { PGlite } from '@electric-sql/pglite';
import { lockFolder } from './embedded-lock.ts';
import { databaseFolder, EmbeddedOwner } from './embedded-owner.ts';
import { isHeld, LOST_RACE, socketNumbers, socketPath } from './embedded-socket.ts';
import { PIN_SESSION } from './settings.ts';
import { Framer, leavesIdle, simpleQuery } from './wire.ts';

/**
 * The embedded Postgres: a process of its own around PGlite, which has one session and one thread.
 *
 * Two PGlite processes on one folder would lose data silently, so this process has two locks that
 * the kernel drops with it: one on the folder of the database, and its listening socket. Sockets
 * are numbered; nobody removes another's path before owning the folder, so no two processes can
 * take over the same stale path. The process ends when its socket or its folder is replaced.
 */
const IDLE_OWNER_TIMEOUT_MS = 30_000;
/** How soon a process without work notices that its socket is gone. */
const LOOK_INTERVAL_MS = 1_000;

interface Turn {
  readonly connection: Connection;
  readonly bytes: Buffer;
}

interface Connection {
  readonly socket: Socket;
  readonly framer: Framer;
}

const dataDir = process.argv[2]!;
const connections = new Set<Connection>();
const turns: Turn[] = [];
/** The connection whose transaction is open: the others wait. */
let owner: Connection | undefined;
let ownerTimer: NodeJS.Timeout | undefined;
let database: PGlite | undefined;
let becomeReady = () => {};
/** Until then, connections are taken and wait: a database that is being made takes seconds. */
const ready = new Promise<void>((resolve) => {
  becomeReady = resolve;
});
let busy = false;
let ending = false;

process.umask(0o077);
// The parent asks for the end by IPC or by dying; a Ctrl-C of the whole group must not come first.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});
// The default of Node would open a debugger port.
process.on('SIGUSR1', () => {});
process.on('disconnect', () => void endWhenUnused());

const server = createServer((socket) => accept(socket));
const folder = databaseFolder(dataDir);
mkdirSync(folder, { recursive: true });
if (!(await lockFolder(folder))) process.exit(LOST_RACE);
const number = await claim();
const place = new EmbeddedOwner(dataDir, socketPath(dataDir, number));
setInterval(endWhenLost, LOOK_INTERVAL_MS);
database = await PGlite.create({ dataDir: folder });
await database.exec(PIN_SESSION);
becomeReady();
// A parent that is gone by now is told nothing; the end of its channel ends this process.
process.send?.({ port: number }, undefined, undefined, () => {});
void work();

/** Binds the next free number, then makes sure that nobody else holds the directory. */
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
  socket.setNoDelay(true);
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
 * One group of messages after the other; whole groups only, or one connection would run another's
 * statement.
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
    // A copy: the answer is a view of memory that the next one overwrites.
    if (connection.socket.writable) connection.socket.write(Buffer.from(answer));
    if (owner !== undefined && connection.socket.destroyed) await rollback();
    if (owner !== undefined) {
      ownerTimer = setTimeout(() => connection.socket.destroy(), IDLE_OWNER_TIMEOUT_MS);
    }
  }
  busy = false;
}

function nextTurn(): Turn | undefined {
  const index = owner === undefined ? 0 : turns.findIndex((turn) => turn.connection === owner);
  return index === -1 ? undefined : turns.splice(index, 1)[0];
}

async function drop(connection: Connection): Promise<void> {
  connections.delete(connection);
  // Waiting statements of a lost connection are not run: a real server would read the loss first.
  for (let i = turns.length - 1; i >= 0; i--)
    if (turns[i]!.connection === connection) turns.splice(i, 1);
  if (owner === connection && !busy) {
    busy = true;
    await rollback();
    busy = false;
    void work();
  }
  await endWhenUnused();
}

async function rollback(): Promise<void> {
  clearTimeout(ownerTimer);
  await database!.execProtocolRaw(simpleQuery('rollback'));
  owner = undefined;
}

/** Without another write: the next process may have the folder by now. */
function endWhenLost(): void {
  if (place.isOwner()) return;
  place.noteLoss();
  writeSync(
    2,
    `standin: The socket of the embedded database in ${dataDir} was removed or replaced. Its process ends, and the next one takes over.\n`,
  );
  process.exit(1);
}

/** The socket stays bound until the exit: it says that the directory is in use. */
async function endWhenUnused(): Promise<void> {
  if (ending || process.connected || connections.size > 0) return;
  ending = true;
  await database?.close();
  process.exit(0);
}
