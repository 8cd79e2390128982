import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { CaseServices, GENERATED_CASES } from '../support/client-cases.ts';
import { newFolder } from '../support/folder.ts';
import { startWithPolicy } from '../support/policy.ts';
import { freePort } from '../support/processes.ts';
import { ROOT, runCli } from '../support/program.ts';
import { run as runProgram } from '../support/running.ts';
import { served } from '../support/served.ts';
import { kinds, leastPrivilegePlace, startService } from '../support/service.ts';
import { tokenPattern } from '../support/token-rules.ts';

/** The result of install.sh. */
const TOOLS = join(ROOT, 'build/generators');
const NODE_MODULES = join(TOOLS, 'node/node_modules');
const JAR = `${TOOLS}/openapi-generator-cli.jar`;
const LIBRARIES = `${TOOLS}/java/*`;

/**
 * Shell commands for a folder with openapi.json. `find` fails without what the others need,
 * `generate` makes the client in the folder standin, `compile` compiles it or checks its types,
 * `call` compiles and runs `caller`, a file of callers/; of Python and TypeScript, its name in the
 * folder is `caller`. `cases`: a file of callers/ that runs the cases of cases.json, its name in the
 * folder, its command.
 */
type Generator = Readonly<
  Record<'name' | 'find' | 'generate' | 'compile' | 'caller' | 'call', string>
> & { readonly cases?: readonly [string, string, string] };

const openapiGenerator = (target: string) =>
  `java -jar ${JAR} generate -g ${target} -i openapi.json`;
const PYTHON_CALL = 'mypy --strict --follow-imports=silent caller.py >&2 && python caller.py';
const java = (name: string) =>
  `export CLASSPATH='compiled:${LIBRARIES}' && javac -d compiled ${name}.java && java ${name}`;
const TSC = join(ROOT, 'node_modules/.bin/tsc');
const TYPESCRIPT = { compile: TSC, call: `${TSC} && node compiled/caller.js` };

const GENERATORS: readonly Generator[] = [
  {
    name: 'openapi-python-client',
    find: 'type openapi-python-client mypy',
    generate:
      'openapi-python-client generate --path openapi.json --meta none --output-path standin',
    // Without its client.py, which is the same for every document, and has a fault in __exit__.
    compile: 'mypy --strict --follow-imports=silent standin/api standin/models',
    caller: 'openapi_python_client.py',
    call: PYTHON_CALL,
  },
  {
    name: 'openapi-generator, python',
    find: `test -f ${JAR} && type java mypy`,
    generate: `${openapiGenerator('python')} --package-name standin`,
    compile: 'mypy standin',
    caller: 'openapi_generator.py',
    call: PYTHON_CALL,
  },
  {
    name: 'openapi-generator, java',
    find: `test -f ${JAR} && type java javac && test -d ${TOOLS}/java`,
    generate: `${openapiGenerator('java')} -o standin`,
    compile: `javac -cp '${LIBRARIES}' -d compiled $(find standin/src/main -name '*.java')`,
    caller: 'Caller.java',
    call: java('Caller'),
    cases: ['Cases.java', 'Cases.java', java('Cases')],
  },
  {
    name: 'openapi-generator, go',
    find: `test -f ${JAR} && type java go`,
    // The go.mod of the client is for a repository of its own.
    generate: `${openapiGenerator('go')} -o standin --package-name standin && rm standin/go.mod`,
    compile: 'go mod init caller && go build ./standin',
    caller: 'main.go',
    call: 'go run .',
    cases: ['cases.go', 'cases/main.go', 'go run ./cases'],
  },
  {
    name: 'openapi-generator, typescript-fetch',
    find: `test -f ${JAR} && type java && test -d ${NODE_MODULES}`,
    // Without this option, names with `_` make code that tsc refuses.
    generate: `${openapiGenerator('typescript-fetch')} -o standin -p modelPropertyNaming=original`,
    ...TYPESCRIPT,
    caller: 'typescript_fetch.ts',
  },
  {
    name: 'openapi-typescript with openapi-fetch',
    find: 'type openapi-typescript',
    generate: 'openapi-typescript openapi.json -o standin/schema.ts',
    ...TYPESCRIPT,
    caller: 'openapi_fetch.ts',
  },
  {
    name: '@hey-api/openapi-ts',
    find: 'type openapi-ts',
    generate: 'openapi-ts -i openapi.json -o standin',
    ...TYPESCRIPT,
    caller: 'hey_api.ts',
  },
];

const TSCONFIG = {
  compilerOptions: {
    ...{ strict: true, target: 'es2022', module: 'nodenext', rootDir: '.', outDir: 'compiled' },
    // Declarations are those of packages.
    ...{ types: ['node'], skipLibCheck: true },
  },
  include: ['*.ts', 'standin'],
};

/** Objects in arrays in objects, names in several styles, and letters beyond ASCII. */
const DATA = {
  firstName: 'Zoë Łukasz 李雷 😀',
  'e mail': 'ann@example.com',
  class: { request_id: 'Ann Lee', ids: ['DE89 3704 0044 0532 0130 00', ['٣', '\u2028"\\\n']] },
  orders: [{ note: 'naïve', lines: [{ text: 'e\u0301' }, {}] }, [], ''],
};

