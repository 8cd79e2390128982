import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { ADMIN_PATHS, type AdminSessionShown, type SignedIn, type TicketShown } from '#console';
import type { AdminEntry } from '../../audit/audit-log.ts';
import type { StrangerEntry } from '../../audit/unknown-callers.ts';
import { errorOfChange } from '../../errors.ts';
import { parseObject } from '../../public/body/data.ts';
import { refusal, refusalOf } from '../errors.ts';
import { notAllowed } from '../server.ts';
import { isReading, type OpsApp, type OpsContext, readJson, readToken } from '../web.ts';
import type { AdminAccess } from './access.ts';
import { ADMIN_OPERATIONS, ADMIN_PATH, type AdminDocument } from './document.ts';
import { type AdminOperation, type AdminParts, type AdminResponse, readBody } from './operation.ts';

const MAX_BODY_BYTES = 1_048_576;
const MAX_UNDER_WAY = 20;

const DONE_WITHOUT_LINE =
  'audit log unavailable: the act was done, and the audit log has only its attempt. Look before you repeat it.';

export interface AdminApiOptions {
  readonly access: AdminAccess;
  readonly parts: AdminParts;
  readonly document: AdminDocument;
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

/** The admin API. */
export class AdminApi {
  readonly #options: AdminApiOptions;
  /** What the logs say about each request. */
  readonly #acts = new WeakMap<IncomingMessage, Act>();
  #underWay = 0;

  constructor(options: AdminApiOptions) {
    this.#options = options;
  }

  addRoutes(app: OpsApp): void {
    const { document } = this.#options;
    app.use('/admin/*', (c, next) => this.#audited(c, next), notAllowed(app));
    app.get(`${ADMIN_PATH}/openapi.json`, (c) => {
      this.#acts.get(c.env.incoming)!.act = 'openapi';
      return c.json(document);
    });
    for (const operation of ADMIN_OPERATIONS) {
      const path = ADMIN_PATH + operation.path.replaceAll(/\{(\w+)\}/g, ':$1');
      app.on(operation.method.toUpperCase(), path, (c) => this.#respond(c, operation));
    }
  }

  /** Writes the lines about a request of a known administrator. */
  async #audited(c: OpsContext, next: () => Promise<void>): Promise<void> {
    const { incoming, outgoing } = c.env;
    const requestId = randomUUID();
    outgoing.setHeader('X-Request-Id', requestId);
    const act = actOf(this.#options, incoming, requestId, this.#adminOf(c));
    this.#acts.set(incoming, act);
    await next();
    const refused = c.error && refusalOf(c.error);
    const outcome = c.res.ok ? 'success' : (refused?.code ?? 'not_found');
    const written = act.tell(outcome, c.res.status);
    // What failed has no need to be on the disk first.
    if (outcome !== 'success') return void written?.catch(() => {});
    await written?.catch((error) => {
      throw isReading(incoming) ? error : refusal('internal_error', DONE_WITHOUT_LINE);
    });
  }

  #adminOf(c: OpsContext): string {
    const { access, onStranger } = this.#options;
    return telling(c.env.incoming, onStranger, () => access.nameOf(c));
  }

  async #respond(c: OpsContext, operation: AdminOperation): Promise<Response> {
    const { isServing, idOf } = this.#options;
    const act = this.#acts.get(c.env.incoming)!;
    act.act = operation.act;
    if (!isServing())
      throw refusal('overloaded', 'The service is stopping. Send the request to another node.');
    if (this.#underWay >= MAX_UNDER_WAY)
      throw refusal('overloaded', `${MAX_UNDER_WAY} requests are under way. Try again.`);
    this.#underWay++;
    try {
      const named = namedBy(c);
      if (named !== '') act.target = await idOf(named);
      const response = await this.#run(c, operation, named, act);
      const { status = 200, body, etag, target = act.target, values } = response;
      Object.assign(act, { target, values });
      if (etag !== undefined) c.header('ETag', etag);
      return c.json(body as object, status);
    } finally {
      this.#underWay--;
    }
  }

  async #run(
    { env: { incoming } }: OpsContext,
    operation: AdminOperation,
    named: string,
    act: Act,
  ): Promise<AdminResponse> {
    // Nothing changes without a line, even if the line about its end cannot be written.
    if (!isReading(incoming)) await act.tell('attempt');
    const body = operation.body ? readBody(await jsonOf(incoming), operation.body) : {};
    const call = { named, headers: incoming.headers, body };
    return operation.run(this.#options.parts, call).catch((error) => {
      throw operation.changesNothing ? error : errorOfChange(error);
    });
  }
}

/** What the logs say about a request. */
interface Act {
  act: string;
  /** Never the text of a path: it could be a value or a token. */
  target: string | null;
  values: number | undefined;
  tell(outcome: string, status?: number): Promise<void> | undefined;
}

function actOf(
  { onAct }: Pick<AdminApiOptions, 'onAct'>,
  { socket: { remoteAddress } }: IncomingMessage,
  requestId: string,
  admin: string,
): Act {
  return {
    ...{ act: 'none', target: null, values: undefined },
    tell(outcome, status) {
      const { act, target, values } = this;
      return onAct({
        ...{ event: 'admin', act, target, outcome, status, request_id: requestId, admin, values },
        remote_address: remoteAddress,
      });
    },
  };
}

/** What the path names, decoded; '': nothing. @throws Refusal */
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
  return parseObject(await readJson(request, MAX_BODY_BYTES), 'a JSON object').json;
}

type OnStranger = AdminApiOptions['onStranger'];

/** Tells of a caller who gets no access. */
function telling<T>({ socket }: IncomingMessage, onStranger: OnStranger, check: () => T): T {
  try {
    return check();
  } catch (error) {
    const { code: outcome, status } = refusalOf(error);
    const entry = { event: 'admin', outcome, status, remote_address: socket.remoteAddress };
    onStranger(entry as StrangerEntry);
    throw error;
  }
}

/** The routes by which administrators sign in to the console. */
export function addAdminSignIn(
  app: OpsApp,
  options: Pick<AdminApiOptions, 'access' | 'onAct' | 'onStranger'>,
): void {
  const { access, onStranger } = options;
  app.get(ADMIN_PATHS.session, (c) => {
    const name = access.sessions.find(c)?.name ?? null;
    return c.json({ name } satisfies AdminSessionShown);
  });
  app.post(ADMIN_PATHS.session, async (c) => {
    const { incoming } = c.env;
    const token = await readToken(c, 'Send {"token": "..."} with a token of ADMIN_TOKEN.');
    const address = incoming.socket.remoteAddress;
    const name = telling(incoming, onStranger, () => access.tokens.check(token, address));
    const act = actOf(options, incoming, randomUUID(), name);
    act.act = 'session.begin';
    await act.tell('success', 200);
    return c.json({ name, ...access.begin(c, name) } satisfies AdminSessionShown & SignedIn);
  });
  app.delete(ADMIN_PATHS.session, (c) => {
    access.sessions.end(c);
    return c.body(null, 204);
  });
  app.post(ADMIN_PATHS.ticket, (c) => c.json({ ticket: access.ticket(c) } satisfies TicketShown));
}
