import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readText } from './docs.ts';
import { CLI, type Ended, endOf, NO_LIMITS, type Place } from './program.ts';
import { watchOutput } from './secrecy.ts';

/** Whether this machine can run a program on a terminal, with `script` of util-linux. */
export const hasTerminal = spawnSync('script', ['-qec', 'true', '/dev/null']).status === 0;

/** The only escape sequences of the program. */
export const COLOURS = new RegExp(`${String.fromCharCode(27)}\\[\\d+m`, 'g');

/** A shell command on a terminal of its own, for `spawn` and `spawnSync`. */
function onTerminal(command: string, place: Place, env: Record<string, string> = {}) {
  const { PATH = '', HOME = '' } = process.env;
  const surroundings = { PATH, HOME, TERM: 'xterm-256color', SHELL: '/bin/sh' };
  return [
    'script',
    ['-qefc', command, '/dev/null'],
    { cwd: place.folder, env: { ...surroundings, ...place.env, ...env } },
  ] as const;
}

const standin = (...args: readonly string[]) =>
  [process.execPath, CLI, ...args].map((arg) => `'${arg}'`).join(' ');

/** Does the same as `startService`, with a terminal as standard output. */
export async function serveOnTerminal(place: Place, env: Record<string, string> = {}) {
  const own = { PORT: '0', OPS_PORT: '0', ...NO_LIMITS, LOG_FORMAT: 'json' };
  // `exec` replaces the shell, so that the signal reaches the service and not the terminal.
  const command = `echo pid $$; exec ${standin('serve')}`;
  const child = spawn(...onTerminal(command, place, { ...own, ...env }));
  let output = '';
  // The text for the person at the terminal is not part of the log.
  watchOutput(() => output.replaceAll(/^ {2}(stk_|curl ).*$/gm, ''));
  const exit = new Promise<number | null>((resolve) => child.once('exit', resolve));
  const listening = await new Promise<{ url: string; opsUrl: string | undefined }>(
    (resolve, reject) => {
      child.stdout.on('data', (chunk) => {
        output += String(chunk).replaceAll('\r\n', '\n');
        const plain = output.replaceAll(COLOURS, '');
        const found = /"?\burl"?: ?"([^"]+)"/.exec(plain);
        const ops = /"?\bops_url"?: ?"([^"]+)"/.exec(plain);
        // The first line with the address, in either log format, is the line of the start.
        if (found !== null && plain.includes('listening') && plain.endsWith('\n'))
          resolve({ url: found[1]!, opsUrl: ops?.[1] });
      });
      void exit.then((code) => reject(new Error(`serve ended with ${code}:\n${output}`)));
    },
  );
  return {
    ...listening,
    /** The output on the terminal, with `\n` as line end. */
    output: () => output,
    /** Sends SIGINT and waits for the end. */
    stop: async () => {
      process.kill(Number(/^pid (\d+)$/m.exec(output)![1]), 'SIGINT');
      await exit;
    },
  };
}
export type OnTerminal = Awaited<ReturnType<typeof serveOnTerminal>>;

/** The exact bytes that a command writes on a terminal. */
export function runOnTerminal(
  args: readonly string[],
  place: Place,
  env: Record<string, string> = {},
  columns = 250,
): string {
  const command = `stty cols ${columns}; ${standin(...args)}`;
  return String(spawnSync(...onTerminal(command, place, env)).stdout).replaceAll('\r\n', '\n');
}

/** Runs a command that asks on a terminal, and types nothing yet. */
export function askedOnTerminal(args: readonly string[], place: Place) {
  const child = spawn(...onTerminal(standin(...args), place));
  let output = '';
  child.stdout.on('data', (chunk) => {
    output += chunk;
  });
  const end = endOf(child);
  return {
    /** All that the terminal shows so far. */
    output: () => output,
    /** Types a line, and waits for the end. */
    answer: (line: string): Promise<Ended> => {
      child.stdin.write(`${line}\n`);
      return end;
    },
  };
}
export type Asked = ReturnType<typeof askedOnTerminal>;

/** Commands of a document, with the output that the document shows. */
export interface Step {
  readonly command: string;
  readonly shown: string | undefined;
}

/** The sh blocks of a document in order, each with its following block of another language. */
export function steps(path: string): Step[] {
  const found = [...readText(path).matchAll(/^```(\w+)\n(.*?)^```$/gms)];
  return found.flatMap(([, language, command], i) => {
    if (language !== 'sh') return [];
    const next = found[i + 1];
    return [{ command: command!, shown: next?.[1] === 'sh' ? undefined : next?.[2] }];
  });
}

/** Texts that differ between vaults and between runs. */
const VARIABLE = new RegExp(
  [
    'stk_\\w{34}',
    'standin_[0-9a-f]{24}',
    'key_[0-9a-f]{12}',
    '\\d{4}-\\d\\d-\\d\\dT[\\d:.]+Z',
    '"(?:node|chain|mac)":"[^"]*"',
    '"seq":\\d+',
    '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}',
    '[\\d.]+ s \\([\\d,]+/s\\)',
    '[^",\\n]*_tok\\b',
  ].join('|'),
  'g',
);

/** The text with a placeholder for each of these texts: for a token, its shape. */
export function kinds(text: string): string {
  return text.replaceAll(VARIABLE, kindOf).trim();
}

function kindOf(variable: string): string {
  if (variable.endsWith('_tok')) return variable.replaceAll(/[a-z]/g, 'a').replaceAll(/\d/g, '0');
  return /^[a-z]+_/.exec(variable)?.[0] ?? 'id';
}

/** A shell for the commands of a document, as a reader would type them. */
export class Session {
  readonly #shell: ChildProcess;
  /** The reader's own texts, by the texts that the document shows. */
  readonly #own = new Map<string, string>();
  #output = '';
  #commands = 0;

  constructor(cwd: string, env: Record<string, string>, own: Readonly<Record<string, string>>) {
    this.#shell = spawn('sh', ['-s'], { cwd, env, stdio: ['pipe', 'pipe', 'inherit'] });
    this.#shell.stdout!.on('data', (chunk) => {
      this.#output += chunk;
    });
    for (const [shown, is] of Object.entries(own)) this.#own.set(shown, is);
  }

  /** Runs a command and returns its standard output. Throws for an exit code other than 0. */
  async run(command: string): Promise<string> {
    let typed = command;
    for (const [shown, is] of this.#own) typed = typed.replaceAll(shown, is);
    const end = new RegExp(`\\nend ${++this.#commands} (\\d+)\\n`);
    this.#output = '';
    this.#shell.stdin!.write(`${typed}\nprintf '\\nend ${this.#commands} %s\\n' $?\n`);
    for (;;) {
      const found = end.exec(this.#output);
      if (found?.[1] === '0') return this.#output.slice(0, found.index);
      if (found !== null) throw new Error(`exit code ${found[1]} of ${typed}\n${this.#output}`);
      await once(this.#shell.stdout!, 'data');
    }
  }

  /** From here on, replaces the shown texts with the reader's own texts. */
  learn(shown: string, written: string): void {
    const is = written.match(VARIABLE) ?? [];
    for (const [i, variable] of (shown.match(VARIABLE) ?? []).entries())
      if (is[i] !== undefined) this.#own.set(variable, is[i]);
  }

  async end(): Promise<void> {
    this.#shell.stdin!.end();
    await once(this.#shell, 'close');
  }
}
