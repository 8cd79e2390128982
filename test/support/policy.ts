import { beforeAll, inject } from 'vitest';
import { bearer, type OpsService, servedOps } from './ops.ts';
import { expectNoSecretIn, noteSecrets } from './secrecy.ts';
import {
  createClient,
  newPlace,
  type Place,
  type Service,
  startService,
  until,
  usualPlace,
} from './service.ts';
import { sql } from './vault.ts';

type More = Readonly<Record<string, string>>;

const ALL = ['--can', 'tokenize,detokenize,lookup'];

/**
 * Serves a vault under a policy, for all tests of a block. The client `app` may do everything.
 * @param clients the options of other clients, by name
 */
export function governed(
  document: string | undefined,
  clients: Readonly<Record<string, readonly string[]>> = {},
  env: Record<string, string> | ((place: Place) => Record<string, string>) = {},
  makePlace = usualPlace,
) {
  const keys: Record<string, string> = {};
  const at = servedOps(env, makePlace);
  beforeAll(async () => {
    for (const [name, options] of Object.entries({ app: ALL, ...clients }))
      keys[name] = (await createClient(at.service.place, '--name', name, ...options)).api_key;
    if (document !== undefined) await applied(at.service, document);
  });
  /** Adds a version without the command, which would check it. Does not wait. */
  async function insert(text: string, { place } = at.service): Promise<number> {
    const next = 'select coalesce(max(version), 0) + 1, $1 from standin.policies returning version';
    const [row] = await sql(place, `insert into standin.policies (version, document) ${next}`, [
      text,
    ]);
    return row!.version;
  }
  async function applied(service: OpsService, text: string): Promise<void> {
    await inForce({ url: service.url, api_key: keys.app! }, await insert(text, service));
  }
  /**
   * Sends `{"data": data}`; a string is the JSON text of data. Without data: a GET.
   * @param who the name of a client, or an API key
   */
  async function send(
    to: string,
    data: unknown,
    who = 'app',
    more: More = {},
    { url }: { readonly url: string } = at.service,
  ) {
    const sent = typeof data === 'string' ? data : JSON.stringify(data);
    const values = data === undefined ? undefined : JSON.parse(sent);
    const response = await fetch(`${url}/api/v1/${to}`, {
      headers: {
        authorization: `Bearer ${keys[who] ?? who}`,
        'content-type': 'application/json',
        ...more,
      },
      ...(data === undefined ? {} : { method: 'POST', body: `{"data":${sent}}` }),
    });
    const { status, headers } = response;
    const text = await response.text();
    if (!response.ok) expectNoSecretIn(`${JSON.stringify([...headers])}${text}`, values);
    const body = JSON.parse(text);
    noteSecrets([values, body.data]);
    /** The text of `data`. */
    const dataText = text.slice(8, text.search(/,"(?:unapplied|status|request_id)":/));
    return { status, headers, text, body, data: dataText };
  }
  return {
    get service() {
      return at.service;
    },
    /** API keys by name. */
    keys,
    send,
    insert,
    /** As insert, and waits until the version is in force. */
    apply: (text: string) => applied(at.service, text),
  };
}

/** A service on a vault of its own, with this policy in force. */
export async function startWithPolicy(document: string): Promise<Service> {
  const place = await newPlace('server', inject('serverUrl'));
  const first = await startService(place);
  await applyPolicy(first, 1, document);
  await first.stop();
  // A policy is in force within 5 s, and at once for a node that starts.
  return { ...(await startService(place)), api_key: first.api_key };
}

/** Resolves when a node answers by this version of its policy. */
export async function inForce(
  { url, api_key: apiKey }: Pick<Service, 'url' | 'api_key'>,
  version: number,
): Promise<void> {
  const isInForce = async () => {
    const response = await fetch(`${url}/api/v1/policy`, { headers: bearer(apiKey) });
    return ((await response.json()) as { version?: number }).version === version;
  };
  await until(isInForce, `version ${version} of the policy in force`);
}

/** Adds a version without the command, which would check it. */
export async function applyPolicy(
  { place }: Pick<Service, 'place'>,
  version: number,
  document: string,
): Promise<void> {
  const insert = 'insert into standin.policies (version, document) values ($1, $2)';
  await sql(place, insert, [version, document]);
}
