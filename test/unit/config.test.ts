import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { canSharePort, parseConfig, readEnvironment } from '../../src/config/config.ts';
import { SETTINGS } from '../../src/config/settings.ts';
import { OperatorError } from '../../src/errors.ts';

function problemsOf(environment: Readonly<Record<string, string>>): readonly string[] {
  try {
    parseConfig(environment);
    return [];
  } catch (error) {
    expect(error).toBeInstanceOf(OperatorError);
    return (error as OperatorError).problems;
  }
}

test('a start with WORKERS set says that it is gone, whatever it is set to', () => {
  for (const WORKERS of ['1', '2', 'auto', 'x'])
    expect(problemsOf({ WORKERS })).toEqual([
      expect.stringMatching(/^WORKERS is gone.*: remove it\..*REUSE_PORT=true.*REDIS_URL/),
    ]);
  expect(problemsOf({ WORKERS: '' })).toEqual([]);
});

test.each([
  ...[['20.19.0', false] as const, ['22.11.9', false] as const, ['22.12.0', true] as const],
  ...[['23.0.0', false] as const, ['23.1.0', true] as const, ['24.0.0', true] as const],
])('on Node %s, REUSE_PORT can be used: %s', (version, can) => {
  expect(canSharePort(version)).toBe(can);
});

test('REUSE_PORT is refused on an older Node, and with a HOST of two addresses', () => {
  const needs = `REUSE_PORT needs Node 22.12 or newer, but this is ${process.versions.node}: install a newer Node; or unset REUSE_PORT, and give each node its own PORT behind a load balancer.`;
  const ofNode = canSharePort(process.versions.node) ? [] : [needs];
  expect(problemsOf({ REUSE_PORT: 'true', HOST: '::1' })).toEqual(ofNode);
  expect(problemsOf({ REUSE_PORT: 'true', HOST: 'localhost' })).toEqual([
    ...ofNode,
    'HOST is "localhost", which is two addresses: with REUSE_PORT, set it to 127.0.0.1 or ::1.',
  ]);
  expect(problemsOf({ HOST: 'localhost' })).toEqual([]);
});

describe('with nothing set', () => {
  // docs/configuration.md has the defaults, and its test compares them.
  test('every default is acceptable, and no optional setting has a value', () => {
    const config = parseConfig({});
    expect(config).toMatchObject({ PORT: 8080, RATE_LIMIT: 1000, license: undefined });
    expect(config.vault).toMatchObject({ dataDir: './data', kek: { KEK_FILE: undefined } });
    for (const [name, setting] of Object.entries(SETTINGS))
      if (setting.default === undefined) expect(config).toHaveProperty(name, undefined);
  });

  test('an empty variable is not set', () => {
    const empty = Object.fromEntries(Object.keys(SETTINGS).map((name) => [name, '']));
    expect(parseConfig(empty)).toEqual(parseConfig({}));
  });
});

test('what is set reaches the vault and the license', () => {
  const config = parseConfig({
    ...{ DATABASE_URL: 'postgres://db/standin', DATABASE_CONNECTIONS: '6', KEK_FILE: '/run/kek' },
    ...{ TOKEN_SUFFIX: 'sfx', ALLOW_UNSAFE_POSTGRES: 'true' },
    ...{ LICENSE_FILE: 'license', LICENSE_PUBLIC_KEY_FILE: 'key.pem' },
  });
  expect(config.vault).toEqual({
    ...{ databaseUrl: 'postgres://db/standin', databaseConnections: 6, dataDir: './data' },
    kek: expect.objectContaining({ KEK_FILE: '/run/kek' }),
    ...{ token_suffix: 'sfx', allowUnsafePostgres: true },
  });
  expect(config.license).toEqual({ licenseFile: 'license', publicKeyFile: 'key.pem' });
});

