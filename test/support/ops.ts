import { request } from 'node:http';
import { afterAll, beforeAll } from 'vitest';
import { type ConsoleState, type Sample, SESSION_HEADERS } from '#console';
import { freePort } from './processes.ts';
import { type Place, type Service, startService, until, usualPlace } from './service.ts';

export type OpsService = Service & { readonly opsUrl: string };

/** A service with an ops listener. */
export async function startWithOps(
  place: Place,
  env: Record<string, string> = {},
): Promise<OpsService> {
  const service = await startService(place, { OPS_PORT: String(await freePort()), ...env });
  return { ...service, opsUrl: service.opsUrl! };
}

/** A service with an ops listener for all tests of a file or block. */
export function servedOps(
  start: () => Promise<OpsService> = async () => startWithOps(await usualPlace()),
): { readonly service: OpsService } {
  const at = {} as { service: OpsService };
  beforeAll(async () => {
    at.service = await start();
  });
  afterAll(async () => {
    await at.service?.stop();
    at.service?.place.remove();
  });
  return at;
}

export interface OpsAnswer {
  readonly status: number;
  readonly headers: NodeJS.Dict<string | string[]>;
  readonly text: string;
}

/** Sends a request with exactly these headers. `fetch` would not send the test's Host or Origin. */
export function ask(
  url: string,
  method = 'GET',
  headers: Record<string, string> = {},
  body?: string | Uint8Array,
  localAddress?: string,
): Promise<OpsAnswer> {
  return new Promise((resolve, reject) => {
    const options = {
      method,
      headers,
      agent: false,
      ...(localAddress && { localAddress }),
    } as const;
    const sent = request(url, options, (response) => {
      let text = '';
      response.on('data', (chunk) => {
        text += chunk;
      });
      response.on('error', reject);
      response.on('end', () =>
        resolve({ status: response.statusCode!, headers: response.headers, text }),
      );
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

/** What a browser and its page send after this answer to a sign-in. */
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
export interface Watcher {
  readonly status: number;
  readonly events: { readonly name: string; readonly data: any }[];
  readonly samples: () => Sample[];
  readonly hasEnded: () => boolean;
  /** Resolves to the next event of this name that fits. */
  next(name: string, fits?: (data: any) => boolean): Promise<any>;
  close(): void;
}

export async function watch(
  opsUrl: string,
  headers: Record<string, string> = {},
): Promise<Watcher> {
  const abort = new AbortController();
  const response = await fetch(`${opsUrl}/console/events`, { headers, signal: abort.signal });
  const events: Watcher['events'] = [];
  let hasEnded = false;
  void (async () => {
    let text = '';
    const decoder = new TextDecoder();
    for await (const chunk of response.body!) {
      text += decoder.decode(chunk, { stream: true });
      for (let end = text.indexOf('\n\n'); end !== -1; end = text.indexOf('\n\n')) {
        const found = /^event: (\w+)\ndata: (.*)$/.exec(text.slice(0, end));
        if (found !== null) events.push({ name: found[1]!, data: JSON.parse(found[2]!) });
        text = text.slice(end + 2);
      }
    }
  })()
    .catch(() => {})
    .finally(() => {
      hasEnded = true;
    });
  return {
    status: response.status,
    events,
    hasEnded: () => hasEnded,
    samples: () =>
      events.flatMap(({ name, data }) =>
        name === 'history' ? data : name === 'sample' ? [data] : [],
      ),
    async next(name, fits = () => true) {
      const from = events.length;
      const found = () => events.slice(from).find((one) => one.name === name && fits(one.data));
      await until(() => found() !== undefined, `an event ${name}`);
      return found()!.data;
    },
    close: () => abort.abort(),
  };
}
