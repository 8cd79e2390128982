import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { placeFor } from '../support/command.ts';
import { childrenOf } from '../support/processes.ts';
import { newBlankPlace } from '../support/service.ts';

const at = placeFor('block', newBlankPlace, async ({ path, write }) => {
  mkdirSync(path('some folder'));
  write('some folder/tokens.txt', '');
});

function isThere(program: string): boolean {
  return spawnSync(program, ['--version']).status === 0;
}

/** Puts the script for a shell into a file. */
async function install(shell: string, name = `standin.${shell}`): Promise<string> {
  return at.write(name, await at.text(`completion ${shell}`));
}

const TIMEOUT_MS = 30_000;

/** Types into a shell in a terminal of its own; gives the words of the command, with >< between them. */
async function type(shell: string, setUp: string, keys: string): Promise<string> {
  const child = spawn('script', ['-qfec', shell, '/dev/null'], {
    cwd: at.place.folder,
    env: { PATH: process.env.PATH!, TERM: 'dumb', HOME: at.place.folder },
  });
  let output = '';
  try {
    return await new Promise((resolve, reject) => {
      const fail = () => reject(new Error(`${keys} gave: ${output}`));
      child.once('close', fail);
      setTimeout(fail, TIMEOUT_MS).unref();
      let isReady = false;
      child.stdout.on('data', (chunk) => {
        output += chunk;
        // As quotes in what is typed keep it from being found there.
        if (!isReady && output.includes('is set up')) {
          isReady = true;
          child.stdin.write(`${keys}\r`);
        }
        const written = /<<(.*)>>/.exec(output)?.[1];
        if (written !== undefined) resolve(written);
      });
      const echo = `standin() { printf '<'; printf '<%s>' "$@"; printf '>\\n'; }`;
      child.stdin.write(`${echo}; ${setUp}; echo 'is'' set up'\r`);
    });
  } finally {
    // The shell first: one that ends by itself writes its history into a folder that is being removed.
    const ended = new Promise((resolve) => child.once('exit', resolve));
    const hasEnded = child.exitCode !== null || child.signalCode !== null;
    for (const pid of childrenOf(child.pid!)) process.kill(pid, 'SIGKILL');
    if (!hasEnded) await ended;
  }
}

/** Typed keys, and the words that the program then gets. */
const TYPED: readonly (readonly [string, readonly string[]])[] = [
  ['standin cli\tcr\t--na\tx', ['client', 'create', '--name', 'x']],
  ['standin client create --can det\t', ['client', 'create', '--can', 'detokenize']],
  ['standin client update x --token-mode=ra\t', ['client', 'update', 'x', '--token-mode=random']],
  [
    'standin api-key issue --client list --exp\t1d',
    ['api-key', 'issue', '--client', 'list', '--expires', '1d'],
  ],
  ['standin completion fi\t', ['completion', 'fish']],
  ['standin help keyr\t', ['help', 'keyring']],
  ['standin forget --file som\ttok\t', ['forget', '--file', 'some folder/tokens.txt']],
  ['standin license verify som\ttok\t', ['license', 'verify', 'some folder/tokens.txt']],
  ['standin client list som\t', ['client', 'list', 'som']],
  ['standin client create --name som\t', ['client', 'create', '--name', 'som']],
];

const CAN = [
  ...['tokenize', 'detokenize', 'lookup', 'tokenize,detokenize'],
  ...['tokenize,lookup', 'detokenize,lookup', 'tokenize,detokenize,lookup'],
];

const hasTerminal = isThere('script');

