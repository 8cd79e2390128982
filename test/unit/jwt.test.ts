import { createHmac } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { IssuerKeys } from '../../src/access/issuer-keys.ts';
import { isJwt, JwtVerifier } from '../../src/access/jwt-verifier.ts';
import { MISREADS_NAMES } from '../../src/access/misread-names.ts';
import type { JwtOptions } from '../../src/options.ts';
import {
  AUDIENCE,
  base64urlOf,
  changed,
  IssuerStandIn,
  newSigner,
  SUBJECT,
} from '../support/issuer.ts';

/** JWTs are verified at this time, which passes only in `clockMs`. */
const BASE_MS = Date.now();
let issuer: IssuerStandIn;
let clockMs = 0;
let problems: (string | undefined)[];
let keys: IssuerKeys;
let verifier: JwtVerifier;
/** The next digests, so that one JWT can stand for many; then each JWT is its own. */
let digests: string[] = [];
beforeEach(async () => {
  clockMs = 0;
  digests = [];
  problems = [];
  issuer = await IssuerStandIn.start();
  open();
});
afterEach(() => issuer.stop());

function open(changes: Partial<JwtOptions> = {}): void {
  const usual = { issuer: issuer.url, audience: AUDIENCE, claim: 'sub', jwksUrl: undefined };
  const options = { ...usual, ...changes };
  const onProblem = (problem: string | undefined) => problems.push(problem);
  keys = new IssuerKeys(options, onProblem, () => clockMs);
  const digestOf = (jwt: string) => digests.shift() ?? jwt;
  verifier = new JwtVerifier(options, keys, digestOf, () => BASE_MS + clockMs);
}

/** The subject, or the code or reason of the error. */
async function outcomeOf(
  jwt: string | Promise<string>,
  hasClient = (one: string): boolean => one === SUBJECT,
) {
  return verifier.verify(await jwt, hasClient).catch((error) => error.code ?? error.reason);
}

async function outcomesOf(jwts: readonly (string | Promise<string>)[]): Promise<Set<string>> {
  return new Set(await Promise.all(jwts.map((jwt) => outcomeOf(jwt))));
}

const numbered = (count: number, claims = {}) =>
  Array.from({ length: count }, (_, i) => issuer.jwt({ ...claims, jti: `${i}` }));
const fetches = () => issuer.asked.filter((path) => path === '/keys').length;
const nowS = () => Math.floor(BASE_MS / 1_000);

type Claims = Record<string, unknown>;
type Row = [name: string, claims?: Claims, header?: Claims, options?: Partial<JwtOptions>];
const TYPED = { type: 'at+jwt' };

describe('a JWT is accepted', () => {
  const algorithms = ['RS256', 'PS512', 'ES256', 'ES384', 'EdDSA', 'Ed25519'];
  test.each(algorithms)('signed by %s', async (alg) => {
    await issuer.rotate(alg);
    expect(await outcomeOf(issuer.jwt())).toBe(SUBJECT);
  });

  test.each<Row>([
    ['one audience', { aud: AUDIENCE }],
    ['no nbf and no iat', { iat: undefined }],
    ['an end a few seconds ago, for clocks that differ', { exp: nowS() - 20 }],
    ['a start in a few seconds', { nbf: nowS() + 20 }],
    ['another claim of the client', { app: SUBJECT, sub: 'somebody' }, {}, { claim: 'app' }],
    ['any type when none is required', {}, { typ: 'logout+jwt' }],
    ...['at+jwt', 'AT+JWT', 'application/at+jwt'].map((typ): Row => [typ, {}, { typ }, TYPED]),
  ])('with %s', async (_, claims, header, options) => {
    open(options);
    expect(await outcomeOf(issuer.jwt(claims, header))).toBe(SUBJECT);
  });

  test('from its start on, also when it was refused before', async () => {
    const jwt = await issuer.jwt({ nbf: nowS() + 60, exp: nowS() + 600 });
    expect(await outcomeOf(jwt)).toBe('unauthorized');
    clockMs += 60_000;
    expect(await outcomeOf(jwt)).toBe(SUBJECT);
  });

  test('without discovery when the keys are named; a SPIFFE bundle is one', async () => {
    issuer.discovery = { issuer: 'https://other.example' };
    issuer.jwks = issuer.jwks.map((key) => ({ ...(key as object), use: 'jwt-svid' }));
    issuer.jwks.push({ ...issuer.signer.jwk, use: 'x509-svid', kid: undefined });
    open({ jwksUrl: `${issuer.url}/keys` });
    expect(await outcomeOf(issuer.jwt())).toBe(SUBJECT);
    expect(issuer.asked).toEqual(['/keys']);
  });

  test('when the key set has its key twice, and another key with the same kid', async () => {
    const { jwk, kid } = issuer.signer;
    const other = await newSigner('ES256', kid);
    issuer.jwks = [other.jwk, jwk, jwk];
    expect(await outcomeOf(issuer.jwt())).toBe(SUBJECT);
    expect(await outcomeOf(issuer.jwt({}, {}, other))).toBe(SUBJECT);
    const stranger = await newSigner('ES256', kid);
    expect(await outcomeOf(issuer.jwt({}, {}, stranger))).toBe('unauthorized');
  });
});