const zeros = (count: number) => '0'.repeat(count);
const a = (count: number) => 'a'.repeat(count);
const manyTokens = Array.from({ length: 33 }, (_, i) => `a${i}:${String(i).padStart(32, '0')}`);
const flag = ['true false', 'yes 1 TRUE constructor toString'] as const;
const many = (count: number) => Array(count).fill('a=b').join();
const noPairs = ['a', '=b', 'a=b,,c=d', 'a=%', 'a=b c', 'a=%zz', many(65)];
const pairs = [`a=b a=b,c-d.e=f%2Cg a= ${many(64)}`, noPairs] as const;

const ARN = 'arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab';
const GCP_KEY = 'projects/acme/locations/europe-west3/keyRings/standin/cryptoKeys/kek';
const AZURE_KEY = `https://acme.vault.azure.net/keys/kek/${'0a'.repeat(16)}`;

/** What each checked setting takes at its bounds, and what it refuses just beyond them. */
const BOUNDS: Record<string, readonly [takes: Texts, refuses: Texts]> = {
  PORT: ['0 65535', ['65536', '-1', '80.5', '8080x', ' 80', '0x50', '1e3']],
  OPS_PORT: ['0 65535', '65536 off'],
  OPS_TOKEN: [
    ['!'.repeat(16), '~'.repeat(1024)],
    [a(15), a(1025), `${a(15)} b`, 'é'.repeat(16)],
  ],
  OPS_TLS: flag,
  GUARDRAIL: flag,
  GUARDRAIL_IMAGES: ['refuse pass', 'true REFUSE'],
  ADMIN_TOKEN: [
    [
      ...[`a:${zeros(32)}`, `a.b-c_D:${'~'.repeat(1024)},b:${'+'.repeat(32)}`],
      manyTokens.slice(0, 32).join(),
    ],
    [
      ...[zeros(48), `:${zeros(32)}`, `a:${zeros(31)}`, `a:${zeros(1025)}`, `a:${zeros(32)},`],
      ...[`a:${zeros(32)},a:${'1'.repeat(32)}`, `a:${zeros(32)},b:${zeros(32)}`],
      ...[`a:${zeros(31)} `, `${a(33)}:${zeros(32)}`, manyTokens.join()],
    ],
  ],
  ADMIN_DATABASE_URL: ['postgres://u:p@db:5432/x', 'db:5432 mysql://db/x'],
  DATABASE_URL: [
    'postgres://u:p@db:5432/x postgresql://db/x?sslmode=require',
    ['db:5432', 'mysql://root:hunter2@db/x', 'hunter2@db', 'postgres:/\n/u:hunter2', 'postgres'],
  ],
  DATABASE_CONNECTIONS: ['6 200', '5 201 6.5'],
  TOKEN_SUFFIX: [
    'a Z 2f abcdefghijklmnop',
    ['abcdefghijklmnopq', 'a_b', 'a-b', '_', 'é', '٣', 'a\n'],
  ],
  CLIENT_PREFIX: [`a 0 MySvc ${a(32)}`, `${a(33)} a_b a-b é`],
  INTERFACE_VERSION: ['1.0.4 1.0.5', '1.0 1.0.6 1'],
  RATE_LIMIT: [
    '0 0.001 2.5 5.000 0.000 1000000',
    '1000000.001 1000001 0.0001 -1 1e3 none .5 NaN Infinity',
  ],
  DETOKENIZE_LIMIT: ['0 0.5 1000000', '1000001 none'],
  LOOKUP_LIMIT: ['0 0.5 1000000', '1000001 none'],
  UNKNOWN_TOKEN_LIMIT: ['0 0.5 1000000', '1000001 none'],
  REDIS_URL: [
    'redis://cache redis://:p%40ss@[::1]:6379/ rediss://user:pass@cache.example:6380/15',
    'cache:6379 redis:6379 http://cache redis:// redis:///0 redis://cache/x redis://cache/0/1 redis://cache:99999 redis://:%zz@cache',
  ],
  JWT_ISSUER: [
    'https://issuer.example https://issuer.example/realms/a/ http://127.0.0.1:8080',
    'http://issuer.example issuer.example https://u:p@issuer.example',
  ],
  JWT_AUDIENCE: [`a https://standin.example ${'!'.repeat(256)}`, ['a b', '!'.repeat(257), 'é']],
  JWT_JWKS_URL: [
    'https://issuer.example/keys http://localhost/keys',
    'http://issuer.example/keys https://issuer.example/?a keys',
  ],
  JWT_TYPE: [`at+jwt JWT ${a(64)}`, ['application/at+jwt', 'at jwt', a(65)]],
  JWT_CLIENT_CLAIM: [`azp https://example.org/app ${a(128)}`, ['a b', a(129), 'é']],
  PRESIDIO_URL: [
    'http://presidio:3000 https://host.example.com/presidio/',
    'presidio:3000 http://u:p@host http://host/?a ftp://a',
  ],
  PRESIDIO_LANGUAGE: ['en de', 'EN eng 1'],
  BODY_LIMIT: ['1024 67108864', '1023 67108865 1MiB'],
  VALUES_LIMIT: ['1 1000000', '0 1000001'],
  MEMORY_BUDGET: ['4194304 68719476736', '4194303 68719476737 64MiB'],
  DRAIN_DELAY_MS: ['0 10000', '10001 2s'],
  ALLOW_UNSAFE_POSTGRES: flag,
  REUSE_PORT: [canSharePort(process.versions.node) ? flag[0] : 'false', flag[1]],
  AUDIT_REQUIRED: flag,
  LOG_LEVEL: ['trace silent', 'verbose INFO fatal'],
  LOG_FORMAT: ['auto json pretty', 'text'],
  OTEL_EXPORTER_OTLP_ENDPOINT: [
    'http://collector:4318 https://host.example.com/otlp/',
    'collector:4318 http://u:p@host http://host/?a grpc://host',
  ],
  OTEL_EXPORTER_OTLP_HEADERS: pairs,
  OTEL_RESOURCE_ATTRIBUTES: pairs,
  OTEL_SERVICE_NAME: [['a', 'The vault'], `ü ${'x'.repeat(256)}`],
  OTEL_TRACES_SAMPLER: ['always_on parentbased_traceidratio', 'xray'],
  OTEL_TRACES_SAMPLER_ARG: ['0 1 0.25', '1.1 -1 .5 1e-3'],
  STANDIN_URL: [
    'http://127.0.0.1:8080 https://host.example.com/standin/ http://[::1]:80',
    'localhost:80 http://u:p@host http://host/api/v1 http://host/health http://host/?a ftp://a',
  ],
  PROVIDER_API_KEY: ['sk-aZ9_.~!', ['a b', 'é', a(513)]],
  KEK_AWS_KMS_KEY_ID: [
    `${ARN} alias/aws_Standin-1 1234abcd-12ab-34cd-56ef-1234567890ab`,
    ['two words', 'a\n', a(2049), 'é'],
  ],
  KEK_AWS_KMS_ENDPOINT: [
    'https://kms.example http://127.0.0.1:4566',
    'kms.example http://kms.example https://u:p@kms.example https://k?x=1',
  ],
  KEK_GCP_KMS_KEY: [
    [GCP_KEY, GCP_KEY.replace('acme', 'example.com:acme-1')],
    [`/${GCP_KEY}`, `${GCP_KEY}/cryptoKeyVersions/1`, GCP_KEY.replace('kek', 'a b'), 'kek'],
  ],
  KEK_GCP_KMS_ENDPOINT: [
    'https://cloudkms.googleapis.com/ http://127.0.0.1:1',
    'http://cloudkms.googleapis.com cloudkms.googleapis.com',
  ],
  KEK_AZURE_KEY_ID: [
    [AZURE_KEY, `http://127.0.0.1:1/keys/K-1/${zeros(32)}`],
    [
      ...['https://acme.vault.azure.net/keys/kek', AZURE_KEY.replace('https', 'http')],
      ...[AZURE_KEY.replace('/keys', '/secrets'), `${AZURE_KEY}/`],
      AZURE_KEY.replace('//', '//u:p@'),
    ],
  ],
  KEK_AZURE_ALGORITHM: ['RSA-OAEP-256 A256KW', 'RSA-OAEP a256kw'],
  KEK_TRANSIT_URL: [
    'https://v:8200/ https://v/prefix http://localhost:8200 http://[::1]:1',
    'http://vault:8200 http://127.0.0.1.evil https://u:p@v https://v#x v:8200',
  ],
  KEK_TRANSIT_KEY: ['a Standin_1.x-y', ['a/b', '..', '.a', 'a b', 'é']],
  KEK_TRANSIT_MOUNT: [
    'transit a/b.c/d-e',
    ['/transit', 'a/', 'a//b', '../sys', 'a/./b', 'a?b', 'a b'],
  ],
  KEK_TRANSIT_NAMESPACE: ['team/a', ['team/a/', 'a\nb']],
  VAULT_TOKEN: ['hvs.CAESI-_', ['a b', 'a\nx: y', 'é']],
  STANDIN_API_KEY: [
    `stk_${'aZ9'.repeat(11)}x a-b.c_d.e`,
    ['stk_', 'a.b', 'a.b.', 'a.b.c d', 'x'.repeat(38), `stk_${a(35)}`, `stk_${a(33)}-`],
  ],
};
/** Several, or as one text with blanks between them. */
type Texts = string | readonly string[];
const list = (texts: Texts) => (typeof texts === 'string' ? texts.split(' ') : texts);

