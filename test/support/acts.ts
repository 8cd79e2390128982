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
/** Whether what an acknowledgement says is so on this server. */
type Holds = (rows: Rows, id: string, said: any, stage: Stage) => Promise<boolean>;

/** Tokens of the values that were tokenized for an act, by the value. */
const keptTokens = new Map<string, string>();
/** A token that the test knows before it is imported. */
const importedToken = (id: string) => `${id.replaceAll('-', '')}_tok`;
const policyOf = (id: string) => `# ${id}\nversion: 1\n`;
const kekFile = ({ place }: Stage, id: string) => join(place.folder, `kek-${id}`);

function fileOf(path: string, text: string): string {
  writeFileSync(path, text, { mode: 0o600 });
  return path;
}

/** What an act works on, by its name in WORDS. Each is the act's own. */
const OBJECTS: Readonly<Record<string, (stage: Stage, id: string) => Promise<string> | string>> = {
  id: (_, id) => id,
  client: async ({ node }, id) => {
    await admin(node.opsUrl!, 'PUT', `/clients/${id}`, {});
    return id;
  },
  apiKey: async ({ node }, id) => {
    await admin(node.opsUrl!, 'PUT', `/clients/${id}`, {});
    const { body } = await admin(node.opsUrl!, 'POST', `/clients/${id}/api-keys`, {});
    return body.api_key_id;
  },
  token: async ({ node }, id) => {
    const token = (await call(node, 'tokenize', { value: id })).body.data.value;
    keptTokens.set(id, token);
    return token;
  },
  value: async (stage, id) => {
    await OBJECTS.token!(stage, id);
    return id;
  },
  policy: (_, id) => policyOf(id),
  policyFile: ({ place }, id) => fileOf(join(place.folder, `${id}.yaml`), policyOf(id)),
  pairsFile: ({ place }, id) =>
    fileOf(join(place.folder, `${id}.csv`), `token,value\n${importedToken(id)},value of ${id}\n`),
  kekFile: (stage, id) => fileOf(kekFile(stage, id), testKey(`rewrap ${id}`).toString('hex')),
};

/**
 * An act on something of its own: a command, or a request to the admin API. `run` does it, or does
 * it again.
 * @param words of the command, or method, path and body; `$name` stands for one of OBJECTS
 * @param after what its output asks for
 */
function act(words: string, holds: Holds, after: (stage: Stage, id: string) => void = () => {}) {
  const isRequest = /^[A-Z]/.test(words);
  return async (stage: Stage, id: string) => {
    const filled: string[] = [];
    for (const word of words.split(' ')) {
      const [mark, name] = /\$(\w+)/.exec(word) ?? ['', ''];
      const object = name === '' ? '' : await OBJECTS[name]!(stage, id);
      const text = word.startsWith('{') ? JSON.stringify(object).slice(1, -1) : object;
      filled.push(word.replace(mark, () => text));
    }
    const request = async (): Promise<Done> => {
      const [method, path, body] = filled;
      const sent = body === undefined ? undefined : JSON.parse(body);
      const { status, body: said } = await admin(stage.node.opsUrl!, method!, path!, sent);
      return { isAcknowledged: status < 300, said, text: `${status} ${JSON.stringify(said)}` };
    };
    const command = async (): Promise<Done> => {
      const { code, stdout, stderr } = await runCli([...filled, '--json'], stage.place);
      if (code === 0) after(stage, id);
      const said = code === 0 ? JSON.parse(stdout) : undefined;
      return { isAcknowledged: code === 0, said, text: `${code} ${stdout}${stderr}` };
    };
    let said: any;
    const run = async (): Promise<Ended> => {
      const ended = await (isRequest ? request() : command());
      if (ended.isAcknowledged) said = ended.said;
      return ended;
    };
    return { run, holds: (rows: Rows) => holds(rows, id, said, stage) };
  };
}
type Act = ReturnType<typeof act>;

const has = async (rows: Rows, text: string, ...values: unknown[]) =>
  (await rows(`select ${text} as yes`, values))[0]!.yes === true;
