import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { idsOf, readAudit } from '../support/audit.ts';
import { freePort } from '../support/processes.ts';
import {
  type Answer,
  call,
  type Place,
  type Service,
  scrape,
  startService,
  until,
  usualPlace,
} from '../support/service.ts';

const FLOOD = fileURLToPath(new URL('../support/flood.mjs', import.meta.url));
const CALLS = 40;

let place: Place;
let service: Service;
let flood: Flood | undefined;
beforeEach(async () => {
  place = await usualPlace();
});
afterEach(async () => {
  await flood?.stop();
  flood = undefined;
  await service.stop();
  place.remove();
});

/** A process that sends requests without an API key, as fast as they are taken. */
class Flood {
  readonly #child: ChildProcess;
  answers = 0;

  constructor({ url }: Service, connections: number) {
    const { hostname, port } = new URL(url);
    this.#child = spawn(process.execPath, [FLOOD, hostname, port, String(connections)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    this.#child.stdout!.on('data', (text) => {
      this.answers = Number(String(text).trim().split('\n').at(-1));
    });
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const gone = new Promise((resolve) => this.#child.once('close', resolve));
    this.#child.kill('SIGKILL');
    await gone;
  }
}

test.each([
  { AUDIT_REQUIRED: 'true', connections: 1 },
  { AUDIT_REQUIRED: 'false', connections: 1 },
  { AUDIT_REQUIRED: 'true', connections: 8 },
])(
  'L20: requests without an API key that pipeline cost callers nothing, and no line: AUDIT_REQUIRED=$AUDIT_REQUIRED, $connections connections',
  async ({ AUDIT_REQUIRED, connections }) => {
    const file = join(place.folder, 'audit.log');
    const ops = { OPS_PORT: String(await freePort()) };
    service = await startService(place, { AUDIT_LOG: file, AUDIT_REQUIRED, ...ops });
    const { body } = await call(service, 'tokenize', { a: 'Ann Canary' });
    const flooding = new Flood(service, connections);
    flood = flooding;
    await until(() => flooding.answers > 1_000, 'a flood');
    const answers: Answer[] = [];
    for (let i = 0; i < CALLS; i++) answers.push(await call(service, 'detokenize', body.data));
    const restored = idsOf(answers, 200);
    const lost = (await scrape(service.opsUrl!, 'standin_audit_failures_total'))[''];
    await flooding.stop();
    await service.stop();
    const { lines, torn } = readAudit(file);
    expect(torn).toEqual([]);
    const values = lines.filter(({ outcome }) => outcome === 'success');
    const written = new Set(values.map(({ request_id: requestId }) => requestId));
    expect(restored.filter((id) => !written.has(id))).toEqual([]);
    expect(restored.length).toBeGreaterThanOrEqual(0.95 * CALLS);
    expect(lost).toBe(0);
    // Each of the flood is counted, in a line a second.
    const sums = lines.filter(({ outcome }) => outcome === 'unauthorized');
    expect(sums.length).toBe(lines.length - values.length);
    const counted = sums.reduce((requests, sum) => requests + sum.requests, 0);
    expect(counted).toBeGreaterThanOrEqual(flooding.answers);
    for (const sum of sums) expect(sum.remote_address).toBe('127.0.0.1');
    const seconds = Date.parse(sums.at(-1).last_at) - Date.parse(sums[0].first_at);
    expect(sums.length).toBeLessThanOrEqual(seconds / 1_000 + 2);
  },
);
