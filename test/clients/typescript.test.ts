import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Standin, StandinError } from '#client';
import { ALL_CASES, type CaseRun, CaseServices, type Outcome } from '../support/client-cases.ts';

/** What this client does not have yet. */
const MISSING = ['detokenize_lenient', 'lookup', 'by_policy'];
const CASES = ALL_CASES.filter(
  ({ call, options = {} }) =>
    ![call, ...Object.keys(options)].some((name) => MISSING.includes(name)),
);

let folder: string;
let services: CaseServices;
let run: CaseRun;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'standin-cases-'));
  services = await CaseServices.start(folder);
  run = await services.prepare(CASES);
  for (const task of run.tasks) run.note([await outcomeOf(task)]);
});
afterAll(async () => {
  run.stop();
  await services.stop();
  rmSync(folder, { recursive: true });
});

async function outcomeOf(task: CaseRun['tasks'][number]): Promise<Outcome> {
  const { name, url, api_key: apiKey, options } = task;
  const {
    timeout_ms: timeoutMs,
    max_values: maxValues,
    max_bytes: maxBytes,
    fields,
  } = options as any;
  const given = { timeoutMs, maxValues, maxBytes };
  const client = new Standin({ url, apiKey, ...given });
  const data = task.data as any;
  const call = (fields === undefined ? {} : { fields }) as { fields: readonly never[] };
  try {
    if (task.call === 'health') return { name, data: { ...(await client.health()) } };
    if (task.call === 'detokenize') return { name, data: await client.detokenize(data, call) };
    const tokens = await client.tokenize(data, call);
    if (task.call === 'tokenize') return { name, tokens };
    return { name, tokens, data: await client.detokenize(tokens, call) };
  } catch (error) {
    const text = inspect(error);
    if (error instanceof TypeError) return { name, error: { class: 'usage', text } };
    expect(error).toBeInstanceOf(StandinError);
    const { attempts, code, status, detail } = error as StandinError;
    const { path, reason } = error as { path?: string; reason?: string };
    const kind = (error as Error).name;
    return { name, error: { class: kind, attempts, code, status, detail, path, reason, text } };
  }
}

test.each(CASES.map((one) => [one.name, one] as const))('A47: %s', (_, one) => run.judge(one));
