import { Worker } from 'node:worker_threads';
import { OperatorError } from '../errors.ts';
import { readSecret, readTrusted } from '../private-files.ts';
import { AWS, type AwsSettings } from './aws.ts';
import { AZURE, type AzureSettings } from './azure.ts';
import { blobOf, type Cloud } from './cloud.ts';
import { kekCiphertext } from './file.ts';
import { GOOGLE, type GoogleSettings } from './google.ts';
import { KEK_TIMEOUTS, type KekSource, type KekTimeouts, readSetting } from './source.ts';

const CLOUDS = { aws: AWS, google: GOOGLE, azure: AZURE };

export type CloudSettings =
  | ({ readonly cloud: 'aws' } & AwsSettings)
  | ({ readonly cloud: 'google' } & GoogleSettings)
  | ({ readonly cloud: 'azure' } & AzureSettings);

export function cloudOf({ cloud }: CloudSettings): Cloud<CloudSettings> {
  return CLOUDS[cloud] as Cloud<unknown>;
}

/** For the cloud thread. */
export interface CloudWork {
  readonly ciphertext: Uint8Array;
  readonly settings: CloudSettings;
  readonly timeouts: KekTimeouts;
}

export type CloudResult = { readonly plaintext: Uint8Array } | { readonly problem: string };

/** The compiled file, also when this file runs as TypeScript in a test. */
const THREAD = new URL('cloud-thread.js', import.meta.url.replace('/src/kek/', '/dist/kek/'));

/**
 * @param path file with the ciphertext of a data key, raw or in base64
 * @param environment what the library of the cloud reads
 */
export function kekCloud(
  path: string,
  settings: CloudSettings,
  environment: NodeJS.Dict<string>,
  timeouts = KEK_TIMEOUTS,
): KekSource {
  const { name, setting, secretFile } = cloudOf(settings);
  return kekCiphertext(path, setting, `${name} key ${settings.key}`, async (content) => {
    const ciphertext = blobOf(content);
    if (secretFile && environment[secretFile]) checkSecret(secretFile, environment[secretFile]);
    const result = await inThread(name, { ciphertext, settings, timeouts }, environment);
    if ('problem' in result) throw new OperatorError(result.problem);
    return Buffer.from(result.plaintext);
  });
}

/** A federation of Google names other files, and is no secret itself. */
function checkSecret(setting: string, path: string): void {
  const isFederation = readSetting(setting, path, readTrusted).includes('"external_account"');
  if (!isFederation) readSetting(setting, path, readSecret);
}

/**
 * A thread, because the libraries read the environment of their process, and nothing else ends
 * their search for credentials.
 */
function inThread(
  name: string,
  workerData: CloudWork,
  env: NodeJS.Dict<string>,
): Promise<CloudResult> {
  const { totalMs } = workerData.timeouts;
  const worker = new Worker(THREAD, { workerData, env, execArgv: [] });
  return new Promise<CloudResult>((resolve, reject) => {
    const fail = (problem: string) => reject(new OperatorError(`${name}: ${problem}`));
    const late = `no response within ${totalMs / 1_000} s, or none from the source of its credentials. Check the network, the endpoint and the credentials of this machine, and start again.`;
    const timer = setTimeout(() => fail(late), totalMs);
    worker.once('message', resolve);
    // The text of the error may be the server's.
    worker.once('error', (error) => fail(`its library failed (${error.name}). Start again.`));
    worker.once('exit', () => clearTimeout(timer));
  }).finally(() => worker.terminate());
}
