import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import type { Authenticator, Caller } from '../access/authenticator.ts';
import type { AuditEvent, AuditLog } from '../audit/audit-log.ts';
import type { PresidioOptions } from '../detect/presidio.ts';
import { overloaded } from '../errors.ts';
import type { ByteBudget, Reservation } from '../limits/byte-budget.ts';
import type { ClientLimits, ClientOperation } from '../limits/client-limits.ts';
import type { Log } from '../observe/log.ts';
import type { KindCounts, Metrics } from '../observe/metrics.ts';
import type { RecentRequests } from '../observe/recent-requests.ts';
import type { PolicyFollower } from '../policy/policy-follower.ts';
import type { Viewer } from '../policy/rules.ts';
import type { Health } from '../tokens/health.ts';
import type { VaultClient } from '../tokens/threads/vault-client.ts';
import type { TlsPem } from '../types.ts';
import type { Guardrail } from './guardrail/calls.ts';
import { type FieldContent, GUARDRAIL, type InterfaceVersion, routeOf, SUCCESS } from './schema.ts';
import {
  type Correlation,
  correlationOf,
  isSampled,
  type RequestSpan,
  type Tracing,
} from './tracing.ts';
import type { Descriptors } from './transport/connections.ts';

/** Keyring.sealConversation and openConversation. */
export interface ConversationKeys {
  sealConversation(content: Buffer, space: string): Buffer;
  openConversation(sealed: Buffer, space: string): Buffer | undefined;
}

/** Everything that the endpoints use. */
export interface ServerContext {
  readonly interfaceVersion: InterfaceVersion;
  readonly bodyLimit: number;
  readonly valuesLimit: number;
  /** The ending of every token, after `_`. */
  readonly tokenSuffix: string;
  readonly authenticator: Authenticator;
  readonly conversationKeys: ConversationKeys;
  /** undefined: this listener has no guardrail. */
  readonly guardrail: Guardrail | undefined;
  readonly limits: ClientLimits;
  readonly budget: ByteBudget;
  readonly vault: VaultClient;
  readonly policies: PolicyFollower;
  /** undefined: PRESIDIO_URL is not set. */
  readonly presidio: PresidioOptions | undefined;
  readonly health: Health;
  readonly metrics: Metrics;
  readonly log: Log;
  readonly recent: RecentRequests;
  /** undefined: no audit log. */
  readonly audit: AuditLog | undefined;
  /** undefined: no spans. */
  readonly tracing: Tracing | undefined;
  /** serving -> draining (still serves, but /health says 503) -> closing (refuses new requests). */
  readonly state: { phase: 'serving' | 'draining' | 'closing' };
  readonly descriptors: Descriptors;
  /** undefined: no TLS. */
  readonly tls: TlsPem | undefined;
}

/**
 * Memory for each value of a request besides its bytes, on the way to the vault and back. A token
 * is at most so much longer than its value.
 */
const FIELD_BYTES = 256;
/** Requests with values have spans. Probes and unknown paths have none. */
const TRACED = /^\/(?:api|beta)\//;
/** The most bytes of a response besides `data` and `unapplied`. */
export const FRAME_BYTES = 512;

/** By which policy a caller sees which values. */
export interface Shown {
  readonly viewer: Viewer;
  /** undefined: of a plain viewer. */
  readonly kinds: KindCounts | undefined;
  /** Values that stayed tokens, because the caller has no right to them. */
  readonly hidden: KindCounts;
}

export const BEFORE_DATA = '{"data":';

const CONTENTS: Record<Exclude<FieldContent, 'data'>, (exchange: Exchange) => string> = {
  status: () => '"success"',
  request_id: ({ id }) => `"${id}"`,
  client_id: ({ caller }) => JSON.stringify(caller!.client.client_id),
};

