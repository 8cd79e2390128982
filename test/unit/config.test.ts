import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { canSharePort, parseConfig, readEnvironment } from '../../src/config/config.ts';
import { KEK_SETTINGS } from '../../src/config/kek.ts';
import { SERVICE_SETTINGS, SETTINGS } from '../../src/config/settings.ts';
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
  ['20.19.0', false],
  ['22.11.9', false],
  ['22.12.0', true],
  ['23.0.0', false],
  ['23.1.0', true],
  ['24.0.0', true],
])('on Node %s, REUSE_PORT can be used: %s', (version, can) => {
  expect(canSharePort(version)).toBe(can);
});

test('REUSE_PORT is refused on an older Node, and with a HOST of two addresses', () => {
  const ofNode = canSharePort(process.versions.node)
    ? []
    : [
        `REUSE_PORT needs Node 22.12 or newer, but this is ${process.versions.node}: install a newer Node; or unset REUSE_PORT, and give each node its own PORT behind a load balancer.`,
      ];
  expect(problemsOf({ REUSE_PORT: 'true', HOST: '::1' })).toEqual(ofNode);
  expect(problemsOf({ REUSE_PORT: 'true', HOST: 'localhost' })).toEqual([
    ...ofNode,
    'HOST is "localhost", which is two addresses: with REUSE_PORT, set it to 127.0.0.1 or ::1.',
  ]);
  expect(problemsOf({ HOST: 'localhost' })).toEqual([]);
});

describe('with nothing set', () => {
  test('every setting has its default', () => {
    expect(parseConfig({})).toMatchObject({
      HOST: '127.0.0.1',
      PORT: 8080,
      OPS_HOST: '127.0.0.1',
      OPS_PORT: 9464,
      REUSE_PORT: false,
      DATABASE_CONNECTIONS: 12,
      DATA_DIR: './data',
      TOKEN_SUFFIX: 'tok',
      CLIENT_PREFIX: 'standin',
      INTERFACE_VERSION: '1.0.5',
      RATE_LIMIT: 1000,
      DETOKENIZE_LIMIT: 500,
      UNKNOWN_TOKEN_LIMIT: 1,
      BODY_LIMIT: 1_048_576,
      VALUES_LIMIT: 10_000,
      DRAIN_DELAY_MS: 2_000,
      ALLOW_UNSAFE_POSTGRES: false,
      AUDIT_REQUIRED: false,
      LOG_LEVEL: 'info',
      LOG_FORMAT: 'auto',
    });
  });

  test('no optional setting has a value', () => {
    const config = parseConfig({});
    for (const [name, setting] of Object.entries(SETTINGS))
      if (setting.default === undefined) expect(config).toHaveProperty(name, undefined);
    expect(config.license).toBeUndefined();
    expect(config.vault).toMatchObject({ dataDir: './data', kek: { KEK_FILE: undefined } });
  });

  test('an empty variable is not set', () => {
    const empty = Object.fromEntries(Object.keys(SETTINGS).map((name) => [name, '']));
    expect(parseConfig(empty)).toEqual(parseConfig({}));
  });
});

test('what is set reaches the vault and the license', () => {
  const config = parseConfig({
    DATABASE_URL: 'postgres://db/standin',
    DATABASE_CONNECTIONS: '6',
    KEK_FILE: '/run/kek',
    TOKEN_SUFFIX: 'sfx',
    ALLOW_UNSAFE_POSTGRES: 'true',
    LICENSE_FILE: 'license',
    LICENSE_PUBLIC_KEY_FILE: 'key.pem',
  });
  expect(config.vault).toEqual({
    databaseUrl: 'postgres://db/standin',
    databaseConnections: 6,
    dataDir: './data',
    kek: expect.objectContaining({ KEK_FILE: '/run/kek' }),
    token_suffix: 'sfx',
    allowUnsafePostgres: true,
  });
  expect(config.license).toEqual({ licenseFile: 'license', publicKeyFile: 'key.pem' });
});

