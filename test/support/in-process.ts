import { execute } from '../../src/commands/program.ts';
import { type Ended, environmentOf, type Place, runCli } from './program.ts';

/** Commands run one after the other: each has the environment and the streams of the process. */
let last: Promise<unknown> = Promise.resolve();

/**
 * Runs a command to its end in this process, which is much quicker than `runCli`. Not for tests of
 * signals, terminals and standard input, and not while another command of the test still runs.
 * `serve` is a process of its own also here.
 */
export function runCommand(
  args: readonly string[],
  place: Place,
  env: Record<string, string> = {},
): Promise<Ended> {
  if (place.cli !== undefined || args[0] === 'serve') return runCli(args, place, env);
  // What starts a program meanwhile finds that this is a test.
  const here = { ...environmentOf(place, env), VITEST: process.env.VITEST };
  const ended = last.then(() => inProcess(args, place.folder, here));
  last = ended.catch(() => {});
  return ended;
}

async function inProcess(args: readonly string[], cwd: string, env: NodeJS.ProcessEnv) {
  const before = { cwd: process.cwd(), env: process.env, exitCode: process.exitCode };
  const exits = process.listeners('exit');
  const stdout = captured(process.stdout);
  const stderr = captured(process.stderr);
  try {
    process.chdir(cwd);
    process.env = env;
    process.exitCode = undefined;
    const code = (await execute(args)) ?? process.exitCode ?? 0;
    return { code, stdout: stdout.text(), stderr: stderr.text() };
  } finally {
    stdout.end();
    stderr.end();
    // What the command leaves to the end of its process.
    for (const exit of process.listeners('exit').filter((one) => !exits.includes(one))) {
      process.off('exit', exit);
      exit.call(process, 0);
    }
    process.chdir(before.cwd);
    process.env = before.env;
    process.exitCode = before.exitCode;
  }
}

/** Takes what is written to a stream from here to `end`. */
function captured(stream: NodeJS.WriteStream) {
  const { write } = stream;
  let text = '';
  stream.write = (chunk: string | Uint8Array, ...rest: unknown[]) => {
    text += Buffer.from(chunk as string).toString();
    const done = rest.find((one) => typeof one === 'function');
    if (done !== undefined) process.nextTick(done);
    return true;
  };
  const end = () => {
    stream.write = write;
  };
  return { text: () => text, end };
}
