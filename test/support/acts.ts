import { copyFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { admin } from './admin.ts';
import { testKey } from './keys.ts';
import { call, type Place, runCli, type Service } from './service.ts';

/** Rows of one statement, as a server has them. */
export type Rows = (text: string, values?: readonly unknown[]) => Promise<Record<string, any>[]>;

/** A vault on which acts are done. */
export interface Stage {
  readonly place: Place;
  /** With the admin API. */
  readonly node: Service;
  /** 32 hex digits. */
  readonly fingerprintOf: (token: string) => string;
}

/** How an act ended. */
export interface Ended {
  /** 0, or 2xx. */
  readonly isAcknowledged: boolean;
  readonly text: string;
}

/** An act on something of its own. */
interface Prepared {
  /** Does it, or does it again. */
  run(): Promise<Ended>;
  /** Whether what an acknowledgement says is so on this server. */
  holds(rows: Rows): Promise<boolean>;
}

/** @param id a name that no other act has */
type Prepare = (stage: Stage, id: string) => Promise<Prepared>;

/** A command, and what its standard output says that must hold. */
function byCommand(
  words: (stage: Stage, id: string) => Promise<string[]> | string[],
  holds: (rows: Rows, id: string, stdout: string, stage: Stage) => Promise<boolean>,
  after: (stage: Stage, id: string) => void = () => {},
): Prepare {
  return async (stage, id) => {
    const args = await words(stage, id);
    let said = '';
    return {
      async run() {
        const { code, stdout, stderr } = await runCli([...args, '--json'], stage.place);
        if (code === 0) said = stdout;
        if (code === 0) after(stage, id);
        return { isAcknowledged: code === 0, text: `${code} ${stdout}${stderr}` };
      },
      holds: (rows) => holds(rows, id, said, stage),
    };
  };
}

/** A request to the admin API. */
function byRequest(
  request: (stage: Stage, id: string) => Promise<[string, string, unknown?]>,
  holds: (rows: Rows, id: string, body: any, stage: Stage) => Promise<boolean>,
): Prepare {
  return async (stage, id) => {
    const [method, path, json] = await request(stage, id);
    let said: unknown;
    return {
      async run() {
        const { status, body } = await admin(stage.node.opsUrl!, method, path, json);
        const isAcknowledged = status < 300;
        if (isAcknowledged) said = body;
        return { isAcknowledged, text: `${status} ${JSON.stringify(body)}` };
      },
      holds: (rows) => holds(rows, id, said, stage),
    };
  };
}

const has = async (rows: Rows, text: string, ...values: unknown[]) =>
  (await rows(`select ${text} as yes`, values))[0]!.yes === true;
const CLIENT = 'select from standin.clients where name = $1';
const clientThat = (what: string) => (rows: Rows, id: string) =>
  has(rows, `exists (${CLIENT} and ${what})`, id);
const apiKeyThat =
  (what: string, idOf: (said: any) => string) => (rows: Rows, _: string, said: any) =>
    has(
      rows,
      `exists (select from standin.api_keys where api_key_id = $1 and ${what})`,
      idOf(said),
    );
const fromJson = (name: string) => (stdout: string) => JSON.parse(stdout)[name];

async function newClient({ node }: Stage, id: string): Promise<string> {
  await admin(node.opsUrl!, 'PUT', `/clients/${id}`, {});
  return id;
}

async function newApiKey(stage: Stage, id: string): Promise<string> {
  const path = `/clients/${await newClient(stage, id)}/api-keys`;
  return (await admin(stage.node.opsUrl!, 'POST', path, {})).body.api_key_id;
}

/** A token that the test knows before it is imported. */
const importedToken = (id: string) => `${id.replaceAll('-', '')}_tok`;

function fileOf({ place }: Stage, name: string, text: string | Buffer): string {
  const file = join(place.folder, name);
  writeFileSync(file, text, { mode: 0o600 });
  return file;
}

const policyOf = (id: string) => `# ${id}\nversion: 1\n`;
const hasPolicy = (rows: Rows, id: string) =>
  has(rows, 'exists (select from standin.policies where document = $1)', policyOf(id));

/** Tokens of the values that were tokenized for an act, by the value. */
const keptTokens = new Map<string, string>();

async function keptToken({ node }: Stage, id: string): Promise<string> {
  const token = (await call(node, 'tokenize', { value: id })).body.data.value;
  keptTokens.set(id, token);
  return token;
}

const fingerprint = ({ fingerprintOf }: Stage, id: string) => fingerprintOf(keptTokens.get(id)!);
const hasRecord = (rows: Rows, of: string, that: string, ...values: unknown[]) =>
  has(
    rows,
    `exists (select from standin.records where token_fingerprint = $1::uuid and ${that})`,
    of,
    ...values,
  );
const isForgotten = (rows: Rows, id: string, _: unknown, stage: Stage) =>
  hasRecord(rows, fingerprint(stage, id), 'octet_length(sealed) = 0');
const newKek = (stage: Stage, id: string) =>
  fileOf(stage, `kek-${id}`, testKey(`rewrap ${id}`).toString('hex'));

const hasVersion = (rows: Rows, version: number) =>
  has(rows, "(select max(version) from standin.keyring where purpose = 'dek') >= $1", version);

/** Acts that do not depend on each other, by their name on the command line or in the audit log. */
export const ACTS: Readonly<Record<string, Prepare>> = {
  migrate: byCommand(
    () => ['migrate'],
    (rows) => has(rows, 'exists (select from standin.migrations)'),
  ),
  'client create': byCommand((_, id) => ['client', 'create', '--name', id], clientThat('true')),
  'client update': byCommand(
    async (stage, id) => ['client', 'update', await newClient(stage, id), '--rate-limit', '7'],
    clientThat('rate_limit = 7'),
  ),
  'client disable': byCommand(
    async (stage, id) => ['client', 'disable', await newClient(stage, id)],
    clientThat('disabled_at is not null'),
  ),
  'api-key issue': byCommand(
    async (stage, id) => ['api-key', 'issue', '--client', await newClient(stage, id)],
    apiKeyThat('revoked_at is null', fromJson('api_key_id')),
  ),
  'api-key revoke': byCommand(
    async (stage, id) => ['api-key', 'revoke', await newApiKey(stage, id)],
    apiKeyThat('revoked_at is not null', fromJson('api_key_id')),
  ),
  'policy apply': byCommand(
    (stage, id) => ['policy', 'apply', fileOf(stage, `${id}.yaml`, policyOf(id))],
    hasPolicy,
  ),
  import: byCommand(
    (stage, id) => [
      'import',
      fileOf(stage, `${id}.csv`, `token,value\n${importedToken(id)},value of ${id}\n`),
    ],
    (rows, id, _, { fingerprintOf }) => hasRecord(rows, fingerprintOf(importedToken(id)), 'true'),
  ),
  forget: byCommand(
    async (stage, id) => ['forget', '--yes', await keptToken(stage, id)],
    isForgotten,
  ),
  'client.put': byRequest(async (_, id) => ['PUT', `/clients/${id}`, {}], clientThat('true')),
  'client.update': byRequest(
    async (stage, id) => ['PATCH', `/clients/${await newClient(stage, id)}`, { rate_limit: 7 }],
    clientThat('rate_limit = 7'),
  ),
  'client.disable': byRequest(
    async (stage, id) => ['DELETE', `/clients/${await newClient(stage, id)}`],
    clientThat('disabled_at is not null'),
  ),
  'api_key.issue': byRequest(
    async (stage, id) => ['POST', `/clients/${await newClient(stage, id)}/api-keys`, {}],
    apiKeyThat('revoked_at is null', (body) => body.api_key_id),
  ),
  'api_key.revoke': byRequest(
    async (stage, id) => ['DELETE', `/api-keys/${await newApiKey(stage, id)}`],
    apiKeyThat('revoked_at is not null', (body) => body.api_key_id),
  ),
  'policy.apply': byRequest(
    async (_, id) => ['PUT', '/policy', { document: policyOf(id) }],
    hasPolicy,
  ),
  'forget.token': byRequest(
    async (stage, id) => ['POST', '/forget', { tokens: [await keptToken(stage, id)] }],
    isForgotten,
  ),
  'forget.value': byRequest(async (stage, id) => {
    await keptToken(stage, id);
    return ['POST', '/forget', { values: [id] }];
  }, isForgotten),
};

/** Work on keys, which happens in this order. */
export const KEY_ACTS: Readonly<Record<string, Prepare>> = {
  'keyring rotate': byCommand(
    () => ['keyring', 'rotate'],
    (rows, _, stdout) => hasVersion(rows, JSON.parse(stdout).version),
  ),
  'keyring.rotate': byRequest(
    async () => ['POST', '/keyring/rotate', {}],
    (rows, _, { version }) => hasVersion(rows, version),
  ),
  'keyring reseal': byCommand(
    async (stage, id) => {
      await keptToken(stage, id);
      return ['keyring', 'reseal'];
    },
    (rows, id, stdout, stage) =>
      hasRecord(rows, fingerprint(stage, id), 'key_version >= $2', JSON.parse(stdout).key_version),
  ),
  'keyring retire': byCommand(
    () => ['keyring', 'retire', '1'],
    (rows) =>
      has(rows, "not exists (select from standin.keyring where purpose = 'dek' and version = 1)"),
  ),
  'keyring rewrap': byCommand(
    (stage, id) => ['keyring', 'rewrap', '--new-kek-file', newKek(stage, id)],
    (rows, _, stdout) =>
      has(
        rows,
        'not exists (select from standin.keyring where kek_id <> $1)',
        JSON.parse(stdout).kek_id,
      ),
    // As its output asks; the old one is gone.
    (stage, id) => copyFileSync(newKek(stage, id), stage.place.env.KEK_FILE!),
  ),
};
