import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect } from 'vitest';
import { OperatorError } from '../../src/errors.ts';
import type { KekSource } from '../../src/kek/source.ts';
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

/** What servers and files of tests say, credentials, and forms of the KEK. */
const SECRETS = [
  ...['hunter2', 'secret words', 'a-secret', 'PRIVATE KEY', 'token-of-the-pod', 's.test-token'],
  ...(['hex', 'base64', 'base64url'] as const).map((form) => KEK.toString(form)),
];

/** What a source says that gives no KEK: never a secret. */
export async function problemOf(source: KekSource): Promise<string> {
  const caught = await source.read().catch((caught: unknown) => caught);
  expect(caught).toBeInstanceOf(OperatorError);
  const { message } = caught as Error;
  for (const secret of SECRETS) expect(message).not.toContain(secret);
  return message;
}