describe('a JWT is refused', () => {
  const types = ['JWT', 'logout+jwt', '', undefined, ['at+jwt'], 'application/x/at+jwt'];
  test.each<Row>([
    ['for another audience', { aud: 'other' }],
    ['for no audience', { aud: undefined }],
    ['of another issuer', { iss: 'https://other.example' }],
    ['of an issuer with a slash more', { iss: 'http://127.0.0.1/' }],
    ['that has expired', { exp: nowS() - 40 }],
    ['without an end', { exp: undefined }],
    ['with an end that is no number', { exp: `${nowS() + 100}` }],
    ['that is valid for more than a day', { exp: nowS() + 86_400 + 60 }],
    ['that is not valid yet', { nbf: nowS() + 60 }],
    ['with a start that is no number', { nbf: 'now' }],
    ['for a subject without a client', { sub: 'spiffe://example.org/other' }],
    ['for a subject in other letters', { sub: SUBJECT.toUpperCase() }],
    ['without a subject', { sub: undefined }],
    ['with a list of subjects', { sub: [SUBJECT] }],
    ['by a claim that every object has', {}, {}, { claim: 'constructor' }],
    ...types.map(
      (typ): Row => [`of the type ${typ}, where another is required`, {}, { typ }, TYPED],
    ),
  ])('%s', async (_, claims, header, options) => {
    open(options);
    expect(await outcomeOf(issuer.jwt(claims, header))).toBe('unauthorized');
  });

  test.runIf(MISREADS_NAMES)('that would make JSON.parse misread other texts', async () => {
    for (const name of ['\\', 'a\\']) {
      expect(await outcomeOf(issuer.jwt({}, { [name]: 1 }))).toBe('unauthorized');
      expect(await outcomeOf(issuer.jwt({ [name]: 1 }))).toBe('unauthorized');
    }
    expect(Object.keys(JSON.parse('{"\\n":1,"a\\n":2}'))).toEqual(['\n', 'a\n']);
  });

  test('without a signature: alg none', async () => {
    const payload = base64urlOf(issuer.claims());
    const headers = ['none', 'None', 'NONE'].map((alg) =>
      base64urlOf({ alg, kid: issuer.signer.kid }),
    );
    for (const jwt of headers.flatMap((head) => [`${head}.${payload}.`, `${head}.${payload}.AAAA`]))
      expect(await outcomeOf(jwt)).toBe('unauthorized');
  });

  test('signed with a public key as a shared secret', async () => {
    await issuer.rotate('RS256');
    const { jwk, kid } = issuer.signer;
    const signed = `${base64urlOf({ alg: 'HS256', kid })}.${base64urlOf(issuer.claims())}`;
    const signedWith = (secret: string | Buffer) =>
      `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`;
    for (const secret of [JSON.stringify(jwk), jwk.n!, Buffer.from(jwk.n!, 'base64url')])
      expect(await outcomeOf(signedWith(secret))).toBe('unauthorized');
    issuer.jwks = [{ kty: 'oct', kid, k: Buffer.from('secret').toString('base64url') }];
    expect(await outcomeOf(signedWith('secret'))).toBe('unauthorized');
  });

  test('with the algorithm of another kind of key, or with a key of its own', async () => {
    const { kid } = issuer.signer;
    const rsa = await newSigner('RS256', kid);
    expect(await outcomeOf(issuer.jwt({}, {}, rsa))).toBe('unauthorized');
    const own = await newSigner('ES256', kid);
    const header = { jwk: own.jwk, jku: `${issuer.url}/other`, x5u: `${issuer.url}/other` };
    expect(await outcomeOf(issuer.jwt({}, header, own))).toBe('unauthorized');
    expect(issuer.asked).not.toContain('/other');
  });

  test('that was changed in any part', async () => {
    const [jwt, { kid }] = [await issuer.jwt(), issuer.signer];
    const [head, body, end] = jwt.split('.') as [string, string, string];
    const payload = base64urlOf({ ...issuer.claims(), admin: true });
    const swapped = (end.startsWith('A') ? 'B' : 'A') + end.slice(1);
    const none = 'bm90IGpzb24';
    const bodies = [payload, none].map((other) => [head, other, end]);
    const ends = [swapped, 'AAAA'].map((other) => [head, body, other]);
    const heads = [
      ...[
        { crit: ['exp'], exp: 1 },
        { crit: ['b64'], b64: false },
      ],
      ...[{ kid: undefined }, { kid: 7 }],
    ].map((other) => [base64urlOf({ alg: 'ES256', kid, ...other }), body, end]);
    for (const parts of [...bodies, ...ends, ...heads, [none, body, end]]) {
      expect(await outcomeOf(parts.join('.'))).toBe('unauthorized');
      expect(verifier.known(parts.join('.'))).toBeUndefined();
    }
    expect(await outcomeOf(jwt)).toBe(SUBJECT);
  });

  const tooLong = `${'a'.repeat(5_000)}.${'a'.repeat(3_190)}.a`;
  test.each(['a.b', 'a.b.c.d', 'a..c', 'a.b.', 'a b.c.d', tooLong, 'stk_'])(
    'unread when it does not have the form: %.40s',
    (text) => expect(isJwt(text)).toBe(false),
  );
});

