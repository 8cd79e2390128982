import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from '../test/support/processes.ts';
import { post } from './interfaces.ts';
import type { Leftovers } from './leftovers.ts';
import { end, healthy } from './processes.ts';

/** Differences from Standin, because rows of one table suggest that both do the same. */
export const OPENBAO_NOTE =
  'a Go program on all cores, asked in its own interface and checked like the others. It stores nothing: the caller keeps three ciphertexts (aes256-gcm96), new ones each time. No database and no fsync is in its figures.';

/** What the program tells of its version; undefined: no such program. */
export function versionOf(program: string): string | undefined {
  const { stdout } = spawnSync(program, ['--version'], { encoding: 'utf8' });
  return /\d+\.\d+\.\d+/.exec(stdout ?? '')?.[0];
}

/** An unsealed single-node server in memory, with a token that may only use one key. */
export async function startOpenBao(program: string, folder: string, leftovers: Leftovers) {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const config = {
    storage: { inmem: {} },
    listener: [{ tcp: { address: `127.0.0.1:${port}`, tls_disable: true } }],
    api_addr: url,
  };
  const file = join(folder, 'openbao.json');
  writeFileSync(file, JSON.stringify(config));
  // Settings of the user's own installation must not reach it.
  const { PATH, HOME } = process.env;
  const options = { cwd: folder, env: { PATH, HOME }, stdio: 'ignore' } as const;
  const child = spawn(program, ['server', `-config=${file}`], options);
  // Fails with the reason why the file cannot run.
  await once(child, 'spawn');
  leftovers.add(() => end(child, 'SIGTERM'));
  await healthy(`${url}/v1/sys/seal-status`, child);
  const ask = (path: string, secret: string, body: object) =>
    post(`${url}/v1/${path}`, { 'x-vault-token': secret }, JSON.stringify(body));
  const made = await ask('sys/init', '', { secret_shares: 1, secret_threshold: 1 });
  await ask('sys/unseal', '', { key: made.keys_base64[0] });
  const root = made.root_token;
  await ask('sys/mounts/transit', root, { type: 'transit' });
  await ask('transit/keys/bench', root, { type: 'aes256-gcm96' });
  const policy = 'path "transit/+/bench" { capabilities = ["update"] }';
  await ask('sys/policies/acl/bench', root, { policy });
  const { auth } = await ask('auth/token/create', root, { policies: ['bench'] });
  return { pid: child.pid!, url, apiKey: auth.client_token };
}
