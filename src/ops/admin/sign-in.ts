import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { ADMIN_PATHS, type AdminSessionShown, type SignedIn, type TicketShown } from '#console';
import type { AdminEntry } from '../../service/audit/audit-log.ts';
import type { StrangerEntry } from '../../service/audit/unknown-callers.ts';
import { checkNotEmbedded, checkSameOrigin } from '../access.ts';
import { answerJson, type Refusal, type Route, readToken } from '../server.ts';
import type { AdminAccess } from './access.ts';

const MAX_BODY_BYTES = 4_096;

interface AdminSignInOptions {
  readonly access: AdminAccess;
  readonly onAct: (entry: AdminEntry) => Promise<void> | undefined;
  readonly onStranger: (entry: StrangerEntry) => void;
}

/** The routes by which administrators sign in to the console. */
export function adminSignInRoutes({ access, onAct, onStranger }: AdminSignInOptions) {
  const session: Route = {
    GET: async (request, response) => {
      checkNotEmbedded(request);
      const name = access.sessions.find(request.headers)?.name ?? null;
      answerJson(response, 200, { name } satisfies AdminSessionShown);
    },
    POST: async (request, response) => {
      checkSameOrigin(request);
      const token = await readToken(
        request,
        MAX_BODY_BYTES,
        'Send {"token": "..."} with a token of ADMIN_TOKEN.',
      );
      const { remoteAddress } = request.socket;
      const name = checked(access, token, remoteAddress, response, onStranger);
      await onAct(entryOf(name, remoteAddress));
      // A session of before ends: nobody could end it any more.
      access.sessions.end(request.headers);
      const { cookie, signedIn } = access.begin(name);
      response.setHeader('Set-Cookie', cookie);
      answerJson(response, 200, { name, ...signedIn } satisfies AdminSessionShown & SignedIn);
    },
    DELETE: async (request, response) => {
      checkSameOrigin(request);
      response.setHeader('Set-Cookie', access.sessions.end(request.headers));
      response.writeHead(204).end();
    },
  };
  const ticket: Route = {
    POST: async (request: IncomingMessage, response: ServerResponse) => {
      const ticket = access.ticket(request);
      answerJson(response, 200, { ticket } satisfies TicketShown);
    },
  };
  return new Map([
    [ADMIN_PATHS.session as string, session],
    [ADMIN_PATHS.ticket as string, ticket],
  ]);
}

function checked(
  access: AdminAccess,
  token: string,
  address: string | undefined,
  response: ServerResponse,
  onStranger: AdminSignInOptions['onStranger'],
): string {
  try {
    return access.check(token, address);
  } catch (error) {
    const { code: outcome, status } = error as Refusal;
    if (status === 429) response.setHeader('Retry-After', 1);
    onStranger({ event: 'admin', outcome, status, remote_address: address });
    throw error;
  }
}

function entryOf(name: string, address: string | undefined): AdminEntry {
  return {
    ...{ event: 'admin', act: 'session.begin', target: null, outcome: 'success', status: 200 },
    ...{ request_id: randomUUID(), admin: name, values: undefined, remote_address: address },
  };
}