describe('the keys of the issuer', () => {
  test('are fetched once, also for a hundred who ask at once, and kept', async () => {
    expect(await outcomesOf(numbered(100))).toEqual(new Set([SUBJECT]));
    clockMs += 200_000;
    expect(await outcomeOf(issuer.jwt({ exp: nowS() + 2_000 }))).toBe(SUBJECT);
    expect(fetches()).toBe(1);
  });

  test('are fetched again for an unknown kid, but not in a storm', async () => {
    expect(await outcomeOf(issuer.jwt())).toBe(SUBJECT);
    await issuer.rotate('ES256', 1);
    const jwt = await issuer.jwt();
    expect(await outcomeOf(jwt)).toBe('unauthorized');
    clockMs += 5_000;
    expect(await outcomeOf(jwt)).toBe(SUBJECT);
    for (let i = 0; i < 200; i++)
      expect(await outcomeOf(issuer.jwt({}, { kid: `stranger ${i}` }))).toBe('unauthorized');
    expect(fetches()).toBe(2);
  });

  test('that the issuer withdraws are refused from the next fetch on, also when their JWTs were known', async () => {
    const jwt = await issuer.jwt();
    await outcomeOf(jwt);
    expect(verifier.known(jwt)).toBe(SUBJECT);
    await keys.refresh();
    expect(verifier.known(jwt)).toBe(SUBJECT);
    await issuer.rotate('ES256', 1);
    await keys.refresh();
    expect(verifier.known(jwt)).toBe(SUBJECT);
    await issuer.rotate();
    await keys.refresh();
    expect(verifier.known(jwt)).toBeUndefined();
    expect(await outcomeOf(jwt)).toBe('unauthorized');
    expect(await outcomeOf(issuer.jwt())).toBe(SUBJECT);
    // Another key of the same kid stays.
    const other = await newSigner('ES256', issuer.signer.kid);
    issuer.jwks.push({ ...other.jwk, use: 'sig' });
    await keys.refresh();
    const ofFirst = await issuer.jwt({ jti: 'first' });
    expect([await outcomeOf(ofFirst), verifier.known(ofFirst)]).toEqual([SUBJECT, SUBJECT]);
    issuer.jwks = issuer.jwks.slice(-1);
    await keys.refresh();
    expect(verifier.known(ofFirst)).toBeUndefined();
    expect(await outcomeOf(ofFirst)).toBe('unauthorized');
  });

  test('serve for an hour while the issuer is away, and no longer', async () => {
    const jwt = await issuer.jwt({ exp: nowS() + 50_000 });
    const fresh = await issuer.jwt({ exp: nowS() + 50_000, jti: '2' });
    await outcomeOf(jwt);
    issuer.stop();
    clockMs = 3_599_000;
    await keys.refresh();
    expect(keys.ageS).toBe(3_599);
    expect(problems).toEqual([
      expect.stringMatching(/openid-configuration cannot be reached \([A-Z_]+\)$/),
    ]);
    expect([verifier.known(jwt), await outcomeOf(fresh)]).toEqual([SUBJECT, SUBJECT]);
    clockMs = 3_600_000;
    expect(verifier.known(jwt)).toBeUndefined();
    expect(await outcomeOf(jwt)).toBe('issuer_unavailable');
    await issuer.open();
    expect(await outcomeOf(jwt)).toBe('issuer_unavailable');
    clockMs += 5_000;
    expect(await outcomeOf(jwt)).toBe(SUBJECT);
    expect(problems.slice(1)).toEqual([undefined]);
  });

  test.each<[string, IssuerStandIn['failure'] & object, RegExp]>([
    ['an error', { status: 503, body: 'secret words' }, /openid-configuration answered 503$/],
    ['a redirect', { status: 302, body: '' }, /answered 302$/],
    ['no JSON', { status: 200, body: 'secret words' }, /did not answer with JSON$/],
    ['no object', { status: 200, body: 'null' }, /did not answer with a JSON object$/],
    [
      'the most',
      { status: 200, body: 'null'.padEnd(262_144) },
      /did not answer with a JSON object$/,
    ],
    ['too much', { status: 200, body: 'null'.padEnd(262_145) }, /is too long$/],
  ])('stay as they were after %s', async (_, failure, problem) => {
    const jwt = await issuer.jwt();
    await outcomeOf(jwt);
    issuer.failure = failure;
    await keys.refresh();
    expect(problems).toEqual([expect.stringMatching(problem)]);
    expect(problems[0]).not.toContain('secret words');
    expect(verifier.known(jwt)).toBe(SUBJECT);
  });

  test.each([
    ['another issuer', { issuer: 'https://other.example' }, /names another issuer/],
    ['keys in clear', { jwks_uri: 'ftp://127.0.0.1/keys' }, /no jwks_uri with the scheme/],
    ['no keys', { jwks_uri: undefined }, /no jwks_uri with the scheme/],
  ])('are not fetched when discovery has %s', async (_, discovery, problem) => {
    issuer.discovery = discovery;
    expect(await outcomeOf(issuer.jwt())).toBe('issuer_unavailable');
    expect(problems).toEqual([expect.stringMatching(problem)]);
    expect(issuer.asked).not.toContain('/keys');
  });

  test.each<[string, unknown[]]>([
    ['none', []],
    ['none with a kid', [{ kty: 'EC' }, null, 7]],
    ['too many', Array.from({ length: 101 }, (_, i) => ({ kty: 'EC', kid: `${i}` }))],
  ])('are at least one and at most a hundred: %s', async (_, jwks) => {
    issuer.jwks = jwks;
    expect(await outcomeOf(issuer.jwt())).toBe('issuer_unavailable');
    expect(problems).toEqual([expect.stringMatching(/keys with a kid, not 1 to 100$/)]);
  });
});

