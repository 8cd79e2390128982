import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type Answer, type Asked, SealingKey } from './cloud.ts';
import { KeyServiceStandIn } from './clouds.ts';
import { freePort } from './processes.ts';
import { until } from './service.ts';

/**
 * The HTTP interface of the transit engine of Vault and OpenBao, for datakey/wrapped and decrypt.
 * Paths, headers, statuses and error bodies are the same as in OpenBao 2.6.2.
 * test/kek/openbao.test.ts compares the two.
 */
export class TransitStandIn extends KeyServiceStandIn {
  readonly path = '';
  readonly token = 's.test-token';
  namespace: string | undefined;
  readonly #key = new SealingKey();

  get environment(): Record<string, string> {
    const settings = { KEK_TRANSIT_URL: this.url, KEK_TRANSIT_KEY: 'standin' };
    return { ...settings, VAULT_TOKEN: this.token };
  }

  encrypt(kek: Buffer): Buffer {
    return Buffer.from(`vault:v1:${this.#key.seal(kek).toString('base64')}\n`);
  }

  error(status: number): Answer {
    return errors(status, 'secret words of the server');
  }

  protected answer({ path, headers, body }: Asked): Answer {
    const namespace = headers['x-vault-namespace'];
    if (namespace !== undefined && namespace !== this.namespace)
      return errors(404, 'namespace not found');
    if (headers['x-vault-token'] !== this.token) return errors(403, 'permission denied');
    const name = /^\/v1\/transit\/decrypt\/([^/]+)$/.exec(path)?.[1];
    if (name === undefined || namespace !== this.namespace)
      return errors(404, `no handler for route "${path.slice(4)}". route entry not found.`);
    if (name !== 'standin') return errors(400, 'encryption key not found');
    const [, base64 = ''] = /^vault:v1:(.*)$/.exec(JSON.parse(body).ciphertext) ?? [];
    const plain = this.#key.open(Buffer.from(base64, 'base64'));
    if (plain === undefined) return errors(400, 'cipher: message authentication failed');
    return { status: 200, body: { data: { plaintext: plain.toString('base64') } } };
  }
}

function errors(status: number, text: string): Answer {
  return { status, body: { errors: [text] } };
}

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
