import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from './ports.ts';
import { until } from './service.ts';

/** The path of OpenBao; undefined: not installed. */
export const openbao = findProgram();

function findProgram(): string | undefined {
  const folders = [process.env.TEST_OPENBAO_BIN ?? '', ...(process.env.PATH ?? '').split(':')];
  return folders.map((folder) => join(folder, 'bao')).find((path) => existsSync(path));
}

/** The test's own OpenBao server, in memory, with a transit engine. */
export class OpenBao {
  readonly url: string;
  readonly #child: ChildProcess;

  private constructor(url: string, child: ChildProcess) {
    this.url = url;
    this.#child = child;
  }

  static async start(): Promise<OpenBao> {
    const address = `127.0.0.1:${await freePort()}`;
    const options = ['-dev', '-dev-no-store-token', '-dev-root-token-id=root'];
    const child = spawn(openbao!, ['server', ...options, `-dev-listen-address=${address}`], {
      stdio: 'ignore',
    });
    const bao = new OpenBao(`http://${address}`, child);
    const isUp = () =>
      bao.call('GET', 'sys/mounts').then(
        () => true,
        () => false,
      );
    await until(isUp, 'OpenBao to listen');
    await bao.call('POST', 'sys/mounts/transit', { type: 'transit' });
    return bao;
  }

  stop(): void {
    this.#child.kill('SIGKILL');
  }

  /** Sends a request of the operator, with the root token. */
  async call(method: string, path: string, body?: unknown): Promise<any> {
    const response = await fetch(`${this.url}/v1/${path}`, {
      method,
      headers: { 'x-vault-token': 'root' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${path}: ${response.status} ${text}`);
    return text === '' ? undefined : JSON.parse(text);
  }

  /** A token with only the rights from docs/operating/kek.md. */
  async limitedToken(key: string): Promise<string> {
    const policy = `path "transit/decrypt/${key}" { capabilities = ["update"] }`;
    await this.call('POST', 'sys/policies/acl/standin', { policy });
    const wanted = { policies: ['standin'], no_default_policy: true };
    return (await this.call('POST', 'auth/token/create', wanted)).auth.client_token;
  }
}
