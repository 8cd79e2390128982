import type { IncomingMessage } from 'node:http';
import type { AdminToken } from '../../options.ts';
import { BEARER } from '../access.ts';
import { Secret, Tries } from '../sessions.ts';
import { refusal } from './errors.ts';

/** Decides who may use the admin API. */
export class AdminAccess {
  readonly #tokens: readonly { readonly name: string; readonly secret: Secret }[];
  readonly #tries = new Tries();

  constructor(tokens: readonly AdminToken[]) {
    this.#tokens = tokens.map(({ name, token }) => ({ name, secret: new Secret(token) }));
  }

  /**
   * The name of the caller's token.
   * @throws Refusal unauthorized or too_many
   */
  nameOf({ headers, socket: { remoteAddress } }: IncomingMessage): string {
    const token = BEARER.exec(headers.authorization ?? '')?.[1];
    if (token === undefined) throw refusal('unauthorized', 'Send an ADMIN_TOKEN as bearer token.');
    return this.check(token, remoteAddress);
  }

  /**
   * Only wrong tokens take an attempt, so that programs can send many requests. Without an attempt
   * left, the right token is refused, too: guessing faster gives nothing.
   * @throws as nameOf
   */
  check(token: string, address: string | undefined): string {
    if (!this.#tries.has(address))
      throw refusal('too_many', 'Too many wrong tokens from this address. Wait a second.');
    // All of them, so that the time tells nothing of which is right.
    const [found] = this.#tokens.filter(({ secret }) => secret.equals(token));
    if (found !== undefined) return found.name;
    this.#tries.take(address);
    throw refusal('unauthorized', 'This is no ADMIN_TOKEN of this service.');
  }
}
