import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { ROOT, readText } from './docs.ts';

/** Whether a program is installed. Tests that need a missing program are skipped. */
export function has(program: string, ...args: string[]): boolean {
  return spawnSync(program, args, { stdio: 'ignore' }).status === 0;
}

export function runTool(program: string, ...args: string[]): string {
  return execFileSync(program, args, { cwd: ROOT, encoding: 'utf8', stdio: 'pipe' });
}

const DOCKERFILE = 'deploy/docker/Dockerfile';

/** Instructions with their arguments. Joins continued lines. */
export function instructions(): [name: string, rest: string][] {
  const lines = readText(DOCKERFILE)
    .replaceAll(/^#.*\n/gm, '')
    .replaceAll(/\\\n\s*/g, '')
    .split('\n')
    .filter((line) => line !== '');
  return lines.map((line) => {
    const [, name, rest] = /^([A-Z]+) (.*)$/.exec(line)!;
    return [name!, rest!];
  });
}

/** An image as a container engine would make it from a Dockerfile. */
export type Image = ReturnType<typeof buildImage>;

/**
 * Runs COPY, WORKDIR and RUN of a Dockerfile in folders, with Node and npm of this machine instead
 * of the base image's programs.
 */
export function buildImage(folder: string) {
  const context = join(folder, 'context');
  copyContext(context);
  const stages = new Map<string, string>();
  const facts: Record<string, string> = {};
  const env: Record<string, string> = {};
  let root = '';
  let workdir = '/';
  for (const [name, rest] of instructions()) {
    if (name === 'FROM') {
      const stage = / AS (\w+)$/.exec(rest)?.[1] ?? 'last';
      root = join(folder, stage);
      stages.set(stage, root);
    } else if (name === 'WORKDIR') {
      workdir = rest;
      mkdirSync(join(root, workdir), { recursive: true });
    } else if (name === 'COPY') copy(rest, context, stages, root, workdir);
    else if (name === 'RUN') run(rest, join(root, workdir));
    else if (name === 'ENV') {
      for (const [, key, value] of rest.matchAll(/(\w+)=(\S*)/g)) env[key!] = value!;
    } else facts[name] = rest;
  }
  return {
    /** The files of the last stage, without the files of the base image. */
    root,
    workdir: join(root, workdir),
    env,
    user: facts.USER!,
    command: [...JSON.parse(facts.ENTRYPOINT!), ...JSON.parse(facts.CMD!)] as string[],
    health_check: JSON.parse(facts.HEALTHCHECK!.replace(/^.*?CMD /, '')) as string[],
  };
}

/** The files that the Dockerfile's ignore file allows. The ignore file excludes all others. */
function copyContext(context: string): void {
  const [first, ...rest] = readText(`${DOCKERFILE}.dockerignore`)
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'));
  if (first !== '*') throw new Error(`${DOCKERFILE}.dockerignore must begin with *`);
  for (const pattern of rest.map((line) => /^!(.+)$/.exec(line)![1]!)) {
    const found = matches(ROOT, pattern);
    if (found.length === 0) throw new Error(`${pattern} lets nothing through`);
    for (const path of found) cpSync(join(ROOT, path), join(context, path), { recursive: true });
  }
}

function copy(
  rest: string,
  context: string,
  stages: Map<string, string>,
  root: string,
  workdir: string,
): void {
  const [, stage, paths] = /^(?:--from=(\w+) )?(?:--chown=\S+ )?(.*)$/.exec(rest)!;
  const from = stage === undefined ? context : stages.get(stage)!;
  const words = paths!.split(' ');
  const to = join(root, resolve(workdir, words.pop()!));
  for (const pattern of words) {
    const found = matches(from, pattern);
    if (found.length === 0) throw new Error(`COPY ${pattern}: not there`);
    for (const path of found) {
      const isInto = existsSync(to) || /\/$/.test(paths!);
      const target = isInto ? join(to, basename(path)) : to;
      mkdirSync(dirname(target), { recursive: true });
      cpSync(join(from, path), target, { recursive: true, verbatimSymlinks: true });
    }
  }
}

/** Paths in a folder that match a pattern, such as src, tsconfig*.json or packages/<name>/src. */
function matches(folder: string, pattern: string): string[] {
  const name = new RegExp(`^${basename(pattern).replaceAll('.', '\\.').replaceAll('*', '.*')}$`);
  const above = dirname(pattern);
  const parents = above === '.' || above === '/' ? [above] : matches(folder, above);
  return parents.flatMap((parent) =>
    readdirSync(join(folder, parent)).flatMap((one) => (name.test(one) ? [join(parent, one)] : [])),
  );
}

/** Allows only npm, and only in the folder, because the command runs on this machine. */
function run(command: string, cwd: string): void {
  if (!/^npm /.test(command) || /(^|\s)[/~]|\.\./.test(command))
    throw new Error(`a RUN that is not npm in the folder: ${command}`);
  const env = { ...process.env, EXTRA_PACKAGES: '', npm_config_prefer_offline: 'true' };
  execFileSync('sh', ['-c', command], { cwd, env, stdio: 'pipe' });
}
