import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, expect, onTestFinished, vi } from 'vitest';
import { parseKekSettings } from '../../src/config/kek.ts';
import { OperatorError } from '../../src/errors.ts';
import { decryptHere, kekCloud } from '../../src/kek/clouds.ts';
import type { KekSource } from '../../src/kek/source.ts';
import { kekTransit } from '../../src/kek/transit.ts';
import type { KeyServiceStandIn } from './clouds.ts';
import { folderOfEachTest, newFolder } from './folder.ts';
import { testKey } from './keys.ts';
import { Authority, hasOpenssl, type Issued, NAMES } from './tls.ts';

export const KEK = testKey('kek');
export const PATIENT = { attemptMs: 20_000, totalMs: 200_000 };

/** Settings that differ. An empty one is not set. */
export type Changes = Record<string, string>;

/** A KEK_FILE of each test, and a certificate of key services. */
export class KekFixture {
  readonly inFolder = folderOfEachTest('kek');
  readonly #certificates = newFolder('kek-tls');
  #issued: Issued | undefined;

  constructor() {
    beforeAll(() => {
      if (hasOpenssl) this.#issued = new Authority(this.#certificates, 'authority').issue(NAMES);
    });
    afterEach(() => vi.unstubAllEnvs());
  }

  get file(): string {
    return this.inFolder('kek.encrypted');
  }

  get ca(): string {
    return join(this.#certificates, 'authority.pem');
  }

  get pem(): { key: Buffer; cert: Buffer } {
    const { key, cert } = this.#issued!;
    return { key: readFileSync(key), cert: readFileSync(cert) };
  }

  /**
   * The source that these settings name.
   * @param inThread as in the service; else without a thread, which loads the library anew
   */
  sourceOf(settings: Changes, timeouts = PATIENT, inThread = false): KekSource {
    // The libraries of clouds take no authority of ours, and AWS wants a newer Node next year.
    const quiet = { AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: 'true' };
    const trusting = { NODE_TLS_REJECT_UNAUTHORIZED: '0', ...quiet };
    const environment = { KEK_FILE: this.file, ...trusting, ...settings };
    const kek = parseKekSettings(environment);
    if (kek.KEK_TRANSIT_URL !== undefined)
      return kekTransit(
        this.file,
        { ...kek, KEK_TRANSIT_CA_FILE: kek.KEK_TRANSIT_CA_FILE ?? this.ca },
        timeouts,
      );
    if (inThread) return kekCloud(this.file, kek, timeouts)!;
    for (const [name, text] of Object.entries(environment)) vi.stubEnv(name, text);
    return kekCloud(this.file, kek, timeouts, decryptHere)!;
  }

  /** A key service with its KEK_FILE, which ends with the test. Settings are as in the service. */
  async serve<S extends KeyServiceStandIn>(
    STAND_IN: new (tls: { key: Buffer; cert: Buffer }) => S,
  ) {
    const service = await new STAND_IN(this.pem).open();
    onTestFinished(() => service.stop());
    writeFileSync(this.file, service.encrypt(KEK));
    const source = (changes: Changes[]) => {
      const settings = Object.assign({}, service.environment, ...changes);
      return this.sourceOf(settings, PATIENT, true);
    };
    const read = (...changes: Changes[]) => source(changes).read();
    const problem = (...changes: Changes[]) => problemOf(source(changes));
    return { service, read, problem };
  }
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