describe.runIf(isThere('bash'))('bash', () => {
  /** The candidates for the last of these words. */
  async function offered(...words: string[]): Promise<string[]> {
    const file = await install('bash');
    const script = `source '${file}'; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _standin
      printf '%s\\n' "\${COMPREPLY[@]}"`;
    const args = ['--norc', '-c', script, 'bash', 'standin', ...words];
    return execFileSync('bash', args, { encoding: 'utf8' }).trim().split('\n');
  }

  test('offers the commands, options and choices of the place, and nothing where a text is wanted', async () => {
    const groups = (await at.text('--help')).matchAll(/^ {2}([a-z][a-z-]*) /gm);
    expect(await offered('')).toEqual([...groups].map(([, name]) => name));
    expect(await offered('client', '')).toEqual(['create', 'list', 'update', 'disable', 'help']);
    expect(await offered('keyring', 're')).toEqual(['reseal', 'retire', 'rewrap']);
    const kek = ['--new-kek-file', '--new-kek-env'];
    expect(await offered('keyring', 'rewrap', '--new')).toEqual(kek);
    for (const sign of ['', '='])
      expect(await offered('client', 'create', '--can', sign)).toEqual(CAN);
    expect(await offered('client', 'create', '--name', '')).toEqual(['']);
    expect(await offered('client', 'list', '')).toEqual(['']);
    expect(await offered('help', 'he')).toEqual(['']);
    expect(await at.text('completion bash')).not.toContain('undefined');
    expect(await offered('nonsense', '')).toEqual(await offered(''));
  });

  test.runIf(hasTerminal).each(TYPED)('%j becomes %j', async (keys, words) => {
    const setUp = `source '${await install('bash')}'`;
    expect(await type('bash --norc --noprofile -i', setUp, keys)).toBe(words.join('><'));
  });
});

describe.runIf(isThere('zsh') && hasTerminal)('zsh', () => {
  test.each(TYPED)('%j becomes %j', async (keys, words) => {
    const setUp = `autoload -U compinit; compinit -D -u; source '${await install('zsh')}'`;
    const given = await type('zsh -f -i', setUp, keys);
    // It puts = between an option and its value, which is as good.
    expect(given.replaceAll('=', '><')).toBe(words.join('><').replaceAll('=', '><'));
  });

  test('finds it in a folder of fpath', async () => {
    await install('zsh', '_standin');
    const setUp = `fpath=('${at.place.folder}' $fpath); autoload -U compinit; compinit -D -u`;
    expect(await type('zsh -f -i', setUp, 'standin keyring sta\t')).toBe('keyring><status');
    // The first use loads the file, the second one calls what is loaded.
    expect(await type('zsh -f -i', setUp, 'standin doc\t--js\t')).toBe('doctor><--json');
  });
});

describe.runIf(isThere('fish'))('fish', () => {
  /** The candidates for the end of the line. */
  async function offered(line: string): Promise<string[]> {
    const script = `source ${await install('fish')}; complete -C ${JSON.stringify(line)}`;
    const env = { PATH: process.env.PATH!, HOME: at.place.folder };
    const args = ['--no-config', '-c', script];
    const output = execFileSync('fish', args, { encoding: 'utf8', env, cwd: at.place.folder });
    return output.match(/^[^\t\n]+/gm) ?? [];
  }

  test('offers what fits the place, and files only where they are wanted', async () => {
    expect(await offered('standin cl')).toEqual(['client']);
    expect(await offered('standin keyring re')).toEqual(['reseal', 'retire', 'rewrap']);
    expect(await offered('standin client create --na')).toEqual(['--name']);
    expect(await offered('standin client create --can ')).toEqual(CAN.toSorted());
    const modes = ['--token-mode=deterministic', '--token-mode=random'];
    expect(await offered('standin client update x --token-mode=')).toEqual(modes);
    expect(await offered('standin api-key issue --client list --exp')).toEqual(['--expires']);
    expect(await offered('standin completion fi')).toEqual(['fish']);
    expect(await offered('standin help keyr')).toEqual(['keyring']);
    for (const wanted of ['forget --file', 'license verify'])
      expect(await offered(`standin ${wanted} som`)).toEqual(['some folder/']);
    expect(await offered('standin forget --file=som')).toEqual(['--file=some folder/']);
    for (const none of ['client list', 'client create --name', 'nonsense'])
      expect(await offered(`standin ${none} ./som`)).toEqual([]);
  });
});