const ADMIN = { ADMIN_TOKEN: `a:${zeros(32)}` };
const TLS = { TLS_CERT_FILE: 'c', TLS_KEY_FILE: 'k' };
const DATABASE = { DATABASE_URL: 'postgres://db/x', KEK_FILE: 'k' };
const JWT = { JWT_ISSUER: 'https://issuer.example', JWT_AUDIENCE: 'a' };
const FILE = { KEK_FILE: 'k' };
const AWS = { ...FILE, KEK_AWS_KMS_KEY_ID: 'k' };
const TRANSIT = { ...FILE, KEK_TRANSIT_URL: 'https://v', KEK_TRANSIT_KEY: 'k', VAULT_TOKEN: 't' };
/** Other settings that a setting needs. */
const WITH: Record<string, Record<string, string>> = {
  ...{ KEK_AWS_KMS_KEY_ID: FILE, KEK_AWS_KMS_ENDPOINT: AWS, KEK_GCP_KMS_KEY: FILE },
  ...{ KEK_AZURE_KEY_ID: FILE, KEK_TRANSIT_URL: TRANSIT, KEK_TRANSIT_KEY: TRANSIT },
  ...{ KEK_TRANSIT_NAMESPACE: TRANSIT },
  ...{ DATABASE_URL: DATABASE, OPS_TLS: TLS, ADMIN_DATABASE_URL: { ...DATABASE, ...ADMIN } },
  ...{ AUDIT_REQUIRED: { AUDIT_LOG: 'stdout' } },
  ...{ JWT_ISSUER: JWT, JWT_AUDIENCE: JWT, JWT_JWKS_URL: JWT, JWT_TYPE: JWT },
};

