import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { type ConsoleState, type Sample, SESSION_HEADERS } from '#console';
import { EventReader } from '../../packages/console/src/event-stream.ts';
import { freePort } from './processes.ts';
import { noteSecrets } from './secrecy.ts';
import { served } from './served.ts';
import { type Place, type Service, startService, until, usualPlace } from './service.ts';

export type OpsService = Service & { readonly opsUrl: string };
type Headers = Readonly<Record<string, string>>;

export const JSON_TYPE = { 'content-type': 'application/json' };
export const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

/** A service with an ops listener. */
export async function startWithOps(
  place: Place,
  env: Record<string, string> = {},
): Promise<OpsService> {
  noteSecrets(env.OPS_TOKEN);
  const service = await startService(place, { OPS_PORT: String(await freePort()), ...env });
  return { ...service, opsUrl: service.opsUrl!.replace('0.0.0.0', '127.0.0.1') };
}

/** A service with an ops listener for all tests of a file or block. */
export function servedOps(
  env: Record<string, string> | ((place: Place) => Record<string, string>) = {},
  newPlace: () => Promise<Place> = usualPlace,
) {
  const service = served(async () => {
    const place = await newPlace();
    return startWithOps(place, typeof env === 'function' ? env(place) : env);
  });
  return {
    service,
    /** Sends a request to a path of its ops listener. */
    ask: (path: string, ...more: More) => ask(service.opsUrl + path, ...more),
  };
}

export interface OpsAnswer {
  readonly status: number;
  readonly headers: NodeJS.Dict<string | string[]>;
  readonly text: string;
}

type More = [method?: string, headers?: Headers, body?: string | Uint8Array, from?: string];

/**
 * Sends a request with exactly these headers. `fetch` would not send the test's Host or Origin.
 * @param more also the address that it is sent from: wrong tokens slow an address
 */
export async function ask(url: string, ...more: More): Promise<OpsAnswer> {
  const [method = 'GET', headers = {}, body, localAddress] = more;
  const sent = request(url, { method, headers, agent: false, localAddress });
  // What is refused early may end the connection before all of it is sent.
  sent.on('error', () => {}).end(body);
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  return {
    ...{ status: response.statusCode!, headers: response.headers },
    text: await text(response),
  };
}

/** The status and, of a refusal, its code. */
export function refusalIn({ status, text }: OpsAnswer): [status: number, code: unknown] {
  return [status, JSON.parse(text || '{}').error];
}

/** The headers that a browser and its page send after this response to a sign-in. */
export function sessionIn(
  name: keyof typeof SESSION_HEADERS,
  { headers, text }: Pick<OpsAnswer, 'headers' | 'text'>,
): { readonly cookie: string; readonly [header: string]: string } {
  const cookie = String(headers['set-cookie']).split(';')[0]!;
  return { cookie, [SESSION_HEADERS[name].toLowerCase()]: JSON.parse(text).page_secret };
}

export async function stateOf(opsUrl: string): Promise<ConsoleState> {
  return JSON.parse((await ask(`${opsUrl}/console/state`)).text);
}

/** A stream of events, which is read continuously. */
export type Watcher = Awaited<ReturnType<typeof watch>>;

export async function watch(opsUrl: string, headers: Headers = {}) {
  const abort = new AbortController();
  const response = await fetch(`${opsUrl}/console/events`, { headers, signal: abort.signal });
  const events: { readonly name: string; readonly data: any }[] = [];
  let hasEnded = false;
  const read = async () => {
    const reader = new EventReader();
    for await (const chunk of response.body!.pipeThrough(new TextDecoderStream()))
      for (const [name, data] of reader.read(chunk)) events.push({ name, data: JSON.parse(data) });
  };
  void read()
    .catch(() => {})
    .finally(() => {
      hasEnded = true;
    });
  return {
    ...{ status: response.status, events },
    hasEnded: () => hasEnded,
    samples: (): Sample[] =>
      events.flatMap(({ name, data }) => (/^(history|sample)$/.test(name) ? data : [])),
    /** Resolves to the next event of this name that fits. */
    async next(name: string, fits: (data: any) => boolean = () => true): Promise<any> {
      const from = events.length;
      const found = () => events.slice(from).find((one) => one.name === name && fits(one.data));
      await until(() => found() !== undefined, `an event ${name}`);
      return found()!.data;
    },
    close: () => abort.abort(),
  };
}