/** Whether a row with this value is as a condition says. */
const hasRow = (rows: Rows, table: string, column: string, value: string, that: string) =>
  has(rows, `exists (select from standin.${table} where ${column} = $1 and ${that})`, value);
const clientThat =
  (that: string): Holds =>
  (rows, id) =>
    hasRow(rows, 'clients', 'name', id, that);
const apiKeyThat =
  (that: string): Holds =>
  (rows, _, said) =>
    hasRow(rows, 'api_keys', 'api_key_id', said.api_key_id, that);
const recordThat =
  (that: string): Holds =>
  (rows, id, _, { fingerprintOf }) =>
    hasRow(rows, 'records', HEX_FINGERPRINT, fingerprintOf(tokenOf(id)), that);
const tokenOf = (id: string) => keptTokens.get(id) ?? importedToken(id);
const HEX_FINGERPRINT = "replace(token_fingerprint::text, '-', '')";
const hasPolicy: Holds = (rows, id) => hasRow(rows, 'policies', 'document', policyOf(id), 'true');
const isForgotten = recordThat('octet_length(sealed) = 0');
const dekThat = (that: string) =>
  `exists (select from standin.keyring where purpose = 'dek' and ${that})`;
const hasVersion: Holds = (rows, _, { version }) => has(rows, dekThat('version >= $1'), version);

/** Acts that do not depend on each other, by their name on the command line or in the audit log. */
export const ACTS: Readonly<Record<string, Act>> = {
  migrate: act('migrate', (rows) => has(rows, 'exists (select from standin.migrations)')),
  'client create': act('client create --name $id', clientThat('true')),
  'client update': act('client update $client --rate-limit 7', clientThat('rate_limit = 7')),
  'client disable': act('client disable $client', clientThat('disabled_at is not null')),
  'api-key issue': act('api-key issue --client $client', apiKeyThat('revoked_at is null')),
  'api-key revoke': act('api-key revoke $apiKey', apiKeyThat('revoked_at is not null')),
  'policy apply': act('policy apply $policyFile', hasPolicy),
  import: act('import $pairsFile', recordThat('true')),
  forget: act('forget --yes $token', isForgotten),
  'client.put': act('PUT /clients/$id {}', clientThat('true')),
  'client.update': act('PATCH /clients/$client {"rate_limit":7}', clientThat('rate_limit = 7')),
  'client.disable': act('DELETE /clients/$client', clientThat('disabled_at is not null')),
  'api_key.issue': act('POST /clients/$client/api-keys {}', apiKeyThat('revoked_at is null')),
  'api_key.revoke': act('DELETE /api-keys/$apiKey', apiKeyThat('revoked_at is not null')),
  'policy.apply': act('PUT /policy {"document":"$policy"}', hasPolicy),
  'forget.token': act('POST /forget {"tokens":["$token"]}', isForgotten),
  'forget.value': act('POST /forget {"values":["$value"]}', isForgotten),
};

/** Work on keys, which happens in this order. */
export const KEY_ACTS: Readonly<Record<string, Act>> = {
  'keyring rotate': act('keyring rotate', hasVersion),
  'keyring.rotate': act('POST /keyring/rotate {}', hasVersion),
  'keyring reseal': async (stage, id) => {
    // A record that has to be resealed.
    await OBJECTS.token!(stage, id);
    const isResealed: Holds = (rows, _, said, on) =>
      recordThat(`key_version >= ${said.key_version}`)(rows, id, said, on);
    return act('keyring reseal', isResealed)(stage, id);
  },
  'keyring retire': act(
    'keyring retire 1',
    async (rows) => !(await has(rows, dekThat('version = 1'))),
  ),
  'keyring rewrap': act(
    'keyring rewrap --new-kek-file $kekFile',
    (rows, _, said) =>
      has(rows, 'not exists (select from standin.keyring where kek_id <> $1)', said.kek_id),
    // The old one is gone.
    (stage, id) => copyFileSync(kekFile(stage, id), stage.place.env.KEK_FILE!),
  ),
};
