import { spawn, spawnSync } from 'node:child_process';
import { CLI, NO_LIMITS, type Place } from './program.ts';
import { watchOutput } from './secrecy.ts';

/** Whether a program can be run on a terminal here: `script` of util-linux makes one. */
export const hasTerminal = spawnSync('script', ['-qec', 'true', '/dev/null']).status === 0;

/** What the pretty log has on a terminal, and nothing else of its kind. */
export const COLOURS = new RegExp(`${String.fromCharCode(27)}\\[\\d+m`, 'g');

export interface OnTerminal {
  /** What the terminal got, with `\n` as the end of a line. */
  output(): string;
  readonly url: string;
  readonly opsUrl: string | undefined;
  /** SIGINT and wait. */
  stop(): Promise<void>;
}

/** As `startService`, with a terminal as its standard output. */
export async function serveOnTerminal(
  place: Place,
  env: Record<string, string> = {},
): Promise<OnTerminal> {
  const own = { PORT: '0', OPS_PORT: '0', ...NO_LIMITS, LOG_FORMAT: 'json' };
  const { PATH = '', HOME = '' } = process.env;
  // The shell becomes the service; the signal is for that one, not for the terminal.
  const command = `echo pid $$; exec '${process.execPath}' '${CLI}' serve`;
  const child = spawn('script', ['-qefc', command, '/dev/null'], {
    cwd: place.folder,
    env: { PATH, HOME, SHELL: '/bin/sh', ...place.env, ...own, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  let output = '';
  // What is for the person there is no log.
  watchOutput(() => output.replaceAll(/^ {2}(stk_|curl ).*$/gm, ''));
  const exit = new Promise<number | null>((resolve) => child.once('exit', resolve));
  const listening = await new Promise<Pick<OnTerminal, 'url' | 'opsUrl'>>((resolve, reject) => {
    child.stdout.on('data', (chunk) => {
      output += String(chunk).replaceAll('\r\n', '\n');
      const plain = output.replaceAll(COLOURS, '');
      const found = /"?\burl"?: ?"([^"]+)"/.exec(plain);
      const ops = /"?\bops_url"?: ?"([^"]+)"/.exec(plain);
      // The first of both formats of the log that has it is the line of the start.
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

/** What a command writes on a terminal, byte for byte. */
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
