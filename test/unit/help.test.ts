import type { Command } from 'commander';
import { describe, expect, test } from 'vitest';

import { buildProgram } from '../../src/commands/program.ts';
import { SETTINGS } from '../../src/config/settings.ts';
import { readText, table } from '../support/docs.ts';

function below(made: Command): Command[] {
  return [made, ...made.commands.flatMap(below)];
}

function pathOf(made: Command): string {
  return made.parent === null ? made.name() : `${pathOf(made.parent)} ${made.name()}`;
}

/** The output of --help. */
function helpOf(made: Command): string {
  let text = '';
  const add = (part: string) => {
    text += part;
  };
  made.configureOutput({ writeOut: add }).outputHelp();
  return text;
}

/** Lines of a help that call the program. */
function examplesIn(help: string): string[] {
  return [...help.matchAll(/^ {2,}((?:[A-Z_]+=\S+ )*standin .*)$/gm)].map((match) => match[1]!);
}

/** The words after `standin`, up to where the shell goes on with a pipe or a file. */
function wordsIn(example: string): string[] {
  const [, line] = /standin ([^|<>&;]*)/.exec(example)!;
  return [...line!.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(
    ([, single, double, plain]) => single ?? double ?? plain!,
  );
}

/** Parses it as the program would; what it would run is named instead. @throws what is wrong with it */
async function commandOf(example: string): Promise<string> {
  const program = await buildProgram();
  const called: string[] = [];
  for (const made of below(program)) {
    made.configureOutput({ writeErr: () => {} });
    if (made.commands.length === 0) made.action(() => void called.push(pathOf(made)));
  }
  program.parse(wordsIn(example), { from: 'user' });
  return called[0]!;
}

const program = await buildProgram();
const commands = below(program).map((made) => [pathOf(made), helpOf(made)] as const);
/** Programs have no use for their output, or it is JSON already. */
const WITHOUT_JSON = /^standin (serve|model-proxy|openapi|policy schema|completion \w+)$/;
const leaves = below(program).filter((made) => made.commands.length === 0);

test.each(commands)(
  'help of %s has examples, and each is right usage of it',
  async (path, help) => {
    const examples = examplesIn(help);
    expect(examples).not.toEqual([]);
    expect(help).not.toMatch(examples.length > 1 ? /\nExample:/ : /\nExamples:/);
    for (const example of examples)
      expect(`${await commandOf(example)} `, example).toMatch(new RegExp(`^${path} `));
  },
);

test.each(commands)('help of %s says what each command, option and argument is', (_, help) => {
  const lists = help.split('\n\n').filter((part) => /^[A-Z][\w ]*:\n {2}\S/.test(part));
  const items = lists
    .filter((part) => !/^(Examples?|First steps):/.test(part))
    .flatMap((part) => part.split('\n').slice(1))
    .filter((line) => /^ {2}\S/.test(line));
  expect(items.length).toBeGreaterThan(0);
  for (const item of items) expect(item).toMatch(/^ {2}\S.*? {2,}\S/);
});

test.each(leaves.map(pathOf))('%s has --json, if a program can use what it prints', (path) => {
  const [, help] = commands.find(([name]) => name === path)!;
  expect(help.includes('--json')).toBe(!WITHOUT_JSON.test(path));
});

test('a command that is called is the same without the others', async () => {
  const called = program.commands.filter((made) => made.name() !== 'completion');
  for (const made of called) {
    const alone = await buildProgram(made.name());
    expect(alone.commands.map((one) => one.name())).toEqual([made.name(), 'completion']);
    expect(helpOf(alone.commands[0]!)).toBe(helpOf(made));
  }
});

test('help of a group has the first example of each of its commands', () => {
  for (const made of program.commands.filter((one) => one.commands.length > 0))
    expect(examplesIn(helpOf(made))).toEqual(
      made.commands.map((one) => examplesIn(helpOf(one))[0]),
    );
});

test('options of client create say what they take, with a default, and null', () => {
  const [, help] = commands.find(([name]) => name === 'standin client create')!;
  const words = help.replaceAll(/\s+/g, ' ');
  expect(words).toContain(' --rate-limit <n> requests');
  expect(words).toContain('; "default": ');
  expect(words).toMatch(/ --token-mode <mode> equal values get .* \(choices: .*, default: "det/);
  expect(words).toMatch(/ --time-to-live <time> [a-z].*; "none": /);
});

test('the documents have the defaults of the options', () => {
  const defaultOf = (name: string, option: string) =>
    leaves.find((made) => made.name() === name)!.options.find(({ long }) => long === option)!
      .defaultValue;
  const rows = table('docs/operating/model-proxy.md', ['Option', 'Default', 'Of what']);
  expect(rows.map(([, value]) => Number.parseInt(value!, 10))).toEqual(
    rows.map(([option]) => defaultOf('model-proxy', option!)),
  );
  const timeout = `\`--timeout\` (${defaultOf('tokenize', '--timeout')} s)`;
  expect(readText('docs/guides/bulk-files.md')).toContain(timeout);
});

test.each([
  ['tokenize', '--timeout', [1, 999_999], [0, 1_000_000]],
  ['verify', '--rate', [1, 10_000_000], [0, 10_000_001]],
  ['export', '--part-size', [1_000, 1e12], [999]],
  ['policy apply', '--if-version', [0, 999_999_999], [-1, 1_000_000_000]],
  ['keyring retire', 'version', [1, 99_999], [0, 100_000]],
  ['model-proxy', '--port', [0, 65_535], [65_536, '1e3']],
  ['model-proxy', '--max-body-bytes', [1_000, 100_000_000], [999, 100_000_001]],
  ['model-proxy', '--max-open', [1, 10_000], [0, 10_001]],
  ['model-proxy', '--timeout', [1, 3_600], [0, 3_601]],
  ['import', '--delimiter', ['\t', ' ', '~', 'tab', '\\t'], ['"', '\x1f', '\x7f', '', 'ab']],
] as const)('%s takes a %s of %j, and none of %j', (name, option, good, bad) => {
  const made = leaves.find((one) => pathOf(one) === `standin ${name}`)!;
  const { parseArg } = [...made.options, ...made.registeredArguments].find(
    (one) => ('long' in one ? one.long : one.name()) === option,
  )!;
  const parsed = good.map((text) => parseArg!(String(text), undefined));
  expect(parsed).toEqual(good.map((one) => (/^tab$|^.t$/.test(String(one)) ? '\t' : one)));
  for (const text of bad) expect(() => parseArg!(String(text), undefined)).toThrow('It must be');
});

test('an example that is wrong is found', async () => {
  for (const wrong of [
    'standin clients',
    'standin client create --nam x',
    'standin keyring retire',
  ])
    await expect(commandOf(wrong)).rejects.toThrow();
});

describe('standin --help', () => {
  test('has every command under what it is for', () => {
    const ungrouped = program.commands.filter((made) => made.helpGroup() === 'More:');
    const known = ['openapi', 'completion'];
    expect(ungrouped.map((made) => made.name()).filter((name) => !known.includes(name))).toEqual(
      [],
    );
  });

  test('says where settings come from, what exit codes mean and where the documents are', () => {
    const help = helpOf(program);
    expect(help).toMatch(/Settings are environment variables, or lines of the file \.env/);
    expect(help).toMatch(
      /Exit codes: 0 done; 1 failed, .*; 2 wrong usage; 3 done, .*; 130 interrupted\./s,
    );
    const { PORT, OPS_PORT } = SETTINGS;
    expect(help).toContain(`http://127.0.0.1:${PORT.default}/api/v1/tokenize`);
    expect(help).toContain(`http://127.0.0.1:${OPS_PORT.default}/\n`);
    expect(help).toMatch(/\nDocuments: \/.*docs\n$/);
  });
});
