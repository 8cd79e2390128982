import { expect } from 'vitest';
import { type Place, runCli } from './service.ts';

export interface NewClient {
  readonly client_id: string;
  readonly api_key: string;
}

/** A client of a vault, with its first API key. */
export async function createClient(place: Place, ...options: string[]): Promise<NewClient> {
  return runJson(place, 'client', 'create', '--name', 'test', ...options);
}

/** Runs a command and parses the JSON that it prints. */
export async function runJson(place: Place, ...args: string[]): Promise<any> {
  const { code, stdout, stderr } = await runCli([...args, '--json'], place);
  expect(code, stderr).toBe(0);
  return JSON.parse(stdout);
}

/** Values of the series of a metric, by labels. */
export async function scrape(opsUrl: string, name: string): Promise<Record<string, number>> {
  const text = await (await fetch(`${opsUrl}/metrics`)).text();
  const series = text.matchAll(new RegExp(`^${name}(?:\\{(.*)\\})? (\\S+)$`, 'gm'));
  return Object.fromEntries([...series].map(([, labels = '', value]) => [labels, Number(value)]));
}