/** What each checked setting takes at its bounds, and what it refuses just beyond them. */
const BOUNDS: Record<string, { takes: string[]; refuses: string[] }> = {
  PORT: { takes: ['0', '65535'], refuses: ['65536', '-1', '80.5', '8080x', ' 80', '0x50', '1e3'] },
  OPS_PORT: { takes: ['0', '65535'], refuses: ['65536', 'off'] },
  OPS_TOKEN: {
    takes: ['!'.repeat(16), '~'.repeat(1024)],
    refuses: ['a'.repeat(15), 'a'.repeat(1025), `${'a'.repeat(15)} b`, 'é'.repeat(16)],
  },
  OPS_TLS: { takes: ['true', 'false'], refuses: ['yes', '1'] },
  ADMIN_TOKEN: {
    takes: [`a:${'0'.repeat(32)}`, `a.b-c_D:${'~'.repeat(1024)},b:${'+'.repeat(32)}`],
    refuses: [
      '0'.repeat(48),
      `:${'0'.repeat(32)}`,
      `a:${'0'.repeat(31)}`,
      `a:${'0'.repeat(1025)}`,
      `a:${'0'.repeat(32)},`,
      `a:${'0'.repeat(32)},a:${'1'.repeat(32)}`,
      `a:${'0'.repeat(32)},b:${'0'.repeat(32)}`,
      `a:${'0'.repeat(31)} `,
      `${'a'.repeat(33)}:${'0'.repeat(32)}`,
      Array.from({ length: 33 }, (_, i) => `a${i}:${String(i).padStart(32, '0')}`).join(),
    ],
  },
  ADMIN_DATABASE_URL: { takes: ['postgres://u:p@db:5432/x'], refuses: ['db:5432', 'mysql://db/x'] },
  DATABASE_URL: {
    takes: ['postgres://u:p@db:5432/x', 'postgresql://db/x?sslmode=require'],
    refuses: [
      'db:5432',
      'mysql://root:hunter2@db/x',
      'hunter2@db',
      'postgres:/\n/u:hunter2',
      'postgres',
    ],
  },
  DATABASE_CONNECTIONS: { takes: ['6', '200'], refuses: ['5', '201', '6.5'] },
  TOKEN_SUFFIX: {
    takes: ['a', 'Z', '2f', 'abcdefghijklmnop'],
    refuses: ['abcdefghijklmnopq', 'a_b', 'a-b', '_', 'é', '٣', 'a\n'],
  },
  CLIENT_PREFIX: {
    takes: ['a', '0', 'MySvc', 'a'.repeat(32)],
    refuses: ['a'.repeat(33), 'a_b', 'a-b', 'é'],
  },
  INTERFACE_VERSION: { takes: ['1.0.4', '1.0.5'], refuses: ['1.0', '1.0.6', '1'] },
  RATE_LIMIT: {
    takes: ['0', '0.001', '2.5', '5.000', '0.000', '1000000'],
    refuses: ['1000000.001', '1000001', '0.0001', '-1', '1e3', 'none', '.5', 'NaN', 'Infinity'],
  },
  DETOKENIZE_LIMIT: { takes: ['0', '0.5', '1000000'], refuses: ['1000001', 'none'] },
  LOOKUP_LIMIT: { takes: ['0', '0.5', '1000000'], refuses: ['1000001', 'none'] },
  UNKNOWN_TOKEN_LIMIT: { takes: ['0', '0.5', '1000000'], refuses: ['1000001', 'none'] },
  REDIS_URL: {
    takes: [
      'redis://cache',
      'redis://:p%40ss@[::1]:6379/',
      'rediss://user:pass@cache.example:6380/15',
    ],
    refuses: [
      'cache:6379',
      'redis:6379',
      'http://cache',
      'redis://',
      'redis:///0',
      'redis://cache/x',
      'redis://cache/0/1',
      'redis://cache:99999',
      'redis://:%zz@cache',
    ],
  },
  JWT_ISSUER: {
    takes: ['https://issuer.example', 'https://issuer.example/realms/a/', 'http://127.0.0.1:8080'],
    refuses: ['http://issuer.example', 'issuer.example', 'https://u:p@issuer.example'],
  },
  JWT_AUDIENCE: {
    takes: ['a', 'https://standin.example', '!'.repeat(256)],
    refuses: ['a b', '!'.repeat(257), 'é'],
  },
  JWT_JWKS_URL: {
    takes: ['https://issuer.example/keys', 'http://localhost/keys'],
    refuses: ['http://issuer.example/keys', 'https://issuer.example/?a', 'keys'],
  },
  JWT_TYPE: {
    takes: ['at+jwt', 'JWT', 'a'.repeat(64)],
    refuses: ['application/at+jwt', 'at jwt', 'a'.repeat(65)],
  },
  JWT_CLIENT_CLAIM: {
    takes: ['azp', 'https://example.org/app', 'a'.repeat(128)],
    refuses: ['a b', 'a'.repeat(129), 'é'],
  },
  BODY_LIMIT: { takes: ['1024', '67108864'], refuses: ['1023', '67108865', '1MiB'] },
  VALUES_LIMIT: { takes: ['1', '1000000'], refuses: ['0', '1000001'] },
  MEMORY_BUDGET: {
    takes: ['4194304', '68719476736'],
    refuses: ['4194303', '68719476737', '64MiB'],
  },
  DRAIN_DELAY_MS: { takes: ['0', '10000'], refuses: ['10001', '2s'] },
  ALLOW_UNSAFE_POSTGRES: {
    takes: ['true', 'false'],
    refuses: ['yes', '1', 'TRUE', 'constructor', 'toString'],
  },
  REUSE_PORT: {
    takes: canSharePort(process.versions.node) ? ['true', 'false'] : ['false'],
    refuses: ['yes', '1', 'TRUE'],
  },
  AUDIT_REQUIRED: { takes: ['true', 'false'], refuses: ['yes', '1'] },
  LOG_LEVEL: { takes: ['trace', 'silent'], refuses: ['verbose', 'INFO', 'fatal'] },
  LOG_FORMAT: { takes: ['auto', 'json', 'pretty'], refuses: ['text'] },
  OTEL_EXPORTER_OTLP_ENDPOINT: {
    takes: ['http://collector:4318', 'https://host.example.com/otlp/'],
    refuses: ['collector:4318', 'http://u:p@host', 'http://host/?a', 'grpc://host'],
  },
  OTEL_EXPORTER_OTLP_HEADERS: {
    takes: ['a=b', 'a=b,c-d.e=f%2Cg', 'a='],
    refuses: ['a', '=b', 'a=b,,c=d', 'a=%', 'a=b c', 'a=%zz'],
  },
  OTEL_RESOURCE_ATTRIBUTES: {
    takes: ['a=b', 'a=b,c-d.e=f%2Cg', 'a='],
    refuses: ['a', '=b', 'a=b,,c=d', 'a=%', 'a=b c', 'a=%zz'],
  },
  OTEL_SERVICE_NAME: { takes: ['a', 'The vault'], refuses: ['ü', 'x'.repeat(256)] },
  OTEL_TRACES_SAMPLER: { takes: ['always_on', 'parentbased_traceidratio'], refuses: ['xray'] },
  OTEL_TRACES_SAMPLER_ARG: { takes: ['0', '1', '0.25'], refuses: ['1.1', '-1', '.5', '1e-3'] },
  STANDIN_URL: {
    takes: ['http://127.0.0.1:8080', 'https://host.example.com/standin/', 'http://[::1]:80'],
    refuses: ['localhost:80', 'http://u:p@host', 'http://host/api/v1', 'http://host/?a', 'ftp://a'],
  },
  STANDIN_API_KEY: {
    takes: [`stk_${'aZ9'.repeat(11)}x`, 'a-b.c_d.e'],
    refuses: [
      'stk_',
      'a.b',
      'a.b.',
      'a.b.c d',
      'x'.repeat(38),
      `stk_${'a'.repeat(35)}`,
      `stk_${'a'.repeat(33)}-`,
    ],
  },
};

