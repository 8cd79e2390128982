import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  writeFileSync,
} from 'node:fs';
import { Agent, type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { onTestFinished } from 'vitest';
import { lasting } from './fault.ts';
import { loop } from './loop.ts';
import { bearer, JSON_TYPE } from './ops.ts';
import { endsWithTest } from './own.ts';
import { leastPrivilegePlace, type Place, type Service, startService } from './service.ts';

/** Length of a load. Set LOAD_SECONDS=60 for a full load, 3600 for a soak test. */
export const LOAD_SECONDS = Number(process.env.LOAD_SECONDS ?? process.env.FAULT_SECONDS ?? 4);

export interface Reply {
  readonly status: number;
  readonly body: any;
}

/** Callers of one service, each on its own persistent connection, without pauses. */
export class Callers {
  /** Answers by status. `cut` counts connections that closed before the answer. */
  readonly counts = new Map<number | 'cut', number>();
  readonly service: Service;
  readonly #agent: Agent;

  constructor(service: Service, connections: number) {
    this.service = service;
    const [maxSockets, maxFreeSockets] = [connections, connections];
    this.#agent = new Agent({ keepAlive: true, maxSockets, maxFreeSockets });
    onTestFinished(() => this.close());
  }

  /** Sends one request; undefined: the connection was cut. */
  async call(
    operation: 'tokenize' | 'detokenize',
    data: unknown,
    apiKey = this.service.api_key,
  ): Promise<Reply | undefined> {
    const sent = this.#post(`/api/v1/${operation}`, JSON.stringify({ data }), apiKey);
    const reply = await sent.catch(() => undefined);
    const outcome = reply?.status ?? 'cut';
    this.counts.set(outcome, (this.counts.get(outcome) ?? 0) + 1);
    return reply;
  }

  count(outcome: number | 'cut'): number {
    return this.counts.get(outcome) ?? 0;
  }

  get answered(): number {
    return [...this.counts.values()].reduce((sum, count) => sum + count, 0);
  }

  /** Closes all connections. */
  close(): void {
    this.#agent.destroy();
  }

  async #post(path: string, body: string, apiKey: string): Promise<Reply> {
    const length = { 'content-length': Buffer.byteLength(body) };
    const headers = { ...bearer(apiKey), ...JSON_TYPE, ...length };
    const options = { method: 'POST', agent: this.#agent, headers };
    const sent = request(this.service.url + path, options);
    sent.on('error', () => {}).end(body);
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    return { status: response.statusCode!, body: JSON.parse(await text(response)) };
  }
}

/** A service that has only its rights, ended with the test. */
export async function startLeast(env: Record<string, string> = {}, place?: Place) {
  const service = await startService(place ?? (await endsWithTest(leastPrivilegePlace())), env);
  onTestFinished(() => service.stop());
  return service;
}

/** Repeats `one`, `count` at a time, until the time is over. Each run of `one` gets a new number. */
export async function forSeconds(
  seconds: number,
  count: number,
  one: (n: number) => Promise<unknown>,
): Promise<void> {
  let n = 0;
  const running = loop(() => one(n++), count);
  await lasting(seconds);
  await running.stop();
}

/** How many files, sockets and pipes a process has open. */
export function descriptorsOf(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

/** Resident memory of a process, in bytes; `VmHWM`: the most that it had since it started. */
export function residentBytes(pid: number, which: 'VmRSS' | 'VmHWM' = 'VmRSS'): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(new RegExp(`^${which}:\\s+(\\d+) kB$`, 'm').exec(status)![1]) * 1_024;
}

export type MemoryGroup = NonNullable<ReturnType<typeof makeMemoryGroup>>;

let last = 0;

/**
 * A Linux control group, of either version, with a memory limit; undefined: this machine does not
 * allow it. `kills`: how many processes the kernel has killed at the limit. `take` moves a process
 * into the group, with its later children; `give` moves it out.
 */
export function makeMemoryGroup(limitBytes: number) {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return undefined;
  const name = `standin-test-${process.pid}-${++last}`;
  const roots = [
    { root: '/sys/fs/cgroup/memory', limit: 'memory.limit_in_bytes', events: 'memory.oom_control' },
    { root: '/sys/fs/cgroup', limit: 'memory.max', events: 'memory.events' },
  ];
  for (const { root, limit, events } of roots) {
    const folder = join(root, name);
    try {
      if (!existsSync(join(root, 'cgroup.procs'))) continue;
      mkdirSync(folder);
      writeFileSync(join(folder, limit), String(limitBytes));
      const kills = () => {
        const text = readFileSync(join(folder, events), 'utf8');
        return Number(/^oom_kill (\d+)$/m.exec(text)?.[1] ?? Number.NaN);
      };
      const move = (to: string) => (pid: number) =>
        writeFileSync(join(to, 'cgroup.procs'), String(pid));
      if (kills() === 0) return { folder, kills, take: move(folder), give: move(root) };
      rmdirSync(folder);
    } catch {
      if (existsSync(folder)) rmdirSync(folder);
    }
  }
  return undefined;
}
