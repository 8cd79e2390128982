/**
 * Preloaded into a service, measures what a request costs it: see priced.ts. A timer of 1 ms comes
 * once in each turn of the event loop that takes longer.
 */
import { openSync, readFileSync, readSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { isMainThread } from 'node:worker_threads';

const schedule = openSync(`/proc/self/task/${process.pid}/schedstat`, 'r');
const buffer = Buffer.alloc(64);
let isOn = false;
let lastMs = 0;
let lastNs = 0;
let longestMs = 0;
let busyMs = 0;

/** Processor time of the main thread. The kernel adds to it every few milliseconds. */
function usedNs() {
  return Number(buffer.latin1Slice(0, readSync(schedule, buffer, 0, 64, 0)).split(' ')[0]);
}

function turn() {
  const [nowMs, nowNs] = [performance.now(), usedNs()];
  // Time that other processes had is not counted, nor what the kernel adds late.
  const stretchMs = Math.min(nowMs - lastMs, (nowNs - lastNs) / 1e6);
  longestMs = Math.max(longestMs, stretchMs);
  if (stretchMs > 0.3) busyMs += stretchMs;
  [lastMs, lastNs] = [nowMs, nowNs];
  if (isOn) setTimeout(turn, 1);
}

function memory(name) {
  return 1024 * Number(new RegExp(`${name}:\\s+(\\d+)`).exec(readFileSync('/proc/self/status'))[1]);
}

/** A fixed piece of work, to compare machines by. */
function calibrate() {
  const beforeNs = usedNs();
  let text = '';
  for (let i = 0; i < 40; i++)
    text = JSON.stringify(
      JSON.parse(JSON.stringify(Array.from({ length: 9_000 }, (_, n) => `${n}${i}`))),
    );
  return (usedNs() - beforeNs) / 1e6 + text.length * 0;
}

/** Processor time of all other threads: those of the vault and of policies, and of Node itself. */
function othersMs() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e3 - usedNs() / 1e6;
}

let restBytes = 0;
let beforeBytes = 0;
let beforeMs = 0;

const commands = {
  begin() {
    // Of most small requests, so much garbage is not worth a collection.
    if (memory('VmRSS') > restBytes * 1.15) globalThis.gc();
    // Resets the peak of resident memory.
    writeFileSync('/proc/self/clear_refs', '5');
    beforeBytes = memory('VmRSS');
    restBytes ||= beforeBytes;
    [longestMs, busyMs, isOn] = [0, 0, true];
    beforeMs = othersMs();
    setImmediate(() => {
      [lastMs, lastNs] = [performance.now(), usedNs()];
      setTimeout(turn, 1);
    });
    return {};
  },
  end() {
    isOn = false;
    return {
      longestMs,
      busyMs,
      othersMs: othersMs() - beforeMs,
      bytes: memory('VmHWM') - beforeBytes,
    };
  },
  calibrate: () => ({ ms: calibrate() }),
};

if (isMainThread && process.env.PROBE !== undefined) {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    // The turn with the command is over before the answer: its work is counted, or not begun.
    socket.on('data', (name) =>
      setImmediate(() => socket.write(`${JSON.stringify(commands[name.toString()]())}\n`)),
    );
  });
  // A process that was killed leaves its socket.
  rmSync(process.env.PROBE, { force: true });
  server.listen(process.env.PROBE).unref();
  // Not for the processes that this one starts.
  delete process.env.PROBE;
  delete process.env.NODE_OPTIONS;
}
