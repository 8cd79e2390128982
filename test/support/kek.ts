import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect } from 'vitest';
import { KekError, type KekSource } from '../../packages/kek/src/source.ts';
import { OperatorError } from '../../src/errors.ts';
import { testKey } from './keys.ts';

export const KEK = testKey('kek');

/** Gives each test of the file a folder. @returns the path of a name in it */
export function folderOfEachTest(): (name: string) => string {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'standin-kek-'));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));
  return (name) => join(folder, name);
}

/** What servers of tests say, and forms of the KEK. */
const SECRETS = [
  ...['hunter2', 'secret words'],
  ...(['hex', 'base64', 'base64url'] as const).map((form) => KEK.toString(form)),
];

/** What a source says that gives no KEK: never a secret. @param secrets of this source */
export async function problemOf(source: KekSource, secrets: readonly string[]): Promise<string> {
  const caught = await source.read().catch((caught: unknown) => caught);
  expect(caught instanceof KekError || caught instanceof OperatorError).toBe(true);
  const { message } = caught as Error;
  for (const secret of [...SECRETS, ...secrets]) expect(message).not.toContain(secret);
  return message;
}