test.each(Object.entries(BOUNDS))(
  '%s takes what is within its bounds, and refuses the rest with its name; a secret is not echoed',
  (name, [takes, refuses]) => {
    const { accepts, isSecret } = SETTINGS[name as keyof typeof SETTINGS];
    const problems = (text: string) => problemsOf({ ...WITH[name], [name]: text });
    for (const text of list(takes)) expect([text, problems(text)]).toEqual([text, []]);
    for (const text of list(refuses))
      expect(problems(text)).toEqual([
        isSecret ? `${name} is not ${accepts}.` : `${name} is "${text}"; it must be ${accepts}.`,
      ]);
  },
);

test('every setting that can be refused has its bounds above', () => {
  const freeText = [
    ...['HOST', 'OPS_HOST', 'DATA_DIR', 'BOOTSTRAP_API_KEY_FILE', 'AUDIT_LOG', 'LICENSE_FILE'],
    ...['LICENSE_PUBLIC_KEY_FILE', 'TLS_CERT_FILE', 'TLS_KEY_FILE', 'TLS_CLIENT_CA_FILE'],
    ...['KEK_FILE', 'KEK_COMMAND', 'KEK_TRANSIT_CA_FILE', 'VAULT_TOKEN_FILE'],
  ];
  const named = [...Object.keys(BOUNDS), ...freeText];
  expect(named.toSorted()).toEqual(Object.keys(SETTINGS).toSorted());
});

