import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ALL_CASES, type CaseRun, CaseServices } from '../support/client-cases.ts';
import { newFolder } from '../support/folder.ts';
import { startWithPolicy } from '../support/policy.ts';
import { ROOT } from '../support/program.ts';
import { run } from '../support/recipes.ts';
import { createClient, kinds } from '../support/service.ts';
import { tokenPattern } from '../support/token-rules.ts';

/** The result of test/clients/install.sh. */
const TOOLS = join(ROOT, 'build/python');
const TOOL = join(TOOLS, 'bin/python');
const SOURCE = join(ROOT, 'clients/python');
const RUNNER = join(import.meta.dirname, 'run_cases.py');
const COLUMNS_POLICY = `version: 1
kinds: { card: { shape: digits, keep_last: 4 } }
fields: { email: email, '["card no"]': card, customer.name: text, 'orders[1].to[*]': text }
elsewhere: pass
rights: { courier: { email: full }, "*": { "*": full } }
`;
/** Virtual environments with httpx, of the other versions of Python that this machine has. */
const VERSIONS = existsSync(join(TOOLS, 'versions'))
  ? readdirSync(join(TOOLS, 'versions')).sort()
  : [];
const OLDEST_AND_NEWEST = new Set(['', ...VERSIONS.slice(0, 1), ...VERSIONS.slice(-1)]);

describe.runIf(existsSync(join(TOOLS, 'ready')))('the Python package', () => {
  const folder = newFolder('python');
  let services: CaseServices;
  /** Of a virtual environment with the wheel and what it needs. */
  let python: string;
  beforeAll(async () => {
    const build = ['-m', 'build', '--no-isolation', '--outdir', folder, SOURCE];
    await run([TOOL, ...build], folder);
    await run([TOOL, '-m', 'venv', 'venv'], folder);
    python = join(folder, 'venv/bin/python');
    const offline = ['--quiet', '--no-index', '--find-links', join(TOOLS, 'wheels')];
    const [wheel] = readdirSync(folder).filter((name) => name.endsWith('.whl'));
    await run([python, '-m', 'pip', 'install', ...offline, wheel!], folder);
    services = await CaseServices.start(folder);
  });
  afterAll(() => services.stop());

  const mypy = (...words: string[]) =>
    run([TOOL, '-m', 'mypy', '--strict', '--cache-dir', join(folder, 'mypy'), ...words], SOURCE);

  test('S09: is a wheel and an sdist with its types, and needs httpx alone', async () => {
    const files = readdirSync(folder).filter((name) => name.startsWith('standin-'));
    expect(files.sort()).toEqual(['standin-0.1.0-py3-none-any.whl', 'standin-0.1.0.tar.gz']);
    const listed = await run([TOOL, '-m', 'zipfile', '-l', files[0]!], folder);
    expect(listed).toContain('standin/py.typed');
    expect(listed).toContain('licenses/LICENSE');
    const code = 'import importlib.metadata as m; print(*m.requires("standin"), sep="\\n")';
    const requires = (await run([python, '-c', code], folder)).trim().split('\n');
    expect(requires.filter((one) => !one.includes('extra =='))).toEqual(['httpx<1,>=0.27']);
  });

  test('mypy --strict is content with it, and with a caller of the installed package', async () => {
    expect(await mypy('src')).toContain('no issues found');
    const typed = await mypy('--python-executable', python, RUNNER);
    expect(typed).toContain('no issues found');
    // The canary: wrong arguments, and two results of other types.
    const wrong = join(folder, 'wrong.py');
    const lines = [
      'from standin import Standin',
      'client = Standin("http://a", 7)',
      'client.tokenize("text")',
      'tokens: list[str] = client.lookup(["Ann"])',
      'found: dict[str, str] = client.lookup({"name": "Ann"})',
    ];
    writeFileSync(wrong, `${lines.join('\n')}\n`);
    await expect(mypy('--python-executable', python, wrong)).rejects.toThrow('Found 4 errors');
  });

  /** Runs a program of this folder, which prints `ok`. */
  async function check(program: string, tool: string, env: Record<string, string>) {
    const path = { PYTHONPATH: join(SOURCE, 'src') };
    const file = join(import.meta.dirname, program);
    expect(await run([tool, file], folder, tool === TOOL ? { ...path, ...env } : env)).toBe('ok\n');
  }

  test('columns of pandas and Polars go there and back, and missing values stay missing', () =>
    check('check_columns.py', TOOL, services.environment()));

  test('threads and forked processes share a client, and errors can be pickled', () =>
    check('check_processes.py', python, services.environment()));

  describe.runIf(kinds().includes('server'))('under a policy', () => {
    test('columns have the kinds and rights of the policy', async () => {
      const service = await startWithPolicy(COLUMNS_POLICY);
      try {
        const courier = await createClient(service.place, '--name', 'courier');
        const env = { STANDIN_URL: service.url, STANDIN_API_KEY: service.api_key };
        await check('check_policy.py', TOOL, { ...env, STANDIN_COURIER_KEY: courier.api_key });
      } finally {
        await service.stop();
      }
    });
  });

  test.each([
    ['stores tokens, and finds by value', 'usual'],
    ['stores tokens under a policy that passes other strings', 'policy'],
  ])('the Django field of examples/ %s', async (_, service) => {
    const paths = [join(SOURCE, 'src'), join(ROOT, 'examples/django')].join(':');
    const env = { PYTHONPATH: paths, ...services.environment(service) };
    const check = join(ROOT, 'test/examples/django_check.py');
    const shown = JSON.parse(await run([TOOL, check], folder, env));
    const email = expect.stringMatching(tokenPattern('ann@example.com'));
    expect(shown.first).toEqual([
      ['Ann', email],
      ['Bo', null],
      ['Cy', ''],
    ]);
    // Saving again what was read makes no token of a token.
    expect(shown.again).toEqual([['Anna', shown.first[0][1]], ...shown.first.slice(1)]);
    expect(shown.restored).toEqual(['ann@example.com']);
  });

  const runs = [...OLDEST_AND_NEWEST].flatMap((version) => [
    [version, 'sync'],
    [version, 'async'],
  ]);
  describe.each(runs)('%s %s', (version, kind) => {
    let cases: CaseRun;
    beforeAll(async () => {
      cases = await services.prepare(ALL_CASES);
      const file = `${kind}${version}.json`;
      writeFileSync(join(folder, file), JSON.stringify(cases.tasks));
      const tool = version === '' ? python : join(TOOLS, 'versions', version, 'bin/python');
      const env = version === '' ? {} : { PYTHONPATH: join(SOURCE, 'src') };
      cases.noteLines(await run([tool, RUNNER, file, kind], folder, env));
    });
    afterAll(() => cases.stop());

    test.each(ALL_CASES.map((one) => [one.name, one] as const))('A47: %s', (_, one) =>
      cases.judge(one),
    );
  });
});
