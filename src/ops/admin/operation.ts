import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import * as schemas from '../../openapi/schemas.ts';
import type { VaultOptions } from '../../options.ts';
import { invalid, type JsonObject } from '../../public/body/data.ts';
import type { ValueFinder } from '../../records/found-values.ts';
import type { Forgetting } from '../../records/value-search.ts';
import type { Durable } from '../../types.ts';
import type { Vault } from '../../vault/vault.ts';
import { type AdminErrorCode, refusal } from '../errors.ts';

/** The parts of the service that the operations of the admin API use. */
export interface AdminParts {
  /** Over connections that may change clients. */
  readonly vault: Vault;
  readonly vaultOptions: VaultOptions;
  readonly finder: ValueFinder;
  readonly forgetting: Forgetting;
  readonly clientPrefix: string;
  readonly tokenSuffix: string;
}

/** A request to the admin API. */
export interface AdminCall<F extends Fields = Fields> {
  /** The client, API key or version in the path, decoded; '': there is none. */
  readonly named: string;
  readonly headers: IncomingHttpHeaders;
  /** The fields of the body; none without a body. */
  readonly body: Read<F>;
}

export interface AdminResponse {
  /** Default: 200. */
  readonly status?: 201;
  readonly body: unknown;
  readonly etag?: string;
  /** For the audit log, when the path does not say it: what the act was done to. */
  readonly target?: string;
  /** For the audit log: the number of values that the act was about. */
  readonly values?: number;
}

/** The response of an act. A failover keeps what its body says. */
export interface AdminDone extends AdminResponse {
  readonly body: Durable<object>;
}

/** An operation of the admin API: drives router, checks, audit log and OpenAPI document. */
interface Operation<F extends Fields, R extends AdminResponse> {
  /** For the audit log, such as `client.update`. */
  readonly act: string;
  readonly id: string;
  readonly summary: string;
  readonly description: string;
  readonly body?: Body<F>;
  /** Name of the schema of a successful response. */
  readonly response: string;
  /** Its statuses; default: 200. */
  readonly statuses?: readonly (200 | 201)[];
  readonly hasEtag?: boolean;
  /** Whether it takes If-Match. */
  readonly isConditional?: boolean;
  /** Errors besides those of every operation. */
  readonly errors?: readonly AdminErrorCode[];
  run(parts: AdminParts, call: AdminCall<F>): Promise<R>;
}

/** Operations with the same tag, and what their part of the document says. */
export interface AdminPart {
  readonly tag: string;
  readonly description: string;
  /** Of their responses. */
  readonly schemas: Readonly<Record<string, schemas.Schema>>;
  readonly operations: readonly AdminOperation[];
}

export interface AdminOperation extends Operation<Fields, AdminResponse> {
  readonly method: 'get' | 'put' | 'patch' | 'post' | 'delete';
  /** Below /admin/v1, with what it names in braces. */
  readonly path: string;
  readonly changesNothing: boolean;
}

/** An operation that only reads. POST is for questions that are too long for a path. */
export function reading<F extends Fields>(
  method: 'get' | 'post',
  path: string,
  one: Operation<F, AdminResponse>,
): AdminOperation {
  return { ...(one as unknown as AdminOperation), method, path, changesNothing: true };
}

/** An operation that changes something, or finds it changed already. */
export function changing<F extends Fields>(
  method: 'put' | 'patch' | 'post' | 'delete',
  path: string,
  one: Operation<F, AdminDone>,
): AdminOperation {
  return { ...(one as unknown as AdminOperation), method, path, changesNothing: false };
}

/** A body of requests: an object without other fields. */
export interface Body<F extends Fields> {
  /** Of its schema. */
  readonly name: string;
  readonly description: string;
  readonly fields: F;
  readonly required?: readonly (keyof F & string)[];
  /** Whether a request may come without a body. */
  readonly isOptional?: boolean;
  /** Fields that a body may have, because responses have them. */
  readonly ignored?: Readonly<Record<string, schemas.Schema>>;
}

type Fields = Readonly<Record<string, Field<unknown>>>;
type Read<F extends Fields> = {
  readonly [Name in keyof F]?: F[Name] extends Field<infer T> ? T : never;
};

/** A field of a body. */
export interface Field<T> {
  readonly schema: schemas.Schema;
  /** In words, after `must be`. */
  readonly accepts: string;
  /** undefined: not acceptable. */
  readonly read: (json: unknown) => T | undefined;
}

/** @throws CallerError invalid_type that names the field */
export function readBody<F extends Fields>(
  json: JsonObject,
  { fields, required = [], ignored = {} }: Body<F>,
): Read<F> {
  const body: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(json)) {
    if (Object.hasOwn(ignored, name)) continue;
    const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
    if (field === undefined) {
      const known = Object.keys(fields).join(', ');
      throw invalid(`${shortened(name)}: is not a field here; the fields are ${known}`);
    }
    body[name] = field.read(value);
    if (body[name] === undefined) throw invalid(`${name}: must be ${field.accepts}`);
  }
  const missing = required.find((name) => body[name] === undefined);
  if (missing !== undefined) throw invalid(`${missing}: is missing`);
  return body as Read<F>;
}

const MAX_SHOWN_CHARACTERS = 40;

function shortened(name: string): string {
  const isShort = name.length <= MAX_SHOWN_CHARACTERS && name.isWellFormed();
  return isShort ? JSON.stringify(name) : 'body: a name';
}

export function field<T>(
  schema: schemas.Schema,
  accepts: string,
  isFit: (json: unknown) => json is T,
): Field<T> {
  return { schema, accepts, read: (json) => (isFit(json) ? json : undefined) };
}

export const isText = (json: unknown): json is string => typeof json === 'string';

export const isTexts = (json: unknown): json is readonly string[] =>
  Array.isArray(json) && json.every(isText);

export const flag = (description: string): Field<boolean> =>
  field(schemas.flag(description), 'true or false', (json) => typeof json === 'boolean');

const ETAG_CHARACTERS = 22;

/** The entity tag of something: the same for equal JSON. */
export function etagOf(json: unknown): string {
  const digest = createHash('sha256').update(JSON.stringify(json)).digest('base64url');
  return `"${digest.slice(0, ETAG_CHARACTERS)}"`;
}

/**
 * Checks `If-Match` and `If-None-Match` before a change (RFC 9110, section 13.1).
 * @param etag undefined: it does not exist
 * @throws Refusal precondition_failed
 */
export function checkMatch(headers: IncomingHttpHeaders, etag: string | undefined): void {
  const { 'if-match': match, 'if-none-match': noneMatch } = headers;
  const is = etag === undefined ? 'does not exist' : `has the ETag ${etag}`;
  if (match !== undefined && !names(match, etag))
    throw refusal('precondition_failed', `It ${is}, which If-Match does not expect.`);
  if (noneMatch !== undefined && names(noneMatch, etag))
    throw refusal('precondition_failed', `It ${is}, which If-None-Match excludes.`);
}

/** Weak tags never match: no answer has one. */
function names(header: string, etag: string | undefined): boolean {
  if (etag === undefined) return false;
  return header.split(',').some((one) => one.trim() === '*' || one.trim() === etag);
}