/** A request and the facts that its answer, log line and audit line need. */
export class Exchange {
  readonly id = randomUUID();
  readonly startedAtMs = performance.now();
  readonly context: ServerContext;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** undefined: this listener does not have the path. */
  readonly route: string | undefined;
  correlation: Correlation;
  /** undefined: not traced. */
  readonly span: RequestSpan | undefined;
  /** Headers of the answer besides those of every answer. */
  readonly headers: Record<string, string> = {};
  /** The connection closes after the answer. */
  isLast = false;
  /** The event for the audit log; undefined until the API key is checked. */
  event: AuditEvent | undefined;
  /** The permission that the client needs; undefined: any. */
  operation: ClientOperation | undefined;
  /** null until the API key is accepted. */
  caller: Caller | null = null;
  /** The request's part of the budget of bytes; undefined until the API key is accepted. */
  reservation: Reservation | undefined;
  /** A time of monotonicMs; undefined: the vault is asked at once, and has its usual time. */
  deadlineMs: number | undefined;
  /** Number of distinct tokens in the request that the vault has never issued. */
  unknownTokens = 0;
  /** The values in the response of a detokenize; undefined: there are none yet. */
  shown: Shown | undefined;

  constructor(context: ServerContext, request: IncomingMessage, response: ServerResponse) {
    this.context = context;
    this.request = request;
    this.response = response;
    const route = routeOf(request.url!);
    this.route = route === GUARDRAIL && context.guardrail === undefined ? undefined : route;
    const correlation = correlationOf(request.headers, context.tokenSuffix);
    this.span = this.#beginSpan(correlation);
    this.correlation = this.span === undefined ? correlation : { ...correlation, ...this.span.ids };
  }

  #beginSpan(correlation: Correlation): RequestSpan | undefined {
    const { context, id, startedAtMs, route, request } = this;
    if (context.tracing === undefined || route === undefined || !TRACED.test(route))
      return undefined;
    const sampled = isSampled(request.headers);
    const about = { request_id: id, startedAtMs, correlation, isSampled: sampled };
    return context.tracing.begin({ method: request.method!, route, ...about });
  }

  /** The wait for a vault thread, and its work with the database, as a span. */
  inVault<T>(work: Promise<T>): Promise<T> {
    return this.span === undefined ? work : this.span.part('vault', work);
  }

  /**
   * Reserves more bytes of the budget for the request.
   * @throws CallerError overloaded
   */
  reserve(bytes: number): void {
    if (!this.context.budget.reserve(this.reservation!, bytes)) throw overloaded();
  }

  /** @throws CallerError overloaded */
  reserveFields(fields: number): void {
    this.reserve(fields * FIELD_BYTES + FRAME_BYTES);
  }

  /** The text after `data` in a successful response, with the names of the version. */
  afterData(): string {
    const names = SUCCESS[this.context.interfaceVersion][this.operation!];
    let text = '';
    for (const name in names) {
      const content = names[name]!;
      if (content !== 'data') text += `,"${name}":${CONTENTS[content](this)}`;
    }
    return `${text}}`;
  }

  /**
   * Releases the bytes after the answer. Bytes of the answer that the system has not taken stay
   * reserved until they are sent or the connection ends.
   */
  release(): void {
    const { reservation: held, response } = this;
    if (held === undefined) return;
    const { budget } = this.context;
    const { socket } = this.request;
    const isGone = response.destroyed || socket.destroyed;
    const unsent = response.writableEnded ? response.writableLength : held.bytes;
    budget.shrinkTo(held, isGone ? 0 : unsent);
    if (isGone || unsent === 0) return;
    budget.wait(held, () => socket.destroy());
    const release = () => {
      socket.off('close', release);
      budget.shrinkTo(held, 0);
    };
    response.once('close', release);
    // An answer queued behind another one gets no event when the connection ends, so listen on the
    // socket.
    socket.setMaxListeners(0).once('close', release);
  }
}

export interface ResponseContent {
  readonly status: number;
  /** JSON without LINE_END. A large answer is a stream with LINE_END. */
  readonly body: string | Readable;
  /** Of a 401, whose body may not say it: what is wrong with the credential. */
  readonly why?: string | undefined;
  /** Content-Length of a large answer. */
  readonly bytes?: number | undefined;
  /** Number of values in the answer. */
  readonly values?: number;
  /** Strings that stayed in clear; undefined: not under a policy with fields. */
  readonly passed?: number | undefined;
  readonly kinds?: KindCounts | undefined;
  /** Makes the answer again, by the policy that is in force now. */
  readonly again?: () => Promise<ResponseContent>;
}