describe('what is in memory', () => {
  test('ends with the JWT', async () => {
    const jwt = await issuer.jwt({ exp: nowS() + 300 });
    await outcomeOf(jwt);
    clockMs = 329_000;
    expect(verifier.known(jwt)).toBe(SUBJECT);
    clockMs = 331_000;
    expect(verifier.known(jwt)).toBeUndefined();
    expect(await outcomeOf(jwt)).toBe('unauthorized');
  });

  test('are the last 10,000', async () => {
    const jwt = await issuer.jwt();
    const all = Array.from({ length: 10_100 }, (_, i) => `${i}`);
    for (let from = 0; from < all.length; from += 100) {
      digests = all.slice(from, from + 100);
      await Promise.all([...digests].map(() => outcomeOf(jwt)));
    }
    digests = [...all];
    expect(all.filter(() => verifier.known(jwt) !== undefined)).toEqual(all.slice(100));
  });
});

describe('a flood of JWTs with wrong signatures', () => {
  const forged = async (subject: string, count: number) => {
    const jwt = await issuer.jwt({ sub: subject });
    return Array.from({ length: count }, (_, i) =>
      changed(jwt, ([head, body]) => [head!, body!, i.toString().padStart(86, 'A')]),
    );
  };

  test('costs a hundred checks in a second for a subject, and harms no other', async () => {
    const hasClient = () => true;
    const jwts = await forged(SUBJECT, 150);
    const outcomes = await Promise.all(jwts.map((jwt) => outcomeOf(jwt, hasClient)));
    expect(outcomes.filter((one) => one === 'unauthorized')).toHaveLength(100);
    expect(outcomes.filter((one) => one === 'overloaded')).toHaveLength(50);
    expect(await outcomeOf(issuer.jwt(), hasClient)).toBe('overloaded');
    expect(await outcomeOf(issuer.jwt({ sub: 'other' }), hasClient)).toBe('other');
    clockMs += 1_000;
    expect(await outcomeOf(issuer.jwt(), hasClient)).toBe(SUBJECT);
  });

  test('costs no check at all when no signature could make them good', async () => {
    const wrong = [{ aud: 'other' }, { iss: 'other' }, { exp: 1 }];
    const jwts = wrong.flatMap((claims) => numbered(150, claims));
    expect(await outcomesOf(jwts)).toEqual(new Set(['unauthorized']));
  });

  test('is a flood of those that fail: 300 good ones are no flood', async () => {
    for (const jwt of numbered(300)) expect(await outcomeOf(jwt)).toBe(SUBJECT);
  });

  test('does not count one JWT that comes a thousand times at once', async () => {
    expect(await outcomesOf(Array(1_000).fill(await issuer.jwt()))).toEqual(new Set([SUBJECT]));
  });
});