/** Another setting that a setting needs. */
const WITH: Record<string, Record<string, string>> = {
  DATABASE_URL: { KEK_FILE: 'kek' },
  OPS_TLS: { TLS_CERT_FILE: 'c', TLS_KEY_FILE: 'k' },
  ADMIN_DATABASE_URL: {
    KEK_FILE: 'kek',
    DATABASE_URL: 'postgres://db/x',
    ADMIN_TOKEN: `a:${'0'.repeat(32)}`,
  },
  AUDIT_REQUIRED: { AUDIT_LOG: 'stdout' },
  JWT_ISSUER: { JWT_AUDIENCE: 'a' },
  JWT_AUDIENCE: { JWT_ISSUER: 'https://issuer.example' },
  JWT_JWKS_URL: { JWT_ISSUER: 'https://issuer.example', JWT_AUDIENCE: 'a' },
  JWT_TYPE: { JWT_ISSUER: 'https://issuer.example', JWT_AUDIENCE: 'a' },
};

test.each(Object.entries(BOUNDS))(
  '%s takes what is within its bounds, and refuses the rest with its name; a secret is not echoed',
  (name, { takes, refuses }) => {
    const { accepts, isSecret } = SETTINGS[name as keyof typeof SETTINGS];
    const problems = (text: string) => problemsOf({ ...WITH[name], [name]: text });
    for (const text of takes) expect([text, problems(text)]).toEqual([text, []]);
    for (const text of refuses)
      expect(problems(text)).toEqual([
        isSecret ? `${name} is not ${accepts}.` : `${name} is "${text}"; it must be ${accepts}.`,
      ]);
  },
);

