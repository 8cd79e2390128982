import type { Mutant } from './mutant.ts';

const VERIFIER = { file: 'service/jwt/jwt-verifier.ts', tests: ['unit/jwt.test.ts'] };
const KEYS = { file: 'service/jwt/issuer-keys.ts', tests: ['unit/jwt.test.ts'] };
const GCP = { file: 'packages/kek/src/gcp-kms.ts', tests: ['kek/gcp-kms.test.ts'] };
const AZURE = {
  file: 'packages/kek/src/azure-key-vault.ts',
  tests: ['kek/azure-key-vault.test.ts'],
};

const SESSIONS = { tests: ['http/console-access.test.ts'], name: 'who signs in' };
const PAGE = { tests: ['http/admin-access.test.ts'], name: 'acts with a ticket' };

/** Who is a caller by JWT or by a session of the console, and keys from the services of clouds. */
export const IDENTITY: readonly Mutant[] = [
  {
    id: 'session-cookie-alone',
    ...SESSIONS,
    file: 'ops/sessions.ts',
    old: ' || !session.pageSecret.equals(secret)',
    new: '',
    promise: 'The cookie of a session is worth nothing without the secret of the page.',
  },
  {
    id: 'session-ended-by-cookie',
    ...SESSIONS,
    file: 'ops/sessions.ts',
    old: 'if (this.find(headers) !== undefined) this',
    new: 'this',
    promise: 'The cookie of a session alone does not end it.',
  },
  {
    id: 'origin-of-any-scheme',
    file: 'ops/access.ts',
    old: "'encrypted' in socket",
    new: "origin?.startsWith('https')",
    promise: 'A page of https is not one of a listener in clear, nor the other way round.',
    tests: ['http/console-access.test.ts'],
    name: 'does nothing',
  },
  {
    id: 'ticket-for-programs',
    ...PAGE,
    file: 'ops/admin/access.ts',
    old: 'checkIsPage(request);\n    const session',
    new: 'const session',
    promise: 'Only a page gets a ticket for an act.',
  },
  {
    id: 'act-of-programs',
    ...PAGE,
    file: 'ops/admin/access.ts',
    old: 'checkIsPage(request);\n    if',
    new: 'if',
    promise: 'Only a page acts with a session.',
  },
  {
    id: 'jwt-any-issuer',
    ...VERIFIER,
    old: 'iss === issuer && ',
    new: '',
    promise: 'A JWT of another issuer is refused.',
  },
  {
    id: 'jwt-any-audience',
    ...VERIFIER,
    old: ' && [aud].flat().includes(audience)',
    new: '',
    promise: 'A JWT for another service is refused.',
  },
  {
    id: 'jwt-any-type',
    ...VERIFIER,
    old: ' && this.#hasType(typ)',
    new: '',
    promise: 'With JWT_TYPE, a JWT of another type is refused.',
  },
  {
    id: 'kek-command-gets-all',
    file: 'config/config.ts',
    tests: ['kek/command.test.ts'],
    old: '  return { ...kek, environment: Object.fromEntries(rest) };',
    new: '  return { ...kek, environment: process.env };',
    promise: 'KEK_COMMAND gets no secret of another part.',
  },
  {
    id: 'jwt-any-lifetime',
    ...VERIFIER,
    old: ' && leftS <= MAX_LIFETIME_S + CLOCK_SKEW_S',
    new: '',
    promise: 'A JWT is valid for a day at most.',
  },
  {
    id: 'jwt-claim-of-objects',
    ...VERIFIER,
    old: 'Object.hasOwn(payload, claim) ? payload[claim] : undefined',
    new: 'payload[claim]?.toString()',
    promise: 'The subject is a text of the payload.',
  },
  {
    id: 'jwt-without-client',
    ...VERIFIER,
    old: "if (!hasClient(claimed.subject)) throw new CallerError('unauthorized');",
    new: '',
    promise: 'The signature of a JWT without a client is not checked.',
  },
  {
    id: 'jwt-first-duplicate',
    ...VERIFIER,
    old: 'if (verified !== undefined) return verified.payload;',
    new: 'return verified!.payload;',
    promise: 'All keys with the kid are tried.',
  },
  {
    id: 'jwt-no-bound',
    ...VERIFIER,
    old: 'if (count >= MAX_CHECKS)',
    new: 'if (count > 100 * MAX_CHECKS)',
    promise: 'A flood of wrong signatures costs a bounded number of checks.',
  },
  {
    id: 'jwt-bound-for-good-ones',
    ...VERIFIER,
    old: 'checks.set(subject, checks.get(subject)! - 1);',
    new: '',
    promise: 'JWTs that verify do not count against the bound.',
  },
  {
    id: 'jwt-checks-not-shared',
    ...VERIFIER,
    old: 'if (running !== undefined) return running;',
    new: '',
    promise: 'Requests with one JWT share a check.',
  },
  {
    id: 'jwt-known-for-ever',
    ...VERIFIER,
    old: ' || verified.expiresAtMs <= this.#nowMs()',
    new: '',
    promise: 'A known JWT ends at its time.',
  },
  {
    id: 'jwt-known-after-withdrawal',
    ...VERIFIER,
    old: 'this.keys.current?.byKid.get(kid) === key',
    new: 'this.keys.current && key',
    promise: 'A JWT of a withdrawn key is refused although it was verified.',
  },
  {
    id: 'jwt-keys-for-ever',
    ...KEYS,
    old: 'this.#nowMs() - this.#fetchedAtMs < MAX_AGE_MS ? this.#keys : undefined',
    new: 'this.#keys',
    promise: 'Keys older than an hour are not used.',
  },
  {
    id: 'jwt-fetch-storm',
    ...KEYS,
    old: 'this.#nowMs() - this.#askedAtMs < COOL_DOWN_MS',
    new: 'this.#nowMs() < 0',
    promise: 'Unknown key ids cause one fetch in 5 s.',
  },
  {
    id: 'jwt-any-discovery',
    ...KEYS,
    old: 'if (named !== issuer)',
    new: 'if (named === undefined)',
    promise: 'A discovery document of another issuer is refused.',
  },
  {
    id: 'gcp-checksum',
    ...GCP,
    old: 'answer.plaintextCrc32c !== String(crc32c(plaintext))',
    new: 'answer.plaintextCrc32c === undefined',
    promise: 'A damaged answer of Cloud KMS is no key.',
  },
  {
    id: 'gcp-assertion-in-clear',
    ...GCP,
    old: "protocol === 'http:' && hostname === '127.0.0.1'",
    new: "protocol === 'http:'",
    promise: 'The assertion of a service account is sent over TLS.',
  },
  {
    id: 'gcp-any-metadata-server',
    ...GCP,
    old: "if (headers['metadata-flavor'] === 'Google') return text;",
    new: 'if (headers) return text;',
    promise: 'Only a metadata server of Google Cloud gives a token.',
  },
  {
    id: 'azure-resource',
    ...AZURE,
    old: 'CLOUDS.exec(new URL(keyId).hostname)?.[1] ?? PUBLIC_CLOUD',
    new: 'PUBLIC_CLOUD',
    promise: 'The token is for the cloud of the vault.',
  },
];
