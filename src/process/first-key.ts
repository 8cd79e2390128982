import { resolve } from 'node:path';
import type { Config } from '../config/config.ts';
import { isApiKey, newApiKey } from '../crypto/api-key.ts';
import { errorCode, OperatorError } from '../errors.ts';
import { createSecret, readSecret } from '../private-files.ts';
import { makeUsable } from '../store/embedded.ts';

/** Where the API key of the first client is, and the key itself. */
export interface FirstKey {
  /** undefined: the key is printed, on a terminal. */
  readonly file: string | undefined;
  /**
   * To be called when the vault has no client, before one is made: from now on the key is in its
   * file, and a process that ends here leaves the key to the next start.
   * @throws OperatorError with what to do about it
   */
  take(): string;
}

/** @param is_terminal whether a person, and no log, gets what this process prints */
export function firstKey(
  { DATA_DIR, BOOTSTRAP_API_KEY_FILE: given }: Pick<Config, 'DATA_DIR' | 'BOOTSTRAP_API_KEY_FILE'>,
  is_terminal: boolean,
): FirstKey {
  if (given !== undefined)
    return { file: given, take: () => read(given, `BOOTSTRAP_API_KEY_FILE (${given})`) };
  if (is_terminal) return { file: undefined, take: newApiKey };
  const file = resolve(DATA_DIR, 'first-api-key');
  return { file, take: () => readOrCreate(resolve(DATA_DIR), file) };
}

function readOrCreate(data_dir: string, file: string): string {
  makeUsable(data_dir);
  try {
    createSecret(file, `${newApiKey()}\n`);
  } catch (error) {
    throw new OperatorError(
      `The vault has no client yet, and the API key of the first one cannot be written to ${file} (${errorCode(error)}). ${OTHER_WAYS}`,
    );
  }
  return read(file, `The file of the first API key (${file})`);
}

const OTHER_WAYS =
  'Name a file with an API key in BOOTSTRAP_API_KEY_FILE (make one with: standin api-key new), or make a client with: standin client create --name NAME';

function read(file: string, name: string): string {
  const api_key = readText(file, name).trim();
  if (isApiKey(api_key)) return api_key;
  throw new OperatorError(
    `${name} does not have one API key, and nothing else, in it. ${OTHER_WAYS}`,
  );
}

function readText(file: string, name: string): string {
  try {
    return readSecret(file, name).toString('latin1');
  } catch (error) {
    if (error instanceof OperatorError) throw error;
    throw new OperatorError(`${name} cannot be read (${errorCode(error)}). ${OTHER_WAYS}`);
  }
}
