import { inspect } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Standin, StandinError } from '#client';
import { ALL_CASES, type CaseRun, CaseServices, type CaseTask } from '../support/client-cases.ts';
import { newFolder } from '../support/folder.ts';

const folder = newFolder('cases');
let services: CaseServices;
let run: CaseRun;
beforeAll(async () => {
  services = await CaseServices.start(folder);
  run = await services.prepare(ALL_CASES);
  for (const task of run.tasks) run.note([await outcomeOf(task)]);
});
afterAll(async () => {
  run.stop();
  await services.stop();
});

async function outcomeOf({ name, call, url, api_key: apiKey, options, data }: CaseTask) {
  const { timeout_ms: timeoutMs, max_values: maxValues, max_bytes: maxBytes, ...more } = options;
  const { policy, fields } = more;
  const own = fields === undefined ? {} : { fields };
  try {
    const given: any = { url, apiKey, timeoutMs, maxValues, maxBytes, policy };
    const client: any = new Standin(given);
    if (call === 'health') return { name, data: { ...(await client.health()) } };
    if (call === 'lookup') return { name, data: await client.lookup(data) };
    if (call === 'detokenize') return { name, data: await client.detokenize(data, own) };
    if (call === 'detokenize_lenient')
      return { name, ...(await client.detokenize(data, { ...own, lenient: true })) };
    const tokens = await client.tokenize(data, own);
    if (call === 'tokenize') return { name, tokens };
    return { name, tokens, data: await client.detokenize(tokens, own) };
  } catch (error) {
    const text = inspect(error);
    if (error instanceof TypeError) return { name, error: { class: 'usage', text } };
    expect(error).toBeInstanceOf(StandinError);
    const { attempts, code, status, detail } = error as StandinError;
    const { name: kind, path, reason, kind: forbidden } = error as any;
    const facts = { class: kind, attempts, code, status, detail, path, reason, kind: forbidden };
    return { name, error: { ...facts, text } };
  }
}

test.each(ALL_CASES.map((one) => [one.name, one] as const))('A47: %s', (_, one) => run.judge(one));
