import { generateKeyPairSync } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { License } from '../../src/access/license.ts';
import { placeFor } from '../support/command.ts';
import { Licenser } from '../support/keys.ts';
import { freePort } from '../support/postgres.ts';
import {
  type Answer,
  call,
  type Place,
  type Service,
  startService,
  until,
  usualPlace,
} from '../support/service.ts';

const DATA = { name: 'Ann Lee' };

interface Licensed {
  readonly service: Service;
  readonly licenser: Licenser;
}

// At once, each with a license and a service of its own: a license is read again every 10 s.
describe.concurrent('the service with a license', () => {
  let ofAll: Place;
  let apiKey: string;
  let stored: unknown;

  beforeAll(async () => {
    ofAll = await usualPlace();
    const first = await startService(ofAll);
    apiKey = first.api_key;
    stored = (await call(first, 'tokenize', DATA)).body.data;
    await first.stop();
  });
  afterAll(() => ofAll.remove());

  const OPS = async () => ({ OPS_PORT: String(await freePort()) });
  const tokenize = (service: Service): Promise<Answer> => call(service, 'tokenize', DATA, apiKey);

  /** A test with a service that starts when the license is there. */
  function licensed(
    name: string,
    issue: (licenser: Licenser) => Promise<void> | void,
    check: (licensed: Licensed) => Promise<void>,
  ): void {
    test(name, async ({ onTestFinished }) => {
      const licenser = new Licenser(mkdtempSync(join(ofAll.folder, 'license-')));
      await issue(licenser);
      const service = await startService(ofAll, { ...licenser.env, ...(await OPS()) });
      onTestFinished(service.stop);
      await check({ service, licenser });
    });
  }

  async function daysLeft({ opsUrl }: Service): Promise<number> {
    const metrics = await (await fetch(`${opsUrl}/metrics`)).text();
    return Number(/^standin_license_days_left (\S+)$/m.exec(metrics)?.[1]);
  }

  const expectRefused = async (service: Service, message: string) => {
    const { status, body } = await tokenize(service);
    expect({ status, body }).toEqual({ status: 500, body: { error: 'internal_error', message } });
    const restored = await call(service, 'detokenize', stored, apiKey);
    expect(restored.body).toMatchObject({ data: DATA, status: 'success' });
    expect((await fetch(`${service.url}/health`)).status).toBe(200);
  };

  for (const [days, outcome] of [
    [30.5, 'no warning'],
    [29.5, 'a warning that counts the days'],
  ] as const)
    licensed(
      `one of ${days} days serves, with its days as a metric and ${outcome}`,
      (licenser) => licenser.issue(days),
      async ({ service }) => {
        expect((await tokenize(service)).status).toBe(200);
        expect(await daysLeft(service)).toBeCloseTo(days, 1);
        const warning = /"level":"warn".*"msg":"license expires in 30 days"/;
        if (days < 30) await until(() => warning.test(service.output()), 'the warning');
        else expect(service.output()).not.toContain('"level":"warn"');
      },
    );

  licensed(
    'an expired one stops tokenize with a 500; detokenize goes on, and health stays well',
    (licenser) => licenser.issue(-2),
    async ({ service }) => {
      await expectRefused(service, 'license expired');
      expect(await daysLeft(service)).toBeCloseTo(-2, 1);
      for (let i = 0; i < 3; i++) expect((await tokenize(service)).status).toBe(500);
      // The lines come in order, so all of the refused requests are there.
      const requests = () => service.output().split('"route":"/api/v1/tokenize"').length - 1;
      await until(() => requests() >= 4, 'the lines of the requests');
      expect(service.output()).toContain('"msg":"license expired; tokenize answers 500"');
      expect(service.output().split('license expired')).toHaveLength(2);
      expect(service.output()).not.toMatch(/"level":"error"|"at":/);
    },
  );

  licensed(
    'an invalid one does the same in its own words, and a valid one in its place mends it without a restart',
    (licenser) => licenser.write('not a license'),
    async ({ service, licenser }) => {
      await expectRefused(service, 'license invalid');
      expect(await daysLeft(service)).toBe(0);
      expect(service.output()).toContain('license invalid: ERR_JWS_INVALID; tokenize answers 500');
      await licenser.issue(90);
      await until(async () => (await tokenize(service)).status === 200, 'the new license is read');
      expect(await daysLeft(service)).toBeCloseTo(90, 1);
    },
  );

  licensed(
    'one that is taken away stops tokenize without a restart, with a line in the log',
    (licenser) => licenser.issue(90),
    async ({ service, licenser }) => {
      rmSync(licenser.env.LICENSE_FILE);
      await until(async () => (await tokenize(service)).status === 500, 'the loss is seen');
      await expectRefused(service, 'license invalid');
      await until(() => service.output().includes('license.jwt: ENOENT'), 'the log line');
    },
  );

  licensed(
    'one that was read stays when its file cannot be read, and not when the file says another thing',
    (licenser) => licenser.issue(90),
    async ({ service, licenser }) => {
      rmSync(licenser.env.LICENSE_FILE);
      // Nobody can read a folder, root neither.
      mkdirSync(licenser.env.LICENSE_FILE);
      await until(() => service.output().includes('license cannot be read'), 'the log line');
      expect(service.output()).toMatch(
        /license\.jwt: EISDIR\): the last one read stays in force until it/,
      );
      expect((await tokenize(service)).status).toBe(200);
      expect(await daysLeft(service)).toBeCloseTo(90, 1);
      rmdirSync(licenser.env.LICENSE_FILE);
      licenser.write('not a license');
      await until(async () => (await tokenize(service)).status === 500, 'the other thing');
      await expectRefused(service, 'license invalid');
    },
  );

  test('without LICENSE_FILE none is asked for, and there is no metric', async ({
    onTestFinished,
  }) => {
    const service = await startService(ofAll, await OPS());
    onTestFinished(service.stop);
    expect((await tokenize(service)).status).toBe(200);
    expect(await daysLeft(service)).toBeNaN();
  });
});

