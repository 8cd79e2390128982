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

/** How an act ended. `isAcknowledged`: 0, or 2xx. */
export interface Ended {
  readonly isAcknowledged: boolean;
  readonly text: string;
}

/** How an act is done, and what it says when it is. */
type Done = Ended & { readonly said: any };

/**
 * An act on something of its own. `run` does it, or does it again; `holds`: whether what an
 * acknowledgement says is so on this server.
 * @param id a name that no other act has
 * @param prepare prepares the act, which can then be done
 */
function act(
  prepare: (stage: Stage, id: string) => Promise<() => Promise<Done>>,
  holds: (rows: Rows, id: string, said: any, stage: Stage) => Promise<boolean>,
) {
  return async (stage: Stage, id: string) => {
    const done = await prepare(stage, id);
    let said: any;
    const run = async (): Promise<Ended> => {
      const ended = await done();
      if (ended.isAcknowledged) said = ended.said;
      return ended;
    };
    return { run, holds: (rows: Rows) => holds(rows, id, said, stage) };
  };
}
type Act = ReturnType<typeof act>;
type Holds = Parameters<typeof act>[1];

/** A command, and what the JSON that it prints says that must hold. */
function byCommand(
  words: (stage: Stage, id: string) => Promise<string[]> | string[],
  holds: Holds,
  after: (stage: Stage, id: string) => void = () => {},
): Act {
  return act(async (stage, id) => {
    const args = [...(await words(stage, id)), '--json'];
    return async () => {
      const { code, stdout, stderr } = await runCli(args, stage.place);
      if (code === 0) after(stage, id);
      const said = code === 0 ? JSON.parse(stdout) : undefined;
      return { isAcknowledged: code === 0, said, text: `${code} ${stdout}${stderr}` };
    };
  }, holds);
}

/** A request to the admin API. */
function byRequest(
  request: (stage: Stage, id: string) => Promise<[string, string, unknown?]>,
  holds: Holds,
): Act {
  return act(async (stage, id) => {
    const [method, path, json] = await request(stage, id);
    return async () => {
      const { status, body } = await admin(stage.node.opsUrl!, method, path, json);
      return {
        ...{ isAcknowledged: status < 300, said: body },
        text: `${status} ${JSON.stringify(body)}`,
      };
    };
  }, holds);
}

const has = async (rows: Rows, text: string, ...values: unknown[]) =>
  (await rows(`select ${text} as yes`, values))[0]!.yes === true;
/** Whether a row with this id is as a condition says. */
const rowThat = (table: string, column: string, what: string) => (rows: Rows, id: string) =>
  has(rows, `exists (select from standin.${table} where ${column} = $1 and ${what})`, id);
const clientThat = (what: string) => rowThat('clients', 'name', what);
const apiKeyThat = (what: string) => (rows: Rows, _: string, said: any) =>
  rowThat('api_keys', 'api_key_id', what)(rows, said.api_key_id);

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
  rowThat('policies', 'document', 'true')(rows, policyOf(id));

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
export const ACTS: Readonly<Record<string, Act>> = {
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
    apiKeyThat('revoked_at is null'),
  ),
  'api-key revoke': byCommand(
    async (stage, id) => ['api-key', 'revoke', await newApiKey(stage, id)],
    apiKeyThat('revoked_at is not null'),
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
    apiKeyThat('revoked_at is null'),
  ),
  'api_key.revoke': byRequest(
    async (stage, id) => ['DELETE', `/api-keys/${await newApiKey(stage, id)}`],
    apiKeyThat('revoked_at is not null'),
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
export const KEY_ACTS: Readonly<Record<string, Act>> = {
  'keyring rotate': byCommand(
    () => ['keyring', 'rotate'],
    (rows, _, { version }) => hasVersion(rows, version),
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
    (rows, id, said, stage) =>
      hasRecord(rows, fingerprint(stage, id), 'key_version >= $2', said.key_version),
  ),
  'keyring retire': byCommand(
    () => ['keyring', 'retire', '1'],
    (rows) =>
      has(rows, "not exists (select from standin.keyring where purpose = 'dek' and version = 1)"),
  ),
  'keyring rewrap': byCommand(
    (stage, id) => ['keyring', 'rewrap', '--new-kek-file', newKek(stage, id)],
    (rows, _, said) =>
      has(rows, 'not exists (select from standin.keyring where kek_id <> $1)', said.kek_id),
    // As its output asks; the old one is gone.
    (stage, id) => copyFileSync(newKek(stage, id), stage.place.env.KEK_FILE!),
  ),
};
