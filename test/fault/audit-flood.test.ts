import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { idsOf, readAudit } from '../support/audit.ts';
import { start } from '../support/fault.ts';
import { freePort } from '../support/processes.ts';
import { type Answer, call, type Service, scrape, until, usualPlace } from '../support/service.ts';

const FLOOD = fileURLToPath(new URL('../support/flood.mjs', import.meta.url));
const CALLS = 40;

/** A process that sends requests without an API key, as fast as they are taken. */
function startFlood({ url }: Service, connections: number) {
  const { hostname, port } = new URL(url);
  const child = spawn(process.execPath, [FLOOD, hostname, port, String(connections)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  let answers = 0;
  child.stdout.on('data', (text) => {
    answers = Number(String(text).trim().split('\n').at(-1));
  });
  const stop = async () => {
    child.kill('SIGKILL');
    await once(child, 'close');
  };
  return { answers: () => answers, stop };
}

test.each([
  { AUDIT_REQUIRED: 'true', connections: 1 },
  { AUDIT_REQUIRED: 'false', connections: 1 },
  { AUDIT_REQUIRED: 'true', connections: 8 },
])(
  'L20: requests without an API key that pipeline cost callers nothing, and no line: AUDIT_REQUIRED=$AUDIT_REQUIRED, $connections connections',
  async ({ AUDIT_REQUIRED, connections }) => {
    const place = await usualPlace();
    onTestFinished(place.remove);
    const AUDIT_LOG = join(place.folder, 'audit.log');
    const OPS_PORT = String(await freePort());
    const service = await start(place, { AUDIT_LOG, AUDIT_REQUIRED, OPS_PORT });
    const { body } = await call(service, 'tokenize', { a: 'Ann Canary' });
    const flood = startFlood(service, connections);
    await until(() => flood.answers() > 1_000, 'a flood');
    const answers: Answer[] = [];
    for (let i = 0; i < CALLS; i++) answers.push(await call(service, 'detokenize', body.data));
    const restored = idsOf(answers, 200);
    const lost = (await scrape(service.opsUrl!, 'standin_audit_failures_total'))[''];
    await flood.stop();
    await service.stop();
    const { lines, torn } = readAudit(AUDIT_LOG);
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
    expect(counted).toBeGreaterThanOrEqual(flood.answers());
    for (const sum of sums) expect(sum.remote_address).toBe('127.0.0.1');
    const seconds = Date.parse(sums.at(-1).last_at) - Date.parse(sums[0].first_at);
    expect(sums.length).toBeLessThanOrEqual(seconds / 1_000 + 2);
  },
);
