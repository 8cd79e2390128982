import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { errorOfChange } from '../../errors.ts';
import { parseObject } from '../../http/data.ts';
import type { AdminEntry } from '../../service/audit/audit-log.ts';
import type { StrangerEntry } from '../../service/audit/unknown-callers.ts';
import { answerJson, pathOf, type Refusal, readJson } from '../server.ts';
import type { AdminAccess } from './access.ts';
import { type AdminAnswer, type AdminCall, isReading } from './call.ts';
import { refusal, refusalOf } from './errors.ts';
import type { AdminRouter, FoundOperation } from './routes.ts';

const MAX_BODY_BYTES = 1_048_576;
const MAX_UNDER_WAY = 20;

const DONE_WITHOUT_LINE =
  'audit log unavailable: the act was done, and the audit log has only its attempt. Look before you repeat it.';

export interface AdminApiOptions {
  readonly access: AdminAccess;
  readonly router: AdminRouter;
  /** The id of what a path names; null: there is none. */
  readonly idOf: (named: string) => Promise<string | null>;
  /** false: the process is about to end. */
  readonly isServing: () => boolean;
  /**
   * Called for each request of a known administrator, and before it when it can change something.
   * The act or the answer waits for the promise.
   */
  readonly onAct: (entry: AdminEntry) => Promise<void> | undefined;
  readonly onStranger: (entry: StrangerEntry) => void;
  /** Called for failures that are not the caller's fault. */
  readonly onFailure: (error: unknown) => void;
}

/** Answers all requests below /admin/. */
export class AdminApi {
  readonly #options: AdminApiOptions;
  #underWay = 0;

  constructor(options: AdminApiOptions) {
    this.#options = options;
  }

  /** @throws Refusal */
  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const requestId = randomUUID();
    response.setHeader('X-Request-Id', requestId);
    const admin = this.#nameOf(request, response);
    const done = new Act(request, requestId, admin);
    try {
      const { status, body, etag } = await this.#run(request, response, done);
      await this.#options.onAct(done.entry('success', status))?.catch((error) => {
        throw isReading(request) ? error : refusal('internal_error', DONE_WITHOUT_LINE);
      });
      if (etag !== undefined) response.setHeader('ETag', etag);
      answerJson(response, status, body);
    } catch (error) {
      const refused = this.#refusalOf(error, response);
      // What failed has no need to be on the disk first.
      this.#options.onAct(done.entry(refused.code, refused.status))?.catch(() => {});
      throw refused;
    }
  }

  #nameOf(request: IncomingMessage, response: ServerResponse): string {
    try {
      return this.#options.access.nameOf(request);
    } catch (error) {
      const { code, status } = this.#refusalOf(error, response);
      const { remoteAddress } = request.socket;
      const entry = { event: 'admin', outcome: code, status, remote_address: remoteAddress };
      this.#options.onStranger(entry as StrangerEntry);
      throw error;
    }
  }

  #refusalOf(error: unknown, response: ServerResponse): Refusal {
    const refused = refusalOf(error);
    if (refused.status === 500) this.#options.onFailure(error);
    if (refused.status === 429 || refused.status === 503) response.setHeader('Retry-After', 1);
    return refused;
  }

  async #run(request: IncomingMessage, response: ServerResponse, done: Act): Promise<AdminAnswer> {
    if (!this.#options.isServing())
      throw refusal('overloaded', 'The service is stopping. Send the request to another node.');
    if (this.#underWay >= MAX_UNDER_WAY)
      throw refusal('overloaded', `${MAX_UNDER_WAY} requests are under way. Try again.`);
    const operation = this.#options.router.find(request.method!, pathOf(request), (methods) =>
      response.setHeader('Allow', methods),
    );
    done.operation = operation;
    const [named] = operation.params;
    if (named !== undefined) done.target = await this.#options.idOf(named);
    this.#underWay++;
    try {
      // Nothing changes without a line, even if the line about its end cannot be written.
      if (!isReading(request)) await this.#options.onAct(done.entry('attempt', undefined));
      const changes = !isReading(request) && !('changesNothing' in operation);
      done.answer = await operation.run(callOf(request, operation)).catch((error) => {
        throw changes ? errorOfChange(error) : error;
      });
      return done.answer;
    } finally {
      this.#underWay--;
    }
  }
}

/** What the logs say about a request. */
class Act {
  operation: FoundOperation | undefined;
  answer: AdminAnswer | undefined;
  /** Never the text of a path: it could be a value or a token. */
  target: string | null = null;
  readonly #request: IncomingMessage;
  readonly #requestId: string;
  readonly #admin: string;

  constructor(request: IncomingMessage, requestId: string, admin: string) {
    this.#request = request;
    this.#requestId = requestId;
    this.#admin = admin;
  }

  entry(outcome: string, status: number | undefined): AdminEntry {
    return {
      event: 'admin',
      act: this.operation?.act ?? 'none',
      target: this.answer?.target ?? this.target,
      outcome,
      status,
      request_id: this.#requestId,
      admin: this.#admin,
      values: this.answer?.values,
      remote_address: this.#request.socket.remoteAddress,
    };
  }
}

function callOf(request: IncomingMessage, { params }: FoundOperation): AdminCall {
  let body: Promise<AdminBody> | undefined;
  return {
    params,
    headers: request.headers,
    json: () => {
      body ??= bodyOf(request);
      return body;
    },
  };
}

type AdminBody = Awaited<ReturnType<AdminCall['json']>>;

async function bodyOf(request: IncomingMessage): Promise<AdminBody> {
  const { 'content-length': length = '0', 'transfer-encoding': encoding } = request.headers;
  if (length === '0' && encoding === undefined) return {};
  return parseObject(await readJson(request, MAX_BODY_BYTES), 'a JSON object').json;
}