test('the message of the error has all problems: what is refused, then what contradicts', () => {
  const refused = Object.entries(BOUNDS).map(([name, [, refuses]]) => [name, list(refuses)[0]!]);
  const problems = problemsOf({ ...Object.fromEntries(refused), KEK_FILE: 'kek' });
  const namesOf = (all: readonly string[]) => all.map((problem) => problem.split(' ')[0]);
  expect(namesOf(problems)).toEqual(Object.keys(SETTINGS).filter((name) => name in BOUNDS));
  const environment = { PORT: 'x', DATABASE_URL: 'postgres://u:hunter2@db', LICENSE_FILE: 'l' };
  expect(namesOf(problemsOf(environment))).toEqual(['PORT', 'KEK_FILE', 'LICENSE_FILE']);
  expect(() => parseConfig(environment)).toThrow(/^PORT .*\nKEK_FILE .*\nLICENSE_FILE .*$/);
  expect(problemsOf(environment).join()).not.toContain('hunter2');
});

const BEYOND = { ...ADMIN, OPS_HOST: '0.0.0.0', OPS_TOKEN: a(16) };
const TWO_ADMINS = { ADMIN_TOKEN: `b:${'1'.repeat(32)},${ADMIN.ADMIN_TOKEN}` };
const ADMIN_DATABASE = { ADMIN_DATABASE_URL: 'postgres://db/x' };

/** Settings that contradict each other, and the beginning of the problem; null: they do not. */
const TOGETHER: readonly (readonly [Readonly<Record<string, string>>, RegExp | null])[] = [
  [{ DATABASE_URL: 'postgres://db/x' }, /^KEK_FILE is not set: .*openssl rand -hex 32$/],
  [{ LICENSE_FILE: 'l' }, /^LICENSE_FILE and LICENSE_PUBLIC_KEY_FILE go together/],
  [{ LICENSE_PUBLIC_KEY_FILE: 'k' }, /^LICENSE_FILE and LICENSE_PUBLIC_KEY_FILE go together/],
  [{ JWT_ISSUER: 'https://a' }, /^JWT_ISSUER and JWT_AUDIENCE go together/],
  [{ JWT_AUDIENCE: 'a' }, /^JWT_ISSUER and JWT_AUDIENCE go together/],
  [{ JWT_JWKS_URL: 'https://a' }, /^JWT_JWKS_URL is set, but JWT_ISSUER is not/],
  [{ AUDIT_REQUIRED: 'true' }, /^AUDIT_REQUIRED is true, but AUDIT_LOG is not set: name the file/],
  [{ AUDIT_REQUIRED: 'false' }, null],
  [{ PORT: '9464' }, /^PORT and OPS_PORT/],
  [{ PORT: '9464', OPS_HOST: '127.0.0.2' }, null],
  [{ PORT: '0', OPS_PORT: '0' }, null],
  [BEYOND, /^ADMIN_TOKEN is set, and OPS_HOST is "0\.0\.0\.0".* OPS_TLS=true/],
  [{ ...BEYOND, ...TLS, OPS_TLS: 'true' }, null],
  [{ ...ADMIN, OPS_HOST: '::1' }, null],
  [{ ...ADMIN, OPS_PORT: '0' }, /^ADMIN_TOKEN is set, but OPS_PORT is 0/],
  [{ ...TWO_ADMINS, OPS_TOKEN: zeros(32) }, /^ADMIN_TOKEN has the token of OPS_TOKEN/],
  [{ TLS_CLIENT_CA_FILE: 'ca' }, /^TLS_CLIENT_CA_FILE needs TLS/],
  [{ ...TLS, TLS_CLIENT_CA_FILE: 'ca' }, null],
  [{ OPS_TLS: 'true' }, /^OPS_TLS is true, but there is no certificate/],
  [{ ...DATABASE, ...ADMIN_DATABASE }, /^ADMIN_DATABASE_URL is for the admin API/],
  [{ ...ADMIN, ...ADMIN_DATABASE }, /^ADMIN_DATABASE_URL needs DATABASE_URL/],
];

