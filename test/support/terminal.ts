import { spawn, spawnSync } from 'node:child_process';
import { CLI, NO_LIMITS, type Place } from './program.ts';
import { watchOutput } from './secrecy.ts';

/** Whether this machine can run a program on a terminal, with `script` of util-linux. */
export const hasTerminal = spawnSync('script', ['-qec', 'true', '/dev/null']).status === 0;

/** The only escape sequences of the pretty log. */
export const COLOURS = new RegExp(`${String.fromCharCode(27)}\\[\\d+m`, 'g');

export interface OnTerminal {
  /** The output on the terminal, with `\n` as line end. */
  output(): string;
  readonly url: string;
  readonly opsUrl: string | undefined;
  /** Sends SIGINT and waits for the end. */
  stop(): Promise<void>;
}

/** Does the same as `startService`, with a terminal as standard output. */
export async function serveOnTerminal(
  place: Place,
  env: Record<string, string> = {},
): Promise<OnTerminal> {
  const own = { PORT: '0', OPS_PORT: '0', ...NO_LIMITS, LOG_FORMAT: 'json' };
  const { PATH = '', HOME = '' } = process.env;
  // `exec` replaces the shell, so that the signal reaches the service and not the terminal.
  const command = `echo pid $$; exec '${process.execPath}' '${CLI}' serve`;
  const child = spawn('script', ['-qefc', command, '/dev/null'], {
    cwd: place.folder,
    env: { PATH, HOME, SHELL: '/bin/sh', ...place.env, ...own, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  let output = '';
  // The text for the person at the terminal is not part of the log.
  watchOutput(() => output.replaceAll(/^ {2}(stk_|curl ).*$/gm, ''));
  const exit = new Promise<number | null>((resolve) => child.once('exit', resolve));
  const listening = await new Promise<Pick<OnTerminal, 'url' | 'opsUrl'>>((resolve, reject) => {
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
  });
  return {
    output: () => output,
    ...listening,
    stop: async () => {
      process.kill(Number(/^pid (\d+)$/m.exec(output)![1]), 'SIGINT');
      await exit;
    },
  };
}

/** The exact bytes that a command writes on a terminal. */
export function runOnTerminal(args: readonly string[], place: Place): string {
  const quoted = [process.execPath, CLI, ...args].map((arg) => `'${arg}'`).join(' ');
  const { PATH = '', HOME = '' } = process.env;
  const { stdout } = spawnSync('script', ['-qec', quoted, '/dev/null'], {
    cwd: place.folder,
    env: { PATH, HOME, SHELL: '/bin/sh', ...place.env },
    encoding: 'utf8',
  });
  return stdout.replaceAll('\r\n', '\n');
}
