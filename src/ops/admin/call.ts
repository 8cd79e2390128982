import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { invalid, type JsonObject } from '../../http/data.ts';
import type { VaultOptions } from '../../options.ts';
import type { ValueFinder } from '../../service/records/found-values.ts';
import type { Forgetting } from '../../service/records/value-search.ts';
import type { Vault } from '../../service/vault.ts';
import type { Durable } from '../../types.ts';

/** A request to the admin API. */
export interface AdminCall {
  /** The parts of the path that the route has in braces, decoded. */
  readonly params: readonly string[];
  readonly headers: IncomingHttpHeaders;
  /**
   * The body; `{}` without one.
   * @throws Refusal or CallerError
   */
  json(): Promise<JsonObject>;
}

export interface AdminAnswer {
  readonly status: 200 | 201;
  readonly body: unknown;
  readonly etag?: string;
  /** For the audit log, when the path does not say it: what the act was done to. */
  readonly target?: string;
  /** For the audit log: the number of values that the act was about. */
  readonly values?: number;
}

/** What the operations of the admin API use. */
export interface AdminParts {
  /** The vault, over connections that may change clients. */
  readonly openVault: () => Promise<Vault>;
  readonly vaultOptions: VaultOptions;
  readonly finder: ValueFinder;
  readonly openForgetting: () => Promise<Forgetting>;
  readonly clientPrefix: string;
  readonly tokenSuffix: string;
}

/** The answer of an act. A failover keeps what its body says. */
export interface AdminDone extends AdminAnswer {
  readonly body: Durable<object>;
}

export type AdminMethod = 'GET' | 'PUT' | 'PATCH' | 'POST' | 'DELETE';

/** Whether a request can change nothing, whatever its path. */
export function isReading({ method }: IncomingMessage): boolean {
  return method === 'GET' || method === 'HEAD';
}

/** An operation of the admin API. */
export interface AdminOperation {
  /** For the audit log, such as `client.update`. */
  readonly act: string;
  readonly run: (call: AdminCall) => Promise<AdminAnswer>;
}

/** An operation that changes something, or finds it changed already. */
export interface AdminAct extends AdminOperation {
  readonly run: (call: AdminCall) => Promise<AdminDone>;
}

/** An operation that only reads, for which a path is too short. */
export interface AdminQuestion extends AdminOperation {
  readonly changesNothing: true;
}

type AdminMethods = { readonly GET?: AdminOperation } & {
  readonly [Method in Exclude<AdminMethod, 'GET'>]?: AdminAct | AdminQuestion;
};

/** Operations by path below /admin/v1, such as `/clients/{client}`, and method. */
export type AdminRoutes = Readonly<Record<string, AdminMethods>>;

/** A field of a body. */
export interface Field<T> {
  /** In words, after `must be`. */
  readonly accepts: string;
  /** undefined: not acceptable. */
  readonly read: (json: unknown) => T | undefined;
}

type Read<F extends Record<string, Field<unknown>>> = {
  readonly [Name in keyof F]?: F[Name] extends Field<infer T> ? T : never;
};

/**
 * The fields of a body.
 * @param ignored names that a body may have, because answers have them
 * @throws CallerError invalid_type that names the field
 */
export function readFields<F extends Record<string, Field<unknown>>>(
  json: JsonObject,
  fields: F,
  ignored: readonly string[] = [],
): Read<F> {
  const read: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(json)) {
    if (ignored.includes(name)) continue;
    const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
    if (field === undefined) {
      const known = Object.keys(fields).join(', ');
      throw invalid(`${shortened(name)}: is not a field here; the fields are ${known}`);
    }
    const found = field.read(value);
    if (found === undefined) throw invalid(`${name}: must be ${field.accepts}`);
    read[name] = found;
  }
  return read as Read<F>;
}

const MAX_SHOWN_CHARACTERS = 40;

function shortened(name: string): string {
  const isShort = name.length <= MAX_SHOWN_CHARACTERS && name.isWellFormed();
  return isShort ? JSON.stringify(name) : 'body: a name';
}

export const flag: Field<boolean> = {
  accepts: 'true or false',
  read: (json) => (typeof json === 'boolean' ? json : undefined),
};

/** @param accepts in words */
export function textField(accepts: string, isFit: (text: string) => boolean): Field<string> {
  return {
    accepts,
    read: (json) => (typeof json === 'string' && isFit(json) ? json : undefined),
  };
}