test.each(TOGETHER)('settings that contradict each other are refused: %j', (environment, found) => {
  expect(problemsOf(environment)).toEqual(found ? [expect.stringMatching(found)] : []);
});

test('an OPS_HOST that others can reach needs OPS_TOKEN, or no ops listener', () => {
  for (const OPS_HOST of ['0.0.0.0', '::', '10.0.0.1', 'ops.example', '128.0.0.1', '127.example']) {
    expect(problemsOf({ OPS_HOST })).toEqual([
      expect.stringMatching(`^OPS_HOST is "${OPS_HOST}".* OPS_TOKEN .* openssl rand -hex 24`),
    ]);
    expect(problemsOf({ OPS_HOST, OPS_TOKEN: a(16) })).toEqual([]);
    expect(problemsOf({ OPS_HOST, OPS_PORT: '0' })).toEqual([]);
  }
  for (const OPS_HOST of ['127.0.0.1', '127.1.2.3', 'localhost', '::1'])
    expect(problemsOf({ OPS_HOST })).toEqual([]);
});

describe('.env', () => {
  const home = process.cwd();
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'standin-env-'));
    process.chdir(folder);
  });
  afterEach(() => {
    process.chdir(home);
    vi.unstubAllEnvs();
    rmSync(folder, { recursive: true });
  });

  test('in the working directory is read, if it is there; the environment goes before it', () => {
    vi.stubEnv('TOKEN_SUFFIX', 'process');
    vi.stubEnv('CLIENT_PREFIX', undefined);
    expect(readEnvironment().TOKEN_SUFFIX).toBe('process');
    writeFileSync('.env', '# comment\nTOKEN_SUFFIX=file\nCLIENT_PREFIX="quoted"\n');
    const { TOKEN_SUFFIX, CLIENT_PREFIX } = readEnvironment();
    expect([TOKEN_SUFFIX, CLIENT_PREFIX]).toEqual(['process', 'quoted']);
  });

  test('that is there and cannot be read is an error for the operator', () => {
    mkdirSync('.env');
    expect(readEnvironment).toThrow(OperatorError);
    expect(readEnvironment).toThrow('EISDIR');
  });
});

test('a setting whose value can have a secret is declared so', () => {
  const mayHaveSecret = /TOKEN$|SECRET|PASSWORD|_API_KEY|ACCESS_KEY|HEADERS|COMMAND|_URL$|ENDPOINT/;
  const shown = Object.entries(SETTINGS).filter(
    ([name, { isSecret, accepts }]) =>
      (mayHaveSecret.test(name) || accepts.includes('://')) && !isSecret && accepts !== 'a file',
  );
  expect(shown.map(([name]) => name)).toEqual([]);
});
