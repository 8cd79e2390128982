import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { ADMIN_PATHS, type AdminSessionShown, type SignedIn, type TicketShown } from '#console';
import type { AdminEntry, StrangerEntry } from '../../audit/audit-log.ts';
import { errorOfChange } from '../../errors.ts';
import type { OpenApiDocument } from '../../openapi/document.ts';
import { checkedText, MAX_TURN_BYTES, parseObject } from '../../public/body/data.ts';
import type { AdminAccess } from '../access.ts';
import { refusal, refusalOf } from '../errors.ts';
import { notAllowed } from '../server.ts';
import { isReading, type OpsApp, type OpsContext, readJson, readToken } from '../web.ts';
import { ADMIN_OPERATIONS, ADMIN_PATH } from './document.ts';
import { type AdminOperation, type AdminParts, readBody } from './operation.ts';

const MAX_BODY_BYTES = 1_048_576;
const AN_OBJECT = 'a JSON object';
const MAX_UNDER_WAY = 20;

const DONE_WITHOUT_LINE =
  'audit log unavailable: the act was done, and the audit log has only its attempt. Look before you repeat it.';

export interface AdminApiOptions {
  readonly access: AdminAccess;
  readonly openParts: () => Promise<AdminParts>;
  readonly document: OpenApiDocument;
  /** The id of what a path names; null: there is none. */
  readonly idOf: (named: string) => Promise<string | null>;
  /** false: the process is about to end. */
  readonly isServing: () => boolean;
  /**
   * Called for each request of a known administrator, and before it when it can change something.
   * The act or the response waits for the promise.
   */
  readonly onAct: (entry: AdminEntry) => Promise<void> | undefined;
  readonly onStranger: (entry: StrangerEntry) => void;
}

/** Adds the routes of the admin API, and those by which administrators sign in to the console. */
export function addAdminApi(app: OpsApp, options: AdminApiOptions): void {
  const { access, document } = options;
  /** The line of the logs about each request. */
  const acts = new WeakMap<IncomingMessage, Act>();
  let underWay = 0;
  app.use(
    '/admin/*',
    async (c, next) => {
      const { incoming, outgoing } = c.env;
      const requestId = randomUUID();
      outgoing.setHeader('X-Request-Id', requestId);
      const admin = knownBy(options, incoming, () => access.callerOf(c));
      const act = actOf(incoming, requestId, admin);
      acts.set(incoming, act);
      await next();
      await end(options, c, act);
    },
    notAllowed(app),
  );
  app.get(`${ADMIN_PATH}/openapi.json`, (c) => {
    acts.get(c.env.incoming)!.act = 'openapi';
    return c.json(document);
  });
  for (const operation of ADMIN_OPERATIONS) {
    const path = ADMIN_PATH + operation.path.replaceAll(/\{(\w+)\}/g, ':$1');
    app.on(operation.method.toUpperCase(), path, async (c) => {
      const act = acts.get(c.env.incoming)!;
      act.act = operation.act;
      if (!options.isServing())
        throw refusal('overloaded', 'The service is stopping. Send the request to another node.');
      if (underWay >= MAX_UNDER_WAY)
        throw refusal('overloaded', `${MAX_UNDER_WAY} requests are under way. Try again.`);
      underWay++;
      return respond(options, c, operation, act).finally(() => underWay--);
    });
  }
  addSignIn(app, options);
}

/** Writes the last line about a request. */
async function end({ onAct }: AdminApiOptions, c: OpsContext, act: Act): Promise<void> {
  const refused = c.error && refusalOf(c.error);
  const outcome = c.res.ok ? 'success' : (refused?.code ?? 'not_found');
  const written = onAct({ ...act, outcome, status: c.res.status });
  // What failed has no need to be on the disk first.
  if (outcome !== 'success') return void written?.catch(() => {});
  await written?.catch((error) => {
    throw isReading(c.env.incoming) ? error : refusal('internal_error', DONE_WITHOUT_LINE);
  });
}

async function respond(
  { idOf, onAct, openParts }: AdminApiOptions,
  c: OpsContext,
  operation: AdminOperation,
  act: Act,
): Promise<Response> {
  const { incoming } = c.env;
  const named = namedBy(c);
  if (named !== '') act.target = await idOf(named);
  // Nothing changes without a line, even if the line about its end cannot be written.
  if (!isReading(incoming)) await onAct({ ...act });
  const body = operation.body ? readBody(await jsonOf(incoming), operation.body) : {};
  const call = { named, headers: incoming.headers, body };
  const done = openParts().then((parts) => operation.run(parts, call));
  const response = await done.catch((error) => {
    throw operation.changesNothing ? error : errorOfChange(error);
  });
  const { status = 200, body: json, etag, target = act.target, values } = response;
  Object.assign(act, { target, values });
  if (etag !== undefined) c.header('ETag', etag);
  return c.json(json as object, status);
}

/**
 * The line of the logs about a request. The target is never the text of a path: it could be a value
 * or a token.
 */
type Act = { -readonly [Name in keyof AdminEntry]: AdminEntry[Name] };

const actOf = ({ socket }: IncomingMessage, requestId: string, admin: string): Act => ({
  ...{ event: 'admin', act: 'none', target: null, outcome: 'attempt', status: undefined },
  ...{ request_id: requestId, admin, values: undefined, remote_address: socket.remoteAddress },
});

/** The client, API key or version in the path, decoded; '': there is none. @throws Refusal */
function namedBy(c: OpsContext): string {
  try {
    decodeURIComponent(c.req.path);
  } catch {
    throw refusal('invalid_type', 'path: must be valid percent-encoding of UTF-8');
  }
  return Object.values(c.req.param()).join();
}

async function jsonOf(request: IncomingMessage) {
  const { 'content-length': length = '0', 'transfer-encoding': encoding } = request.headers;
  if (length === '0' && encoding === undefined) return {};
  const body = await readJson(request, MAX_BODY_BYTES);
  const checked = checkedText(body, AN_OBJECT);
  if (body.length > MAX_TURN_BYTES) await nextTurn();
  return parseObject(checked, AN_OBJECT);
}

/** The result of `check`. Notifies of a caller who gets no access. */
function knownBy<T>(
  { onStranger }: AdminApiOptions,
  { socket }: IncomingMessage,
  check: () => T,
): T {
  try {
    return check();
  } catch (error) {
    const { code: outcome, status } = refusalOf(error);
    const entry = { event: 'admin', outcome, status, remote_address: socket.remoteAddress };
    onStranger(entry as StrangerEntry);
    throw error;
  }
}

function addSignIn(app: OpsApp, options: AdminApiOptions): void {
  const { access } = options;
  app.get(ADMIN_PATHS.session, (c) => {
    const name = access.find(c)?.name ?? null;
    return c.json({ name } satisfies AdminSessionShown);
  });
  app.post(ADMIN_PATHS.session, async (c) => {
    const { incoming } = c.env;
    const token = await readToken(c, 'Send {"token": "..."} with a token of ADMIN_TOKEN.');
    const address = incoming.socket.remoteAddress;
    const name = knownBy(options, incoming, () => access.check(token, address));
    const act = actOf(incoming, randomUUID(), name);
    await options.onAct({ ...act, act: 'session.begin', outcome: 'success', status: 200 });
    return c.json({ name, ...access.begin(c, name) } satisfies AdminSessionShown & SignedIn);
  });
  app.delete(ADMIN_PATHS.session, (c) => {
    access.end(c);
    return c.body(null, 204);
  });
  app.post(ADMIN_PATHS.ticket, (c) => c.json({ ticket: access.ticket(c) } satisfies TicketShown));
}