test('every setting that can be refused has its bounds above', () => {
  const freeText = [
    ...['HOST', 'OPS_HOST', 'DATA_DIR', 'BOOTSTRAP_API_KEY_FILE', 'AUDIT_LOG', 'LICENSE_FILE'],
    ...['LICENSE_PUBLIC_KEY_FILE', 'TLS_CERT_FILE', 'TLS_KEY_FILE', 'TLS_CLIENT_CA_FILE'],
  ];
  // Those of the KEK are in kek-settings.test.ts.
  const named = [...Object.keys(BOUNDS), ...freeText, ...Object.keys(KEK_SETTINGS)];
  expect(named.toSorted()).toEqual(Object.keys(SETTINGS).toSorted());
});

test('the message of the error has all problems: what is refused, then what contradicts', () => {
  const refused = Object.entries(BOUNDS).map(([name, { refuses }]) => [name, refuses[0]!]);
  const problems = problemsOf({ ...Object.fromEntries(refused), KEK_FILE: 'kek' });
  const namesOf = (all: readonly string[]) => all.map((problem) => problem.split(' ')[0]);
  expect(namesOf(problems)).toEqual(Object.keys(SETTINGS).filter((name) => name in BOUNDS));
  const environment = { PORT: 'x', DATABASE_URL: 'postgres://u:hunter2@db', LICENSE_FILE: 'l' };
  expect(namesOf(problemsOf(environment))).toEqual(['PORT', 'KEK_FILE', 'LICENSE_FILE']);
  expect(() => parseConfig(environment)).toThrow(/^PORT .*\nKEK_FILE .*\nLICENSE_FILE .*$/);
  expect(problemsOf(environment).join()).not.toContain('hunter2');
});

const ADMIN = { ADMIN_TOKEN: `a:${'0'.repeat(32)}` };
const BEYOND = { ...ADMIN, OPS_HOST: '0.0.0.0', OPS_TOKEN: 'a'.repeat(16) };
const TLS = { TLS_CERT_FILE: 'c', TLS_KEY_FILE: 'k', OPS_TLS: 'true' };
const DATABASE = { DATABASE_URL: 'postgres://db/x', KEK_FILE: 'k' };
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
  [{ ...BEYOND, ...TLS }, null],
  [{ ...ADMIN, OPS_HOST: '::1' }, null],
  [{ ...ADMIN, OPS_PORT: '0' }, /^ADMIN_TOKEN is set, but OPS_PORT is 0/],
  [{ ...ADMIN, OPS_TOKEN: '0'.repeat(32) }, /^ADMIN_TOKEN has the token of OPS_TOKEN/],
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
    expect(problemsOf({ OPS_HOST, OPS_TOKEN: 'a'.repeat(16) })).toEqual([]);
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

  test('in the working directory is read; the environment goes before it', () => {
    writeFileSync('.env', '# comment\nTOKEN_SUFFIX=file\nCLIENT_PREFIX="quoted"\n');
    vi.stubEnv('TOKEN_SUFFIX', 'process');
    vi.stubEnv('CLIENT_PREFIX', undefined);
    const { TOKEN_SUFFIX, CLIENT_PREFIX } = readEnvironment();
    expect({ TOKEN_SUFFIX, CLIENT_PREFIX }).toEqual({
      TOKEN_SUFFIX: 'process',
      CLIENT_PREFIX: 'quoted',
    });
  });

  test('need not be there', () => {
    vi.stubEnv('TOKEN_SUFFIX', 'process');
    expect(readEnvironment().TOKEN_SUFFIX).toBe('process');
  });

  test('that is there and cannot be read is an error for the operator', () => {
    mkdirSync('.env');
    expect(readEnvironment).toThrow(OperatorError);
    expect(readEnvironment).toThrow('EISDIR');
  });
});

test('a setting whose value can have a secret is declared so', () => {
  const mayHaveSecret = /TOKEN$|SECRET|PASSWORD|_API_KEY|ACCESS_KEY|HEADERS|COMMAND|_URL$|ENDPOINT/;
  const all = Object.entries({ ...SETTINGS, ...SERVICE_SETTINGS });
  const shown = all.filter(
    ([name, { isSecret, accepts }]) =>
      (mayHaveSecret.test(name) || accepts.includes('://')) && !isSecret && accepts !== 'a file',
  );
  expect(shown.map(([name]) => name)).toEqual([]);
});