/** Records whose fields a policy names. */
const RECORDS = [{ email: 'ann@example.com', vip: true, tags: ['x'] }, { note: 'y' }];
const POLICY = 'version: 1\nfields: { email: email, age: text }\nelsewhere: pass\n';

const service = served(async () =>
  startService(await leastPrivilegePlace(), { OPS_PORT: String(await freePort()) }),
);
let services: CaseServices;
const folder = newFolder('generators');
beforeAll(async () => {
  services = await CaseServices.start(folder);
});
afterAll(() => services.stop());

/** A new folder for a client. */
function prepare(document: string): string {
  const place = mkdtempSync(join(folder, 'client-'));
  writeFileSync(join(place, 'openapi.json'), document);
  writeFileSync(join(place, 'data.json'), JSON.stringify(DATA));
  writeFileSync(join(place, 'tsconfig.json'), JSON.stringify(TSCONFIG));
  symlinkSync(NODE_MODULES, join(place, 'node_modules'));
  return place;
}

const ENV = {
  ...process.env,
  PATH: `${TOOLS}/python/bin:${NODE_MODULES}/.bin:${process.env.PATH}`,
  // What is not installed must not be downloaded.
  ...{ GOPROXY: 'off', GOTOOLCHAIN: 'local' },
  // Short runs: half the processor time.
  JAVA_TOOL_OPTIONS: '-XX:TieredStopAtLevel=1 -XX:+UseSerialGC',
};

/** @returns standard output */
async function run(command: string, cwd: string, of = service): Promise<string> {
  const more = { STANDIN_URL: of.url, STANDIN_API_KEY: of.api_key };
  const env = { ...ENV, ...more, MYPY_CACHE_DIR: join(folder, 'mypy') };
  return runProgram(['sh', '-ec', command], { cwd, env });
}

/** The answers of a service to a caller, in the form that all callers print. */
const ANSWERS = {
  tokens: mapped(DATA, (value) => expect.stringMatching(tokenPattern(value))),
  request_id: expect.stringMatching(/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/),
  values: DATA,
  status: 'success',
  refused: {
    error: 'invalid_type',
    message:
      'data.age: must be a string, not a number; send it in quotes, JSON numbers lose digits',
  },
  unauthorized: { error: 'unauthorized' },
  health: {
    ...{ status: 'ok', postgres: 'ok', version: '1.0.5' },
    timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/),
  },
  live: 'ok',
};

function mapped(data: unknown, change: (value: string) => unknown): unknown {
  if (typeof data === 'string') return change(data);
  if (Array.isArray(data)) return data.map((one) => mapped(one, change));
  const fields = Object.entries(data as object);
  return Object.fromEntries(fields.map(([name, one]) => [name, mapped(one, change)]));
}

describe.each(GENERATORS)('$name', ({ find, generate, compile, caller, call, cases }) => {
  /** Of the client of the first test. */
  let place: string;
  const isInstalled = spawnSync('sh', ['-ec', find], { env: ENV }).status === 0;

  test.skipIf(!isInstalled)('makes a client that sends nested data there and back', async () => {
    const response = await fetch(`${service.opsUrl}/openapi.json`);
    place = prepare(await response.text());
    await run(generate, place);
    await run(compile, place);
    const target = caller.replace(/^[a-z_]+(?=\.(py|ts)$)/, 'caller');
    cpSync(join(import.meta.dirname, 'callers', caller), join(place, target));
    const answers = JSON.parse(await run(call, place));
    expect(answers).toEqual({ ...ANSWERS, client_id: service.client_id });
  });

  if (cases !== undefined)
    test.skipIf(!isInstalled)('A47: passes the cases that need neither splits nor retries', () =>
      runCases(place, cases),
    );

  const hasPolicy = kinds().includes('server');
  test.skipIf(!isInstalled || !hasPolicy)('it sends lists of records, too', async () => {
    const withPolicy = await startWithPolicy(POLICY);
    writeFileSync(join(place, 'data.json'), JSON.stringify(RECORDS));
    const answers = JSON.parse(await run(call, place, withPolicy).finally(withPolicy.stop));
    const tokens = [{ ...RECORDS[0], email: expect.stringMatching(/_tok$/) }, RECORDS[1]];
    expect(answers).toMatchObject({ tokens, values: RECORDS });
  });

  test.skipIf(!isInstalled).each([
    ['of interface 1.0.4', ['--interface-version', '1.0.4']],
    ['of the admin API', ['--admin']],
  ])('makes a client %s that compiles', async (_, options) => {
    const { stdout } = await runCli(['openapi', ...options], service.place);
    const place = prepare(stdout);
    await run(generate, place);
    await run(compile, place);
  });
});

async function runCases(place: string, [source, target, command]: readonly string[]) {
  const cases = await services.prepare(GENERATED_CASES);
  writeFileSync(join(place, 'cases.json'), JSON.stringify(cases.tasks));
  cpSync(join(import.meta.dirname, 'callers', source!), join(place, target!));
  cases.noteLines(await run(command!, place));
  cases.stop();
  expect(GENERATED_CASES.length).toBeGreaterThan(25);
  for (const one of GENERATED_CASES) cases.judge(one, true);
}
