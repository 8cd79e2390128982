#!/usr/bin/env node
/**
 * The entry point. It imports nothing before it has checked the version of Node: an older Node
 * would end with a stack trace at the first import that it does not know.
 */
const [major, minor] = process.versions.node.split('.').map(Number) as [number, number];

if (major > 20 || (major === 20 && minor >= 19)) {
  const { run } = await import('./commands/program.ts');
  await run();
} else {
  process.stderr.write(
    `standin: This is Node ${process.versions.node}, but Standin needs Node 20.19 or newer. Install it from https://nodejs.org\n`,
  );
  process.exitCode = 1;
}

export {};
