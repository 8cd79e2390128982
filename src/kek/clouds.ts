import { Worker } from 'node:worker_threads';
import { OperatorError } from '../errors.ts';
import { readSecret, readTrusted } from '../private-files.ts';
import { AWS } from './aws.ts';
import { AZURE } from './azure.ts';
import { kekCiphertext } from './file.ts';
import { GOOGLE } from './google.ts';
import {
  type Cloud,
  type KekSettings,
  type KekSource,
  type KekTimeouts,
  readSetting,
} from './source.ts';

const CLOUDS = [AWS, GOOGLE, AZURE];

function cloudOf(settings: KekSettings): Cloud | undefined {
  return CLOUDS.find(({ setting }) => settings[setting] !== undefined);
}

interface CloudWork {
  readonly ciphertext: Uint8Array;
  readonly settings: KekSettings;
  readonly timeouts: KekTimeouts;
}

type CloudResult = { readonly plaintext: Uint8Array } | { readonly problem: string };

/** The start of the thread included: on a busy machine, it takes seconds to load a library. */
export const CLOUD_TIMEOUTS: KekTimeouts = { totalMs: 30_000, attemptMs: 4_000 };
/** The compiled file, also when this file runs as TypeScript in a test. */
const THREAD = new URL('cloud-thread.js', import.meta.url.replace('/src/kek/', '/dist/kek/'));

/**
 * @param path file with the ciphertext of a data key, raw or in base64
 * @returns undefined: no cloud decrypts the file
 */
export function kekCloud(
  path: string,
  settings: KekSettings,
  timeouts = CLOUD_TIMEOUTS,
  decrypt = decryptInThread,
): KekSource | undefined {
  const cloud = cloudOf(settings);
  if (cloud === undefined) return undefined;
  const { name, setting, secretFile = '' } = cloud;
  return kekCiphertext(path, setting, `${name} key ${settings[setting]}`, async (content) => {
    const secretPath = settings.environment![secretFile];
    if (secretPath) checkSecret(secretFile, secretPath);
    const result = await decrypt({ ciphertext: blobOf(content), settings, timeouts }, name);
    if ('problem' in result) throw new OperatorError(result.problem);
    return Buffer.from(result.plaintext);
  });
}

/** A federation of Google names other files, and is no secret itself. */
function checkSecret(setting: string, path: string): void {
  const isFederation = readSetting(setting, path, readTrusted).includes('"external_account"');
  if (!isFederation) readSetting(setting, path, readSecret);
}

/** Command lines print base64. A raw ciphertext has bytes that base64 lacks. */
function blobOf(content: Buffer): Buffer {
  const text = content.toString('latin1').replaceAll(/\s/g, '');
  return /^[\w+/-]+={0,2}$/.test(text) ? Buffer.from(text, 'base64') : content;
}

/** In the thread that runs this. */
export async function decryptHere(work: CloudWork): Promise<CloudResult> {
  const { ciphertext, settings, timeouts } = work;
  const cloud = cloudOf(settings)!;
  try {
    return { plaintext: await cloud.decrypt(Buffer.from(ciphertext), settings, timeouts) };
  } catch (error) {
    return { problem: error instanceof OperatorError ? error.message : explain(error, cloud) };
  }
}

function explain(error: unknown, { name, setting, library, remedies = {}, remedy }: Cloud): string {
  const { name: kind, code, errors = [error] } = error as LibraryError;
  if (code === 'ERR_MODULE_NOT_FOUND') {
    return `${setting} needs the package ${library}. Run: npm install --no-save --save-prod ${library}`;
  }
  const codes = errors.map((one) => codesOf(one as LibraryError)).join(', ');
  return `${name} did not decrypt the key-encryption key (${codes}). ${Object.hasOwn(remedies, kind) ? remedies[kind] : remedy}`;
}

/** An error that a library throws. */
interface LibraryError extends Error {
  readonly code?: unknown;
  readonly status?: unknown;
  readonly $metadata?: { readonly httpStatusCode?: number };
  /** Of all credentials that were tried. */
  readonly errors?: readonly unknown[];
}

/** Names and codes of an error. A code of Entra ID is in its text. */
function codesOf({ name, code, status, $metadata, message }: LibraryError): string {
  const entra = /\bAADSTS\d+\b/.exec(message)?.[0];
  const codes = [name, code, status ?? $metadata?.httpStatusCode, entra].map(String);
  return [...new Set(codes)].filter((one) => /^(?!undefined)[\w.-]{1,64}$/.test(one)).join(' ');
}

/**
 * A thread has its own environment, where the library of the cloud finds its settings. And its end
 * is the only way to end a library's search for credentials.
 */
function decryptInThread(workerData: CloudWork, name: string): Promise<CloudResult> {
  const { settings, timeouts } = workerData;
  const env = settings.environment!;
  const worker = new Worker(THREAD, { workerData, env, execArgv: [] });
  return new Promise<CloudResult>((resolve, reject) => {
    const fail = (problem: string) => reject(new OperatorError(`${name} ${problem}`));
    const late = `or the source of its credentials did not respond within ${timeouts.totalMs / 1_000} s. Check the network, the endpoint and the credentials of this machine, and start again.`;
    const timer = setTimeout(() => fail(late), timeouts.totalMs);
    worker.once('message', resolve);
    // The text of the error may be the server's.
    worker.once('error', ({ name }) => fail(`cannot be used: its library failed (${name}).`));
    worker.once('exit', () => clearTimeout(timer));
  }).finally(() => worker.terminate());
}