describe('license verify', () => {
  const at = placeFor('test');
  let licenser: Licenser;
  beforeEach(() => {
    licenser = new Licenser(at.place.folder);
  });

  /** A license of one signer beside the public key of the next. */
  async function issueByAnother(): Promise<void> {
    await licenser.issue(90);
    licenser = new Licenser(at.place.folder);
  }

  async function otherKey(): Promise<void> {
    await licenser.issue(90);
    const { publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const pem = publicKey.export({ type: 'spki', format: 'pem' });
    writeFileSync(licenser.env.LICENSE_PUBLIC_KEY_FILE, pem);
  }

  /** Verifies a license that is not valid. */
  async function refused() {
    const { code, stdout, stderr } = await at.run('license verify --json', licenser.env);
    expect(code).toBe(1);
    return { state: JSON.parse(stdout), stderr };
  }

  test('a valid license exits with 0, from the settings or from the arguments', async () => {
    await licenser.issue(90);
    const { LICENSE_FILE, LICENSE_PUBLIC_KEY_FILE } = licenser.env;
    licenser.write(`\n${readFileSync(LICENSE_FILE, 'utf8')}\n`);
    const expiresAt = expect.stringMatching(/Z$/);
    const state = { status: 'valid', subject: 'Acme Ltd', expires_at: expiresAt };
    expect(await at.json('license verify', licenser.env)).toEqual(state);
    const named = `license verify ${LICENSE_FILE} --public-key ${LICENSE_PUBLIC_KEY_FILE}`;
    expect(await at.json(named)).toEqual(state);
    const words = /^valid: Acme Ltd, until \S+Z\n$/;
    expect(await at.text('license verify', licenser.env)).toMatch(words);
  });

  test('an expired license exits with 1 and says what to do', async () => {
    await licenser.issue(-1);
    const { state, stderr } = await refused();
    expect(state.status).toBe('expired');
    expect(stderr).toMatch(/^standin: The license has expired: .*Put a new one in LICENSE_FILE/);
  });

  test.each<[string, () => unknown, string]>([
    ['garbage', () => licenser.write('garbage'), 'ERR_JWS_INVALID'],
    ['of another signer', issueByAnother, 'ERR_JWS_SIGNATURE_VERIFICATION_FAILED'],
    ['without a licensee', () => licenser.issue(1, {}), 'ERR_JWT_CLAIM_VALIDATION_FAILED'],
    ['of a number', () => licenser.issue(1, { sub: {} }), '(sub) is not a string'],
    ['that ends beyond all dates', () => licenser.issue(1e300), '(exp) is not a date'],
    ['not valid yet', () => licenser.issue(90, { sub: 'x', nbf: 4_000_000_000 }), '(nbf)'],
    ['unsigned', () => licenser.write(`${encoded({ alg: 'none' })}.${encoded(CLAIMS)}.`), 'ERR_'],
    ['missing', () => {}, 'license.jwt: ENOENT'],
    ['checked with a key of another kind', otherKey, 'not an EdDSA key in PEM (SPKI)'],
  ])('a license that is %s exits with 1 and the reason', async (_, make, problem) => {
    await make();
    const { state, stderr } = await refused();
    expect(state).toEqual({ status: 'invalid', problem: expect.stringContaining(problem) });
    expect(stderr).toMatch(/^standin: The license is invalid: .* Put a valid one in LICENSE_FILE/);
  });

  test('one that nobody could read is invalid; later, the one read before stays until another can be', async () => {
    const { LICENSE_FILE: licenseFile, LICENSE_PUBLIC_KEY_FILE: publicKeyFile } = licenser.env;
    const license = new License({ licenseFile, publicKeyFile });
    const warnings: unknown[] = [];
    for (const isReadable of [false, true, false, true]) {
      rmSync(licenseFile, { recursive: true, force: true });
      if (isReadable) await licenser.issue(90);
      else mkdirSync(licenseFile);
      await license.start();
      warnings.push(license.warning());
    }
    const invalid = expect.stringMatching(/^license invalid: .*EISDIR; tokenize answers 500$/);
    const unread = expect.stringMatching(/^license cannot be read/);
    expect(warnings).toEqual([invalid, undefined, unread, undefined]);
  });

  test('without a license or a public key it says how to name them', async () => {
    const words = 'LICENSE_FILE and LICENSE_PUBLIC_KEY_FILE, or give FILE';
    expect(await at.failure('license verify')).toContain(words);
  });
});

const CLAIMS = { sub: 'x', exp: 4_000_000_000 };

function encoded(json: unknown): string {
  return Buffer.from(JSON.stringify(json)).toString('base64url');
}
